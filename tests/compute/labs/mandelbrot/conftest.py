"""Mandelbrot labs whose CUDA C kernels run on the CPU."""

from __future__ import annotations

import pytest

from compute.display import cpu_numpy as raster
from compute.labs.mandelbrot import Mandelbrot, gpu_cupy
from compute.labs.mandelbrot.painting import Painting
from tests.cuda_on_cpu import FakeGpu, Library, launched_on_cpu


@pytest.fixture(scope="module")
def library():
    return Library()


@pytest.fixture
def on_cpu(library, monkeypatch):
    """Return a function that makes labs on the host with the CUDA C kernels, run on the CPU."""

    def make(**values):
        monkeypatch.setattr(Mandelbrot, "kernels", gpu_cupy)
        lab = Mandelbrot(**values)
        lab.device = FakeGpu()
        lab.painting = Painting(lab.device, gpu_cupy, raster, "gpu_cupy")
        lab.reset()
        return lab

    with launched_on_cpu(library, gpu_cupy):
        yield make
