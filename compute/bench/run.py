"""`fieldlab bench`: every way to compute a lab's step, checked, then timed side by side in one run.

For each case that the lab's benchmark.py names: all ways start from the same state and are compared with the reference;
those that agree are sampled in shuffled rounds. A way that disagrees gets no time. A kernel that is wrong by design is
timed too, and reported apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from math import nan
from typing import Any, Protocol

from compute.backends import BACKENDS, Backend
from compute.bench.bandwidth import copy_bandwidth
from compute.bench.case import CaseRun, Pace
from compute.bench.fma import DTYPES, fma_rate
from compute.bench.meter import Meter
from compute.bench.rows import Plan, Results, Row
from compute.bench.workload import Way, workload_of
from compute.devices import Device

CHECKING = 0.3  # of a case's time, as far as the progress goes, before it is timed


class Progress(Protocol):
    """Hears how a bench gets on. It is called between two samples, so it may take its time, and write."""

    def __call__(self, text: str, done: float | None = None, /) -> None:
        """`text`: what is being done; `done`: how much of the whole is (0 to 1), None where that is not known."""


def _silent(_text: str, _done: float | None = None, /) -> None:
    """Nobody hears."""


class Bench:
    """One run of a Plan; remembers the rates it saw, to skip what could not finish."""

    def __init__(self, plan: Plan, progress: Progress = _silent) -> None:
        self._plan, self._progress = plan, progress
        self._work = workload_of(plan.lab)
        self._shared: tuple[Any, Any] = (None, None)  # the newest reference, and what it is shared by
        self.results = Results()

    def run(self) -> Results:
        """Time every case, in the plan's order; by the lab's own `run` where its workload has one."""
        if hasattr(self._work, "run"):
            self.results = self._work.run(self._plan, self._progress)
            return self.results
        backends, cases, pace = list(self._backends()), self._plan.cases, Pace()
        self._roofs(backends)
        for number, case in enumerate(cases, 1):
            self._progress(f"{case.title}: reference", (number - 1) / len(cases))
            share = self._plan.budget / len(cases)
            run = CaseRun(self._work, case, self._reference(case), share, pace, self._plan.listen)
            self._time(run, list(self._ways(backends, case)), (number - 1, len(cases)))
            self.results.conditions.note(case.title)
            run.close()
            self.results.rows += run.rows
        return self.results

    def _time(self, run: CaseRun, ways: Sequence[Way], place: tuple[int, int]) -> None:
        """Check the ways, then time them. place: cases that are done, and all."""
        done, cases = place
        title = run.case.title

        def tell(text: str, part: float) -> None:
            self._progress(f"{title}: {text}", (done + part) / cases)

        for number, way in enumerate(ways):
            tell(f"checking {way.name}", CHECKING * number / len(ways))
            run.check(way)
        with closing(Meter(self._devices(ways), (self._work.RATE.roof,), run.case.dtype)) as meter:

            def between(part: float) -> None:
                """Two rounds: the roof has its turn, as one more way."""
                tell("timing", CHECKING + (1 - CHECKING) * part)
                meter.sample()

            run.sample(between)
        for device in self._devices(ways):
            self._roof_of(device)

    def _devices(self, ways: Sequence[Way]) -> list[Device]:
        """Where these ways compute, each once."""
        return list({(device := way.backend.open_device()).name: device for way in ways}.values())

    def _backends(self) -> Iterator[Backend]:
        """Those asked for that are here; an absent one leaves a row that says why."""
        for backend in BACKENDS:
            if backend.name not in self._plan.backends or not backend.has_kernels(f"compute.labs.{self._plan.lab}"):
                continue
            reason = backend.missing or backend.simulated
            if reason:
                self.results.rows.append(Row(backend.name, "", None, "missing", reason))
            else:
                yield backend

    def _ways(self, backends: Sequence[Backend], case: Any) -> Iterator[Way]:
        for backend in backends:
            for variant, kernel in self._work.variants(backend, case).items():
                yield Way(backend, variant, kernel)

    def _roofs(self, backends: Sequence[Backend]) -> None:
        """What the lab's rates are compared with, for each device."""
        for backend in backends:
            device = backend.open_device()
            self._roof_of(device)
            self.results.l2[device.name] = float(device.describe().get("l2_bytes", nan))
            device.close()

    def _roof_of(self, device: Device) -> None:
        """Of that kind which the lab's rates are compared with, as far as it is measured."""
        (self._copy if self._work.RATE.roof == "copy" else self._fma)(device)

    def _copy(self, device: Device) -> None:
        if device.name not in self.results.bandwidths:
            self._progress(f"copy bandwidth of {device.name}")
        self.results.bandwidths[device.name] = copy_bandwidth(device)

    def _fma(self, device: Device) -> None:
        for dtype in DTYPES:
            if (device.name, dtype) not in self.results.fma:
                self._progress(f"fused multiply-adds of {device.name}, {dtype}")
            found = fma_rate(device, dtype)
            if found is not None:
                self.results.fma[device.name, dtype] = found

    def _reference(self, case: Any) -> Any:
        """One reference serves all cases of its kind; the last one is dropped for its memory."""
        if self._shared[0] != case.shared:
            self._shared = (None, None)
            self._shared = (case.shared, self._work.reference(case))
        return self._shared[1]
