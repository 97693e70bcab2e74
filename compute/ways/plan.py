"""The plan of a sweep and its results: each way at each n is a point.

`Point.snapshot` returns plain, picklable values; `Point.restore` reads them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from compute.measure.agreement import error_line
from compute.measure.statistics import Measurement, Spread
from compute.measure.timing import Sample, Timing
from compute.ways.ecosystems import Extra
from compute.ways.workload import Case, Way, Workload

PATIENCE = 2.0  # a call may take this multiple of its point's budget before larger n are skipped

PointStatus = Literal["waiting", "checked", "measured", "disagrees", "failed", "skipped", "missing"]
STATUSES: tuple[PointStatus, ...] = get_args(PointStatus)
# The status of a whole curve is the first of WORST that one of its points has.
ShownStatus = PointStatus | Literal["noisy"]
WORST: tuple[ShownStatus, ...] = (
    "disagrees",
    "noisy",
    "measured",
    "failed",
    "skipped",
    "missing",
    "checked",
    "waiting",
)


@dataclass(frozen=True)
class SweepPlan:
    """What to measure. budget: seconds of sampling in all; evict: empty the caches before calls; split: time transfers.

    longest: limit in seconds of any single piece, longest_call: of a call; larger n are skipped. Without them a call
    may take PATIENCE times its share of the budget, and nothing else is limited. listen: note when parts of a sample
    ran. early: time ways that start quickly once before the others are checked, so that a viewer sees points early.
    """

    workload: Workload
    ways: tuple[Way, ...]
    sizes: tuple[int, ...]
    dtype: str = "float64"
    settings: dict[str, Any] = field(default_factory=dict)
    budget: float = 30.0
    evict: bool = False
    split: bool = False
    seed: int = 0
    longest: float | None = None
    longest_call: float | None = None
    listen: bool = False
    early: bool = False

    def __post_init__(self) -> None:
        if not self.sizes or not self.ways:
            raise ValueError("a sweep needs at least one n and one way")
        if not self.budget > 0:
            raise ValueError(f"budget must be more than 0 seconds, not {self.budget}")
        for name, most in (("longest", self.longest), ("longest_call", self.longest_call)):
            if most is not None and not most > 0:
                raise ValueError(f"{name} must be more than 0 seconds, not {most}")
        for n in self.sizes:
            self.case(n)

    def case(self, n: int) -> Case:
        """Return the workload at this n."""
        return self.workload.case(n, self.dtype, **self.settings)

    @property
    def groups(self) -> tuple[tuple[Way, ...], ...]:
        """The ways in the order of their checks, in one group or several: extras may compile for seconds."""
        if not self.early:
            return (self.ways,)
        found: dict[tuple[bool, bool], list[Way]] = {}
        for way in self.ways:
            slow = isinstance(way.backend, Extra), way.backend.kind == "gpu"
            found.setdefault((False, False) if way.missing else slow, []).append(way)
        return tuple(tuple(found[key]) for key in sorted(found))

    @property
    def call_allowed(self) -> float:
        """Seconds that a call may take."""
        return self.longest_call or self.longest or PATIENCE * self.budget / len(self.ways) / len(set(self.sizes))


@dataclass
class Point:
    """One way at one n. cold: the first call; samples: those that count; transfers: seconds in both directions.

    difference: from the reference; first_call: seconds, compilation included; call_seconds: of a later call; handling:
    seconds to create its arrays and compare its results.
    """

    way: Way
    n: int
    status: PointStatus = "waiting"
    reason: str = ""
    difference: float = nan
    first_call: float = nan
    call_seconds: float = nan
    handling: float = nan
    cold: Sample | None = None
    samples: list[Sample] = field(default_factory=list)
    transfers: list[float] = field(default_factory=list)

    @property
    def timings(self) -> list[Timing]:
        """The timings of the samples."""
        return [sample.timing for sample in self.samples]

    @property
    def measurement(self) -> Measurement | None:
        """Its measured times; None unless it was measured and is correct."""
        if self.status != "measured":
            return None
        first = replace(self.timings[0], compute=self.first_call, steps=1, first_call=True)
        return Measurement.of([first, *self.timings])

    @property
    def launch(self) -> Spread:
        """Seconds until a call returned; 0 on the host, where launching is computing."""
        return Spread.of(timing.launch / timing.steps for timing in self.timings)

    @property
    def transfer(self) -> Spread:
        """Seconds to copy the inputs to the device and the results back."""
        return Spread.of(self.transfers)

    @property
    def label(self) -> str:
        """The status, or "noisy" if the time scatters too much to be quoted without a remark."""
        measured = self.measurement
        return "noisy" if measured and measured.noisy else self.status

    def refuse(self, status: PointStatus, reason: str) -> None:
        """Set a status without a time, and its reason."""
        self.status, self.reason = status, reason

    def fail(self, error: Exception) -> None:
        """Note that the way raised `error` at this n."""
        self.refuse("failed", error_line(error))

    def snapshot(self) -> dict[str, Any]:
        """Return the point as plain values; samples as (k, 6) float64.

        Their columns: began, ended, steps, launch, compute, clock rate.
        """
        return {
            "status": self.status, "reason": self.reason, "difference": self.difference, "first_call": self.first_call,
            "call_seconds": self.call_seconds, "handling": self.handling, "transfers": list(self.transfers),
            "samples": _rows(self.samples), "cold": _rows([self.cold] if self.cold else []),
        }  # fmt: skip

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Restore the values of a `snapshot`."""
        self.status, self.reason, self.difference = (snapshot[name] for name in ("status", "reason", "difference"))
        self.first_call, self.call_seconds = snapshot["first_call"], snapshot["call_seconds"]
        self.handling, self.transfers = snapshot["handling"], list(snapshot["transfers"])
        self.samples = [self._sample(row) for row in snapshot["samples"]]
        self.cold = self._sample(snapshot["cold"][0], first_call=True) if len(snapshot["cold"]) else None

    def _sample(self, row: NDArray[np.float64], first_call: bool = False) -> Sample:
        began, ended, steps, launch, compute, *clock = (float(number) for number in row)  # older ones have no clock
        way = self.way
        timing = Timing(
            way.backend.name, way.variant, int(steps), self.n, launch, compute,
            first_call=first_call, clock_rate=clock[0] if clock else nan,
        )  # fmt: skip
        return Sample(began, ended, timing)


def _rows(samples: list[Sample]) -> NDArray[np.float64]:
    found = [
        (s.began, s.ended, s.timing.steps, s.timing.launch, s.timing.compute, s.timing.clock_rate) for s in samples
    ]
    return np.array(found, np.float64).reshape(-1, 6)
