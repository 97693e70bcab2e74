"""Convert a sweep to a frame, in the engine.

The frame contains Curves over n, "<way> <quantity>" for each of QUANTITIES, nan for missing values, and the roofs,
"roof <kind>"; its notes contain the reasons, "<way> <n>". picture.py reads them.
"""

from __future__ import annotations

import json
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from compute.lab.frames import Curve, Frame, freeze
from compute.labs.crossover.picture import QUANTITIES
from compute.ways.plan import STATUSES, Point
from compute.ways.roofline import Roof, roof_curves, roofline_point

if TYPE_CHECKING:
    from compute.labs.crossover.lab import Crossover


def frame_of(lab: Crossover) -> Frame:
    """Return a frame of the lab's current sweep."""
    parts: dict[str, Any] = {}
    notes = _notes(lab)
    for way in lab.sweep.plan.ways:
        points = [point for (name, _), point in lab.sweep.points.items() if name == way.name]
        n = np.array([point.n for point in points], np.float64)
        rows = np.array([_cached_row(lab, point) for point in points], np.float64)
        parts |= {f"{way.name} {q}": Curve(n, rows[:, k], way.label) for k, q in enumerate(QUANTITIES)}
        notes |= {f"{way.name} {point.n}": point.reason for point in points if point.reason}
    facts = {"progress": lab.progress.done, "finished": float(lab.finished), "elapsed": lab.elapsed}
    facts |= {"begun": float(lab.begun), "evict": float(lab.evict), "split": float(lab.split)}
    roofs_ = _valid_roofs(lab)
    parts |= roof_curves(roofs_, [y for name in parts if name.endswith(" intensity") for y in parts[name].y])
    for kind, roof in roofs_.items():
        facts |= {f"roof {kind} bandwidth": roof.bandwidth, f"roof {kind} flops": roof.flops}
        facts |= {f"roof {kind} l2": roof.l2} if isfinite(roof.l2) else {}
    lab.number += 1
    return Frame(parts, freeze(facts), lab.idle_timing(), lab.number, freeze(notes))


def _valid_roofs(lab: Crossover) -> dict[str, Roof]:
    return {kind: roof for kind, roof in lab.roofs.items() if roof.dtype == lab.dtype}


def _notes(lab: Crossover) -> dict[str, str]:
    plan = lab.sweep.plan
    case = plan.case(plan.sizes[0])
    notes = {
        "doing": lab.progress.doing, "workload": plan.workload.name, "dtype": plan.dtype,
        "tolerance": f"{case.tolerance:g}", "settings": json.dumps(dict(case.settings)),
    }  # fmt: skip
    if lab.trap_result:
        notes["trap"] = lab.trap_result
    return notes


def _cached_row(lab: Crossover, point: Point) -> list[float]:
    """Return the row, computed only if its data changed: frames must be cheap compared with the measured calls."""
    roof = _valid_roofs(lab).get(point.way.backend.device)
    mark = point.status, len(point.samples), len(point.transfers), roof and (roof.bandwidth, roof.flops)
    key = point.way.name, point.n
    if lab.rows.get(key, (None, None))[0] != mark:
        lab.rows[key] = mark, _row(lab, point)
    return lab.rows[key][1]


def _row(lab: Crossover, point: Point) -> list[float]:
    head = [float(STATUSES.index(point.status)), point.difference, point.first_call]
    measured = point.measurement
    if measured is None:
        return head + [nan] * (len(QUANTITIES) - len(head))
    step, case = measured.step, lab.sweep.plan.case(point.n)
    kind = point.way.backend.device
    roof = _valid_roofs(lab).get(kind) or Roof(kind, case.dtype, nan, nan)
    where = roofline_point(point.way, case, measured, roof)
    head += [step.median, step.q1, step.q3, step.n, point.launch.median, point.transfer.median]
    return [*head, measured.clock_rate, where.intensity, where.flops, where.moved, where.percent]
