"""Mandelbrot labs and kernels of every backend; the CUDA C kernels also run on the CPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from compute.display import cpu_numpy as raster
from compute.labs.mandelbrot import Mandelbrot, gpu_cupy
from compute.labs.mandelbrot.painting import Painting
from compute.labs.mandelbrot.scenes import PACKAGE
from tests.conftest import backend_cases, require
from tests.cuda_on_cpu import FakeGpu, Library, launched_on_cpu

ON_CPU = pytest.param(None, id="cuda_on_cpu")


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


@pytest.fixture
def any_backend(any_backend, monkeypatch):
    """Each backend in turn that has kernels of this lab."""
    return require(any_backend, monkeypatch, PACKAGE)


@pytest.fixture(params=[*backend_cases(), ON_CPU])
def make(request, monkeypatch):
    """Return a function that makes labs with each backend in turn, and with the CUDA C kernels on the CPU."""
    if request.param is None:
        yield request.getfixturevalue("on_cpu")
        return
    backend, labs = require(request.param, monkeypatch, PACKAGE), []

    def lab(**values):
        labs.append(Mandelbrot(**{"backend": backend.name, **values}))
        return labs[-1]

    yield lab
    for each in labs:
        each.close()


@pytest.fixture(params=[*backend_cases(), ON_CPU])
def way(request, monkeypatch):
    """Return `device` and `kernels` of each backend in turn, and of the CUDA C kernels on the CPU."""
    if request.param is None:
        request.getfixturevalue("on_cpu")
        return SimpleNamespace(device=FakeGpu(), kernels=gpu_cupy)
    backend = require(request.param, monkeypatch, PACKAGE)
    return SimpleNamespace(device=backend.open_device(), kernels=backend.kernels(PACKAGE))
