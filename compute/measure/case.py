"""Input and output of a bench: plan, cases, implementations, rows, results.

A `BenchPlan` names a lab's cases. At each case the lab's `BenchmarkFixture` of a backend, which owns the arrays, runs
every `Implementation` (a kernel of a backend); one `Row` stores the outcome. `Results` collects all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite, nan
from typing import Any, Literal, NamedTuple, Protocol

from compute.devices.backends import Backend, kind_of
from compute.devices.devices import Device, device_kind
from compute.measure.conditions import Watch
from compute.measure.rates import Cache, RoofKind, gpu_caches, host_caches
from compute.measure.roofs import MeasuredRoof, copy_bandwidth, fma_rate
from compute.measure.statistics import Measurement, SpeedUp, Spread
from compute.measure.timing import Sample, Timing

NO_SPREAD = Spread.of(())
RowStatus = Literal["measured", "disagrees", "wrong", "failed", "skipped", "missing"]


@dataclass(frozen=True)
class Option:
    """An option `--name` of `fieldlab bench` that belongs to a lab; its value is a list.

    parse: parses the text of one entry, raises ValueError with the reason; help: for the command line.
    """

    name: str
    parse: Callable[[str], Any]
    help: str


class TimedCase(Protocol):
    """One problem to time in several ways."""

    title: str  # heading of its table
    dtype: str
    tolerance: float  # largest difference of a right result
    shared: Hashable  # cases of equal `shared` have the same right result
    pace: Hashable  # a time of one case predicts the time of another of equal `pace`, by their `cells`
    cells: int
    needed_bytes: int  # device memory
    plain: bool  # whether the roof counts its work, so that it has a percentage of the roof

    def facts(self) -> dict[str, Any]:
        """Return ny, nx, dtype and all other values that identify the case in a record."""


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
    """Difference of a result from the reference by the lab's measure, largest absolute one, and the timing."""

    difference: float
    largest: float
    timing: Timing


class BenchmarkFixture(Protocol):
    """The arrays of one backend for one case, shared by its variants."""

    device: Device

    def prepare(self, way: Implementation) -> None:  # noqa: ARG002 - nothing to do for most
        """Allocate or compile everything missing that calls of this way need; not counted in the budget."""
        return

    def first(self, way: Implementation) -> tuple[Timing, float]:
        """Time the first call of this way; also return the predicted seconds a step, 0 if unknown."""

    def check(self, way: Implementation) -> Checked:
        """Compute the result and compare it with the reference."""

    def run(self, way: Implementation, steps: int) -> Timing:
        """Time `steps` steps."""


@dataclass(frozen=True)
class BenchPlan:
    """The cases to time. cases: the lab's own; budget: seconds for the whole run (sampling.py).

    listen: whether to record when the parts of each sample ran, for a trace; notes: cases that were omitted or reduced
    to fit the budget, and why.
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

    status: "measured"; "disagrees" (has no time); "wrong" (timed, but wrong by design); "failed" (raised), "skipped"
    or "missing" (its backend), with the reason. difference, largest: from `reference`, by the measure of the lab
    (relative L2, share of pixels …), and the largest absolute one. samples: the samples of `measurement`, the cold call
    first. work: a name for the work of rows that do less than the case specifies, equal for rows with equal work.
    extra: entries that the lab adds to the row's record.
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

    differ: number of unequal entries of the two results; if above 0, times are nan. ratio: ours over theirs, pair by
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
    """A kernel of the project timed in turn with an outside program, so that a sceptic need not write one.

    program: how it was compiled; absent: why the check, or some of its cases, are missing.
    """

    title: str
    program: str
    rows: tuple[OutsideTimes, ...]
    absent: str = ""

    def as_record(self) -> dict[str, Any]:
        """Return plain values, rates a second; None for unmeasured numbers."""
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
    """All rows of a run, the roofs of each device used, and the conditions of the run.

    outside: a check against a program outside the project, for labs that have one.
    """

    rows: list[Row] = field(default_factory=list)
    bandwidths: dict[str, MeasuredRoof] = field(default_factory=dict)
    fma: dict[tuple[str, str], MeasuredRoof] = field(default_factory=dict)
    l2: dict[str, float] = field(default_factory=dict)  # bytes of a GPU's cache, by device
    conditions: Watch = field(default_factory=Watch)
    notes: tuple[str, ...] = ()  # of the plan
    interrupted: KeyboardInterrupt | None = None  # the interrupt that ended the run early
    outside: OutsideCheck | None = None

    def note_roofs(
        self, device: Device, kind: RoofKind, dtypes: Iterable[str], say: Callable[[str], object] = lambda _: None
    ) -> None:
        """Store the current measurements of the device's roof; say(text) is called before one that may take seconds.

        dtypes: of the multiply-adds, for the kind "fma".
        """
        if kind == "copy":
            if device.name not in self.bandwidths:
                say(f"copy bandwidth of {device.name}")
            self.bandwidths[device.name] = copy_bandwidth(device)
            return
        for dtype in dtypes:
            if (device.name, dtype) not in self.fma:
                say(f"fused multiply-adds of {device.name}, {dtype}")
            if found := fma_rate(device, dtype):
                self.fma[device.name, dtype] = found

    def roof(self, kind: RoofKind, device: str, dtype: str) -> float:
        """Return bytes/s or fused multiply-adds/s; nan if not measured."""
        measured: MeasuredRoof | None = self.fma.get((device, dtype))
        if kind == "copy":
            measured = self.bandwidths.get(device)
        return measured.roof if measured else nan

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices that computed a row."""
        return tuple(dict.fromkeys(row.device for row in self.rows if row.device))

    def caches(self, device: str) -> tuple[Cache, ...]:
        """Return the caches of a device, smallest first; () if unknown."""
        return host_caches() if device_kind(device) == "cpu" else gpu_caches(self.l2.get(device, nan))


def with_speed_ups(rows: list[Row]) -> list[Row]:
    """Add to each right row of one case its speed-up over the fair opponent.

    The opponent is the right CPU way of the same work with the smallest median.
    """
    opponents: dict[Hashable, Row] = {}
    for row in sorted((row for row in rows if kind_of(row.backend) == "cpu"), key=_seconds):
        if row.status == "measured" and row.measurement:
            opponents.setdefault(row.work, row)
    return [_compared(row, opponents.get(row.work)) for row in rows]


def _seconds(row: Row) -> float:
    """Return the median seconds of a step; inf without a measurement."""
    return row.measurement.step.median if row.measurement else inf


def _compared(row: Row, opponent: Row | None) -> Row:
    """Return the row with its speed-up over `opponent`; unchanged if either has no measurement."""
    if opponent is None or opponent is row or row.status != "measured":
        return row
    if row.measurement is None or opponent.measurement is None:
        return row
    speed_up = SpeedUp.of(opponent.measurement.step, row.measurement.step)
    return replace(row, speed_up=speed_up, over=f"{opponent.backend} {opponent.variant}".strip())
