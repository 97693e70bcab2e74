"""Builds of kernels are detected everywhere, and marked in the timing that contains them."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from numba import njit

from compute.devices import cuda_source, gpu_numba_kernel
from compute.devices.builds import NotBuilt, building, only_built, watching
from compute.labs.diffusion import Diffusion, gpu_cupy
from compute.labs.diffusion import cpu_numpy as diffusion
from compute.labs.l_curve import LCurve
from compute.labs.l_curve import cpu_numpy as l_curve
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot import cpu_numpy as mandelbrot
from tests.cuda_on_cpu import forget


def test_nested_builds_count_once_and_are_reported_in_order_with_the_outer_name():
    events: list[str] = []
    with watching(lambda: events.append("began"), lambda: events.append("ended")) as outer:
        with watching() as inner, building("wave.step"), building("wave.cell"):  # one build within another
            assert events == ["began"]
        with pytest.raises(ZeroDivisionError), building():
            raise ZeroDivisionError
    with building():
        pass
    assert (inner.count, inner.kernel, outer.count) == (1, "wave.step", 2)
    assert events == ["began", "ended"] * 2


def test_compilations_by_numba_are_counted_with_name_and_time():
    def double(x):
        return 2 * x

    function = njit(double)
    found = []
    for argument in (1, 2, 2.0):
        with watching() as builds:
            function(argument)
        found.append(builds.count)
        assert builds.kernel == (f"{double.__module__}.{double.__qualname__}" if builds.count else "")
        assert (builds.seconds > 0) == bool(builds.count)
    assert found == [1, 0, 1]


def test_a_block_that_must_not_build_refuses_and_runs_what_is_built():
    def double(x):
        return 2 * x

    function = njit(double)
    with watching() as builds:
        with only_built(), pytest.raises(NotBuilt, match="double is not compiled"):
            function(1)
        with only_built(), pytest.raises(NotBuilt, match=r"wave\.step is not compiled"), building("wave.step"):
            pass
        assert builds.count == 0
        assert function(1) == 2
        with only_built():
            assert function(2) == 4
        with pytest.raises(ZeroDivisionError), building():
            raise ZeroDivisionError
    assert builds.count == 2


@pytest.fixture
def cupy(monkeypatch):
    """CuPy without a compiler: compilation returns empty kernels."""
    module = SimpleNamespace(compile=lambda: None, get_function=lambda _: lambda *_: None)
    device = type("Device", (nullcontext,), {"id": 0, "attributes": {"MultiProcessorCount": 132}})
    compiler = SimpleNamespace(CompileException=ValueError)
    fake = SimpleNamespace(RawModule=lambda **_: module, cuda=SimpleNamespace(Device=device, compiler=compiler))
    monkeypatch.setitem(sys.modules, "cupy", fake)
    forget(cuda_source)
    yield fake
    forget(cuda_source)


def test_cuda_c_is_built_once_for_each_set_of_defines(cupy):
    def builds(**defines: int) -> int:
        with watching() as builds:
            cuda_source.compile_cuda(gpu_cupy.STEPS_SOURCE, defines=defines)
        return builds.count

    assert [builds(STEPS=8), builds(STEPS=8), builds(STEPS=4), builds(STEPS=8)] == [1, 0, 1, 0]


def test_a_larger_grid_of_diffusion_needs_another_kernel(cupy):
    """The kernel changes at 2**27 cells, so dtype and variant do not determine whether it is compiled."""

    def builds(ny: int, nx: int) -> int:
        with watching() as builds:
            for tiling in gpu_cupy.tilings((ny, nx), "float32", 0):
                cuda_source.compile_cuda(gpu_cupy.STEPS_SOURCE, defines=tiling.defines("float32"))
        return builds.count

    assert builds(512, 512) == len(gpu_cupy.TILINGS["float32"])
    assert [builds(1000, 2000), builds(2**12, 2**11 - 1), builds(2**12, 2**11), builds(2**14, 2**14)] == [0, 0, 1, 0]


def test_compilations_by_numba_cuda_are_counted(monkeypatch):
    class Dispatcher:
        def compile(self, signature: str) -> str:
            return f"kernel for {signature}"

    monkeypatch.setattr("numba.cuda.jit", lambda _: Dispatcher())
    kernel: Any = gpu_numba_kernel.kernel(lambda u: None)
    for types in ("float32", "float64"):
        with watching() as builds:
            assert kernel.compile(types) == f"kernel for {types}"
        assert builds.count == 1


@pytest.mark.parametrize(
    ("make", "kernels", "name"),
    [
        (lambda: Diffusion(backend="cpu_numpy", ny=8, nx=8), diffusion, "step"),
        (lambda: Mandelbrot(backend="cpu_numpy", ny=64, nx=64, precision="float64"), mandelbrot, "direct"),
        (lambda: LCurve(backend="cpu_numpy", problem="shaw", n=200), l_curve, "steps"),
    ],
    ids=["diffusion", "mandelbrot", "l_curve"],
)
def test_steps_that_build_a_kernel_are_marked(monkeypatch, make, kernels, name):
    """Like diffusion beyond 2**27 cells on a GPU: backend, variant and dtype are unchanged."""
    lab = make()
    plain = getattr(kernels, name)

    def built(*arguments: Any) -> None:
        with building():
            plain(*arguments)

    lab.advance(1)
    assert not lab.advance(1).first_call
    monkeypatch.setattr(kernels, name, built)
    assert lab.advance(1).first_call
    monkeypatch.setattr(kernels, name, plain)
    assert not lab.advance(1).first_call
    lab.close()
