"""Devices with the display kernels of every backend; the CUDA C also runs on the CPU."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from compute.devices import cuda_source
from compute.display import gpu as display
from tests.conftest import backend_cases, require
from tests.cuda_on_cpu import DeviceArray, FakeGpu, Library, launched_on_cpu

ON_CPU = "first block first", "last block first", "launched as by Numba"  # CUDA C


class NumbaArray(DeviceArray):
    """Looks like an array of Numba's: provides only its address."""

    __module__ = "numba.cuda"
    device = None

    @property
    def __cuda_array_interface__(self):
        return {"data": (self.ctypes.data, False)}


class NumbaGpu(FakeGpu):
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


@pytest.fixture(scope="module")
def library():
    return Library()


@pytest.fixture(params=[*backend_cases(), *ON_CPU])
def device(request, library, monkeypatch):
    """Yield the device of each backend in turn with its display kernels as `.kernels`.

    exact: whether they return NumPy's bits; dtypes: their number types.
    """
    if request.param not in ON_CPU:
        backend = require(request.param, monkeypatch)
        device = backend.open_device()
        device.kernels, device.exact, device.dtypes = backend.display(), device.kind == "cpu", backend.dtypes
        yield device
        return
    driver = Driver(library)
    monkeypatch.setattr(display, "numba_gpu", lambda: SimpleNamespace(id=0))
    monkeypatch.setattr(display, "compile_for_numba", driver.load)
    for name in ("cuModuleGetFunction", "cuLaunchKernel"):
        monkeypatch.setattr(f"cuda.bindings.driver.{name}", getattr(driver, name))
    library.backwards = request.param == "last block first"
    with launched_on_cpu(library, display):
        device = NumbaGpu() if request.param == "launched as by Numba" else FakeGpu()
        device.kernels, device.exact, device.dtypes = display, False, ("float32", "float64")
        yield device


@pytest.fixture
def kernels(device):
    return device.kernels
