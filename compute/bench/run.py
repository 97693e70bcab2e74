"""`fieldlab bench`: every way to compute a lab's step, checked, then timed side by side in one run.

For each case that the lab's workload.py names: all ways start from the same state and are compared with the reference;
those that agree are sampled in shuffled rounds. A way that disagrees gets no time. A kernel that is wrong by design is
timed too, and reported apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from compute.backends import BACKENDS, Backend
from compute.bench.bandwidth import copy_bandwidth
from compute.bench.case import CaseRun, Pace
from compute.bench.fma import DTYPES, fma_rate
from compute.bench.rows import Plan, Results, Row
from compute.bench.workload import Way, workload_of
from compute.devices import Device

Progress = Callable[[str], None]


class Bench:
    """One run of a Plan; remembers the rates it saw, to skip what could not finish."""

    def __init__(self, plan: Plan, progress: Progress = lambda _: None) -> None:
        self._plan, self._progress = plan, progress
        self._work = workload_of(plan.lab)
        self._shared: tuple[Any, Any] = (None, None)  # the newest reference, and what it is shared by
        self.results = Results()

    def run(self) -> Results:
        """Time every case, in the plan's order."""
        backends, cases, pace = list(self._backends()), self._plan.cases, Pace()
        self._roofs(backends)
        for number, case in enumerate(cases, 1):
            where = f"{number}/{len(cases)}  {case.title}"
            self._progress(f"{where}: reference")
            run = CaseRun(self._work, case, self._reference(case), self._plan.budget / len(cases), pace)
            for way in self._ways(backends, case):
                self._progress(f"{where}: checking {way.name}")
                run.check(way)
            self._progress(f"{where}: timing")
            run.sample()
            run.close()
            self.results.rows += run.rows
        return self.results

    def _backends(self) -> Iterator[Backend]:
        """Those asked for that are here; an absent one leaves a row that says why."""
        for backend in BACKENDS:
            if backend.name not in self._plan.backends or not backend.has_kernels(f"compute.labs.{self._plan.lab}"):
                continue
            reason = backend.missing or _simulated(backend)
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
        measure = {"copy": self._copy, "fma": self._fma}[self._work.RATE.roof]
        for backend in backends:
            device = backend.open_device()
            measure(device)
            device.close()

    def _copy(self, device: Device) -> None:
        if device.name not in self.results.bandwidths:
            self._progress(f"copy bandwidth of {device.name}")
            self.results.bandwidths[device.name] = copy_bandwidth(device)

    def _fma(self, device: Device) -> None:
        for dtype in DTYPES:
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


def _simulated(backend: Backend) -> str:
    if backend.device == "cuda" and os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        return "the CUDA simulator is on (NUMBA_ENABLE_CUDASIM=1): its times mean nothing"
    return ""
