"""Listings of Numba-CUDA's kernels: the simulator records launches and their types; missing programs are named."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from compute.own import gpu_numba_code
from compute.own.code_files import files_of_workload
from compute.own.code_tasks import numba_cuda_listing
from compute.own.gpu_numba_code import NumbaCodeUnavailable, code_of, find_ptxas
from compute.ways.catalogue import workload
from tests.simulator import simulate

NOTED = """
from functools import partial
from compute.ways.catalogue import workload
from compute.own.code_files import files_of_workload
from compute.own.code_tasks import run_small
from compute.own.gpu_numba_code import noted_launches
file = next(each for each in files_of_workload(workload("add_one")) if each.made == "numba.cuda")
for one in noted_launches(partial(run_small, file, "float32"), lambda part, words="": None):
    print(one.kernel.module.rpartition(".")[2], one.threads, *one.types, sep="|")
"""
FOUND = """
import pickle
import warnings
warnings.simplefilter("ignore")  # Numba's own, of its generators of random numbers
from functools import partial
from importlib import import_module
from compute.labs import lab_class
from compute.ways.catalogue import workload
from compute.own.code_files import files_of_lab, files_of_workload
from compute.own.code_tasks import run_small
from compute.labs.mandelbrot import gpu_numba
from compute.own.gpu_numba_code import NotedFunction, code_noted, function_noted, noted_launches
for files in (files_of_lab(lab_class("diffusion")), files_of_lab(lab_class("mandelbrot")),
              files_of_workload(workload("monte_carlo_pi"))):
    file = next(each for each in files if each.made == "numba.cuda")
    for one in noted_launches(partial(run_small, file, "float32"), lambda part, words="": None):
        noted = pickle.loads(pickle.dumps(one.kernel))
        code = code_noted(noted)
        assert set(code.co_freevars) <= dict(noted.bound).keys(), noted
        print(code.co_name)
gpu_numba._link()
(called,) = [value for _, value in function_noted(gpu_numba._perturbed).bound if isinstance(value, NotedFunction)]
print("called", called.module, code_noted(called).co_name)
"""


def quiet(part, words=""):
    """Ignore progress."""


def test_launches_are_noted_with_types_and_threads():
    (line,) = simulate(NOTED).splitlines()
    module, threads, array = line.split("|")[:3]
    assert module == "gpu_numba"
    assert int(threads) % 32 == 0
    assert array == "array(float32, 1d, C)"


def test_kernels_that_a_lab_makes_when_it_runs_are_found_with_the_values_of_their_names():
    *found, called = simulate(FOUND).splitlines()
    assert {*found} >= {"_tile_step", "pixels", "throw", "_finish"}
    assert called == "called compute.labs.mandelbrot.deep perturb"


def test_a_missing_program_is_reported_with_its_install_command(monkeypatch):
    monkeypatch.setattr(gpu_numba_code, "find_ptxas", lambda: None)
    with pytest.raises(NumbaCodeUnavailable, match=r"(numba-cuda|ptxas) is not installed; pip install 'numba-cuda"):
        code_of(quiet, "sm_90", quiet)


@pytest.mark.gpu
@pytest.mark.skipif(find_spec("numba_cuda") is None or find_ptxas() is None, reason="numba-cuda or ptxas is absent")
def test_a_kernel_of_numba_has_ptx_machine_code_and_lines():
    file = next(each for each in files_of_workload(workload("add_one")) if each.made == "numba.cuda")
    made = numba_cuda_listing(file, "float32", "sm_90", quiet)
    ((name, kernel),) = made.kernels.items()
    assert f".entry {name}(" in made.ptx
    assert {one.class_ for one in kernel.instructions} >= {"float32", "global memory", "control"}
    assert set(kernel.by_line(file.path.name)) <= set(range(1, file.text.count("\n") + 1))
    assert kernel.by_line(file.path.name)
