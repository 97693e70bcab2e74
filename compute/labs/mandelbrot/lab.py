"""The Mandelbrot lab: escape counts of z^2 + c at any depth, live, coarse to fine.

This module defines the lab's parameters and results. painting.py computes one picture with the kernels of a backend,
picture.py displays it, place.py defines the position of a view, reference_orbit.py computes the reference of deep
views.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import param
from numpy.typing import NDArray

from compute.devices.backends import Backend, backend, best_of_host
from compute.devices.devices import Array
from compute.lab.fields import is_finite
from compute.lab.frames import Frame, View
from compute.lab.lab import Lab, OutOfMemory
from compute.lab.status import LabStatus
from compute.labs.mandelbrot.colouring import COLOURINGS, SCALES
from compute.labs.mandelbrot.overlays import PointerPoint, under
from compute.labs.mandelbrot.painting import ALL, Painting, PictureTask
from compute.labs.mandelbrot.picture import ProgressivePicture, panels_of
from compute.labs.mandelbrot.place import (
    CHOICES,
    DIRECT,
    DOUBLE_SINGLE,
    PRECISIONS,
    WHOLE_ZOOM,
    Place,
    choose,
    enough,
    views_between,
)  # fmt: skip
from compute.labs.mandelbrot.reference_orbit import ReferenceBuilder
from compute.labs.mandelbrot.schedule import overlap
from compute.labs.mandelbrot.state import PixelArrays
from compute.measure.timing import Timing

SLICE = {"host": 2**21, "cuda": 2**33, "webgpu": 2**30}  # iterations of one step: a few milliseconds
WHOLE = {"host": ALL, "cuda": 2**39, "webgpu": 2**33}  # of a launch for counts; systems stop one of a few seconds
PIXEL_BYTES = 2 * 8 + 2 * 4 + 4 + 4  # z, place, count, smooth
SAMPLE_BYTES = PIXEL_BYTES + 3 * 4  # another picture, sums, hits and means
ORBIT_BYTES = 300  # for each iteration of the reference orbit, including its table, during their computation
PICTURE_BYTES = 32 * 2**20  # samples, display buffers, scratch and the small pictures, rounded up
ORBIT_SHARE = 0.3  # of the progress shown in deep views
EPSILON = {"exact": -53.0, "fast preview": -24.0}  # log2 of the relative error that a jump of perturbation may cause
_SHOWN: set[tuple[str, str, str, bool]] = set()  # displayed by this process: (backend, arithmetic, colouring, julia)


class Mandelbrot(Lab):
    """For each pixel c the first n with |z_n| > 2, where z_0 = 0 and z_{n+1} = z_n^2 + c; max_iterations if none.

    The view is 4 / zoom high around `center` (real part, imaginary part; decimal strings, like zoom, of any length);
    pixels are square, row 0 has the lowest imaginary part, c is a pixel's centre. README.md in this folder describes
    the algorithm and its sources.
    """

    LAB = "mandelbrot"
    TITLE = "Mandelbrot"
    PACKAGE = "compute.labs.mandelbrot"
    STRUCTURAL: ClassVar[tuple[str, ...]] = (*Lab.STRUCTURAL, "ny", "nx")
    ENDS: ClassVar[bool] = True
    RESTORES: ClassVar[bool] = False
    HISTORY_NAMES: ClassVar[tuple[str, ...]] = ()
    APART: ClassVar[tuple[int, int, int]] = (0, 0, 0)  # the set
    APART_WORDS: ClassVar[str] = "inside the set"
    PICTURE_SIZE: ClassVar[tuple[str, ...]] = ("ny", "nx")
    NUMBER_TYPE: ClassVar[str] = "precision"
    SIZES = MappingProxyType({**Lab.SIZES, "iterations": lambda values: int(values["max_iterations"])})
    panels = staticmethod(panels_of)
    between = staticmethod(views_between)
    VIEW: ClassVar[tuple[str, ...]] = (
        *("center", "zoom", "max_iterations", "precision", "fidelity", "shortcuts", "variant"),
    )

    variant = param.String(default="", label="Kernel", doc="Name in the backend's VARIANTS; empty for its default.")
    center = param.Tuple(default=("-0.75", "0.0"), length=2, label="Centre", doc="Decimal strings: real, imaginary.")
    zoom = param.String(default=WHOLE_ZOOM, label="Zoom", doc="Decimal string; the view is 4 / zoom high.")
    ny = param.Integer(default=600, bounds=(1, 16384), label="Rows [pixels]")
    nx = param.Integer(default=600, bounds=(1, 16384), label="Columns [pixels]")
    max_iterations = param.Integer(default=1000, bounds=(1, 10**8), label="Maximum iterations")
    precision = param.Selector(default="auto", objects=list(CHOICES), label="Precision")
    fidelity = param.Selector(default="exact", objects=list(EPSILON), label="Deep zoom", doc="What a jump leaves out.")
    shortcuts = param.Boolean(default=True, label="Shortcuts", doc="Cardioid, disc and periodicity end pixels early.")
    reuse = param.Boolean(default=False, label="Keep pixels", doc="After a pan, or a zoom by 2, to 1/1000 of a pixel.")
    colouring = param.Selector(default="histogram", objects=list(COLOURINGS), label="Colouring")
    scale = param.Selector(default="log", objects=list(SCALES), label="Scale of the counts")
    limits = param.Range(default=None, allow_None=True, label="Colour range", doc="None: automatic.")
    samples = param.Integer(default=1, bounds=(1, 64), label="Samples per pixel", doc="Taken while the lab is idle.")
    pointer = param.NumericTuple(default=None, length=2, allow_None=True, label="Pointer [part of the view]")
    orbit_length = param.Integer(default=0, bounds=(0, 1000), label="Orbit [iterations]", doc="Of the pointer; 0: off.")
    julia = param.Boolean(default=False, label="Julia set", doc="Of the point under the pointer.")
    area = param.Boolean(default=False, label="Area", doc="Estimate the area of the set, while nothing else is done.")

    painting: Painting
    place: Place

    def __init__(self, **values: Any) -> None:
        self._drawn: ProgressivePicture | None = None
        super().__init__(**values)
        self.param.watch(self._restart, list(self.VIEW))

    @classmethod
    def predicted_bytes(cls, **values: Any) -> int:
        """Return the bytes of a picture in the widest arithmetic, of a frame, and of the reference of a deep view."""
        given = {name: values.get(name, cls.param[name].default) for name in cls.param if name != "name"}
        place = Place.of(given["center"], given["zoom"], given["ny"], given["nx"])
        orbit = ORBIT_BYTES * int(given["max_iterations"]) if choose(given["precision"], place).deep else 0
        pixel = PIXEL_BYTES * (2 if given["reuse"] else 1) + SAMPLE_BYTES * (given["samples"] > 1)
        return int(given["ny"]) * int(given["nx"]) * pixel + PICTURE_BYTES + orbit

    def validate(self, values: dict[str, Any]) -> None:
        """Require decimal centre and zoom within bounds, ordered limits, a valid pointer and a known variant."""
        Place.of(values["center"], values["zoom"], values["ny"], values["nx"])
        limits, pointer, variant = values["limits"], values["pointer"], values["variant"]
        if limits is not None and not (all(map(is_finite, limits)) and limits[0] < limits[1]):
            raise ValueError(f"limits must be two finite numbers, the lower one first, not {limits}")
        if pointer is not None and not all(is_finite(part) and 0 <= part <= 1 for part in pointer):
            raise ValueError(f"pointer must be two numbers from 0 to 1, not {pointer}")
        own = backend(values["backend"])
        kernels = self.kernels if self.computing is own else own.kernels(self.PACKAGE)
        if variant and variant not in kernels.VARIANTS:
            known = ", ".join(kernels.VARIANTS)
            raise ValueError(f"variant must be empty or one of {known} for {values['backend']}, not {variant!r}")

    # -- the backend that a view needs

    @classmethod
    def dtype_of(cls, value: str) -> str:
        """Return the number type of a precision; "" for "auto"."""
        return PRECISIONS[value].dtype if value in PRECISIONS else ""

    @property
    def computing(self) -> Backend:
        """The backend that computes this view: the host's best one where the chosen one lacks the number type."""
        own = backend(self._values["backend"])
        return own if enough_types(self._number_types, *self._viewed) else best_of_host()

    @property
    def _number_types(self) -> tuple[str, ...]:
        """The chosen backend's number types, and double-single if the view needs more and the device rounds exactly."""
        own = backend(self._values["backend"])
        if enough_types(own.dtypes, *self._viewed) or not own.device_class.exact(self._values["device_index"]):
            return own.dtypes
        return (*own.dtypes, DOUBLE_SINGLE)

    @property
    def _viewed(self) -> tuple[Any, ...]:
        values = self._values
        return tuple(values[name] for name in ("center", "zoom", "ny", "nx", "precision"))

    # -- state

    def _allocate(self, old: dict[str, Any]) -> None:  # noqa: ARG002 another size or backend starts again
        self._renew()
        self.reset()

    def _renew(self) -> None:
        """Prepare for pictures on the current device; the last picture stays visible until the next one."""
        self._shown = self._drawn.shown if self._drawn else None
        if hasattr(self, "painting"):
            self._release()
        self.painting = Painting(self.device, self.kernels, self.display, self.computing.name)
        self._painted_by = self.computing

    def _release(self) -> None:
        del self.painting
        self._drawn = None

    def _move(self) -> None:
        """Continue on the device of the backend that this view needs. On failure nothing changes."""
        before = self.device, self.display
        self._open_device()
        try:
            self._require_memory(self.predicted_bytes(**self.values()))
        except OutOfMemory:
            self.device, self.display = before
            raise
        self._renew()
        before[0].close()

    @property
    def picture(self) -> ProgressivePicture:
        """The display, created on first use, since counts do not need it."""
        if self._drawn is None:
            self._drawn = ProgressivePicture(self, self._shown)
        return self._drawn

    def _restart(self, *events: param.parameterized.Event) -> None:
        """Start the picture of a changed view; `reuse` keeps pixels after a change of centre or zoom."""
        if self._ready:
            self._begin(kept=self.reuse and {event.name for event in events} <= {"center", "zoom"})

    def reset(self) -> None:
        """Restart the picture of the present view."""
        self._begin(kept=False)

    def _begin(self, kept: bool) -> None:
        place = Place.of(self.center, self.zoom, self.ny, self.nx)
        if self._painted_by is not self.computing:
            self._move()
            kept = False
        arithmetic = choose(self.precision, place, self._number_types)
        if arithmetic.deep:
            self._require_memory(ORBIT_BYTES * self.max_iterations)
        shared = overlap(self.place, place) if kept and arithmetic == self.painting.task.arithmetic else None
        self.place = shared.place if shared else place
        variant = self.variant if arithmetic.kernel == DIRECT and self.computing.name == self.backend else ""
        task = PictureTask(self.place, arithmetic, self.max_iterations, self.shortcuts, variant)
        self.painting.begin(task, self._builder_for(task) if arithmetic.deep else None, shared)
        if self._drawn:
            self._drawn.restart()
        self.spent: Timing | None = None

    def _builder_for(self, task: PictureTask) -> ReferenceBuilder:
        """Return the builder of the reference for the present view; it keeps the current orbit if that serves."""
        epsilon, far = EPSILON[self.fidelity], task.arithmetic.name == "extended"
        return ReferenceBuilder(
            self.device, self.kernels.bla, task.place, task.max_iterations, epsilon, far, self.painting.builder
        )

    def snapshot(self) -> dict[str, Any]:
        """Return counts and smooth counts (0 in the set) of a finished picture; the parameters contain the view."""
        kept: dict[str, Any] = {"iterations": self.painting.iterations}
        if self.finished:
            kept["counts"] = self.device.download(self.state.count)
            kept["smooth"] = np.nan_to_num(self.device.download(self.state.smooth), copy=False, nan=0.0)
        return kept

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore a finished picture of the same view and size; otherwise restart the picture."""
        self.reset()
        if "counts" not in snapshot:
            return
        counts = snapshot["counts"]
        if counts.shape != (self.ny, self.nx):
            raise ValueError(f"snapshot must have the shape ({self.ny}, {self.nx}), not {counts.shape}")
        smooth = np.where(counts < self.max_iterations, snapshot["smooth"], np.float32(np.nan))
        self.painting.take(counts, smooth, snapshot["iterations"])

    # -- results

    @property
    def state(self) -> PixelArrays:
        """The pixels' arrays, on the device."""
        return self.painting.state

    @property
    def iterations(self) -> int:
        """Iterations done on all pixels since the view was set."""
        return self.painting.iterations

    @property
    def finished(self) -> bool:
        """Whether every pixel has its count."""
        return self.painting.finished

    @property
    def status(self) -> LabStatus:
        """The status: resting when the pixels, their further samples and the area are complete.

        The lab is cold while this process has not yet run this arithmetic, or displayed it with these settings.
        """
        refined = self.samples > 1 or self.area
        resting = self.finished and not (refined and self.picture.wants(self.samples, self.area))
        cold = self.painting.cold or self._shown_as not in _SHOWN
        return LabStatus(resting, self.progress, cold=cold)

    @property
    def _shown_as(self) -> tuple[str, str, str, bool]:
        return self.computing.name, self.painting.task.arithmetic.name, self.colouring, self.julia

    @property
    def progress(self) -> float:
        """Approximate completed part of the work, from 0 to 1: the reference orbit, then the pixels."""
        builder, pixels = self.painting.builder, self.painting.schedule.progress
        return ORBIT_SHARE * builder.progress + (1 - ORBIT_SHARE) * pixels if builder else pixels

    @property
    def reference_length(self) -> int:
        """Computed iterations of the reference orbit; 0 without perturbation."""
        return self.painting.builder.length if self.painting.builder else 0

    @property
    def exhausted(self) -> bool:
        """Whether a forced precision is too coarse for this view: neighbouring pixels coincide."""
        return not enough(self.painting.task.arithmetic.name, self.place)

    @property
    def point(self) -> PointerPoint | None:
        """The exact point under the pointer; None without a pointer."""
        return under(self.place, (self.pointer[0], self.pointer[1])) if self.pointer is not None else None

    def advance(self, steps: int = 1) -> Timing:
        """Compute `steps` >= 1 slices, of a few milliseconds each; return immediately if the lab rests."""
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        budget = steps * SLICE[self.computing.device] // self.painting.task.arithmetic.cost
        if self.finished:
            return self.picture.refine(steps, budget)
        timing = self.painting.advance(budget, steps)
        self.spent = timing if self.spent is None else self.spent.then(timing)
        return timing

    def counts(self) -> NDArray[np.int32]:
        """Finish the picture and return its (ny, nx) counts: the first n with |z_n| > 2, or max_iterations."""
        self._finish()
        return self.device.download(self.painting.state.count)

    def smooth(self) -> NDArray[np.float64]:
        """Return (ny, nx) continuous counts, n + 1 - log2(ln|z_n| / ln 2); max_iterations where z did not escape.

        The device computes the counts of escaped pixels in float32: above 2^24 they are rounded to 2; `counts` are
        exact.
        """
        self._finish()
        values = self.device.download(self.painting.state.smooth)
        return np.where(np.isnan(values), float(self.max_iterations), values.astype(np.float64))

    def data(self) -> dict[str, NDArray[Any]]:
        """Return counts and smooth."""
        return {"counts": self.counts(), "smooth": self.smooth()}

    def _finish(self) -> None:
        while not self.finished:
            self.painting.advance(WHOLE[self.computing.device] // self.painting.task.arithmetic.cost)

    def frame(self, view: View | None = None, pixels: tuple[int, int] = (512, 512)) -> Frame:
        """Return the present picture as the raster "escape": level 255 for the set, 254 for waiting pixels.

        Waiting pixels are not computed yet (Raster.waiting). view: (x0, y0, x1, y1) in pixels, None for all; pixels:
        largest (height, width) of the raster. Until the first coarse pass of a new view is complete, the raster is that
        of the last view, and the notes describe its view. picture.py documents the facts, notes and curves.
        """
        with self.device.lock:
            frame = self.picture.show(view, pixels)
        _SHOWN.add(self._shown_as)
        return frame

    def sampled(self, stride: int) -> Array:
        """Return the smooth counts of every stride-th pixel on the device; NaN for unfinished pixels and in the set."""
        return self.picture.sampled(stride)


@lru_cache(maxsize=16)
def enough_types(dtypes: tuple[str, ...], center: tuple[str, str], zoom: str, ny: int, nx: int, precision: str) -> bool:
    """Return whether a backend with these number types can compute a view."""
    return "float64" in dtypes or choose(precision, Place.of(center, zoom, ny, nx), dtypes).dtype in dtypes
