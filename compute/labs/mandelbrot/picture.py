"""The display of a Mandelbrot lab: coarse pictures first, then refinement after every pixel has its count.

facts: iterations (on all pixels), timed_iterations and compute_seconds (of launches that loaded no kernel, and the
device's time for them), cold (1 if other launches occurred), progress (0 to 1), finished, stride (of the samples
shown), limit (iteration limit of the current pass), reference (length of the orbit), spacing_log2, finest_log2 (of the
arithmetic), minimum and maximum (smooth counts at the ends of the colours), automatic (1 if minimum and maximum were
computed from the picture, 0 if they were set), samples (per pixel), inside (share of the shown pixels that are in the
set), waiting (share that is not computed yet), reused (share of pixels taken from the last view), raster_ny and
raster_nx (pixels of the view shown), pointer_re, pointer_im, pointer_count (its smooth count, nan in the set),
area_wanted (1 while the area is requested), area, area_error, area_passes.
notes: center_re, center_im, zoom (of the view shown), precision, computed_by (label of the
backend that computes in place of the chosen one, or empty), warning (a sentence, or empty). curves: histogram,
cumulative, orbit. rasters: escape, julia.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import floor, log10
from typing import TYPE_CHECKING

import numpy as np

from compute.devices.backends import best_of_host
from compute.devices.devices import Array
from compute.display.camera import Camera
from compute.lab.frames import NOT_FINITE, WAITING, Curve, Frame, Raster, View, freeze
from compute.lab.panels import Panel, plain
from compute.labs.mandelbrot import overlays
from compute.labs.mandelbrot.colouring import ColourMapper, ColourSettings
from compute.labs.mandelbrot.overlays import MOST, AreaEstimate
from compute.labs.mandelbrot.painting import Painting
from compute.labs.mandelbrot.place import PRECISIONS, number
from compute.labs.mandelbrot.refinement import InteriorStrength, Supersampler
from compute.measure.timing import Timing

if TYPE_CHECKING:
    from compute.labs.mandelbrot.lab import Mandelbrot


CLOSE = 10**6  # zoom from which axes show the distance from the centre
HALF = Fraction(1, 2)
SHOWN = 24  # maximum characters of a centre in an axis' name

FARTHEST_OUT = 15.0  # |c| up to which every smooth count is positive: 2 - log2(log2 |c|) at n = 1


def panels_of(frame: Frame) -> Mapping[str, Panel]:
    """Return the panels of a frame: the set over its axes first, then the other parts."""
    found = dict(plain(frame))
    if "escape" in found:
        found["escape"] = replace(found["escape"], title="Mandelbrot set")
        if "zoom" in frame.notes:
            x0, y0, x1, y1 = frame.rasters["escape"].extent
            found["escape"] = _over_plane(found["escape"], frame.notes, Fraction(x1 - x0) / Fraction(y1 - y0))
    return found


def _over_plane(panel: Panel, notes: Mapping[str, str], aspect: Fraction) -> Panel:
    """Return `panel` with axes for a view that is 4 / zoom high and `aspect` times as wide."""
    zoom = number("zoom", notes["zoom"])
    sides = 4 / zoom * aspect, 4 / zoom
    if zoom < CLOSE:
        re, im = (number("center", notes[name]) for name in ("center_re", "center_im"))
        (x0, y0), (x1, y1) = ((float(re + part * sides[0]), float(im + part * sides[1])) for part in (-HALF, HALF))
        return replace(panel, x="Re c", y="Im c", extent=(x0, y0, x1, y1))
    power = floor(log10(sides[1].numerator) - log10(sides[1].denominator))
    across, up = (float(side / Fraction(10) ** power) / 2 for side in sides)
    x, y = f"Re c − ({_short(notes['center_re'])})", f"Im c − ({_short(notes['center_im'])})"
    return replace(panel, x=f"{x}  [1e{power}]", y=f"{y}  [1e{power}]", extent=(-across, -up, across, up))


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


@dataclass(frozen=True)
class ShownPicture:
    """The latest picture: raster and curves, and the notes and facts that describe its view."""

    raster: Raster
    curves: dict[str, Curve]
    notes: dict[str, str]
    facts: dict[str, float]


class ProgressivePicture:
    """The display of one lab. shown: the last picture, possibly of a lab on another device."""

    def __init__(self, lab: Mandelbrot, shown: ShownPicture | None) -> None:
        self._lab, self.shown = lab, shown
        device, colour = lab.device, lab.display
        self.camera = Camera(device, lab.display)
        self._colourist = ColourMapper(device, self.camera, colour)
        self.supersampled = Supersampler(device, self._painting(), colour, lab.display)
        self._inner = InteriorStrength(device, lab.computing)
        direct = PRECISIONS[lab.computing.dtypes[-1]]
        self._julia = overlays.JuliaInset(device, self._painting(), direct, Camera(device, lab.display), colour)
        self._area = AreaEstimate(self._painting(), direct, self.camera)
        self._area_of = 0
        self._samples: dict[int, Array] = {}

    def _painting(self) -> Painting:
        lab = self._lab
        return Painting(lab.device, lab.kernels, lab.display, lab.computing.name)

    def restart(self) -> None:
        """Prepare for another view of the lab."""
        self.supersampled.restart()
        self._inner.restart()
        if self._lab.max_iterations != self._area_of:
            self._area.restart()
            self._area_of = self._lab.max_iterations

    # -- after the last pixel

    def wants(self, samples: int, area: bool) -> bool:
        """Return whether a finished picture can be refined further."""
        return self._sampling(samples) or (area and self._area.passes < MOST)

    def _sampling(self, samples: int) -> bool:
        """Return whether more samples are possible: only of positive counts, so not far outside the set."""
        return self.supersampled.samples < samples and self._lab.place.farthest < FARTHEST_OUT

    def refine(self, steps: int, budget: int) -> Timing:
        """Run about `budget` iterations on further samples, then on the area; the timing excludes their time."""
        lab = self._lab
        timing = Timing(lab.computing.name, lab.painting.name, steps, lab.ny * lab.nx, 0.0, 0.0)
        if self._sampling(lab.samples):
            self.supersampled.advance(lab.painting, budget)
        elif lab.area and self._area.passes < MOST:
            self._area.advance(lab.max_iterations, budget)
        return timing

    # -- frames

    def sampled(self, stride: int) -> Array:
        """Return the smooth counts of every stride-th pixel on the device; NaN for unfinished pixels and in the set."""
        lab = self._lab
        smooth = lab.painting.state.smooth
        if stride == 1:
            return smooth
        shape = -(-lab.ny // stride), -(-lab.nx // stride)
        if stride not in self._samples or tuple(self._samples[stride].shape) != shape:
            self._samples[stride] = lab.device.allocate(shape, np.float32)
        lab.kernels.pick(smooth, self._samples[stride], stride)
        return self._samples[stride]

    def show(self, view: View | None, pixels: tuple[int, int]) -> Frame:
        """Build the frame without iterating any pixel of the picture."""
        lab = self._lab
        self.camera.start()
        if lab.painting.schedule.stride or self.shown is None:
            self.shown = self._picture(view, pixels)
        shown = self.shown
        parts: dict[str, Raster | Curve] = {"escape": shown.raster, **shown.curves}
        facts = self._facts() | shown.facts
        if lab.point is not None:
            facts |= self._point(lab.point, parts)
        spent = lab.spent or Timing(lab.computing.name, lab.painting.name, 0, lab.ny * lab.nx)
        timing = replace(spent, levels=self.camera.levels_seconds, transfer=self.camera.transfer_seconds)
        lab.spent = None
        lab.number += 1
        return Frame(parts, freeze(facts), timing, lab.number, freeze(shown.notes | self._words()))

    def _picture(self, view: View | None, pixels: tuple[int, int]) -> ShownPicture:
        lab = self._lab
        stride = lab.painting.schedule.stride or lab.painting.schedule.part(1).stride
        counts = self.supersampled.smooth if self.supersampled.samples > 1 else self.sampled(stride)
        look = ColourSettings(lab.colouring, lab.scale, lab.limits)
        inner = self._inner.values(lab.painting) if lab.colouring == "interior" and lab.finished else None
        mark = None if lab.finished else partial(self._mark, stride)
        done = self._colourist.picture(counts, look, coarse(view, stride), pixels, inner, mark)
        levels = done.raster.levels
        inside = done.inside if lab.finished else float((levels == NOT_FINITE).mean())
        waiting = 0.0 if lab.finished else float((levels == WAITING).mean())
        notes = {"center_re": lab.center[0], "center_im": lab.center[1], "zoom": lab.zoom}
        facts = {"stride": float(stride), "raster_ny": float(lab.ny), "raster_nx": float(lab.nx)}
        facts |= {"inside": inside, "waiting": waiting, "minimum": done.limits[0], "maximum": done.limits[1]}
        facts["automatic"] = float(look.limits is None)
        return ShownPicture(fine(done.raster, stride), done.curves, notes, facts)

    def _mark(self, stride: int, levels: Array, *blocks: int) -> None:
        """Mark the pixels that are not computed yet; they and the pixels of the set have no smooth count."""
        self._lab.display.mark(self._lab.painting.state.count, levels, *blocks, stride)

    def _facts(self) -> dict[str, float]:
        lab = self._lab
        painting = lab.painting
        return {
            "iterations": float(painting.iterations),
            "compute_seconds": painting.seconds - painting.cold_seconds,
            "timed_iterations": float(painting.iterations - painting.cold_iterations),
            "cold": float(painting.cold_seconds > 0),
            "progress": lab.progress,
            "finished": float(lab.finished),
            "limit": float(painting.schedule.limit),
            "reference": float(lab.reference_length),
            "spacing_log2": lab.place.spacing.log2,
            "finest_log2": painting.task.arithmetic.finest,
            "samples": float(self.supersampled.samples),
            "reused": painting.reused,
            "pointer_re": math.nan,
            "pointer_im": math.nan,
            "pointer_count": math.nan,
            "area_wanted": float(lab.area),
            "area": self._area.mean,
            "area_error": self._area.error,
            "area_passes": float(self._area.passes),
        }

    def _point(self, point: overlays.PointerPoint, parts: dict[str, Raster | Curve]) -> dict[str, float]:
        """Return facts about the point under the pointer, and add its orbit and Julia set to `parts`."""
        lab = self._lab
        if lab.orbit_length:
            parts["orbit"] = overlays.orbit(point, lab.place.bits, lab.orbit_length)
        if lab.julia:
            parts["julia"] = self._julia.raster(point)
        across, up = lab.pointer or (0.0, 0.0)
        row, column = min(int(up * lab.ny), lab.ny - 1), min(int(across * lab.nx), lab.nx - 1)
        count = self.camera.window(lab.painting.state.smooth, row, column, 1, 1)[0, 0]
        return {"pointer_re": float(point[0]), "pointer_im": float(point[1]), "pointer_count": float(count)}

    def _words(self) -> dict[str, str]:
        arithmetic = self._lab.painting.task.arithmetic.name
        return {"precision": arithmetic, "computed_by": self._computed_by(), "warning": self._warning()}

    def _computed_by(self) -> str:
        """Return the label of a backend that computes in place of the chosen one; "" if none does."""
        lab = self._lab
        if lab.computing.name != lab.backend:
            return lab.computing.label
        interior = lab.colouring == "interior" and "float64" not in lab.computing.dtypes
        return f"{best_of_host().label} (interior)" if interior else ""

    def _warning(self) -> str:
        """Return a warning about this picture for the lecturer; empty if there is none."""
        lab, name = self._lab, self._lab.painting.task.arithmetic.name
        if lab.exhausted:
            finest = lab.painting.task.arithmetic.finest
            return (
                f"{name} is exhausted: at a pixel spacing of 2^{lab.place.spacing.log2:.0f} neighbouring pixels fall "
                f"together (its limit is 2^{finest:.0f}). Choose precision auto."
            )
        if lab.colouring == "interior" and self._inner.too_deep(lab.painting):
            return "The interior is coloured in float64, which this view is too deep for: it is left plain."
        return ""


def coarse(view: View | None, stride: int) -> View | None:
    """Convert a view in pixels to a view in samples: sample k represents the pixels around k stride."""
    if view is None or stride == 1:
        return view
    x0, y0, x1, y1 = ((edge - 0.5) / stride + 0.5 for edge in view)
    return x0, y0, x1, y1


def fine(raster: Raster, stride: int) -> Raster:
    """Return a raster of samples with its extent in pixels."""
    x0, y0, x1, y1 = ((edge - 0.5) * stride + 0.5 for edge in raster.extent)
    return replace(raster, extent=(x0, y0, x1, y1))
