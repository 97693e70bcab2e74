"""What a bench run is asked and what it answers: the plan, one row for each way and case, and the speed-ups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any, Literal

from compute.bench.bandwidth import CopyBandwidth
from compute.bench.caches import Cache, gpu_caches, host_caches
from compute.bench.conditions import Watch
from compute.bench.fma import FmaRate
from compute.bench.rates import Roof
from compute.bench.samples import Sample
from compute.timings import Measurement, SpeedUp

OPPONENTS = ("cpu_numba", "cpu_numpy")  # the first that was measured is what speed-ups are over
Status = Literal["measured", "disagrees", "wrong", "failed", "skipped", "missing"]


@dataclass(frozen=True)
class Plan:
    """What to time. cases: the lab's own; budget: seconds of sampling in all, checks not counted.

    listen: whether to note when the parts of each sample ran, for a trace.
    """

    lab: str
    cases: tuple[Any, ...]
    backends: tuple[str, ...]
    budget: float = 60.0
    listen: bool = False


@dataclass(frozen=True)
class Row:
    """One way at one case.

    status: "measured"; "disagrees" (no time given); "wrong" (timed, but wrong by design); "failed" (raised), "skipped"
    or "missing" (its backend), with the reason. difference, largest: from `reference`, by the measure
    of the lab (relative L2, share of pixels …), and the largest absolute one. samples: what `measurement` is made of,
    the cold call first. extra: what the lab adds to the row's record.
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
    samples: tuple[Sample, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Results:
    """All rows of a run, of each device they ran on the roof that rates are compared with, and what else went on."""

    rows: list[Row] = field(default_factory=list)
    bandwidths: dict[str, CopyBandwidth] = field(default_factory=dict)
    fma: dict[tuple[str, str], FmaRate] = field(default_factory=dict)
    l2: dict[str, float] = field(default_factory=dict)  # bytes of a GPU's cache, by device
    conditions: Watch = field(default_factory=Watch)

    def roof(self, kind: Roof, device: str, dtype: str) -> float:
        """Bytes/s or fused multiply-adds/s; nan if that was not measured."""
        measured: CopyBandwidth | FmaRate | None = self.fma.get((device, dtype))
        if kind == "copy":
            measured = self.bandwidths.get(device)
        return measured.roof if measured else nan

    def caches(self, device: str) -> tuple[Cache, ...]:
        """Of a device, smallest first, as far as they are known."""
        return host_caches() if device == "host" else gpu_caches(self.l2.get(device, nan))


def with_speed_ups(rows: list[Row]) -> list[Row]:
    """Add to each right row its speed-up over the fair opponent at the same case."""
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
