"""Listings of files, made by jobs: the list of files, the compilation of each, and Numba's assembly."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compute.devices.backends import backend
from compute.labs import LABS
from compute.labs.diffusion import Diffusion
from compute.own import code_view
from compute.own.code_files import CodeFile, embedded_cuda, files_of_lab, files_of_workload
from compute.own.code_tasks import ListingStore, build_of, cuda_listing, host_mix, visible
from compute.own.code_view import CodeUnavailable
from compute.ways.catalogue import workload, workloads
from tests.cuda_on_cpu import resources_of

pytestmark = pytest.mark.extended


INCLUDED_BY_NAME = {'"ENDS.wgsl"': '"ends_by_memory.wgsl"\n#include "ends_by_shuffles.wgsl"'}


def quiet(part, words=""):
    """Ignore progress."""


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.LAB)
def test_a_lab_shows_the_file_of_each_backend_and_the_sources_of_its_kernels(lab):
    folder = Path(lab.about.__func__.__code__.co_filename).parent.parent / "labs" / lab.LAB
    shown = {file.path for file in files_of_lab(lab)}
    assert {path for path in shown if path.parent == folder} == {
        *(path for each in lab.backends() for path in folder.glob(f"{each.name}.py")),
        *folder.glob("*.cu"), *folder.glob("*.cuh"), *folder.glob("*.wgsl"),
    }  # fmt: skip
    included = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.wgsl"))
    for name, files in INCLUDED_BY_NAME.items():
        included = included.replace(name, files)
    assert {path.name for path in shown if path.parent != folder} == set(re.findall(r'#include "(.*)"', included))
    files = files_of_lab(lab)
    assert all(file.text == file.path.read_text(encoding="utf-8") for file in files if not file.program)
    compiled = [file for file in files if file.program]
    assert {file.path for file in compiled} == set(folder.glob("*.wgsl"))
    for file in compiled:
        assert file.text == file.program.text
        assert not re.search(r"#include|/\*(unroll|registers)\*/", file.text)
    assert len({file.key for file in files}) == len({file.label for file in files}) == len(files)


def test_every_way_of_the_crossover_shows_the_function_that_runs():
    for each in workloads():
        files = files_of_workload(each)
        assert [file.text for file in files] == [way.source for way in each.ways()]
        assert len({file.key for file in files}) == len(files)


def test_a_file_states_its_compiler(tmp_path):
    kinds = {file.path.name: file.made for file in files_of_lab(Diffusion)}
    assert kinds["gpu_wgpu.py"] == kinds["gpu_wgpu.wgsl"] == "nothing"
    assert kinds["cpu_numpy.py"] == kinds["stencil.cuh"] == kinds["gpu_cupy.py"] == "nothing"
    assert (kinds["cpu_numba.py"], kinds["gpu_cupy.cu"], kinds["gpu_numba.py"]) == ("numba", "cuda", "numba.cuda")
    ways = {file.way: file.made for file in files_of_workload(workload("add_one"))}
    assert (ways["gpu_cupy_kernel"], ways["gpu_cupy"]) == ("cuda", "nothing")
    broken = tmp_path / "broken.py"
    broken.write_text('CODE = "__global__ void f() {}"\n(')
    assert CodeFile("x", broken, backend("gpu_cupy")).made == "nothing"
    assert embedded_cuda('CODE = r"""__global__ void f() {}"""') == "__global__ void f() {}"


SOURCES = [file.path for lab in LABS for file in files_of_lab(lab) if file.made == "cuda"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_cuda_source_of_a_lab_compiles_with_its_defines(path, dtype):
    assert resources_of(path, build_of(path, dtype).defines, "sm_90")  # cached by test_cuda_sources


ASSEMBLY = """
    .text
    .globl f
f:
.LBB0_1:
\tvaddps\t%ymm0, %ymm1, %ymm2
\tvaddss\t%xmm0, %xmm1, %xmm2
\tvmovups\t(%rax), %ymm0
\tcmpq\t%rax, %rbx
\tjne\t.LBB0_1
    # a remark
    .cfi_endproc
"""


def test_assembly_is_shown_without_directives_and_counted():
    lines = tuple(visible(ASSEMBLY))
    assert [line.split()[0] for line in lines] == ["f:", ".LBB0_1:", "vaddps", "vaddss", "vmovups", "cmpq", "jne"]
    assert host_mix(lines) == {
        "vector arithmetic": 1, "single arithmetic": 1, "loads, stores, moves": 1,
        "integer, logic, compare": 1, "control": 1,
    }  # fmt: skip


def listed(function: str, *given: str) -> list[dict[str, Any]]:
    """Return the listing that a task makes in a child process: this process has other labs and compiled functions."""
    script = (
        "import json, sys; from compute.own import code_tasks;"
        "made = getattr(code_tasks, sys.argv[1])(*sys.argv[2:], lambda *said: None);"
        "print(json.dumps([dict(name=f.name, signature=f.signature, vector=f.vector, lines=len(f.lines),"
        "mix=len(f.mix)) for f in made.functions]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, function, *given], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return list(json.loads(done.stdout))


def test_the_functions_of_a_way_and_those_that_it_calls_are_listed():
    functions = {one["name"]: one for one in listed("way_functions", "determinants", "cpu_numba", "float32")}
    assert functions.keys() == {"determinants_numba", "_determinant"}
    assert all(one["lines"] for one in functions.values())  # also if Numba loads it from its cache, without the code
    assert "float32" in functions["determinants_numba"]["signature"]
    assert functions["determinants_numba"]["mix"]


def test_a_lab_is_run_to_list_its_functions_the_widest_vectors_first(monkeypatch):
    monkeypatch.setenv("FIELDLAB_LABS", str(Path(__file__).parents[2] / "data" / "wave"))
    widths = [one["vector"] for one in listed("lab_functions", "wave", "cpu_numba", "float32")]
    assert widths
    assert widths == sorted(widths, reverse=True)


def test_a_job_makes_a_listing_once_and_again_after_a_failure(tmp_path):
    source = tmp_path / "wrong.cu"
    source.write_text("int broken = ;\n")
    file = CodeFile("CUDA C", source, backend("gpu_cupy"))
    store = ListingStore()
    first = store.ask(file, "float32", "sm_90", "somebody")
    assert store.ask(file, "float32", "sm_90", "somebody else") is first
    assert first.join(300)  # at low priority, at the same time as other tests
    assert first.state == "failed"
    assert re.search(r"expected an expression|nvdisasm is not installed", first.text)
    assert store.ask(file, "float32", "sm_90", "somebody") is not first  # tried again
    other = tmp_path / "other.py"
    other.write_text("x = 1\n")
    with pytest.raises(CodeUnavailable, match="NumPy calls compiled loops of its library"):
        store.ask(CodeFile("NumPy", other, backend("cpu_numpy")), "float32", "sm_90", "somebody")
    kernel = tmp_path / "other.wgsl"
    kernel.write_text("fn f() {}\n")
    with pytest.raises(CodeUnavailable, match=r"driver compiles it when a kernel runs\. WebGPU shows neither"):
        store.ask(CodeFile("WebGPU", kernel, backend("gpu_wgpu")), "float32", "sm_90", "somebody")
    with pytest.raises(ValueError, match="architecture must be one of sm_75"):
        store.ask(file, "float32", "sm_1", "somebody")
    source.unlink()
    with pytest.raises(FileNotFoundError):
        store.ask(file, "float32", "sm_90", "somebody")


@pytest.mark.skipif(code_view.missing() is not None, reason="the extra `code` is not installed")
def test_a_listing_has_kernels_with_their_blocks():
    path = next(file.path for file in files_of_lab(Diffusion) if file.path.name == "gpu_steps.cu")
    made = cuda_listing(path, {}, "float32", "sm_90", quiet)
    assert made.threads == {"many_steps": 32}
    assert ".entry many_steps(" in made.ptx
    ways = files_of_workload(workload("add_one"))
    inside = next(file.path for file in ways if file.way == "gpu_cupy_kernel")
    assert set(cuda_listing(inside, {}, "float64", "sm_90", quiet).kernels) == {"add_one"}
