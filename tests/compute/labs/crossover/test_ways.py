"""Every way of every workload against its reference: NumPy and Numba here, GPU ways on stand-ins."""

from __future__ import annotations

import json
import re
import sys
from contextlib import closing
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from compute.devices.backends import Backend, BackendUnavailable
from compute.devices.devices import Host, NoDevice
from compute.labs.crossover import Crossover
from compute.own.code_files import embedded_cuda
from compute.ways.catalogue import workload, workloads
from compute.ways.declaring import built_in_workload
from compute.ways.ecosystems import ECOSYSTEMS, ecosystem_of
from compute.ways.runner import WorkloadRunner
from compute.ways.workload import DTYPES, Way
from tests import cupy_on_cpu
from tests.conftest import require
from tests.cuda_on_cpu import resources_of
from tests.simulator import simulate

EVERY = [way for w in workloads() for way in w.ways()]
HERE = [way for way in EVERY if way.backend.device == "host" and not way.missing]
CUPY = [way for way in EVERY if way.backend.name == "gpu_cupy"]
SIZES = (1, 7, 333)


def choices(name):
    """Return every combination of a workload's settings."""
    settings = workload(name).settings
    return [dict(zip(settings, values, strict=True)) for values in product(*settings.values())]


def difference(way, n, dtype, **settings):
    """Return the difference of the way from the reference, and the tolerance."""
    case = workload(way.workload).case(n, dtype, **settings)
    inputs = case.inputs(seed=3)
    with WorkloadRunner(way, case, inputs) as runner:
        return runner.check(case.reference(inputs)).difference, case.tolerance


def ids(way):
    return f"{way.workload}-{way.name}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", HERE, ids=ids)
def test_the_host_s_ways_agree(way, dtype):
    for n, settings in product(SIZES, choices(way.workload)):
        found, allowed = difference(way, n, dtype, **settings)
        assert found <= allowed, (n, settings)


@pytest.mark.parametrize("way", [way for way in EVERY if way.backend.device == "webgpu"], ids=ids)
def test_webgpu_s_ways_agree_in_float32_and_refuse_float64(way, monkeypatch):
    require(way.backend, monkeypatch)
    for n in (*SIZES, 1001):
        found, allowed = difference(way, n, "float32")
        assert found <= allowed, n
    with closing(Crossover(backend="gpu_wgpu", workload=way.workload, ways=[way.name], least=10, most=10)) as lab:
        while not lab.status.resting:
            lab.advance(1)
        assert {point.reason for point in lab.sweep.points.values()} == {"WebGPU has no float64"}


@pytest.fixture
def cupy(monkeypatch):
    """Install CuPy on the CPU; afterwards remove the modules that were imported with it."""
    monkeypatch.setitem(sys.modules, "cupy", cupy_on_cpu.module())
    monkeypatch.setitem(sys.modules, "cupyx", cupy_on_cpu.extensions())
    monkeypatch.setattr(cupy_on_cpu.RawKernel, "backwards", False)
    yield
    for name in [name for name in sys.modules if re.match(r"compute\.labs\.crossover\..*gpu_cupy", name)]:
        del sys.modules[name]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", CUPY, ids=ids)
def test_the_lines_for_cupy_agree_on_stand_ins(way, dtype, cupy, monkeypatch):
    here = Way(way.workload, Backend("gpu_cupy", "cuda", OnCpu, (), "CuPy"), way.variant)
    for n, settings in product(simulated(way.workload), choices(way.workload)):
        for backwards in (False, True):
            monkeypatch.setattr(cupy_on_cpu.RawKernel, "backwards", backwards)
            found, allowed = difference(here, n, dtype, **settings)
            assert found <= allowed, (n, settings, backwards)


class OnCpu(Host):
    """Main memory that looks like a GPU's."""

    def upload(self, host):
        return cupy_on_cpu.asarray(host)

    def download(self, array):
        assert isinstance(array, cupy_on_cpu.Array)  # the array stayed on the GPU
        return np.array(array)


@pytest.mark.parametrize("way", [way for way in CUPY if "RawKernel" in way.source], ids=ids)
def test_the_cuda_c_compiles_for_old_and_new_gpus_without_spills(way, tmp_path):
    code = embedded_cuda(way.source)
    (tmp_path / "way.cu").write_text(code)
    for real, architecture in product(("float", "double"), ("sm_75", "sm_90", "sm_120")):
        made = resources_of(tmp_path / "way.cu", {"REAL": real}, architecture)
        assert made
        assert all(r.spill_stores == r.spill_loads == 0 for r in made.values())


PROGRAM = """
import json, sys, warnings
# What numba.cuda.random says of itself in the simulator.
warnings.filterwarnings("ignore", "(?s).*(nopython=False|xoroshiro128p|object mode|overflow encountered)")
from compute.ways.catalogue import workloads
from compute.ways.workload import DTYPES
from tests.compute.labs.crossover.test_ways import choices, difference, simulated
found = {}
for way in (way for w in workloads() for way in w.ways() if way.backend.name == "gpu_numba"):
    assert not way.missing, way.missing
    for dtype in DTYPES:
        for n in simulated(way.workload):
            for settings in choices(way.workload)[:2]:
                key = f"{way.workload} {way.name} {dtype} {n} {settings}"
                found[key] = difference(way, n, dtype, **settings)
print(json.dumps(found))
"""


def simulated(name):
    """Return sizes for stand-ins of a GPU: at least two blocks, the last one partial; smaller for heavy workloads."""
    random = {"monte_carlo_pi": (65,), "mandelbrot_area": (65,)}  # a generator takes 20 ms in the simulator
    return {"column_sums": (1, 35), "many_launches": (1, 2), **random}.get(name, (1, 301))


def test_numba_s_kernels_agree_in_its_simulator():
    found = json.loads(simulate(PROGRAM))
    ways = [way for way in EVERY if way.backend.name == "gpu_numba"]
    assert {key.split(" {")[0] for key in found} == {
        f"{way.workload} {way.name} {dtype} {n}" for way in ways for dtype in DTYPES for n in simulated(way.workload)
    }
    assert {key: pair for key, pair in found.items() if not pair[0] <= pair[1]} == {}


# -- the folders


@pytest.mark.parametrize("w", workloads(), ids=lambda w: w.name)
def test_a_workload_s_folder_is_complete(w):
    assert all(str(cited.n).strip("0") == "1" for cited in w.cited)  # tutorials use powers of ten
    assert w.about.startswith(f"# {w.title}\n")
    for part in ("**The lesson.**", "**What was claimed.**", "**Claims checked.**", "**Included.**"):
        assert part in w.about
    assert {"cpu_numpy", "cpu_numba"} & {way.name for way in w.ways()}
    for way in w.ways():
        assert way.summary
        assert len(way.source.splitlines()) <= 80  # the source is shown to an audience


@pytest.mark.parametrize("w", workloads(), ids=lambda w: w.name)
def test_work_grows_with_n_and_dtype(w):
    for settings in choices(w.name):
        small, large = (w.case(n, "float32", **settings).work() for n in w.sizes)
        double = w.case(w.sizes[0], "float64", **settings).work()
        assert large.moved > small.moved > 0
        assert large.flops > small.flops
        assert double.moved >= small.moved
        assert double.memory >= sum(a.nbytes for a in w.case(w.sizes[0], "float64", **settings).outputs())


def test_inputs_are_the_same_for_the_same_seed_and_have_the_dtype():
    for w, dtype in product(workloads(), DTYPES):
        once, again, other = (w.case(99, dtype).inputs(seed) for seed in (1, 1, 2))
        for a, b in zip(once, again, strict=True):
            np.testing.assert_array_equal(a, b)
        assert any(not np.array_equal(a, b) for a, b in zip(once, other, strict=True))
        assert all(a.dtype == dtype for a in once if isinstance(a, np.ndarray) and a.dtype.kind == "f")


def test_a_way_that_writes_nothing_disagrees():
    class Idle(Way):
        def function(self):
            return lambda *arguments: None

    for w, dtype in product(workloads(), DTYPES):
        found, allowed = difference(Idle(w.name, ecosystem_of("cpu_numpy"), ""), 9, dtype)
        assert not found <= allowed, w.name


def test_bad_values_are_named():
    w = workload("square")
    with pytest.raises(ValueError, match=r"n must be from 1 to 100000000 for square, not 0"):
        w.case(0)
    with pytest.raises(ValueError, match=r"dtype must be one of float32, float64, not 'int8'"):
        w.case(9, "int8")
    with pytest.raises(ValueError, match=r"bins must be one of \(\) for square, not 3"):
        w.case(9, bins=3)
    with pytest.raises(ValueError, match=r"square has no way 'gpu_magic'; it has cpu_numba, cpu_numpy"):
        w.way("gpu_magic")
    with pytest.raises(ValueError, match=r"workload must be one of add_one, .*not 'cube'"):
        workload("cube")


def test_a_folder_or_a_file_that_lacks_something_is_named():
    w = workload("square")
    for values, text in (
        ({"sizes": (5, 5)}, r"sizes of square must rise from at least 1, not \(5, 5\)"),
        ({"tolerance": {"float32": 0.0}}, "tolerance of square must be given for float32, float64"),
        ({"settings": {"bins": ()}}, "bins of square must have a value"),
    ):
        with pytest.raises(ValueError, match=text):
            replace(w, **values)
    with pytest.raises(ValueError, match=r"workloads\.square has no way 'gpu_awkward'; it has cpu_numba, "):
        Way("square", ecosystem_of("gpu_awkward"), "").path  # noqa: B018
    with pytest.raises(TypeError, match=r"workloads/traps/__init__\.py must declare a function with @workload"):
        built_in_workload("compute.labs.crossover.traps")


def test_eviction_writes_a_whole_array_and_waits_for_jax():
    class Immutable:
        ready = False

        def __add__(self, one):
            return self

        def block_until_ready(self):
            self.ready = True

    scratch, immutable = np.zeros(4), Immutable()
    ecosystem_of("gpu_torch").evict(scratch)
    assert list(scratch) == [1, 1, 1, 1]
    ecosystem_of("gpu_jax").evict(immutable)
    assert immutable.ready


def test_the_grid_is_of_round_numbers_within_the_sizes():
    assert workload("many_launches").grid() == (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
    for w in workloads():
        assert (w.grid()[0], w.grid()[-1]) == w.sizes


def test_ways_are_found_by_the_longest_ecosystem_that_fits():
    assert ecosystem_of("gpu_cupy_fuse").name == "gpu_cupy"
    assert ecosystem_of("gpu_cupyfuse") is None
    assert ecosystem_of("helpers") is None
    assert workload("quadratic").way("gpu_torch_compile").label == "PyTorch, compile"


@pytest.mark.parametrize("ecosystem", ECOSYSTEMS, ids=lambda e: e.name)
def test_an_absent_ecosystem_says_how_to_install_it(ecosystem):
    if not ecosystem.missing:
        assert ecosystem.install == ""
        return
    device_only = isinstance(ecosystem.missing, NoDevice)
    assert device_only or re.match(r"pip install 'fieldlab\[\w+\]'", ecosystem.install)
    ending = "$" if device_only else " Install: pip install"
    with pytest.raises(BackendUnavailable, match=re.escape(f"{ecosystem.missing}.") + ending):
        Way("square", ecosystem, "").function()
