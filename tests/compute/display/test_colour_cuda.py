"""GPU kernels for colouring, gathering and the interior, without a GPU: CUDA C on the CPU, and Numba's simulator.

The display kernels are launched as for CuPy's and for Numba's arrays, with a driver that calls them on the CPU. The
cases are imported from the test files that cover every backend, and run on fake GPU devices.
"""

from __future__ import annotations

import ctypes
import inspect
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from compute.devices import cuda_source
from compute.devices.backends import BACKENDS
from compute.display import cpu_numpy as reference
from compute.display import gpu as display
from compute.labs.mandelbrot import gpu_cupy as mandelbrot
from tests.compute.display import test_colour as colours
from tests.compute.labs.mandelbrot import test_cycle as interiors
from tests.cuda_on_cpu import DeviceArray, FakeGpu, Library, launched_on_cpu
from tests.simulator import simulate

SMALL = [
    colours.test_a_histogram_of_one_value,
    colours.test_equalising_interpolates_saturates_and_marks_nan,
    colours.test_pending_pixels_differ_from_those_without_a_value,
    colours.test_distance_beside_holes_and_without_neighbours,
    colours.test_an_unresolved_slope_counts_as_half_the_last_digit,
    colours.test_half_the_samples_are_enough_and_none_are_not,
]
LARGE = [
    colours.test_the_logarithm_of_powers_of_two_is_whole,
    colours.test_a_histogram_agrees_with_numpys,
    colours.test_a_plane_has_its_slope_everywhere_edges_included,
    colours.test_a_potential_that_grows_with_the_distance_gives_the_distance,
]


class Gpu(FakeGpu):
    """A fake GPU with the kernels of `compute.display`."""

    colour = display


@pytest.fixture(scope="module")
def library():
    return Library()


class NumbaArray(DeviceArray):
    """Looks like an array of Numba's: provides only its address."""

    __module__ = "numba.cuda"
    device = None

    @property
    def __cuda_array_interface__(self):
        return {"data": (self.ctypes.data, False)}


class NumbaGpu(Gpu):
    """Allocates such arrays."""

    def allocate(self, shape, dtype):
        return super().allocate(shape, dtype).view(NumbaArray)


class Driver:
    """Replaces cuda.bindings.driver: finds the arguments like the driver, and runs the kernel on the CPU."""

    def __init__(self, library):
        self.library = library

    def load(self, path, *, defines):
        module = self.library(path, defines=defines)
        return cuda_source.DriverModule(module)

    def cuModuleGetFunction(self, module, name):  # noqa: N802 - the driver's names
        return SimpleNamespace(value=0), module.at_addresses(name.decode())

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, places, extra):  # noqa: N802
        assert (gz, bz, shared, stream, extra) == (1, 1, 0, 0, 0)
        function((gx, gy), (bx, by), ctypes.c_void_p(places))
        return (SimpleNamespace(value=0),)


@pytest.fixture(params=["forwards", "backwards", "numba"])
def gpu(request, library, monkeypatch):
    """Return a device whose CUDA C kernels run on the CPU: first or last block first, or launched as by Numba."""
    driver = Driver(library)
    monkeypatch.setattr(display, "numba_gpu", lambda: SimpleNamespace(id=0))
    monkeypatch.setattr(display, "compile_for_numba", driver.load)
    for name in ("cuModuleGetFunction", "cuLaunchKernel"):
        monkeypatch.setattr(f"cuda.bindings.driver.{name}", getattr(driver, name))
    library.backwards = request.param == "backwards"
    with launched_on_cpu(library, display, mandelbrot):
        yield NumbaGpu() if request.param == "numba" else Gpu()


@pytest.mark.parametrize("case", SMALL + LARGE, ids=lambda case: case.__name__)
def test_colours_in_cuda_c_on_the_cpu(gpu, case):
    case(gpu)


@pytest.mark.parametrize("blocks", [(1, 1, 0, 0), (1, 3, 2, 5), (4, 1, 1, 2), (8, 2, 0, 1)], ids=str)
def test_marks_in_cuda_c_on_the_cpu(gpu, blocks):
    colours.test_blocks_of_samples_are_marked_by_their_own_pixels_alone(gpu, *blocks)


@pytest.mark.parametrize("shape", [(1, 9), (9, 1), (33, 65)], ids=str)
def test_more_colours_in_cuda_c_on_the_cpu(gpu, shape):
    colours.test_the_logarithm_of_positive_numbers_only(gpu, shape)
    colours.test_samples_are_averaged_by_their_logarithms(gpu, shape)
    colours.test_a_histogram_counts_each_value_in_its_bin(gpu, 5000)  # three windows of bins


def test_levels_in_cuda_c_are_numpys_to_the_bit(gpu):
    values = colours.with_holes((57, 300), 8)
    table, truth = np.linspace(0, 1, 301, dtype=np.float32) ** 2, np.empty(values.shape, np.uint8)
    reference.equalise(values, truth, -10.0, 120.0, table)
    got = colours.made(gpu, display.equalise, values, np.uint8, -10.0, 120.0, table)
    np.testing.assert_array_equal(got, truth)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_gathering_in_cuda_c_on_the_cpu(gpu, dtype):
    u = np.arange(7 * 300).reshape(7, 300).astype(dtype)
    for num, den, y0, x0 in [(1, 1, -2, 5), (2, 1, 1, -300), (1, 2, -3, 7), (2, 2, 4, 2)]:
        out, truth = gpu.upload(np.zeros((9, 290), dtype)), np.zeros((9, 290), dtype)
        display.gather(gpu.upload(u), out, num, den, y0, x0, -1)
        reference.gather(u, truth, num, den, y0, x0, -1)
        np.testing.assert_array_equal(out, truth)


@pytest.mark.parametrize("gpu", ["forwards", "backwards"], indirect=True)
def test_the_interior_in_cuda_c_on_the_cpu(gpu):
    kernel = interiors.eased(gpu, mandelbrot.multiplier)
    for radius in interiors.RINGS:
        interiors.test_in_the_cardioid_and_the_disc(kernel, radius)
        interiors.test_in_the_components_of_period_three(kernel, radius)
    interiors.test_the_centre_of_a_component_has_multiplier_zero(kernel, 5)
    interiors.test_in_an_island_of_period_39_the_multiplier_equals_that_of_300_bits(kernel)
    interiors.test_without_a_cycle_the_multiplier_is_nan(kernel)
    interiors.test_every_backend_agrees_with_numpy_on_a_view(kernel)


SIMULATED = """
import numpy as np
from compute.devices.backends import backend
from tests.compute.display import test_colour_cuda as cases
chosen = backend("gpu_numba")
assert not chosen.missing, chosen.missing
device = chosen.open_device()
device.colour = chosen.display()
for case in cases.SMALL:
    case(device)
kernel = cases.interiors.eased(device, chosen.kernels("compute.labs.mandelbrot").multiplier)
cases.interiors.test_without_a_cycle_the_multiplier_is_nan(kernel)
lam = np.array([0.5, 0.9j, -1])
np.testing.assert_allclose(kernel(lam / 4 - 1, 64, 4), abs(lam), atol=1e-6)
"""


def test_numba_cuda_in_the_simulator():
    simulate(SIMULATED)


LAB = {"bla", "direct", "far", "multiplier", "perturbed", "pick"}  # others are optional


DISPLAY = "cpu_numpy", "cpu_numba", "gpu", "simulated"


@pytest.mark.parametrize(
    ("package", "names", "shared"), [("display", DISPLAY, set()), ("labs.mandelbrot", [b.name for b in BACKENDS], LAB)]
)
def test_every_backend_has_the_same_functions(package, names, shared):
    """Names and arguments are compared; types differ."""
    described = []
    for name in names:
        module = import_module(f"compute.{package}.{name}")
        functions = [f for name, f in inspect.getmembers(module, inspect.isfunction) if not name.startswith("_")]
        own = [f for f in functions if f.__module__.startswith(f"compute.{package}.") and f.__doc__]
        own = [f for f in own if not shared or f.__name__ in shared]
        described.append({f.__name__: list(inspect.signature(f).parameters) for f in own})
    assert described[0].keys() == shared if shared else described[0]
    assert all(found == described[0] for found in described)
