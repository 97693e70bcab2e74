"""The Mandelbrot set at any depth: escape counts of z^2 + c, live, coarse to fine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import param
from numpy.typing import NDArray

from compute.devices import Array
from compute.frames import Frame
from compute.lab import Lab, View
from compute.labs.mandelbrot.guide import Guide
from compute.labs.mandelbrot.picture import show
from compute.labs.mandelbrot.place import Place
from compute.labs.mandelbrot.precision import CHOICES, Precision, choose, enough
from compute.labs.mandelbrot.schedule import Schedule
from compute.labs.mandelbrot.state import FRESH, State
from compute.raster.camera import Camera
from compute.timings import Timing

SLICE = {"cpu": 2**21, "gpu": 2**33}  # iterations of one step: a few milliseconds
PIXEL_BYTES = 2 * 8 + 2 * 4 + 4 + 4  # z, place, count, smooth
ORBIT_BYTES = 300  # of the reference and its table, for each iteration of it, while they are made
PICTURE_BYTES = 16 * 2**20  # samples, display buffers and scratch, rounded up
ORBIT_SHARE = 0.3  # of the progress shown in deep views
EPSILON = {"exact": -53.0, "fast preview": -24.0}  # log2 of what a jump of perturbation may leave out of a result
ALL = 2**62  # a budget that no picture exceeds in one launch
_WARM: set[tuple[str, str]] = set()  # (backend, arithmetic) that this process has run before


class Mandelbrot(Lab):
    """For each pixel c the first n with |z_n| > 2, where z_0 = 0 and z_{n+1} = z_n^2 + c; max_iterations if none.

    The view is 4 / zoom high around `center` (real part, imaginary part; decimal strings, as zoom, of any length);
    pixels are square, row 0 has the lowest imaginary part, c is a pixel's centre. README.md beside this file has the
    algorithm and its sources.
    """

    LAB = "mandelbrot"
    TITLE = "Mandelbrot"
    PACKAGE = "compute.labs.mandelbrot"
    ACTIONS = ("reset",)
    STRUCTURAL: ClassVar[tuple[str, ...]] = (*Lab.STRUCTURAL, "ny", "nx")
    VIEW: ClassVar[tuple[str, ...]] = ("center", "zoom", "max_iterations", "precision", "fidelity", "shortcuts")

    center = param.Tuple(default=("-0.75", "0.0"), length=2, label="Centre", doc="Decimal strings: real, imaginary.")
    zoom = param.String(default="1e0", label="Zoom", doc="Decimal string; the view is 4 / zoom high.")
    ny = param.Integer(default=600, bounds=(1, 16384), label="Rows [pixels]")
    nx = param.Integer(default=600, bounds=(1, 16384), label="Columns [pixels]")
    max_iterations = param.Integer(default=1000, bounds=(1, 10**8), label="Iterations at most")
    precision = param.Selector(default="auto", objects=list(CHOICES), label="Precision")
    fidelity = param.Selector(default="exact", objects=list(EPSILON), label="Deep zoom", doc="What a jump leaves out.")
    shortcuts = param.Boolean(default=True, label="Shortcuts", doc="Cardioid, disc and periodicity end pixels early.")
    limits = param.Range(default=None, allow_None=True, label="Limits of the colours", doc="None: automatic.")

    place: Place
    arithmetic: Precision
    schedule: Schedule
    state: State
    _key: tuple[tuple[int, int], str, bool]  # shape, dtype, deep of the arrays in `state`
    camera: Camera
    iterations: int  # done since the view was set, on all pixels
    spent: Timing | None  # what was spent since the last frame

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.param.watch(self._restart, list(self.VIEW))

    @classmethod
    def predicted_bytes(cls, **values: Any) -> int:
        """The arrays of a picture in the widest arithmetic, what a frame needs, and the reference of a deep view."""
        names = "ny", "nx", "center", "zoom", "precision"
        given = {name: values.get(name, cls.param[name].default) for name in names}
        cells = int(given["ny"]) * int(given["nx"])
        place = Place.of(given["center"], given["zoom"], given["ny"], given["nx"])
        deep = choose(given["precision"], place).deep
        orbit = ORBIT_BYTES * int(values.get("max_iterations", cls.max_iterations)) if deep else 0
        return cells * PIXEL_BYTES + PICTURE_BYTES + orbit

    def validate(self, values: dict[str, Any]) -> None:
        """Centre and zoom must be decimal numbers within their bounds; limits in order."""
        Place.of(values["center"], values["zoom"], values["ny"], values["nx"])
        limits = values["limits"]
        if limits is not None and not (np.isfinite(limits).all() and limits[0] < limits[1]):
            raise ValueError(f"limits must be two finite numbers, the lower one first, not {limits}")

    # -- state

    def _allocate(self, old: dict[str, Any]) -> None:  # noqa: ARG002 another size or backend begins anew
        if hasattr(self, "state"):
            self._release()
        self.camera = Camera(self.device, self.raster)
        self._samples: dict[int, Array] = {}
        self._guide: Guide | None = None
        self.reset()

    def _release(self) -> None:
        del self.state, self.camera, self._samples, self._guide

    def _restart(self, *_events: Any) -> None:
        """Another view: what was computed belongs to the old one."""
        if self._ready:
            self.reset()

    def reset(self) -> None:
        """Begin the picture of the present view anew."""
        place = Place.of(self.center, self.zoom, self.ny, self.nx)
        arithmetic = choose(self.precision, place)
        if arithmetic.deep:
            self._require_memory(ORBIT_BYTES * self.max_iterations)
        self.place, self.arithmetic = place, arithmetic
        self._arrays()
        self._guide = self._guidance() if self.arithmetic.deep else None
        self.schedule = Schedule(self.ny, self.nx, self.max_iterations, self.shortcuts)
        self.iterations, self.spent, self.number = 0, None, 0

    def _guidance(self) -> Guide:
        """The reference for the present view; an orbit that is there already is kept if it serves."""
        epsilon, far = EPSILON[self.fidelity], self.arithmetic.name == "extended"
        return Guide(self.device, self.place, self.max_iterations, epsilon, far, self._guide)

    def _arrays(self) -> None:
        """The pixels' arrays, new ones only if their type or size changed; all pixels fresh."""
        arithmetic, shape = self.arithmetic, (self.ny, self.nx)
        key = (shape, arithmetic.dtype, arithmetic.deep)
        if not hasattr(self, "state") or self._key != key:
            if hasattr(self, "state"):
                del self.state
            self.state, self._key = State.allocate(self.device, *key), key
        axes = self.place.offsets() if arithmetic.deep else self.place.axes()
        for host, array in zip(axes, (self.state.re, self.state.im), strict=True):
            self.device.write(host.astype(arithmetic.dtype), array)
        self.device.write(np.full(shape, FRESH, np.int32), self.state.count)
        self.device.write(np.full(shape, np.nan, np.float32), self.state.smooth)

    def snapshot(self) -> dict[str, Any]:
        """Counts and smooth counts if the picture is finished; the view itself is in the parameters."""
        kept = {"counts": self.state.count, "smooth": self.state.smooth} if self.finished else {}
        return {name: self.device.download(array) for name, array in kept.items()} | {"iterations": self.iterations}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Take over a finished picture of the same view and size; anything else begins anew."""
        self.reset()
        if "counts" not in snapshot:
            return
        if snapshot["counts"].shape != (self.ny, self.nx):
            raise ValueError(f"snapshot must have the shape ({self.ny}, {self.nx}), not {snapshot['counts'].shape}")
        self.device.write(snapshot["counts"], self.state.count)
        self.device.write(snapshot["smooth"], self.state.smooth)
        self.iterations = snapshot["iterations"]
        while not self.schedule.finished:
            self.schedule.did(self.schedule.part(ALL), 0)

    # -- results

    @property
    def finished(self) -> bool:
        """Whether every pixel has its count; advancing then does nothing."""
        return self.schedule.finished

    @property
    def progress(self) -> float:
        """Part of the work that is done, roughly, from 0 to 1: the reference orbit, then the pixels."""
        if not self._guide:
            return self.schedule.progress
        return ORBIT_SHARE * self._guide.progress + (1 - ORBIT_SHARE) * self.schedule.progress

    @property
    def reference_length(self) -> int:
        """Iterations of the reference orbit that are known; 0 without perturbation."""
        return self._guide.length if self._guide else 0

    @property
    def exhausted(self) -> bool:
        """Whether a forced precision is too coarse for this view: neighbouring pixels fall together."""
        return not enough(self.arithmetic.name, self.place)

    def advance(self, steps: int = 1) -> Timing:
        """Do the work of `steps` >= 1 slices, of a few milliseconds each; nothing once the picture is finished."""
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        return self._work(steps, steps * SLICE[self.device.kind])

    def _work(self, steps: int, budget: int) -> Timing:
        """Launch parts until `budget` iterations are spent or the picture is finished."""
        first = (self.backend, self.arithmetic.name) not in _WARM
        timing = Timing(self.backend, self.arithmetic.name, steps, self.ny * self.nx, 0.0, 0.0, first_call=first)
        if self._guide and not self.finished and not self._guide.ready:
            budget = self._guide.advance(steps, budget)
        while budget > 0 and not self.finished:
            timing = self._launch(timing, budget)
            budget -= self._offered
            _WARM.add((self.backend, self.arithmetic.name))
        spent = self.spent
        self.spent = timing if spent is None else _added(spent, timing)
        return timing

    def _launch(self, timing: Timing, budget: int) -> Timing:
        part = self.schedule.part(budget)
        kernel = getattr(self.kernels, self.arithmetic.kernel)
        self.device.write(np.zeros(2, np.int64), self.state.totals)
        deep = (self._guide.reference,) if self._guide else ()
        with self.device.lock, self.device.stopwatch() as watch:
            kernel(self.state, part, *deep)
        seconds = watch.seconds()
        done, left = (int(total) for total in self.device.download(self.state.totals))
        self.schedule.did(part, left)
        self.iterations += done
        self._offered = (part.last - part.first) * -(-self.nx // part.stride) * part.iterations
        return replace(timing, launch=timing.launch + watch.launch, compute=timing.compute + seconds)

    def counts(self) -> NDArray[np.int32]:
        """(ny, nx) first n with |z_n| > 2, max_iterations where there is none; finishes the picture first."""
        self._finish()
        return self.device.download(self.state.count)

    def smooth(self) -> NDArray[np.float32]:
        """(ny, nx) counts without steps, n + 1 - log2(ln|z_n| / ln 2); max_iterations where it did not escape."""
        self._finish()
        values = self.device.download(self.state.smooth)
        return np.where(np.isnan(values), np.float32(self.max_iterations), values)

    def _finish(self) -> None:
        while not self.finished:
            self._work(1, ALL if self.device.kind == "cpu" else 64 * SLICE["gpu"])

    def sampled(self, stride: int) -> Array:
        """The smooth counts of every stride-th pixel, on the device; NaN where not known or in the set."""
        if stride == 1:
            return self.state.smooth
        if stride not in self._samples:
            shape = -(-self.ny // stride), -(-self.nx // stride)
            self._samples[stride] = self.device.allocate(shape, np.float32)
        self.kernels.pick(self.state.smooth, self._samples[stride], stride)
        return self._samples[stride]

    def frame(self, view: View | None = None, pixels: tuple[int, int] = (512, 512)) -> Frame:
        """The picture as far as it is done, as the raster "escape": smooth counts, level 255 for the set.

        view: (x0, y0, x1, y1) in pixels, None for all; pixels: largest (height, width) of the raster. facts:
        iterations, progress, finished, stride, limit, reference, spacing_log2, finest_log2, minimum, maximum.
        """
        with self.device.lock:
            return show(self, view, pixels)


def _added(a: Timing, b: Timing) -> Timing:
    """The timing of two advances, one after the other."""
    first, steps = a.first_call or b.first_call, a.steps + b.steps
    return replace(a, steps=steps, launch=a.launch + b.launch, compute=a.compute + b.compute, first_call=first)
