"""Ways are read from a file without executing it, and each is shown with what it needs of the file."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import numpy as np
import pytest

from compute.labs.crossover.trap import traps
from compute.ways.catalogue import built_in
from compute.ways.declaring import FileRefused, load
from compute.ways.source import declared_ways, excerpt, ways_of

FILE = '''"""Two ways."""

import absent
import numpy as np
from numba import njit

from compute.ways.declaring import way

# Added to each number.
STEP = 1
OTHER = absent.number()


@njit
def _helper(x):
    return x + STEP  # a comment


def ready(*arguments):
    return arguments


@way("cpu_numba_loop", prepare=ready, exhibit="slow", revision=3)
def loop(x):
    """Numba: one loop.

    Return x + 1.
    """
    return _helper(x)


@way("cpu_numpy")
def plain(x):
    """NumPy: one pass."""
    return np.add(x, OTHER)
'''


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ways.py"
    path.write_text(FILE)
    return path


def test_declarations_are_read_without_executing_the_file(file):
    loop, plain = ways_of(file)
    assert (loop.name, loop.function, loop.summary) == ("cpu_numba_loop", "loop", "Numba: one loop.")
    assert (loop.prepare, loop.work, loop.exhibit, loop.revision) == ("ready", "", "slow", 3)
    assert (plain.name, plain.prepare, plain.exhibit, plain.revision) == ("cpu_numpy", "", "", 1)


def test_an_excerpt_has_what_the_function_uses_and_nothing_else():
    shown = excerpt(FILE, "loop")
    lines, original = shown.text.splitlines(), FILE.splitlines()
    expected = FILE[FILE.index("from numba") : FILE.index('@way("cpu_numpy")')].splitlines()
    assert [line for line in lines if line] == [
        line for line in expected if line and not line.startswith("OTHER")
    ]  # fmt: skip
    assert "absent" not in shown.text
    assert [lines[row] for row, n in enumerate(shown.numbers) if n] == [original[n - 1] for n in shown.numbers if n]
    assert "import absent" in excerpt(FILE, "plain").text  # OTHER needs it
    assert "njit" not in excerpt(FILE, "plain").text


@pytest.mark.parametrize("text", [FILE, "not Python ("])
def test_without_such_a_function_the_whole_file_is_shown(text):
    assert excerpt(text, "none").text == text
    assert excerpt(text, "").numbers == tuple(range(1, len(text.splitlines()) + 1))


def test_every_excerpt_of_the_lab_defines_the_names_that_it_uses():
    builtins = set(vars(__import__("builtins")))
    programs = [*(way for w in built_in() for way in w.ways()), *(p for t in traps() for p in (t.wrong, t.right))]
    for program in programs:
        tree = ast.parse(program.source)
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        known = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        known |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        known |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        known |= {
            (alias.asname or alias.name).partition(".")[0]
            for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names
        }  # fmt: skip
        assert names <= known | builtins, program


def test_a_duplicate_name_in_two_files_is_refused(tmp_path, monkeypatch):
    package = tmp_path / "doubled"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name in ("one", "two"):
        (package / f"{name}.py").write_text('@way("cpu_numpy")\ndef f(x): ...\n')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"doubled has two ways 'cpu_numpy', in one\.py and two\.py"):
        declared_ways("doubled")


def test_no_optional_library_is_imported_for_the_ways_of_another():
    code = (
        "import json, sys\nfrom compute.ways.catalogue import workloads\n"
        "ways = [way for w in workloads() for way in w.ways()]\n"
        "assert all(way.summary and way.source for way in ways)\n"
        "for way in ways:\n    way.module() if way.backend.name == 'cpu_numba' else None\n"
        "print(json.dumps([name for name in ('cupy', 'torch', 'jax', 'triton', 'awkward') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


OWN = """
import numpy as np
from compute.own import way, workload
from compute.ways.workload import Work

@workload(sizes=(1, 9), dtypes=("float64",))
def inputs(n, dtype, rng): return rng.random(n)

@way("cpu_numpy")
def plain(x): return x + 1

def ready(x, out): return x, out, np.ones_like(x)

@way("cpu_numba", prepare=ready, work=lambda n, dtype: Work(n, n, n), exhibit="slow", revision=2)
def prepared(x, out, ones):
    "Add prepared ones."
    out[:] = x + ones
"""


def test_a_users_way_has_the_options_of_a_built_in_one(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    way = load(path).ways["cpu_numba"]
    arguments = way.prepared((np.zeros(3), np.empty(3)))
    way.function()(*arguments)
    np.testing.assert_array_equal(arguments[1], np.ones(3))
    assert (way.summary, way.exhibit, way.revision) == ("Add prepared ones.", "slow", 2)
    assert way.work(3, "float64").flops == 3
    assert way.without_call().work(3, "float64") is None
    assert "def ready" in way.source


def test_arguments_of_a_built_in_workload_are_refused_in_a_user_s_file(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN.replace("sizes=(1, 9)", "sizes=(1, 9), chapter=3"))
    with pytest.raises(FileRefused, match="chapter: only a built-in workload has these arguments"):
        load(path)
