"""The frame of an equations lab: two rasters, a curve, and facts.

rasters: field (the field of `first_picture`), show (the second picture), both without a number in the cells of a wall,
unless a value is not finite. curves: profile (of `plotted`, along the row or column through the probe, over cells).

The cells of a wall belong to no minimum, maximum, integral or number of values; probe and profile have nan there.

facts: step, t, dt, limit (the bound of dt at some state, nan if unknown, inf without one), minimum, maximum (nan
without a finite value), integral (in units of the text) of the first picture, nonfinite (values of all fields),
probe_x, probe_y (the cell of the probe); for each field and for the second picture, named show: probe_<name> (its value
at the probe) and integral_<name> (the sum over the cells times dx², nan if a value is not finite). With a second run:
its raster second_run, its curve second_profile, second_step and second_t.

notes: run (id of the unbroken run of steps), section ("row 12" or "column 34"), advice (on a scheme that does not fit
the equations, "" if it does), undo and redo (the fields that each restores, "" if none), gone (why older ones cannot be
restored, "" if they can) and undone (id of the last undo or redo, "" before the first); image (fingerprint of the file
that the text uses, "" without one) and kept (the retained part of it, six numbers of files.images.Kept); interim (the
reason for NumPy in place of the chosen backend during its compilation), slower (that for a slower kernel of the chosen
backend) or warning (after a failed compilation), all absent normally.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from compute.display.camera import RasterRequest
from compute.lab.frames import Curve, Frame, Raster, View, freeze
from compute.lab.image_history import image_notes
from compute.lab.panels import Line, Panel
from compute.lab.sections import probe_cell, section_cells, section_curve
from compute.lab.two_runs import SECOND as SECOND_RUN
from compute.lab.two_runs import SECOND_PROFILE
from compute.labs.equations.programs import SLOTS

if TYPE_CHECKING:
    from compute.devices.devices import Array
    from compute.labs.equations.lab import Equations
    from compute.labs.equations.tree import System

WITH_TEXT = (  # undo restores them
    *("text", *SLOTS, "time_step", "first_picture", "show", "plotted", "limits_field", "limits_show"),
)
PANELS: Mapping[str, Panel] = {
    "field": Panel("", "x [cells]", "y [cells]", image="field"),
    "show": Panel("", "x [cells]", "y [cells]", image="show"),
    SECOND_RUN: Panel("", "x [cells]", "y [cells]", image=SECOND_RUN),
    "profile": Panel("", lines=(Line("profile"), Line(SECOND_PROFILE, "second run", "dashed"))),
}
SECOND = "show"  # name of the second picture; no field has it
MOST_LABEL = 60  # characters of an expression below a picture


def panels_of(frame: Frame) -> Mapping[str, Panel]:
    """Return the panels of the frame's rasters and of its profile, with its step and time."""
    facts = frame.facts
    note = f"step {facts['step']:,.0f}, t = {facts['t']:g}" if facts.keys() >= {"step", "t"} else ""
    notes = {SECOND_RUN: f"step {facts['second_step']:,.0f}, t = {facts['second_t']:g}"} if "second_t" in facts else {}
    titles = {name: raster.label for name, raster in frame.rasters.items()}
    shown = {
        name: replace(PANELS[name], title=title, note=notes.get(name, note))
        for name, title in titles.items() if name in PANELS
    }  # fmt: skip
    if (profile := frame.curves.get("profile")) is not None:
        title, across = f"{profile.label} along {frame.notes['section']}", across_section(frame)
        shown["profile"] = replace(PANELS["profile"], title=title, x=across, y=profile.label, note=note)
    return shown


def across_section(frame: Frame) -> str:
    """Return the title of the profile's abscissa, with its unit."""
    return "x [cells]" if frame.notes["section"].startswith("row") else "y [cells]"


def require_shown(values: Mapping[str, Any], system: System) -> None:
    """Raise ValueError unless first_picture is a field, and plotted a field or the second picture; both may be ""."""
    for name, known in {"first_picture": system.fields, "plotted": [*system.fields, SECOND]}.items():
        if values[name] not in ("", *known):
            raise ValueError(f"{name} must be empty or one of {', '.join(known)}, not {values[name]!r}")


def first_raster(lab: Equations, request: RasterRequest, wall: Array | None) -> Raster:
    """Return the picture of the field `request.label`, without the cells of a wall."""
    camera, array = lab.camera, lab.arrays[request.label]
    with camera.batch():
        queued = (
            camera.queue_raster(array, request) if wall is None else camera.queue_raster_outside(array, wall, request)
        )
    return queued()


def show(lab: Equations, view: View | None, pixels: tuple[int, int]) -> Frame:
    """Build the frame without a step."""
    camera, now, system = lab.camera, lab.values(), lab.program.system
    limit, dt = lab.limit_seen(), lab.dt
    first = now["first_picture"] or system.fields[0]
    label, second = lab.second_picture()
    arrays = {name: lab.arrays[name] for name in system.fields} | {SECOND: second}
    plotted, (row, column) = now["plotted"] or first, probe_cell(now)
    along_row = now["section"] == "horizontal"
    section, wall = section_cells(now, row if along_row else column), lab.arrays.get("wall")
    with camera.batch():
        surveys = {name: camera.queue_survey(array, wall) for name, array in arrays.items()}
        probes = {name: camera.queue_window(array, row, column, 1, 1) for name, array in arrays.items()}
        line = camera.queue_window(arrays[plotted], *section)
        if wall is not None:
            closed = camera.queue_survey(wall, wall)
            wall_probe, wall_line = camera.queue_window(wall, row, column, 1, 1), camera.queue_window(wall, *section)
    seen = {name: wait() for name, wait in surveys.items()}
    at_probe, along = {name: wait() for name, wait in probes.items()}, line()
    if wall is not None:
        cells = closed().nonfinite
        seen = {name: replace(each, nonfinite=each.nonfinite - cells) for name, each in seen.items()}
        at_probe = {name: np.where(wall_probe() < 1, value, nan) for name, value in at_probe.items()}
        along = np.where(wall_line() < 1, along, nan)
    fields = [seen[name] for name in system.fields]
    nonfinite = sum(each.nonfinite for each in fields)
    finite = [each for each in fields if each.minimum <= each.maximum]
    lab.examine(max((max(abs(each.minimum), abs(each.maximum)) for each in finite), default=0.0), nonfinite)
    profile = section_curve(along.ravel(), label if plotted == SECOND else plotted)
    limits = now["limits_field"] or seen[first].limits()
    limits_second = now["limits_show"] or seen[SECOND].limits()
    with camera.batch():
        pictures = {
            "field": (arrays[first], RasterRequest(view, pixels, limits, first)),
            "show": (second, RasterRequest(view, pixels, limits_second, label[:MOST_LABEL])),
        }
        queued = {
            name: camera.queue_raster(array, request)
            if wall is None or nonfinite
            else camera.queue_raster_outside(array, wall, request)
            for name, (array, request) in pictures.items()
        }
    rasters = {name: wait() for name, wait in queued.items()}
    area, some = system.dx**2, seen[first].minimum <= seen[first].maximum  # of a cell; a finite value
    facts = {
        "t": lab.t,
        "dt": dt,
        "limit": limit,
        "minimum": seen[first].minimum if some else nan,
        "maximum": seen[first].maximum if some else nan,
        "integral": seen[first].total * area,
        "nonfinite": float(nonfinite),
        "probe_x": column,
        "probe_y": row,
    }
    facts |= {f"probe_{name}": float(value[0, 0]) for name, value in at_probe.items()}
    facts |= {f"integral_{name}": nan if one.nonfinite else one.total * area for name, one in seen.items()}
    earlier = lab.earlier
    notes = {
        "run": lab.run,
        "section": f"row {row}" if along_row else f"column {column}",
        "advice": lab.bound.advice if lab.bound is not None else "",
        "undo": earlier.undo_words,
        "redo": earlier.redo_words,
        "gone": earlier.gone,
        "undone": earlier.name,
        **image_notes(lab.image, lab.ny, lab.nx),
    }
    if lab.interim is not None:
        name = "slower" if lab.interim.variant else "interim"
        notes["warning" if lab.interim.lasts else name] = lab.interim.words
    parts: dict[str, Raster | Curve] = {**rasters, "profile": profile}
    return replace(lab.framed(parts, facts), notes=freeze(notes))
