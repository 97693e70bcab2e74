"""The frame of an equations lab: two rasters, and facts.

rasters: field (the field of `first_picture`), show (the second picture), both without a number in the cells of a wall,
unless a value is not finite. facts: step, t, dt, limit (the bound of dt at
some state, nan if unknown, inf without one), minimum, maximum, integral (over the grid, in units of the text) of the
first picture, nonfinite (values of all fields).

notes: undo and redo (the fields that each restores, "" if none), gone (why older ones cannot be restored, "" if they
can), undone (id of the last undo or redo, "" before the first) and initial (the values of WITH_TEXT after it, as JSON);
image (fingerprint of the file that the text uses, "" without one) and
kept (the retained part of it, six numbers of files.images.Kept).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from compute.display.camera import RasterRequest
from compute.lab.frames import NOT_FINITE, TOP_LEVEL, Frame, View, freeze
from compute.lab.image_history import image_notes
from compute.lab.panels import Panel
from compute.labs.equations.programs import SLOTS

if TYPE_CHECKING:
    from compute.labs.equations.lab import Equations

WITH_TEXT = ("text", *SLOTS, "time_step", "first_picture", "show", "limits_field", "limits_show")  # undo restores them
PANELS: Mapping[str, Panel] = {
    "field": Panel("", "x [cells]", "y [cells]", image="field"),
    "show": Panel("", "x [cells]", "y [cells]", image="show"),
}
MOST_LABEL = 60  # characters of an expression below a picture


def panels_of(frame: Frame) -> Mapping[str, Panel]:
    """Return the panels of the frame's rasters, with its step and time."""
    facts = frame.facts
    note = f"step {facts['step']:,.0f}, t = {facts['t']:g}" if facts.keys() >= {"step", "t"} else ""
    shown = {name: raster for name, raster in frame.rasters.items() if name in PANELS}
    return {name: replace(PANELS[name], title=raster.label, note=note) for name, raster in shown.items()}


def show(lab: Equations, view: View | None, pixels: tuple[int, int]) -> Frame:
    """Build the frame without a step."""
    camera, now, system = lab.camera, lab.values(), lab.program.system
    limit, dt = lab.limit_seen(), lab.dt
    first = now["first_picture"] or system.fields[0]
    label, second = lab.second_picture()
    with camera.batch():
        queued = {name: camera.queue_survey(lab.arrays[name]) for name in system.fields}
        queued_second = camera.queue_survey(second)
    seen, seen_second = {name: wait() for name, wait in queued.items()}, queued_second()
    nonfinite = sum(each.nonfinite for each in seen.values())
    finite = [each for each in seen.values() if each.minimum <= each.maximum]
    lab.examine(max((max(abs(each.minimum), abs(each.maximum)) for each in finite), default=0.0), nonfinite)
    limits = now["limits_field"] or seen[first].limits()
    limits_second = now["limits_show"] or seen_second.limits()
    with camera.batch():
        field = camera.queue_raster(lab.arrays[first], RasterRequest(view, pixels, limits, first))
        other = camera.queue_raster(second, RasterRequest(view, pixels, limits_second, label[:MOST_LABEL]))
        walls = [lab.arrays["wall"]] if "wall" in lab.arrays and not nonfinite else []
        masks = [camera.queue_raster(each, RasterRequest(view, pixels, (0.0, 1.0), "wall")) for each in walls]
    rasters = {"field": field(), "show": other()}
    for mask in masks:
        wall = mask().levels > TOP_LEVEL // 2
        for name, each in rasters.items():
            rasters[name] = replace(each, levels=np.where(wall, NOT_FINITE, each.levels))
    facts = {
        "t": lab.t,
        "dt": dt,
        "limit": limit,
        "minimum": seen[first].minimum,
        "maximum": seen[first].maximum,
        "integral": seen[first].total * system.dx**2,
        "nonfinite": float(nonfinite),
    }
    earlier = lab.earlier
    notes = {"undo": earlier.undo_words, "redo": earlier.redo_words, "gone": earlier.gone, "undone": earlier.name}
    notes["initial"] = json.dumps({name: now[name] for name in WITH_TEXT}) if earlier.name else ""
    notes |= image_notes(lab.image, lab.ny, lab.nx)
    return replace(lab.framed(rasters, facts), notes=freeze(notes))
