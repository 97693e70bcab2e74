"""One grid of a bench run: open the arrays, check every way against the reference, sample those that may be timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from compute.bench.grid import Grid, Way
from compute.bench.measure import LEAST, interleave, steps_for
from compute.bench.rows import Row, with_speed_ups
from compute.timings import Measurement, Timing

PATIENCE = 2.0  # a way may take so many times its grid's share of the budget before it is skipped


@dataclass
class Pace:
    """Seconds a cell that each way took last, by (way, dtype)."""

    seconds: dict[tuple[str, str], float] = field(default_factory=dict)

    def note(self, way: Way, case: Any, timing: Timing) -> None:
        """Remember a timing."""
        self.seconds[way.name, case.dtype] = timing.step_seconds / case.cells

    def step_seconds(self, way: Way, case: Any) -> float:
        """Seconds a step of `case` should take; 0 if this way was never seen with this dtype."""
        return self.seconds.get((way.name, case.dtype), 0.0) * case.cells


class CaseRun:
    """Everything that is held while one grid is timed.

    case: the lab's Case; right: its reference; share: seconds of sampling this grid may take.
    """

    def __init__(self, work: ModuleType, case: Any, right: Any, share: float, pace: Pace) -> None:
        self._work, self._case, self._right, self._share, self._pace = work, case, right, share, pace
        self._start = right.start(case.dtype)
        self._grids: dict[str, Grid] = {}
        self._checked: list[tuple[Way, Row, Timing]] = []
        self.rows: list[Row] = []

    def check(self, way: Way) -> None:
        """Compare the way's result with the reference; a row now unless it is to be sampled."""
        row = Row(way.backend.name, way.variant, self._case, "skipped", reference=self._right.name)
        reason = self._too_slow(way)
        if reason:
            self.rows.append(replace(row, reason=reason))
            return
        try:
            self._compare(way, row)
        except Exception as error:  # noqa: BLE001  one broken way must not lose the figures of the others
            text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            self.rows.append(replace(row, status="failed", reason=text))

    def sample(self) -> None:
        """Time the ways that were checked, in shuffled rounds, and add their rows."""
        calls: dict[str, Callable[[], Timing]] = {}
        for way, _, _ in self._checked:
            self._pace.note(way, self._case, self._run(way))  # the first at length: it may tune itself
            self._pace.note(way, self._case, self._run(way))
            calls[way.name] = self._call(way, self._steps(way))
        timings = interleave(calls, self._share)
        rows = []
        for way, row, first in self._checked:
            taken = timings[way.name]
            self._pace.note(way, self._case, taken[-1])
            measurement = Measurement.of([replace(first, first_call=True), *taken])
            rows.append(replace(row, measurement=measurement, steps=taken[-1].steps))
        self.rows += with_speed_ups(rows)

    def close(self) -> None:
        """Give the devices' memory back."""
        devices = [grid.device for grid in self._grids.values()]
        self._grids.clear()
        for device in devices:
            device.close()

    def _compare(self, way: Way, row: Row) -> None:
        reason = self._open(way)
        if reason:
            self.rows.append(replace(row, reason=reason))
            return
        grid = self._grids[way.backend.name]
        grid.load()
        first = grid.run(way, 1)
        self._pace.note(way, self._case, grid.run(way, self._work.CHECK_STEPS - 1))
        difference, largest = self._work.error(self._right, grid.field())
        row = replace(row, device=grid.device.name, difference=difference, largest=largest)
        if way.variant in self._work.WRONG:
            row = replace(row, status="wrong", reason=self._work.WRONG[way.variant])
        elif not difference <= self._case.tolerance:
            reason = f"differs by {difference:.1e} (relative L2); the tolerance is {self._case.tolerance:.0e}"
            self.rows.append(replace(row, status="disagrees", reason=reason))
            return
        else:
            row = replace(row, status="measured")
        self._checked.append((way, row, first))

    def _open(self, way: Way) -> str:
        """Open the backend's arrays if they are not there yet; why not, or empty."""
        if way.backend.name in self._grids:
            return ""
        device = way.backend.open_device()
        wanted, free = 3 * self._start.nbytes, device.free_bytes()  # two arrays, and a download or a kernel's scratch
        if wanted > free:
            return f"needs {wanted / 2**30:.1f} GiB on {device.name}; {free / 2**30:.1f} GiB are free"
        self._grids[way.backend.name] = Grid(device, self._work, self._case, self._start)
        return ""

    def _too_slow(self, way: Way) -> str:
        """Why this grid would take too long, going by the last one; empty if it would not, or is not known."""
        step = self._pace.step_seconds(way, self._case)
        seconds, allowed = step * (self._work.CHECK_STEPS + LEAST), PATIENCE * self._share
        if seconds <= allowed:
            return ""
        return f"would take about {seconds:.0f} s ({step:.2g} s a step); {allowed:.0f} s are allowed for this grid"

    def _steps(self, way: Way) -> int:
        return steps_for(self._pace.step_seconds(way, self._case))

    def _run(self, way: Way) -> Timing:
        return self._grids[way.backend.name].run(way, self._steps(way))

    def _call(self, way: Way, steps: int) -> Callable[[], Timing]:
        grid = self._grids[way.backend.name]
        return lambda: grid.run(way, steps)
