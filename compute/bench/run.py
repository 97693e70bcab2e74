"""`fieldlab bench`: every way to compute a lab's step, checked, then timed side by side in one run.

For each grid: all ways start from the same field and are compared with the reference; those that agree are sampled in
shuffled rounds. A way that disagrees gets no time. A kernel that is wrong by design is timed too, and reported apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from compute.backends import BACKENDS, Backend
from compute.bench.bandwidth import copy_bandwidth
from compute.bench.case import CaseRun, Pace
from compute.bench.grid import Way
from compute.bench.rows import Plan, Results, Row

Progress = Callable[[str], None]


def workload_of(lab: str) -> ModuleType:
    """What there is to time in a lab; ValueError if it has nothing, or there is no such lab."""
    name = f"compute.labs.{lab}.workload"
    try:
        if lab.isidentifier():
            return import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in (name, f"compute.labs.{lab}"):
            raise
    raise ValueError(f"there is nothing to bench in a lab called {lab!r}; there is in: diffusion")


class Bench:
    """One run of a Plan; remembers the rates it saw, to skip what could not finish."""

    def __init__(self, plan: Plan, progress: Progress = lambda _: None) -> None:
        self._plan, self._progress = plan, progress
        self._work = workload_of(plan.lab)
        self._references: dict[tuple[int, str], Any] = {}
        self.results = Results()

    def run(self) -> Results:
        """Time every case, small grids first."""
        ways, cases, pace = list(self._ways()), list(self._cases()), Pace()
        self._bandwidths([way.backend for way in ways])
        for number, case in enumerate(cases, 1):
            where = f"{number}/{len(cases)}  {case.size}² {case.dtype} {case.edges}"
            self._progress(f"{where}: reference")
            run = CaseRun(self._work, case, self._reference(case), self._plan.budget / len(cases), pace)
            for way in ways:
                self._progress(f"{where}: checking {way.name}")
                run.check(way)
            self._progress(f"{where}: timing")
            run.sample()
            run.close()
            self.results.rows += run.rows
        return self.results

    def _cases(self) -> Iterator[Any]:
        for size in sorted(self._plan.sizes):
            for edges in self._plan.edges:
                for dtype in self._plan.dtypes:
                    yield self._work.Case(size, dtype, edges)

    def _ways(self) -> Iterator[Way]:
        """Every variant of every backend asked for; an absent one leaves a row that says why."""
        package = f"compute.labs.{self._plan.lab}"
        for backend in BACKENDS:
            if backend.name not in self._plan.backends or not backend.has_kernels(package):
                continue
            reason = backend.missing or _simulated(backend)
            if reason:
                self.results.rows.append(Row(backend.name, "", None, "missing", reason))
                continue
            for variant, step in backend.kernels(package).VARIANTS.items():
                yield Way(backend, variant, step)

    def _bandwidths(self, backends: Sequence[Backend]) -> None:
        for backend in dict.fromkeys(backends):
            device = backend.open_device()
            if device.name not in self.results.bandwidths:
                self._progress(f"copy bandwidth of {device.name}")
                self.results.bandwidths[device.name] = copy_bandwidth(device)
            device.close()

    def _reference(self, case: Any) -> Any:
        """One reference serves both dtypes of a size; older ones are dropped for their memory."""
        key = (case.size, case.edges)
        if key not in self._references:
            self._references = {key: self._work.reference(*key)}
        return self._references[key]


def _simulated(backend: Backend) -> str:
    if backend.device == "cuda" and os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        return "the CUDA simulator is on (NUMBA_ENABLE_CUDASIM=1): its times mean nothing"
    return ""
