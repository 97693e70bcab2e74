"""The frame of an L-curve lab.

L is the identity, or a difference of order `derivative`. curves: l-curve (|A x - b|, |L x|); ribbon-lower and
ribbon-upper, the bounds at the same λ; width (λ, relative width of the ribbon), whose x are the λ of all points;
curvature, gcv (of a large matrix after the last step), weighted-gcv, quasi-optimality and, if the truth is available,
error over λ; history (steps, widest ribbon); singular (i, value); picard-coefficients (i, |u_i b|) and picard-ratio (i,
|u_i b| / σ_i) of a small matrix; solution and truth of a problem on a line. rasters: solution and truth of a picture.

facts: steps, limit, width, tolerance, done (steps complete), finished (steps and rules complete), converged, exhausted,
products, seconds (device time of the products), launched (host time to launch them), cold_products, cold_seconds and
cold_launched (of steps that loaded or compiled their kernels, which rates exclude), bytes_per_product, rows, columns,
entries (of the matrix that is bidiagonalised), noise (|e|), derivative, lam (of the solution shown), alpha (its
square), and at lam residual and solution (norms), each with _lower and _upper, gradient, error_bound (of x within these
steps, relative), error (from the truth, relative, nan without a truth); for each rule its λ (nan for none). notes: for
each rule its reason; state (a sentence), shown (the reason for this λ), spectrum (the kind of `singular`); problem,
files (their fingerprint, "" for none) and kept (the part used of a picture, six numbers of a Kept) of the problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from compute.devices.backends import backend
from compute.display.camera import Camera
from compute.lab.frames import Curve, Frame, Raster, View, freeze
from compute.lab.panels import Line, Panel
from compute.labs.l_curve.rules import RULES
from compute.labs.l_curve.rules.minima import adaptive_weight, gcv_values, weighted_values
from compute.labs.l_curve.small_system import coefficients, points
from compute.measure.statistics import LAUNCH_BOUND

if TYPE_CHECKING:
    from compute.labs.l_curve.lab import LCurve


LAMBDA = "λ"
ALL: Mapping[str, Panel] = {
    "l-curve": Panel(
        "L-curve",
        "residual norm |A x − b|",
        "solution norm |x|",
        "xy",
        (Line("l-curve"), Line("ribbon-lower", "bounds", "dashed"), Line("ribbon-upper", "", "dashed")),
    ),
    "curvature": Panel("Curvature of the L-curve", LAMBDA, "curvature", "x", (Line("curvature"),)),
    "gcv": Panel(
        "Generalised cross-validation",
        LAMBDA,
        "GCV",
        "xy",
        (Line("gcv", "GCV"), Line("weighted-gcv", "weighted", "dashed")),
    ),
    "picard": Panel(
        "Picard plot",
        "i",
        "",
        "y",
        (
            Line("singular", "σᵢ"),
            Line("picard-coefficients", "|uᵢᵀb|", "points"),
            Line("picard-ratio", "|uᵢᵀb| / σᵢ", "points"),
        ),
    ),
    "error": Panel("Error of the solution", LAMBDA, "relative error", "xy", (Line("error"),)),
    "solution": Panel("Solution", "i", "x", "", (Line("solution", "x"), Line("truth", "true x", "dashed"))),
}

Vector = NDArray[np.float64]

MOST_POINTS = 2048  # maximum points of a line on the screen; a longer line shows every k-th point


def panels_of(frame: Frame) -> Mapping[str, Panel]:
    """Return the panels with a curve in the frame; solution and truth as pictures if the frame has rasters."""
    found = {name: panel for name, panel in ALL.items() if any(line.curve in frame.curves for line in panel.lines)}
    if frame.facts.get("derivative"):
        found["l-curve"] = replace(found["l-curve"], y=f"seminorm |{penalised(frame.facts['derivative'])}|")
    return found | {name: Panel(name, "x", "y", image=name) for name in frame.rasters}


def penalised(derivative: float) -> str:
    """Return L x as text: x for order 0, x′ or x″."""
    return "x" + ("", "′", "″")[int(derivative)]


def products_per_second(facts: Mapping[str, float]) -> float:
    """Return the products per second of the live run in device time; nan if none were timed."""
    seconds = facts.get("seconds", 0.0) - facts.get("cold_seconds", 0.0)
    products = facts.get("products", 0.0) - facts.get("cold_products", 0.0)
    return products / seconds if seconds > 0 and products > 0 else nan


def launch_bound(facts: Mapping[str, float]) -> bool:
    """Return whether launching the products takes as long as computing them, so that launches limit the rate."""
    seconds = facts.get("seconds", 0.0) - facts.get("cold_seconds", 0.0)
    launched = facts.get("launched", 0.0) - facts.get("cold_launched", 0.0)
    return launched >= LAUNCH_BOUND * seconds > 0


def show(lab: LCurve, view: View | None, pixels: tuple[int, int]) -> Frame:
    """Build the frame without further steps."""
    camera = Camera(lab.device, lab.display)
    lam, why = shown(lab)
    parts: dict[str, Raster | Curve] = dict(_over_lambda(lab) | _spectra(lab))
    parts |= _pictures(lab, camera, lam, view, pixels) if lab.system.side else _lines(lab, lam)
    spent = lab.spent or lab.idle_timing()
    timing = replace(spent, levels=camera.levels_seconds, transfer=camera.transfer_seconds)
    lab.spent = None
    lab.number += 1
    return Frame(parts, freeze(_facts(lab) | _here(lab, lam)), timing, lab.number, freeze(_words(lab, why)))


def shown(lab: LCurve) -> tuple[float, str]:
    """Return (λ, reason) of the displayed solution: `lam` if set, or the rule's λ, or the middle of the range."""
    if lab.lam is not None:
        return float(lab.lam), "manual"
    choice = lab.survey.choices[lab.rule]
    if choice.lam is not None:
        return choice.lam, RULES[lab.rule].title
    grid = lab.grid
    return sqrt(grid[0]) * sqrt(grid[-1]), f"{RULES[lab.rule].title} gives none: the middle of the range"


def _over_lambda(lab: LCurve) -> dict[str, Curve]:
    """Return all curves over the λ of the curve."""
    at = lab.survey.points
    reading = lab.survey.reading(fine=False)
    weight = adaptive_weight(reading.small) if lab.gcv_weight is None else lab.gcv_weight
    values = {
        "width": at.widths,
        "curvature": at.curvature,
        "weighted-gcv": weighted_values(reading, reading.points, weight),
        "quasi-optimality": at.change,
    }
    if reading.traced:
        values["gcv"] = gcv_values(reading, reading.points)
    if lab.survey.errors is not None:
        values["error"] = lab.survey.errors
    (low, high), (less, more) = lab.bounds(at)
    history = np.array(lab.survey.history, np.float64)
    return {
        "l-curve": Curve(at.residual, at.solution, "within these steps"),
        "ribbon-lower": Curve(low, less, "lower bounds"),
        "ribbon-upper": Curve(high, more, "upper bounds"),
        "history": Curve(history[:, 0], history[:, 1], "widest ribbon"),
        **{name: Curve(at.lambdas, value, name) for name, value in values.items()},
    }


def _spectra(lab: LCurve) -> dict[str, Curve]:
    values, label = lab.survey.singular
    curves = {"singular": _numbered(values, label)}
    if lab.survey.picard is not None:
        exact, coefficients_ = lab.survey.picard
        ratio = np.divide(coefficients_, exact, out=np.full(exact.size, np.inf), where=exact > 0)
        curves["picard-coefficients"] = _numbered(coefficients_, "|uᵢᵀb|")
        curves["picard-ratio"] = _numbered(ratio, "|uᵢᵀb| / σᵢ")
    return curves


def _numbered(values: Vector, label: str) -> Curve:
    return _thinned(np.arange(1.0, values.size + 1), values, label)


def _thinned(x: Vector, y: Vector, label: str) -> Curve:
    stride = -(-x.size // MOST_POINTS)
    return Curve(x[::stride], np.asarray(y[::stride], np.float64), label)


def _lines(lab: LCurve, lam: float) -> dict[str, Curve]:
    """Return the solution, and the truth, over the middles of n cells of the unit interval."""
    values = lab.present(lam)
    middles = (np.arange(values.size) + 0.5) / values.size
    curves = {"solution": _thinned(middles, values, "solution")}
    if lab.system.x is not None:
        curves["truth"] = _thinned(middles, lab.system.x, "truth")
    return curves


def _pictures(lab: LCurve, camera: Camera, lam: float, view: View | None, pixels: tuple[int, int]) -> dict[str, Raster]:
    """Return solution and truth as pictures, in the colour range of the truth."""
    side = lab.system.side
    square = lab.bidiagonal.solution(coefficients(lab.bidiagonal.small, lam)).reshape((side, side))
    if lab.system.x is None:
        return {"solution": camera.raster(square, view, pixels, camera.survey(square).limits(), "x")}
    widest = backend(lab.backend).dtypes[-1]
    truth = lab.device.upload(lab.system.x.reshape((side, side)).astype(widest))
    limits = float(lab.system.x.min()), float(lab.system.x.max())
    pictures = {"solution": square, "truth": truth}
    return {name: camera.raster(picture, view, pixels, limits, name) for name, picture in pictures.items()}


def _facts(lab: LCurve) -> dict[str, float]:
    run, width = lab.bidiagonal, float(lab.survey.points.widths.max())
    (rows, columns), entries = lab.system.shape, lab.system.A.nnz
    return {
        "steps": float(run.k),
        "limit": float(lab.limit),
        "width": width,
        "tolerance": lab.tolerance,
        "done": float(lab.done),
        "finished": float(lab.status.resting),
        "converged": float(run.exhausted or width <= lab.tolerance),
        "exhausted": float(run.exhausted),
        "products": float(run.products),
        "seconds": run.seconds,
        "launched": run.launched,
        "cold_products": float(lab.cold_products),
        "cold_seconds": lab.cold_seconds,
        "cold_launched": lab.cold_launched,
        "bytes_per_product": run.bytes_per_product,
        "rows": float(rows),
        "columns": float(columns),
        "entries": float(entries),
        "noise": lab.noise_norm,
        "derivative": float(lab.derivative),
    } | {name: nan if choice.lam is None else choice.lam for name, choice in lab.survey.choices.items()}


def _here(lab: LCurve, lam: float) -> dict[str, float]:
    """Return norms, bounds and error at the displayed λ."""
    at = points(lab.bidiagonal.small, np.array([lam]))
    residual, solution = lab.bounds(at)
    facts = {"lam": lam, "alpha": lam * lam, "gradient": at.gradient[0], "error": _error(lab, lam)}
    facts["error_bound"] = lab.error_bound(lam)
    facts |= {"residual": at.residual[0], "residual_lower": residual[0, 0], "residual_upper": residual[1, 0]}
    facts |= {"solution": at.solution[0], "solution_lower": solution[0, 0], "solution_upper": solution[1, 0]}
    return {name: float(value) for name, value in facts.items()}


def _error(lab: LCurve, lam: float) -> float:
    """Return |x - truth| / |truth| at this λ; nan without a truth."""
    truth = lab.system.x
    if truth is None:
        return nan
    return float(np.linalg.norm(lab.present(lam) - truth) / np.linalg.norm(truth))


def _words(lab: LCurve, why: str) -> dict[str, str]:
    reasons = {name: choice.reason for name, choice in lab.survey.choices.items()}
    source = {"problem": lab.problem, "files": lab.system.files, "kept": lab.system.kept}
    return reasons | source | {"state": state_words(lab), "shown": why, "spectrum": lab.survey.singular[1]}


def state_words(lab: LCurve) -> str:
    """Return a sentence: why the steps continue, or why they ended."""
    run = lab.bidiagonal
    steps = f"{run.k} step" + "s" * (run.k != 1)
    if run.exhausted:
        rank = "" if run.k >= min(lab.system.shape) else f", since b meets no more than {run.k} of its singular values"
        return f"The matrix is used up after {steps}{rank}: the curve is exact to rounding."
    if not lab.done:
        return f"Step {run.k}: ribbons wider than {lab.tolerance:g}."
    if run.k >= lab.limit and float(lab.survey.points.widths.max()) > lab.tolerance:
        return f"Stopped at the limit of {lab.limit} steps with ribbons wider than {lab.tolerance:g}: allow more steps."
    return f"All ribbons are within {lab.tolerance:g} after {steps}."
