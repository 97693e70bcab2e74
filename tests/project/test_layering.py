"""The structure of the sources: import rules and places of the GPU libraries.

Every rule is a function from sources to complaints, tested on a planted offence before it is applied to the project.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import ROOT, Source, read

SCIPY = {"scipy.linalg", "scipy.sparse"}  # 0.2 s of CPU time that a server, and most processes, can save
VIEW = {"app", "panel", "panel_material_ui", "bokeh", "holoviews", "tornado"}
GPU = ("cupy", "cupyx", "numba.cuda", "numba_cuda", "cuda", "pynvml", "torch", "triton", "jax", "jaxlib")
MAY_IMPORT_GPU = re.compile(r"compute/(devices/devices|devices/cuda_source|(.*/)?gpu_\w+)\.py")
BACKENDS = {"cpu_numpy", "cpu_numba", "gpu_numba", "gpu_cupy"}
THIRD_PARTIES = {"panel", "bokeh", "holoviews", "param", "numba", "numpy", "scipy", "PIL", "tornado", "psutil", "rich"}

NAMED_BY_NUMPY = {"compute/own/gpu_simulator.py", "compute/own/cpu_threads.py"}  # numpy calls __array_ufunc__ by name
PROJECT = read("app", "compute")
MODULE_NAME = re.compile(r"(app|compute)(\.[a-z_]\w*)+")
MODULES = {source.module for source in PROJECT}


def upward_imports(sources):
    """compute does not import the view; neither imports the tests; compute.measure knows no engine, which uses it."""
    barred = {"compute": VIEW | {"tests"}, "app": {"tests"}}
    return [
        f"{source.path} imports {name}"
        for source in sources
        for name in source.imports()
        if name.split(".")[0] in barred[source.package]
        or (source.module.startswith("compute.measure.") and name.startswith("compute.engine"))
    ]


def relative_imports(sources):
    """Bokeh runs app/main.py under another name: a relative import there loads a second copy of the package."""
    return [f"{source.path} imports {name}" for source in sources for name in source.imports() if name.startswith(".")]


def stray_gpu_imports(sources):
    return [
        f"{source.path} imports {name}"
        for source in sources
        if not MAY_IMPORT_GPU.fullmatch(source.path.as_posix())
        for name in source.imports()
        if any(name == gpu or name.startswith(gpu + ".") for gpu in GPU)
    ]


def comparisons_with_backends(sources):
    """Code looks up a backend by its name, and does not compare with names."""
    return [
        source.at(node)
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Compare)
        for side in ast.walk(node)
        if isinstance(side, ast.Constant) and side.value in BACKENDS
    ] + [
        source.at(node)
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.MatchValue)
        if isinstance(node.value, ast.Constant) and node.value.value in BACKENDS
    ]


def hiding_names(sources):
    """app/ is sys.path[0] while main.py runs: a file there hides any module of its name."""
    hidden = sys.stdlib_module_names | THIRD_PARTIES | {"app", "compute", "tests"}
    return [str(source.path) for source in sources if source.path.parent == Path("app") and source.path.stem in hidden]


def dispatch_by_getattr(sources):
    """No call of a getattr by name: neither reader nor type checker can follow it."""
    return [
        source.at(node)
        for source in sources
        if source.path.as_posix() not in NAMED_BY_NUMPY
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Call)
        if isinstance(node.func.func, ast.Name) and node.func.func.id == "getattr"
    ]


def names_of_no_module(sources):
    """A module loaded by its name exists: imports and the type checker do not test that."""
    return [
        f"{source.at(node)} {node.value}"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if MODULE_NAME.fullmatch(node.value) and node.value not in MODULES
    ]


def planted(path, text):
    return Source(Path(path), text)


OFFENCES = [
    (upward_imports, "compute/x.py", "def f():\n    from bokeh.models import Slider"),
    (upward_imports, "app/x.py", "from tests import sources"),
    (upward_imports, "compute/measure/x.py", "from compute.engine.messages import Sampled"),
    (relative_imports, "app/main.py", "from .page import Page"),
    (stray_gpu_imports, "compute/lab/lab.py", "def f():\n    import cupy as cp"),
    (stray_gpu_imports, "compute/labs/diffusion/cpu_numba.py", "from cuda.bindings import nvrtc"),
    (comparisons_with_backends, "app/x.py", "flag = name in ('cpu_numpy', 'x')"),
    (comparisons_with_backends, "app/x.py", "match name:\n    case 'gpu_numba': pass"),
    (hiding_names, "app/select.py", ""),
    (dispatch_by_getattr, "app/x.py", "getattr(self, name)(**arguments)"),
    (names_of_no_module, "compute/x.py", "import_module('compute.display.gone')"),
]
RULES = sorted({rule for rule, _, _ in OFFENCES}, key=lambda rule: rule.__name__)


@pytest.mark.parametrize(("rule", "path", "text"), OFFENCES)
def test_rule_sees_a_planted_offence(rule, path, text):
    assert rule([planted(path, text)])


@pytest.mark.parametrize("rule", RULES)
def test_project_keeps(rule):
    assert rule(PROJECT) == []


def import_circles(sources):
    """Return modules in an import cycle at run time, including imports in functions, except those for types."""
    known = {source.module for source in sources}

    def needed(source):
        for name in source.imports_when_run():
            package = name.rpartition(".")[0]
            found = name if name in known else package
            if found in known and found != source.module:
                yield found

    left = {source.module: set(needed(source)) for source in sources}
    while ends := {module for module, needs in left.items() if not needs}:  # ends are in no cycle
        left = {module: needs - ends for module, needs in left.items() if module not in ends}
    return [f"{module} needs {', '.join(sorted(needs))}" for module, needs in sorted(left.items())]


AT_THE_TOP = "from compute.b import f"
IN_A_FUNCTION = "def f():\n    import compute.b"
FOR_TYPES = "if TYPE_CHECKING:\n    from compute.b import B"


@pytest.mark.parametrize(("a", "circle"), [(AT_THE_TOP, True), (IN_A_FUNCTION, True), (FOR_TYPES, False)])
def test_a_circle_of_imports_is_seen(a, circle):
    sources = [planted("compute/a.py", a), planted("compute/b.py", "def f():\n    from compute import a")]
    assert bool(import_circles(sources)) is circle


def test_the_project_has_no_circle_of_imports():
    assert import_circles(PROJECT) == []


LARGEST_CIRCLE = 3  # files that may name one another's classes for type checkers: one chapter with its parts


def circles_of_names(sources):
    """Return groups of more than LARGEST_CIRCLE modules that import one another, including imports for types.

    A class needs of another one only a few members: a Protocol names them, and ends the circle.
    """
    known = {source.module for source in sources}
    needs = {
        source.module: {
            found for name in source.imports() if (found := name if name in known else name.rpartition(".")[0]) in known
        }
        for source in sources
    }
    reached = {module: reachable(needs, module) for module in needs}
    groups = {frozenset(other for other in found if module in reached[other]) for module, found in reached.items()}
    return sorted(", ".join(sorted(group)) for group in groups if len(group) > LARGEST_CIRCLE)


def reachable(needs, start):
    """Return the modules that a module imports, directly or not."""
    found, left = set(), [start]
    while left:
        new = needs[left.pop()] - found
        found |= new
        left += new
    return found


@pytest.mark.parametrize(("length", "circles"), [(3, 0), (4, 1)])
def test_a_circle_of_types_is_seen(length, circles):
    sources = [
        planted(f"app/m{n}.py", f"if TYPE_CHECKING:\n    from app.m{(n + 1) % length} import C") for n in range(length)
    ]
    assert len(circles_of_names(sources)) == circles


def test_the_project_has_no_large_circle_of_types():
    assert circles_of_names(PROJECT) == []


def launches(module, source):
    """Return whether a module has the source's name, or loads it by its file name."""
    return module.stem == source.stem or f'"{source.name}"' in module.read_text(encoding="utf-8")


def test_every_cuda_source_lies_beside_its_caller():
    found = (ROOT / "compute").rglob("*.cu")
    sources = [path for path in found if "__pycache__" not in path.parts]  # generated programs are kept there
    alone = [path for path in sources if not any(launches(beside, path) for beside in path.parent.glob("*.py"))]
    assert alone == []


def test_every_lab_has_its_reference_and_its_text():
    labs = [path.parent for path in (ROOT / "compute" / "labs").glob("*/lab.py")]
    assert labs
    for lab in labs:
        assert (lab / "cpu_numpy.py").is_file(), f"{lab.name} has no reference backend"
        assert (lab / "README.md").is_file(), f"{lab.name} has no README.md"


IMPORT_EVERYTHING = """
import importlib, pkgutil, sys
import numba
GPU = {gpu}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name in GPU and name not in sys.modules:
            raise AssertionError(name + " is imported at import time")
sys.meta_path.insert(0, Refuse())
import compute
names = [module.name for module in pkgutil.walk_packages(compute.__path__, "compute.")]
names = [name for name in names if not name.rpartition(".")[2].startswith(("gpu_", "__main__"))] + ["compute.__main__"]
for name in names:
    importlib.import_module(name)
print(len(names), sorted(set(sys.modules) & ({view} | {parts})))
"""


def test_importing_compute_imports_no_gpu_library_no_view_and_no_part_of_scipy():
    code = IMPORT_EVERYTHING.format(gpu=set(GPU), view=VIEW, parts=SCIPY)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, unwanted = done.stdout.split(maxsplit=1)
    assert int(count) > 5
    assert unwanted.strip() == "[]"
