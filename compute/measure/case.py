"""What a bench is asked, what it runs, and what it answers: plan, cases, implementations, rows, results.

A `BenchPlan` names a lab's cases. At each case every `Implementation` (a kernel of a backend) is run by the lab's
`BenchmarkFixture` for that backend, which holds the arrays; one `Row` says what came out. `Results` are all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite, nan
from typing import Any, Literal, NamedTuple, Protocol

from compute.backends import Backend
from compute.devices import Device
from compute.measure.conditions import Watch
from compute.measure.rates import Cache, RoofKind, gpu_caches, host_caches
from compute.measure.roofs import MeasuredRoof
from compute.measure.statistics import Measurement, SpeedUp, Spread
from compute.measure.timing import Sample, Timing

NO_SPREAD = Spread.of(())
RowStatus = Literal["measured", "disagrees", "wrong", "failed", "skipped", "missing"]


@dataclass(frozen=True)
class Option:
    """An option `--name` of `fieldlab bench` that belongs to a lab; its value is a list.

    parse: of the text of one entry, ValueError says what is wrong with it; help: for the command line.
    """

    name: str
    parse: Callable[[str], Any]
    help: str


class TimedCase(Protocol):
    """One thing to time in several ways."""

    title: str  # heading of its table
    dtype: str
    tolerance: float  # up to this difference a result counts as right
    shared: Hashable  # cases of equal `shared` have the same right result
    pace: Hashable  # a time of one case predicts the time of another of equal `pace`, by their `cells`
    cells: int
    needed_bytes: int  # device memory
    plain: bool  # whether its work is what the roof is about, so that it has a share of it

    def facts(self) -> dict[str, Any]:
        """For the record: ny, nx, dtype, and what else tells it from the others."""


@dataclass(frozen=True)
class Implementation:
    """One kernel of one backend, as a bench times it."""

    backend: Backend
    variant: str
    kernel: Any

    @property
    def name(self) -> str:
        """Backend and variant."""
        return f"{self.backend.name} {self.variant}"


class Checked(NamedTuple):
    """How far a result is from the right one, at most and by the lab's measure, and what computing it took."""

    difference: float
    largest: float
    timing: Timing


class BenchmarkFixture(Protocol):
    """The arrays of one backend for one case, shared by its variants."""

    device: Device

    def prepare(self, way: Implementation) -> None:  # noqa: ARG002 - nothing to do for most
        """Make what all calls of this way need, as far as it is not there; outside of the budget."""
        return

    def first(self, way: Implementation) -> tuple[Timing, float]:
        """The first call of this way, and the seconds a step will take as far as it tells that; 0 if not."""

    def check(self, way: Implementation) -> Checked:
        """Compute the result and compare it with the right one."""

    def run(self, way: Implementation, steps: int) -> Timing:
        """Time `steps` steps."""


@dataclass(frozen=True)
class BenchPlan:
    """What to time. cases: the lab's own; budget: seconds for the whole run (sampling.py).

    listen: whether to note when the parts of each sample ran, for a trace; notes: what was left out or made smaller so
    that it fits, and why.
    """

    lab: str
    cases: tuple[Any, ...]
    backends: tuple[str, ...]
    budget: float = 60.0
    listen: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One way at one case.

    status: "measured"; "disagrees" (no time given); "wrong" (timed, but wrong by design); "failed" (raised), "skipped"
    or "missing" (its backend), with the reason. difference, largest: from `reference`, by the measure
    of the lab (relative L2, share of pixels …), and the largest absolute one. samples: what `measurement` is made of,
    the cold call first. work: what it computes where that is not what the case asks for, alike for rows that compute
    alike. extra: what the lab adds to the row's record.
    """

    backend: str
    variant: str
    case: Any
    status: RowStatus
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
    work: Hashable = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OutsideTimes:
    """One case on `threads` threads: rates a second of a kernel of the project and of the outside program.

    differ: entries of the two results that are not equal; with any there are no times. ratio: ours over theirs, pair by
    pair.
    """

    case: str
    dtype: str
    threads: int
    differ: int = 0
    ours: float = nan
    theirs: float = nan
    ratio: Spread = NO_SPREAD


@dataclass(frozen=True)
class OutsideCheck:
    """A kernel of the project timed in turn with a program that is no backend, so that a sceptic need not write it.

    program: how it was compiled; absent: why there is no check, or of some cases only, in words.
    """

    title: str
    program: str
    rows: tuple[OutsideTimes, ...]
    absent: str = ""

    def as_record(self) -> dict[str, Any]:
        """Return plain values, rates a second; None for what was not measured."""
        rows = [
            {
                "case": row.case, "dtype": row.dtype, "threads": row.threads, "differ": row.differ,
                **{name: value if isfinite(value) else None for name, value in _rates(row).items()},
            }
            for row in self.rows
        ]  # fmt: skip
        return {"title": self.title, "program": self.program, "absent": self.absent, "rows": rows}


def _rates(row: OutsideTimes) -> dict[str, float]:
    return {"ours": row.ours, "theirs": row.theirs, "ratio": row.ratio.median, "q1": row.ratio.q1, "q3": row.ratio.q3}


@dataclass
class Results:
    """All rows of a run, of each device they ran on the roof that rates are compared with, and what else went on.

    outside: a check against a program outside the project, where the lab has one.
    """

    rows: list[Row] = field(default_factory=list)
    bandwidths: dict[str, MeasuredRoof] = field(default_factory=dict)
    fma: dict[tuple[str, str], MeasuredRoof] = field(default_factory=dict)
    l2: dict[str, float] = field(default_factory=dict)  # bytes of a GPU's cache, by device
    conditions: Watch = field(default_factory=Watch)
    notes: tuple[str, ...] = ()  # of the plan
    interrupted: KeyboardInterrupt | None = None  # what ended the run before its time
    outside: OutsideCheck | None = None

    def roof(self, kind: RoofKind, device: str, dtype: str) -> float:
        """Bytes/s or fused multiply-adds/s; nan if that was not measured."""
        measured: MeasuredRoof | None = self.fma.get((device, dtype))
        if kind == "copy":
            measured = self.bandwidths.get(device)
        return measured.roof if measured else nan

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices on which something was computed."""
        return tuple(dict.fromkeys(row.device for row in self.rows if row.device))

    def caches(self, device: str) -> tuple[Cache, ...]:
        """Of a device, smallest first, as far as they are known."""
        return host_caches() if device == "host" else gpu_caches(self.l2.get(device, nan))


def with_speed_ups(rows: list[Row]) -> list[Row]:
    """Add to each right row of one case its speed-up over the fair opponent: the fastest right way of the processor
    that does the same work, by its median.
    """
    opponents: dict[Hashable, Row] = {}
    for row in sorted((row for row in rows if row.backend.startswith("cpu_")), key=_seconds):
        if row.status == "measured" and row.measurement:
            opponents.setdefault(row.work, row)
    return [_compared(row, opponents.get(row.work)) for row in rows]


def _seconds(row: Row) -> float:
    """Of a step, by the median; inf where there is none."""
    return row.measurement.step.median if row.measurement else inf


def _compared(row: Row, opponent: Row | None) -> Row:
    """The row with its speed-up, if it has one."""
    if opponent is None or opponent is row or row.status != "measured":
        return row
    if row.measurement is None or opponent.measurement is None:
        return row
    speed_up = SpeedUp.of(opponent.measurement.step, row.measurement.step)
    return replace(row, speed_up=speed_up, over=f"{opponent.backend} {opponent.variant}".strip())
