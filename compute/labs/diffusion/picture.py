"""The frame of a diffusion lab: rasters, curves, facts and notes.

facts: step, minimum, maximum, heat, heat_drift (relative, since the field was loaded or painted), nonfinite, probe,
probe_x, probe_y (its cell), r, limit; laplacian_minimum and laplacian_maximum, over all cells, unless the limits of its
colours are set; exact_error (relative L2 on the section), mode_growth (the factor of a step), mode_p and mode_q with
the single-mode preset; fastest_growth (magnitude of the finest mode's factor) if r exceeds the limit;
racing_error (relative L2 over at most the central 512 x 512 cells) with the racing kernel. With a second run: its
raster second_run, its curve second_profile, and second_step.

notes: run (id of the unbroken run of steps; frames of different runs show unrelated fields); image (fingerprint of the
file that the field started from, "" for a preset) and kept (the retained part of it, six numbers of
files.images.Kept); undo and redo (the field that each restores, "" if none), gone (why older fields cannot be restored,
"" if they can) and undone (id of the last undo or redo, which may have changed the parameters of INITIAL).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite, nan
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from compute.display.camera import RasterRequest, Survey
from compute.lab.frames import Curve, Frame, Raster, View, freeze
from compute.lab.image_history import image_notes
from compute.lab.panels import Line, Panel
from compute.lab.sections import index_at, probe_cell, section_cells, section_curve
from compute.lab.two_runs import SECOND, SECOND_PROFILE
from compute.labs.diffusion.scheme import LIMIT, fastest_growth
from compute.measure.timing import Timing

if TYPE_CHECKING:
    from compute.files.images import LoadedPicture
    from compute.labs.diffusion.lab import Diffusion


PANELS: Mapping[str, Panel] = {
    "field": Panel("Field u", "x [cells]", "y [cells]", image="field"),
    "laplacian": Panel("Laplacian ∇²u", "x [cells]", "y [cells]", image="laplacian"),
    SECOND: Panel("Second run", "x [cells]", "y [cells]", image=SECOND),
    "profile": Panel(
        "Profile on the section line",
        "cell",
        "u",
        lines=(Line("profile", "u"), Line("exact", "exact", "dashed"), Line(SECOND_PROFILE, "second run", "dotted")),
    ),
}

ERROR_WINDOW = 512  # side of the central square over which the racing kernel's error is computed


class HeldLimits:
    """The limits that the colours of a lab's field keep while `hold_limits` is on. first: None while unknown."""

    def __init__(self, lab: Diffusion) -> None:
        self._lab = lab
        self.first: tuple[float, float] | None = None

    def limits(self) -> tuple[float, float] | None:
        """Return the limits that the colours keep, or None if they follow the field. The device is locked.

        Also called before the field changes, so that the limits are those of the initial field whenever the first frame
        is built. Limits that are held later are stored in the history.
        """
        lab = self._lab
        if not lab.values()["hold_limits"]:
            return None
        if self.first is None:
            self.first = lab.camera.survey(lab.u).limits()
            if lab.steps or lab.history.drawn:
                lab.history.record_action(lab.steps, "refit", {})
        return self.first

    def refit(self) -> None:
        """Keep the limits of the present field until another field starts."""
        lab = self._lab
        with lab.device.lock:
            self.first = lab.camera.survey(lab.u).limits()
        lab.history.record_action(lab.steps, "refit", {})


def panels_of(frame: Frame) -> Mapping[str, Panel]:
    """Return the panels for the rasters and curves of the frame, with its step and r, and the extremes of the cells.

    The title of a second run contains its value, as the label of its raster does.
    """
    names, facts = {*frame.rasters, *frame.curves}, frame.facts
    step = f"step {facts['step']:,.0f}" if facts.keys() >= {"step", "r"} else ""
    note = f"{step}, r = {facts['r']:g}" if step else ""
    shown = (name for name in PANELS if name in names)
    found = {name: replace(PANELS[name], note=note, extremes=_extremes(name, facts)) for name in shown}
    if SECOND in found:
        found[SECOND] = replace(found[SECOND], title=f"Second run: {frame.rasters[SECOND].label}", note=step)
    return found


def _extremes(name: str, facts: Mapping[str, float]) -> tuple[float, float] | None:
    """Return the extremes of the finite cells of a raster; None if the facts do not contain them."""
    named = {"field": ("minimum", "maximum"), "laplacian": ("laplacian_minimum", "laplacian_maximum")}
    low, high = (facts.get(each, nan) for each in named.get(name, ("", "")))
    return (low, high) if isfinite(low) and isfinite(high) else None


def show(lab: Diffusion, image: LoadedPicture | None, view: View | None, pixels: tuple[int, int]) -> Frame:
    """Build the frame without a step and without changing the field. image: the picture that the field started from."""
    camera, now = lab.camera, lab.values()
    section, probe = section_cells(now, _section_index(lab)), probe_cell(now)
    cells = now["ny"] * now["nx"]
    camera.start()
    with camera.batch():
        survey = camera.queue_survey(lab.u)
        line, point = camera.queue_window(lab.u, *section), camera.queue_window(lab.u, *probe, 1, 1)
        survey_laplacian = _queue_laplacian(lab)
    seen = survey()
    lab.heat.seen(seen, cells)
    fixed = now["limits_field"] or lab.held.limits()
    seen_laplacian = survey_laplacian() if survey_laplacian else None
    limits = fixed or seen.limits()
    limits_laplacian = now["limits_laplacian"] or _limits_laplacian(seen_laplacian, fixed)
    with camera.batch():
        field = camera.queue_raster(lab.u, RasterRequest(view, pixels, limits, "u"))
        laplacian = camera.queue_raster(lab.spare, RasterRequest(view, pixels, limits_laplacian, "∇²u"))
    curves, facts = _profile(lab, line().ravel())
    if seen_laplacian is not None:
        facts |= {"laplacian_minimum": seen_laplacian.minimum, "laplacian_maximum": seen_laplacian.maximum}
    parts: dict[str, Raster | Curve] = {"field": field(), "laplacian": laplacian(), **curves}
    if lab.exact_mode:
        facts |= {
            "mode_growth": lab.exact_mode.growth(now["r"]),
            "mode_p": lab.exact_mode.p,
            "mode_q": lab.exact_mode.q,
        }
    if now["r"] > LIMIT:
        facts["fastest_growth"] = fastest_growth(now["ny"], now["nx"], now["edges"], now["r"])
    if lab.truth:
        facts["racing_error"] = _racing_error(lab)
    facts |= {
        "step": lab.steps,
        "minimum": seen.minimum,
        "maximum": seen.maximum,
        "heat": seen.total,
        "heat_drift": lab.heat.drift(seen.total),
        "nonfinite": seen.nonfinite,
        "r": now["r"],
        "limit": LIMIT,
        "probe": float(point()[0, 0]),
        "probe_y": probe[0],
        "probe_x": probe[1],
    }
    spent = lab.spent or Timing(now["backend"], now["variant"], 0, cells)
    timing = replace(spent, levels=camera.levels_seconds, transfer=camera.transfer_seconds)
    lab.spent = None
    lab.number += 1
    return Frame(parts, freeze(facts), timing, lab.number, freeze(_notes(lab, image)))


def _notes(lab: Diffusion, image: LoadedPicture | None) -> dict[str, str]:
    """Return the origin of the field, and the fields that undo and redo restore."""
    now = lab.values()
    return {
        "run": lab.run,
        **image_notes(image, now["ny"], now["nx"]),
        "undo": lab.earlier.undo_words,
        "redo": lab.earlier.redo_words,
        "gone": lab.earlier.gone,
        "undone": lab.earlier.name,
    }


def _queue_laplacian(lab: Diffusion) -> Callable[[], Survey] | None:
    """Compute the Laplacian into the spare grid, which is unused between two advances.

    Return a function that waits for its survey; None if the limits of its colours are set.
    """
    lab.kernels.laplacian(lab.u, lab.spare, lab.values()["edges"])
    return None if lab.values()["limits_laplacian"] is not None else lab.camera.queue_survey(lab.spare)


def _limits_laplacian(seen: Survey | None, fixed: tuple[float, float] | None) -> tuple[float, float]:
    """Return the automatic limits of the Laplacian's colours: symmetric, and bounded by `fixed` limits of the field.

    A field from low to high has |∇²u| <= 4 (high - low), with equality for a chequerboard of both values. Beyond that
    the colours of both pictures saturate together: an unstable field shows its chequerboard in both.
    """
    low, high = seen.limits(symmetric=True) if seen is not None else (0.0, 1.0)
    most = 4 * (fixed[1] - fixed[0]) if fixed is not None else 0.0
    return (-most, most) if 0 < most < high else (low, high)


def _section_index(lab: Diffusion) -> int:
    now = lab.values()
    return index_at(now["section_at"], now["ny"] if now["section"] == "horizontal" else now["nx"])


def _profile(lab: Diffusion, line: NDArray[np.float64]) -> tuple[dict[str, Curve], dict[str, float]]:
    """Return the profile on the section line and, with an exact mode, the exact solution and the error on that line."""
    curves, facts = {"profile": section_curve(line, "u")}, {}
    if lab.exact_mode:
        truth = lab.exact_mode.line(lab.section == "horizontal", _section_index(lab))
        curves["exact"] = section_curve(truth, "exact")
        facts["exact_error"] = _relative(line, truth)
    return curves, facts


def _racing_error(lab: Diffusion) -> float:
    """Return the relative L2 distance of the racing kernel's field from the correct one, in the middle of the grid."""
    height, width = min(ERROR_WINDOW, lab.ny), min(ERROR_WINDOW, lab.nx)
    place = ((lab.ny - height) // 2, (lab.nx - width) // 2, height, width)
    return _relative(lab.camera.window(lab.u, *place), lab.camera.window(lab.truth[0], *place))


def _relative(value: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Return the L2 distance over the L2 norm of the truth; nan if the truth is 0 or the value is not finite."""
    norm, distance = float(np.linalg.norm(truth)), float(np.linalg.norm(value - truth))
    return distance / norm if norm > 0 and isfinite(distance) else nan
