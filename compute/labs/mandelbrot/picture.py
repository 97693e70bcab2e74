"""What the screen shows of a Mandelbrot lab: the smooth count as far as it is known, coarse first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from compute.frames import Frame, Raster, freeze
from compute.lab import View
from compute.timings import Timing

if TYPE_CHECKING:
    from compute.labs.mandelbrot import Mandelbrot


def show(lab: Mandelbrot, view: View | None, pixels: tuple[int, int]) -> Frame:
    """Build the frame; iterates nothing. Level 255 stands for the set, and for what is not known yet."""
    camera, stride = lab.camera, lab.schedule.stride or lab.schedule.part(1).stride
    camera.start()
    values = lab.sampled(stride)
    survey = camera.survey(values)
    limits = lab.limits or survey.limits()
    raster = camera.raster(values, coarse(view, stride), pixels, limits, "smooth count")
    place, arithmetic = lab.place, lab.arithmetic
    facts = {
        "iterations": float(lab.iterations),
        "progress": lab.progress,
        "finished": float(lab.finished),
        "stride": float(stride),
        "limit": float(lab.schedule.limit),
        "reference": float(lab.reference_length),
        "spacing_log2": place.spacing.log2,
        "finest_log2": arithmetic.finest,
        "minimum": survey.minimum,
        "maximum": survey.maximum,
    }
    spent = lab.spent or Timing(lab.backend, arithmetic.name, 0, lab.ny * lab.nx)
    timing = replace(spent, levels=camera.levels_seconds, transfer=camera.transfer_seconds)
    lab.spent = None
    lab.number += 1
    return Frame({"escape": fine(raster, stride)}, freeze(facts), timing, lab.number)


def coarse(view: View | None, stride: int) -> View | None:
    """A view in pixels as a view in samples: sample k stands for the pixels around k stride."""
    if view is None or stride == 1:
        return view
    x0, y0, x1, y1 = ((edge - 0.5) / stride + 0.5 for edge in view)
    return x0, y0, x1, y1


def fine(raster: Raster, stride: int) -> Raster:
    """A raster of samples with its extent in pixels."""
    x0, y0, x1, y1 = ((edge - 0.5) * stride + 0.5 for edge in raster.extent)
    return replace(raster, extent=(x0, y0, x1, y1))
