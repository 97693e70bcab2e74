"""Builds of kernels are detected everywhere, and marked in the timing that contains them."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from compute.devices import cuda_source, gpu_numba_kernel
from compute.devices.builds import building, watching
from compute.labs.diffusion import Diffusion, gpu_cupy
from compute.labs.diffusion import cpu_numpy as diffusion
from compute.labs.l_curve import LCurve
from compute.labs.l_curve import cpu_numpy as l_curve
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot import cpu_numpy as mandelbrot


def test_builds_are_counted_and_told_of_in_their_order():
    told: list[str] = []
    with watching(lambda: told.append("began"), lambda: told.append("ended")) as outer:
        with watching() as inner, building(), building():  # one build within another
            assert told == ["began"]
        with building():
            pass
    with building():
        pass
    assert (inner.count, outer.count) == (1, 2)
    assert told == ["began", "ended"] * 2


def test_a_build_that_fails_has_ended_too():
    told: list[str] = []
    with watching(ended=lambda: told.append("ended")), pytest.raises(ZeroDivisionError), building():
        raise ZeroDivisionError
    assert told == ["ended"]


def test_numba_says_when_it_compiles():
    from numba import njit

    function = njit(lambda x: x + 1)
    with watching() as first:
        function(1)
    with watching() as again:
        function(2)
    with watching() as another:
        function(2.0)
    assert (first.count, again.count, another.count) == (1, 0, 1)


@pytest.fixture
def cupy(monkeypatch):
    """CuPy without a compiler: compilation returns empty kernels."""
    module = SimpleNamespace(compile=lambda: None, get_function=lambda _: lambda *_: None)
    device = type("Device", (nullcontext,), {"id": 0, "attributes": {"MultiProcessorCount": 132}})
    compiler = SimpleNamespace(CompileException=ValueError)
    fake = SimpleNamespace(RawModule=lambda **_: module, cuda=SimpleNamespace(Device=device, compiler=compiler))
    monkeypatch.setitem(sys.modules, "cupy", fake)
    cuda_source._module.cache_clear()
    yield fake
    cuda_source._module.cache_clear()


def test_a_build_has_a_name_and_a_time():
    from numba import njit

    def double(x):
        return 2 * x

    with watching() as builds:
        njit(double)(1)
    assert builds.kernel == f"{double.__module__}.{double.__qualname__}"
    assert builds.seconds > 0
    with watching() as outer, building("wave.step"), building("wave.cell"):
        pass
    assert outer.kernel == "wave.step"


def test_cuda_c_is_built_once_for_each_set_of_defines(cupy):
    def builds(**defines: int) -> int:
        with watching() as heard:
            cuda_source.compile_cuda(gpu_cupy.STEPS_SOURCE, defines=defines)
        return heard.count

    assert [builds(STEPS=8), builds(STEPS=8), builds(STEPS=4), builds(STEPS=8)] == [1, 0, 1, 0]


def test_a_larger_grid_of_diffusion_needs_another_kernel(cupy):
    """The kernel changes at 2**27 cells, so dtype and variant do not determine whether it is compiled."""

    def builds(ny: int, nx: int) -> int:
        with watching() as heard:
            for tiling in gpu_cupy.tilings((ny, nx), "float32", 0):
                cuda_source.compile_cuda(gpu_cupy.STEPS_SOURCE, defines=tiling.defines("float32"))
        return heard.count

    assert builds(512, 512) == len(gpu_cupy.TILINGS["float32"])
    assert [builds(1000, 2000), builds(2**12, 2**11 - 1), builds(2**12, 2**11), builds(2**14, 2**14)] == [0, 0, 1, 0]


def test_numbas_kernels_for_a_gpu_say_when_they_are_compiled_for_other_types():
    class Dispatcher:
        def compile(self, signature: str) -> str:
            return f"kernel for {signature}"

    kernel: Any = gpu_numba_kernel._announced(Dispatcher())
    with watching() as builds:
        assert kernel.compile("float32") == "kernel for float32"
    assert builds.count == 1
    assert gpu_numba_kernel._announced(print) is print  # the simulator's kernels compile nothing


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
