"""The Mandelbrot lab: escape counts of z^2 + c at any depth, live, coarse to fine.

Its parameters and its results. painting.py computes one picture with the kernels of a backend, picture.py shows it,
place.py says where a view lies, reference_orbit.py makes what deep views are differences from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import param
from numpy.typing import NDArray

from compute.devices import Array
from compute.fields import is_finite
from compute.frames import Frame, View
from compute.lab import Lab
from compute.labs.mandelbrot.colouring import COLOURINGS, SCALES
from compute.labs.mandelbrot.overlays import PointerPoint, under
from compute.labs.mandelbrot.painting import Painting, Task
from compute.labs.mandelbrot.picture import ProgressivePicture, panels_of
from compute.labs.mandelbrot.place import CHOICES, Place, center_between, choose, enough, zoom_between
from compute.labs.mandelbrot.reference_orbit import ReferenceBuilder
from compute.labs.mandelbrot.schedule import overlap
from compute.labs.mandelbrot.state import PixelArrays
from compute.measure.timing import Timing
from compute.panels import Panel

SLICE = {"cpu": 2**21, "gpu": 2**33}  # iterations of one step: a few milliseconds
PIXEL_BYTES = 2 * 8 + 2 * 4 + 4 + 4  # z, place, count, smooth
SAMPLE_BYTES = PIXEL_BYTES + 3 * 4  # another picture, sums, hits and means
ORBIT_BYTES = 300  # of the reference and its table, for each iteration of it, while they are made
PICTURE_BYTES = 32 * 2**20  # samples, display buffers, scratch and the small pictures, rounded up
ORBIT_SHARE = 0.3  # of the progress shown in deep views
EPSILON = {"exact": -53.0, "fast preview": -24.0}  # log2 of what a jump of perturbation may leave out of a result
_SHOWN: set[tuple[str, str, str, bool]] = set()  # backend, arithmetic, colouring, julia that this process has shown
ALL = 2**62  # a budget that no picture exceeds in one launch


class Mandelbrot(Lab):
    """For each pixel c the first n with |z_n| > 2, where z_0 = 0 and z_{n+1} = z_n^2 + c; max_iterations if none.

    The view is 4 / zoom high around `center` (real part, imaginary part; decimal strings, as zoom, of any length);
    pixels are square, row 0 has the lowest imaginary part, c is a pixel's centre. README.md beside this file has the
    algorithm and its sources.
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
    VIEW: ClassVar[tuple[str, ...]] = (
        *("center", "zoom", "max_iterations", "precision", "fidelity", "shortcuts", "variant"),
    )

    variant = param.String(default="", label="Kernel", doc="Name in the backend's VARIANTS; empty for its default.")
    center = param.Tuple(default=("-0.75", "0.0"), length=2, label="Centre", doc="Decimal strings: real, imaginary.")
    zoom = param.String(default="1e0", label="Zoom", doc="Decimal string; the view is 4 / zoom high.")
    ny = param.Integer(default=600, bounds=(1, 16384), label="Rows [pixels]")
    nx = param.Integer(default=600, bounds=(1, 16384), label="Columns [pixels]")
    max_iterations = param.Integer(default=1000, bounds=(1, 10**8), label="Iterations at most")
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
        """The arrays of a picture in the widest arithmetic, what a frame needs, and the reference of a deep view."""
        given = {name: values.get(name, cls.param[name].default) for name in cls.param if name != "name"}
        place = Place.of(given["center"], given["zoom"], given["ny"], given["nx"])
        orbit = ORBIT_BYTES * int(given["max_iterations"]) if choose(given["precision"], place).deep else 0
        pixel = PIXEL_BYTES * (2 if given["reuse"] else 1) + SAMPLE_BYTES * (given["samples"] > 1)
        return int(given["ny"]) * int(given["nx"]) * pixel + PICTURE_BYTES + orbit

    def validate(self, values: dict[str, Any]) -> None:
        """Centre and zoom must be decimal numbers within their bounds, limits in order, pointer and variant known."""
        Place.of(values["center"], values["zoom"], values["ny"], values["nx"])
        limits, pointer, variant = values["limits"], values["pointer"], values["variant"]
        if limits is not None and not (all(map(is_finite, limits)) and limits[0] < limits[1]):
            raise ValueError(f"limits must be two finite numbers, the lower one first, not {limits}")
        if pointer is not None and not all(is_finite(part) and 0 <= part <= 1 for part in pointer):
            raise ValueError(f"pointer must be two numbers from 0 to 1, not {pointer}")
        if variant and variant not in self.kernels.VARIANTS:
            known = ", ".join(self.kernels.VARIANTS)
            raise ValueError(f"variant must be empty or one of {known} for {values['backend']}, not {variant!r}")

    @classmethod
    def sizes(cls, values: Mapping[str, Any]) -> dict[str, int]:
        """The grid, and how long a pixel may take: what a server may bound."""
        return super().sizes(values) | {"iterations": values["max_iterations"]}

    @classmethod
    def pictured(cls, values: dict[str, Any], size: tuple[int, int]) -> dict[str, Any]:
        """A pixel of the picture is one of the lab."""
        return values | {"ny": size[0], "nx": size[1]}

    @classmethod
    def between(cls, first: dict[str, Any], last: dict[str, Any], part: float) -> dict[str, Any]:
        """As for any lab, but for zoom, by equal factors, and the centre, which follows it: place.py."""
        mixed = super().between(first, last, part)
        low, high = (values.get("zoom", cls.param["zoom"].default) for values in (first, last))
        mixed |= {"zoom": zoom_between(low, high, part)} if "zoom" in first else {}
        if "center" in first:
            ends = first["center"], last["center"]
            mixed["center"] = center_between(*ends, (low, high), mixed.get("zoom", low), part)
        return mixed

    @classmethod
    def panels(cls, frame: Frame) -> Mapping[str, Panel]:
        """The set over the complex plane, and what else the frame shows."""
        return panels_of(frame)

    # -- state

    def _allocate(self, old: dict[str, Any]) -> None:  # noqa: ARG002 another size or backend begins anew
        self._shown = self._drawn.shown if self._drawn else None
        if hasattr(self, "painting"):
            self._release()
        self.painting = Painting(self.device, self.kernels, self.display, self.backend)
        self.reset()

    def _release(self) -> None:
        del self.painting
        self._drawn = None

    @property
    def picture(self) -> ProgressivePicture:
        """The display; made when it is first needed, since counts need none."""
        if self._drawn is None:
            self._drawn = ProgressivePicture(self, self._shown)
        return self._drawn

    def _restart(self, *events: param.parameterized.Event) -> None:
        """Another view: what was computed belongs to the old one, but for what `reuse` may keep."""
        if self._ready:
            self._begin(kept=self.reuse and {event.name for event in events} <= {"center", "zoom"})

    def reset(self) -> None:
        """Begin the picture of the present view anew."""
        self._begin(kept=False)

    def _begin(self, kept: bool) -> None:
        place = Place.of(self.center, self.zoom, self.ny, self.nx)
        arithmetic = choose(self.precision, place)
        if arithmetic.deep:
            self._require_memory(ORBIT_BYTES * self.max_iterations)
        shared = overlap(self.place, place) if kept and arithmetic == self.painting.task.arithmetic else None
        self.place = shared.place if shared else place
        task = Task(self.place, arithmetic, self.max_iterations, self.shortcuts, self.variant)
        self.painting.begin(task, self._builder_for(task) if arithmetic.deep else None, shared)
        if self._drawn:
            self._drawn.restart()
        self.spent: Timing | None = None

    def _builder_for(self, task: Task) -> ReferenceBuilder:
        """The reference for the present view; an orbit that is there already is kept if it serves."""
        epsilon, far = EPSILON[self.fidelity], task.arithmetic.name == "extended"
        return ReferenceBuilder(
            self.device, self.kernels.bla, task.place, task.max_iterations, epsilon, far, self.painting.builder
        )

    def snapshot(self) -> dict[str, Any]:
        """Counts and smooth counts (0 in the set) if the picture is finished; the view itself is in the parameters."""
        kept: dict[str, Any] = {"iterations": self.painting.iterations}
        if self.finished:
            kept["counts"] = self.device.download(self.state.count)
            kept["smooth"] = np.nan_to_num(self.device.download(self.state.smooth), copy=False, nan=0.0)
        return kept

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Take over a finished picture of the same view and size; anything else begins anew."""
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
        """Done since the view was set, on all pixels."""
        return self.painting.iterations

    @property
    def finished(self) -> bool:
        """Whether every pixel has its count."""
        return self.painting.finished

    @property
    def resting(self) -> bool:
        """Whether nothing is left to do: neither pixels, nor their further samples, nor the area."""
        return self.finished and not ((self.samples > 1 or self.area) and self.picture.wants(self.samples, self.area))

    @property
    def cold(self) -> bool:
        """Whether this arithmetic, or this way of showing it, is new to this process."""
        return self.painting.cold or self._shown_as not in _SHOWN

    @property
    def _shown_as(self) -> tuple[str, str, str, bool]:
        return self.backend, self.painting.task.arithmetic.name, self.colouring, self.julia

    @property
    def progress(self) -> float:
        """Part of the work that is done, roughly, from 0 to 1: the reference orbit, then the pixels."""
        builder, pixels = self.painting.builder, self.painting.schedule.progress
        return ORBIT_SHARE * builder.progress + (1 - ORBIT_SHARE) * pixels if builder else pixels

    @property
    def headway(self) -> float:
        """How far the picture is, from 0 to 1."""
        return self.progress

    @property
    def reference_length(self) -> int:
        """Iterations of the reference orbit that are known; 0 without perturbation."""
        return self.painting.builder.length if self.painting.builder else 0

    @property
    def exhausted(self) -> bool:
        """Whether a forced precision is too coarse for this view: neighbouring pixels fall together."""
        return not enough(self.painting.task.arithmetic.name, self.place)

    @property
    def point(self) -> PointerPoint | None:
        """The point under the pointer, exact; None without one."""
        return under(self.place, (self.pointer[0], self.pointer[1])) if self.pointer is not None else None

    def advance(self, steps: int = 1) -> Timing:
        """Do the work of `steps` >= 1 slices, of a few milliseconds each; nothing once the lab rests."""
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        budget = steps * SLICE[self.device.kind]
        if self.finished:
            return self.picture.refine(steps, budget)
        timing = self.painting.advance(budget, steps)
        self.spent = timing if self.spent is None else self.spent.then(timing)
        return timing

    def counts(self) -> NDArray[np.int32]:
        """(ny, nx) first n with |z_n| > 2, max_iterations where there is none; finishes the picture first."""
        self._finish()
        return self.device.download(self.painting.state.count)

    def smooth(self) -> NDArray[np.float64]:
        """(ny, nx) counts without steps, n + 1 - log2(ln|z_n| / ln 2); max_iterations where z did not escape.

        Those of escaped pixels come from the device in float32: above 2^24 they are rounded to 2, `counts` are exact.
        """
        self._finish()
        values = self.device.download(self.painting.state.smooth)
        return np.where(np.isnan(values), float(self.max_iterations), values.astype(np.float64))

    def data(self) -> dict[str, NDArray[Any]]:
        """counts and smooth."""
        return {"counts": self.counts(), "smooth": self.smooth()}

    def _finish(self) -> None:
        while not self.finished:
            self.painting.advance(ALL if self.device.kind == "cpu" else 64 * SLICE["gpu"])

    def frame(self, view: View | None = None, pixels: tuple[int, int] = (512, 512)) -> Frame:
        """The picture as far as it is done, as the raster "escape": level 255 for the set, 254 for pixels that
        are not computed yet (Raster.waiting).

        view: (x0, y0, x1, y1) in pixels, None for all; pixels: largest (height, width) of the raster. Until the first
        coarse pass of a new view is complete, it is the raster of the last view, and the notes say of which. What the
        facts, notes and curves are, picture.py says.
        """
        with self.device.lock:
            frame = self.picture.show(view, pixels)
        _SHOWN.add(self._shown_as)
        return frame

    def sampled(self, stride: int) -> Array:
        """The smooth counts of every stride-th pixel, on the device; NaN where not known or in the set."""
        return self.picture.sampled(stride)
