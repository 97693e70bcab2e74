"""A machine with GPUs for the tests of slabs: kernels run on the CPU, streams in any order that events allow."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from compute.display import gpu as raster
from compute.labs.diffusion import gpu_cupy, gpu_slab_device, gpu_slabs
from tests.cuda_on_cpu import Library
from tests.cuda_streams import GPUS, Cuda, SlabGpu


@pytest.fixture(scope="module")
def library():
    return Library()


@pytest.fixture
def machine(library, monkeypatch):
    """Return a function of the streams' random seed and of peer access that installs a machine with GPUs."""
    caches = [
        gpu_cupy.launcher,
        gpu_cupy._sweep,
        gpu_slabs._slab_launcher,
        gpu_slabs._tiling,
        raster._kernel,
    ]
    monkeypatch.setattr(gpu_cupy, "multiprocessors", lambda _: 1)
    monkeypatch.setattr(gpu_slabs, "multiprocessors", lambda _: 1)
    monkeypatch.setattr(gpu_slab_device, "Cuda", SlabGpu)

    def made(seed, peers=True):
        cuda = Cuda(seed, GPUS, peers)

        class Kernels:
            """Kernels whose launches are queued on the current stream."""

            def __call__(self, path, *, defines):
                module = library(path, defines=defines)
                return SimpleNamespace(get_function=lambda name: self.launcher(module.get_function(name)))

            @staticmethod
            def launcher(kernel):
                return lambda *arguments: cuda.put(lambda: kernel(*arguments))

        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
        monkeypatch.setattr(SlabGpu, "cuda", cuda, raising=False)
        for module in (gpu_cupy, gpu_slabs, raster):
            monkeypatch.setattr(module, "compile_cuda", Kernels())
        for cached in caches:
            cached.cache_clear()
        return cuda

    yield made
    for cached in caches:
        cached.cache_clear()
