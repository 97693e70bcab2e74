"""A machine with GPUs for the tests of slabs: kernels run on the CPU, streams in any order that events allow."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from compute.display import gpu as raster
from compute.labs.diffusion import gpu_cupy, gpu_slab_device, gpu_slabs
from tests.cuda_on_cpu import Library, forget, launched_on_cpu
from tests.cuda_streams import GPUS, Cuda, SlabGpu


@pytest.fixture(scope="module")
def library():
    return Library()


@pytest.fixture
def on_cpu(library, monkeypatch):
    """Run launched kernels on the CPU; yield a function that, called with True, makes the last block run first."""
    monkeypatch.setattr(gpu_cupy, "multiprocessors", lambda _: 1)

    def order(backwards):
        library.backwards = backwards

    with launched_on_cpu(library, gpu_cupy, raster):
        yield order
    order(False)


@pytest.fixture
def machine(library, monkeypatch):
    """Return a function of the streams' random seed and of peer access that installs a machine with GPUs."""
    modules = gpu_cupy, gpu_slabs, raster
    monkeypatch.setattr(gpu_cupy, "multiprocessors", lambda _: 1)
    monkeypatch.setattr(gpu_slabs, "multiprocessors", lambda _: 1)
    monkeypatch.setattr(gpu_slab_device, "Cuda", SlabGpu)

    def made(seed, peers=True):
        cuda = Cuda(seed, GPUS, peers)

        def compiled(path, *, defines):
            """Compile a file; its launches are queued on the current stream."""
            module = library(path, defines=defines)
            return SimpleNamespace(get_function=lambda name: launcher(module.get_function(name)))

        def launcher(kernel):
            return lambda *arguments: cuda.put(lambda: kernel(*arguments))

        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
        monkeypatch.setattr(SlabGpu, "cuda", cuda, raising=False)
        for module in modules:
            monkeypatch.setattr(module, "compile_cuda", compiled)
        forget(*modules)
        return cuda

    yield made
    forget(*modules)
