"""The code of Numba-CUDA's kernels: which are launched, for which types, is noted in the simulator; what is missing."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from compute.labs.crossover.workload import workload
from compute.own import gpu_numba_code
from compute.own.code_files import files_of_workload
from compute.own.code_tasks import numba_cuda_listing
from compute.own.gpu_numba_code import NumbaCodeUnavailable, code_of, find_ptxas
from tests.simulator import simulate

NOTED = """
from functools import partial
from compute.labs.crossover.workload import workload
from compute.own.code_files import files_of_workload
from compute.own.code_tasks import run_small
from compute.own.gpu_numba_code import noted_launches
file = next(each for each in files_of_workload(workload("add_one")) if each.made == "numba.cuda")
for one in noted_launches(partial(run_small, file, "float32"), lambda part, words="": None):
    print(one.module.rpartition(".")[2], one.threads, *one.types, sep="|")
"""


def quiet(part, words=""):
    """Nobody listens."""


def test_launches_are_noted_with_types_and_threads():
    (line,) = simulate(NOTED).splitlines()
    module, threads, array = line.split("|")[:3]
    assert module == "gpu_numba"
    assert int(threads) % 32 == 0
    assert array == "array(float32, 1d, C)"


def test_what_is_missing_is_named_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr(gpu_numba_code, "find_ptxas", lambda: None)
    with pytest.raises(NumbaCodeUnavailable, match=r"(numba-cuda|ptxas) is not installed; pip install 'numba-cuda"):
        code_of(quiet, "sm_90", quiet)


@pytest.mark.skipif(find_spec("numba_cuda") is None or find_ptxas() is None, reason="numba-cuda or ptxas is absent")
def test_a_kernel_of_numba_has_ptx_machine_code_and_lines():
    file = next(each for each in files_of_workload(workload("add_one")) if each.made == "numba.cuda")
    made = numba_cuda_listing(file, "float32", "sm_90", quiet)
    ((name, kernel),) = made.kernels.items()
    assert f".entry {name}(" in made.ptx
    assert {one.class_ for one in kernel.instructions} >= {"float32", "global memory", "control"}
    assert set(kernel.by_line(file.path.name)) <= set(range(1, file.text.count("\n") + 1))
    assert kernel.by_line(file.path.name)
