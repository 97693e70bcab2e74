"""What a bench run is asked and what it answers: the plan, one row for each way and grid, and the speed-ups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from compute.bench.bandwidth import CopyBandwidth
from compute.timings import Measurement, SpeedUp

OPPONENTS = ("cpu_numba", "cpu_numpy")  # the first that was measured is what speed-ups are over
Status = Literal["measured", "disagrees", "wrong", "failed", "skipped", "missing"]


@dataclass(frozen=True)
class Plan:
    """What to time. sizes: cells a side; budget: seconds of sampling in all, checks not counted."""

    lab: str
    sizes: tuple[int, ...]
    backends: tuple[str, ...]
    dtypes: tuple[str, ...]
    edges: tuple[str, ...]
    budget: float = 60.0


@dataclass(frozen=True)
class Row:
    """One way on one grid.

    status: "measured"; "disagrees" (no time given); "wrong" (timed, but wrong by design); "failed" (raised), "skipped"
    or "missing" (its backend), with the reason. difference, largest: relative L2 and largest absolute
    difference from `reference`.
    """

    backend: str
    variant: str
    case: Any
    status: Status
    reason: str = ""
    device: str = ""
    reference: str = ""
    difference: float | None = None
    largest: float | None = None
    measurement: Measurement | None = None
    steps: int = 0  # in one sample
    speed_up: SpeedUp | None = None
    over: str = ""


@dataclass
class Results:
    """All rows of a run and the copy bandwidth of each device they ran on."""

    rows: list[Row] = field(default_factory=list)
    bandwidths: dict[str, CopyBandwidth] = field(default_factory=dict)


def with_speed_ups(rows: list[Row]) -> list[Row]:
    """Add to each right row its speed-up over the fair opponent of the same grid."""
    right = {row.backend: row for row in reversed(rows) if row.status == "measured"}
    opponent = next((right[name] for name in OPPONENTS if name in right), None)
    if opponent is None or opponent.measurement is None:
        return rows
    base, over = opponent.measurement.step, f"{opponent.backend} {opponent.variant}"
    return [
        replace(row, speed_up=SpeedUp.of(base, row.measurement.step), over=over)
        if row.status == "measured" and row is not opponent and row.measurement
        else row
        for row in rows
    ]
