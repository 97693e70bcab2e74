"""The kernels of every backend; the CUDA C also runs on the CPU, by its own launching code."""

from __future__ import annotations

import sys
from collections import defaultdict
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from compute.labs.l_curve import gpu_cupy, gpu_launch, gpu_onepass
from compute.own.cuda_on_cpu import MOST_SHARED
from tests import cupy_on_cpu
from tests.compute.labs.l_curve.relations import DTYPES
from tests.conftest import backend_cases, require
from tests.cuda_on_cpu import FakeGpu, Library, forget, launched_on_cpu, upload

POOL = MOST_SHARED  # bytes of shared memory that a block may request here
GPU = FakeGpu(), gpu_cupy
PACKAGE = "compute.labs.l_curve"
ON_CPU = [pytest.param(order, id=f"cuda_on_cpu_{order}", marks=pytest.mark.extended) for order in ("first", "last")]


class Kernel:
    """A kernel with CuPy's interface: a launch with more shared memory than last set, by any caller, is an error."""

    def __init__(self, launch, limits, name):
        self.launch, self.limits, self.name = launch, limits, name

    @property
    def max_dynamic_shared_size_bytes(self):
        return self.limits.get(self.name, 0)

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes):
        self.limits[self.name] = nbytes

    def __call__(self, grid, block, arguments, *, shared_mem=0):
        assert shared_mem <= min(self.max_dynamic_shared_size_bytes, POOL)
        assert max(grid) > 0
        cupy_on_cpu.Graph.record_or_run(lambda: self.launch(grid, block, arguments, shared_mem=shared_mem))


class Compiled(Library):
    """Compiled .cu files with such kernels, as returned by compile_cuda."""

    def __init__(self):
        super().__init__()
        self.limits = defaultdict(dict)  # of shared memory, by file and definitions

    def __call__(self, path, *, defines):
        module, limits = super().__call__(path, defines=defines), self.limits[path, tuple(sorted(defines.items()))]
        return SimpleNamespace(get_function=lambda name: Kernel(module.get_function(name), limits, name))


class Stream(cupy_on_cpu.Stream):
    """A stream that counts the captures of graphs."""

    captures = 0

    def begin_capture(self):
        Stream.captures += 1
        super().begin_capture()


class Cupy:
    """NumPy in CuPy's place: new arrays have a device, and are full of NaN. free: bytes of free memory."""

    free = 2**40

    def __init__(self):
        memory = SimpleNamespace(free_bytes=lambda: 0)
        self.get_default_memory_pool = lambda: memory
        self.cuda = SimpleNamespace(Device=lambda: SimpleNamespace(mem_info=(self.free, 2**40)), Stream=Stream)

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, shape, dtype):
        return upload(np.full(shape, np.nan, dtype))

    def zeros(self, shape, dtype):
        return upload(np.zeros(shape, dtype))


@pytest.fixture(scope="module")
def library():
    return Compiled()


@pytest.fixture
def on_cpu(library, monkeypatch):
    """Run launched kernels on the CPU; yield a context manager in which the last block runs first."""
    monkeypatch.setitem(sys.modules, "cupy", Cupy())
    for module in (gpu_launch, gpu_onepass):
        monkeypatch.setattr(module, "facts", lambda _: gpu_launch.Facts(3, POOL))
    monkeypatch.setattr(gpu_launch, "THREADS", dict.fromkeys(DTYPES, 96))
    monkeypatch.setattr(gpu_launch, "LINES", 4)

    @contextmanager
    def backwards():
        library.backwards = True
        yield
        library.backwards = False

    with launched_on_cpu(library, gpu_launch, gpu_onepass):
        forget(gpu_cupy)
        yield backwards
    forget(gpu_cupy)


@pytest.fixture
def any_backend(any_backend, monkeypatch):
    """Each backend in turn that has kernels of this lab."""
    return require(any_backend, monkeypatch, PACKAGE)


@pytest.fixture(params=[*backend_cases(), *ON_CPU])
def way(request, monkeypatch):
    """Yield (device, kernels) of each backend in turn, and of the CUDA C on the CPU, first or last block first."""
    if isinstance(request.param, str):
        backwards = request.getfixturevalue("on_cpu")
        with backwards() if request.param == "last" else nullcontext():
            yield GPU
        return
    backend = require(request.param, monkeypatch, PACKAGE)
    yield backend.open_device(), backend.kernels(PACKAGE)
