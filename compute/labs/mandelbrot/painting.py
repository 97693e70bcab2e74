"""The computation of one picture: its arrays on the device, its remaining launches and its statistics.

The lab's picture, the passes of supersampling, a Julia set and the sampling of the area each use a Painting, on the
same kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from compute.devices.builds import watching
from compute.devices.devices import Array, Device
from compute.labs.mandelbrot.place import Place, Precision
from compute.labs.mandelbrot.reference_orbit import ReferenceBuilder
from compute.labs.mandelbrot.schedule import STRIDES, Overlap, Schedule
from compute.labs.mandelbrot.state import FEW, FRESH, LaunchPart, PixelArrays
from compute.measure.timing import Timing

ALL = 2**62  # a budget that no picture exceeds
_RUN_BEFORE: set[tuple[str, str, str]] = set()  # by this process: (backend, arithmetic, variant)


@dataclass(frozen=True)
class PictureTask:
    """The work of a Painting: the pixels of `place`, in an arithmetic, by one of its kernels ("" for the first)."""

    place: Place
    arithmetic: Precision
    max_iterations: int
    shortcuts: bool
    variant: str = ""

    @property
    def key(self) -> tuple[tuple[int, int], str, bool, int]:
        """Shape, dtype, depth and numbers of a value, which determine the arrays."""
        arithmetic = self.arithmetic
        return (self.place.ny, self.place.nx), arithmetic.dtype, arithmetic.deep, arithmetic.parts


class Painting:
    """Computes one task: `begin`, then `advance` until `finished`; the results are state.count and state.smooth.

    iterations, seconds: totals of all pixels, and the device's time for them. reused: share of the pixels that were
    taken from the last task.
    """

    def __init__(self, device: Device, kernels: ModuleType, raster: ModuleType, backend: str) -> None:
        self._device, self._kernels, self._raster, self._backend = device, kernels, raster, backend
        self._spare: PixelArrays | None = None
        self._key: tuple[object, ...] = ()
        self.state: PixelArrays
        self.task: PictureTask
        self.builder: ReferenceBuilder | None = None

    def begin(
        self,
        task: PictureTask,
        builder: ReferenceBuilder | None = None,
        shared: Overlap | None = None,
        strides: tuple[int, ...] = STRIDES,
    ) -> None:
        """Start a task; `builder`: reference of perturbation; `shared`: the overlap with the present task."""
        if shared is not None and task.key == self._key and builder_point(builder) == builder_point(self.builder):
            self._take_over(shared)
            strides, self.reused, fresh = shared.strides, shared.share, False
        else:
            self._allocate(task)
            self._clear(FRESH)
            self.reused, fresh = 0.0, True
            if self._device.kind == "gpu" and task.max_iterations <= FEW:
                strides = (1,)  # the whole picture takes less time than launching its passes
        self._start(task, builder, strides, fresh=fresh)

    def begin_at(self, task: PictureTask, parts: tuple[float, float], start: tuple[Array, Array]) -> None:
        """Start at z_1 = start (real, imaginary parts, (ny, nx)) with c = `parts` for all pixels: a Julia set."""
        self._allocate(task)
        self._clear(FRESH - 1)
        self._device.write(np.stack(start).astype(task.arithmetic.dtype), self.state.z)
        self._start(task, None, STRIDES, fresh=False)
        for part, array in zip(parts, (self.state.re, self.state.im), strict=True):
            self._device.write(np.full(array.shape, part, task.arithmetic.dtype), array)
        self.reused = 0.0

    def take(self, counts: NDArray[np.int32], smooth: NDArray[np.float32], iterations: int) -> None:
        """Store a finished picture of the present task."""
        self._device.write(counts, self.state.count)
        self._device.write(smooth, self.state.smooth)
        self.iterations = iterations
        while not self.finished:
            self.schedule.did(self.schedule.part(ALL), 0)

    def _start(
        self, task: PictureTask, builder: ReferenceBuilder | None, strides: tuple[int, ...], *, fresh: bool
    ) -> None:
        self.task, self.builder = task, builder
        place = task.place
        axes = place.offsets(*builder.point) if builder else place.axes()
        for host, array in zip(axes, (self.state.re, self.state.im), strict=True):
            self._device.write(task.arithmetic.rounded(host), array)
        self.schedule = Schedule(place.ny, place.nx, task.max_iterations, task.shortcuts, strides, fresh=fresh)
        self.iterations, self.seconds = 0, 0.0
        self.cold_iterations, self.cold_seconds = 0, 0.0

    def _allocate(self, task: PictureTask) -> None:
        """Allocate arrays for `task` if their type or size has changed."""
        if task.key != self._key:
            self._spare, self._key = None, ()
            if hasattr(self, "state"):
                del self.state
            self.state, self._key = PixelArrays.allocate(self._device, *task.key), task.key

    def _clear(self, count: int) -> None:
        """Set all counts to `count`, all smooth counts to NaN, on the device."""
        self._raster.fill(self.state.count, count)
        self._raster.fill(self.state.smooth, np.nan)

    def _take_over(self, shared: Overlap) -> None:
        """Move the pixels that both views contain to their positions in the new view."""
        old = self.state
        if self._spare is None:
            self._spare = PixelArrays.allocate(self._device, *self._key)  # type: ignore[arg-type]
        new, where = self._spare, (shared.num, shared.den, shared.y0, shared.x0)
        pairs = [(old.count, new.count, FRESH), (old.smooth, new.smooth, np.nan)]
        pairs += [(old.z[k], new.z[k], 0) for k in range(old.z.shape[0])]
        pairs += [(old.place[k], new.place[k], 0) for k in range(2) if old.place.shape[1:] == old.count.shape]
        with self._device.lock:
            for source, target, fill in pairs:
                self._raster.gather(source, target, *where, fill)
        self.state, self._spare = new, old

    @property
    def finished(self) -> bool:
        """Whether every pixel has its count."""
        return self.schedule.finished

    def advance(self, budget: int, slices: int = 1) -> Timing:
        """Run about `budget` iterations (or `slices` pieces of the reference orbit); return immediately if finished."""
        task = self.task
        timing = Timing(self._backend, self.name, slices, task.place.ny * task.place.nx, 0.0, 0.0)
        timing = replace(timing, first_call=self.cold)
        if self.builder and not self.finished and not self.builder.ready:
            budget = self.builder.advance(slices, budget)
        while budget > 0 and not self.finished:
            part = self.schedule.part(budget)
            before, cold = self.iterations, self.cold
            with watching() as builds:
                launch, seconds = self._launch(part)
            if cold or builds.count > 0:
                self.cold_iterations += self.iterations - before
                self.cold_seconds += seconds
            timing = replace(timing, first_call=timing.first_call or builds.count > 0)
            timing = replace(timing, launch=timing.launch + launch, compute=timing.compute + seconds)
            budget -= (part.last - part.first) * -(-task.place.nx // part.stride) * part.iterations
            _RUN_BEFORE.add(self._compiled_for)
        return timing

    @property
    def name(self) -> str:
        """Name of the kernel: the arithmetic, and the selected variant if any."""
        return f"{self.task.arithmetic.name} {self.task.variant}".strip()

    @property
    def cold(self) -> bool:
        """Whether this process has not yet run this arithmetic, so that its kernels may be compiled first."""
        return self._compiled_for not in _RUN_BEFORE

    @property
    def _compiled_for(self) -> tuple[str, str, str]:
        return self._backend, self.task.arithmetic.name, self.task.variant

    def _launch(self, part: LaunchPart) -> tuple[float, float]:
        """Launch one part; return the host seconds to enqueue it and its device seconds."""
        self.state.forget_totals(self._device)
        deep = (self.builder.at(self.task.place),) if self.builder else ()
        with self._device.lock, self._device.stopwatch() as watch:
            self._kernel(self.state, part, *deep)
        seconds = watch.seconds()
        done, left = self.state.sums(self._device)
        self.schedule.did(part, left)
        self.iterations += done
        self.seconds += seconds
        return watch.launch, seconds

    @property
    def _kernel(self) -> Callable[..., None]:
        if self.task.variant:
            kernel: Callable[..., None] = self._kernels.VARIANTS[self.task.variant]
            return kernel
        return kernel_of(self._kernels, self.task.arithmetic)


def kernel_of(kernels: ModuleType, arithmetic: Precision) -> Callable[..., None]:
    """Return the kernel of a backend's file that iterates in `arithmetic`."""
    found: Callable[..., None] = vars(kernels)[arithmetic.kernel]
    return found


def builder_point(builder: ReferenceBuilder | None) -> object:
    """Return the reference's point, to which deltas are relative; None without perturbation."""
    return builder.point if builder else None
