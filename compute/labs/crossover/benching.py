"""The run of `fieldlab bench crossover`: a sweep for each curve, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import inf
from time import perf_counter

from compute.backends import BACKENDS
from compute.bench.bandwidth import copy_bandwidth
from compute.bench.fma import fma_rate
from compute.bench.rows import Plan as BenchPlan
from compute.bench.rows import Results, Row
from compute.bench.run import Progress, simulated
from compute.labs.crossover.catalogue import Way, Workload, workload
from compute.labs.crossover.plan import Plan
from compute.labs.crossover.results import Case, rows
from compute.labs.crossover.roofline import Roof, roof_of
from compute.labs.crossover.sweep import CHECKS, Sweep

LONGEST = 6.0  # seconds that a reference or a comparison may take: larger n are skipped
LONGEST_CALL = 2.0  # seconds that a call may take, of which there are eight at least
OVER = "the time for all was over"


class Bench:
    """One run of `plan`, whose cases are results.Case. say: hears how it gets on."""

    def __init__(self, plan: BenchPlan, say: Progress, clock: Callable[[], float] = perf_counter) -> None:
        self._plan, self._say, self._clock = plan, say, clock
        self._absent: dict[str, Row] = {}
        self._results = Results()

    def run(self) -> Results:
        """Every curve in the plan's order, as long as there is time."""
        start, limit = self._clock(), min((case.limit for case in self._plan.cases), default=inf)
        groups = [list(group) for _, group in groupby(self._plan.cases, key=lambda case: case.group)]
        for number, group in enumerate(groups):
            ways = tuple(self._present(ways_of(workload(group[0].workload), group[0].ways)))
            if not ways:
                continue
            if self._clock() > start + limit:
                group = group[:1]  # noqa: PLW2901 one n tells that the curve was not begun
            sweep = Sweep(self._sweep_plan(group, ways, len(groups)))
            reason = self._measure(sweep, group[0].group, (number, len(groups)), start + limit)
            self._results.conditions.note(group[0].group)
            self._results.rows += rows(sweep, self._roofs(ways, group[0].dtype), reason)
        self._results.rows[:0] = self._absent.values()
        return self._results

    def _measure(self, sweep: Sweep, title: str, place: tuple[int, int], end: float) -> str:
        """Run the sweep; why it ended early, empty if it did not. A workload that raises ends its own sweep alone."""
        number, groups = place
        if self._clock() > end:
            return OVER
        work = sweep.measure()
        try:
            for progress in work:
                doing = "timing" if progress.done > CHECKS else "checking"
                self._say(f"{title}: {doing}", (number + progress.done) / groups)
                if self._clock() > end:
                    work.close()
                    return OVER
        except Exception as error:  # noqa: BLE001 one broken workload must not lose the figures of the others
            return " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return ""

    def _sweep_plan(self, group: Sequence[Case], ways: tuple[Way, ...], groups: int) -> Plan:
        first, sizes = group[0], tuple(case.size for case in group)
        return Plan(
            workload(first.workload), ways, sizes, first.dtype, dict(first.settings), self._plan.budget / groups,
            split=True, longest=LONGEST, longest_call=LONGEST_CALL, listen=self._plan.listen,
        )  # fmt: skip

    def _present(self, ways: Sequence[Way]) -> Iterator[Way]:
        """Those of the backends asked for that can be timed here; why the others' libraries cannot is noted.

        Libraries that are no backend of the house are asked for with all of them.
        """
        known, asked = {b.name for b in BACKENDS}, set(self._plan.backends)
        for way in ways:
            name = way.backend.name
            if name not in asked and (name in known or asked != known):
                continue
            reason = way.missing or simulated(way.backend)
            if reason:
                self._absent[name] = Row(name, "", None, "missing", reason)
            else:
                yield way

    def _roofs(self, ways: Sequence[Way], dtype: str) -> dict[str, Roof]:
        """The roofs of the devices that these ways use, measured once a process; noted in the results."""
        found: dict[str, Roof] = {}
        for way in ways:
            kind = way.backend.device
            if kind not in found and way.backend.name in {b.name for b in BACKENDS}:
                device = way.backend.open_device()
                found[kind] = roof_of(device, dtype)
                self._results.bandwidths[device.name] = copy_bandwidth(device)
                if fma := fma_rate(device, dtype):
                    self._results.fma[device.name, dtype] = fma
        return found


def ways_of(of: Workload, names: Sequence[str]) -> tuple[Way, ...]:
    """The workload's ways of these names; all for none."""
    return tuple(way for way in of.ways() if way.name in (names or [way.name]))
