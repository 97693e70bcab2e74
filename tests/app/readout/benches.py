"""Simulated engines for the live comparison: they compute results and invent times, at once or when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from compute.engine import benchmark_target
from compute.engine.messages import Sampled, Solved
from compute.labs.diffusion import Diffusion
from compute.measure.timing import Timing
from tests.comparing import answer_of

VALUES = {
    "backend": "cpu_numba", "variant": "", "device_index": 0, "ny": 20, "nx": 30, "dtype": "float32",
    "edges": "zero-flux", "r": 0.2, "unstable": False, "preset": "ring", "probe_x": 0.5,
}  # fmt: skip
ROOF = (10e9, 10e9, 20e9)  # bytes/s, the samples of the roof in each answer


class Job:
    """A lab that a comparison has opened. asked: its request, "solve" or "sample"; tell: sends it an event."""

    def __init__(self, engines: Engines, values: dict[str, Any], tell: Callable[[Any], None]) -> None:
        self.engines, self.values, self.tell = engines, values, tell
        self.asked, self.repeat, self.roof, self.open = "", 0, ("", ""), True
        self._work: Callable[[], Any] | None = None

    def sample(self, steps: int, repeat: int, roof: str = "", dtype: str = "") -> None:
        self.repeat, self.roof = repeat, (roof, dtype)
        about = self.values["backend"], self.values["variant"]
        cells = self.values["ny"] * self.values["nx"]
        timings = [Timing(*about, 1, cells, compute=0.3, first_call=True)]
        for _ in range(repeat):
            seconds = steps * self.engines.next_step_seconds(self.values["backend"])
            timings.append(Timing(*about, steps, cells, compute=seconds))
        self._request("sample", lambda: Sampled(tuple(timings), ROOF if roof else ()))

    def solve(self, steps: int, seed: int) -> None:
        if self.engines.solves:
            work = partial(answer_of, benchmark_target.solve(Diffusion, self.values, steps, seed))
        else:
            work = partial(Solved, steps, seed, np.zeros((2, 2)))
        self._request("solve", work)

    def _request(self, asked: str, work: Callable[[], Any]) -> None:
        self.asked, self._work = asked, work
        if self.engines.answers:
            self.answer()

    def answer(self) -> None:
        """Send the answer, unless it was sent."""
        work, self._work = self._work, None
        if work is not None:
            self.tell(work())

    def close(self) -> None:
        self.open = False


class Engines:
    """answers: whether each job is answered at once; solves: whether results are computed, otherwise all are zero.

    numba: seconds of a step of Numba, a quarter of NumPy's; drift: relative growth of the times from sample to sample.
    """

    def __init__(self, *, answers: bool = True, solves: bool = True, numba: float = 1e-4, drift: float = 0.0) -> None:
        self.answers, self.solves, self.drift = answers, solves, drift
        self.jobs: list[Job] = []
        self._steps = {"cpu_numba": numba, "cpu_numpy": 4 * numba}

    def open(self, engine: str, values: dict[str, Any], tell: Callable[[Any], None]) -> Job:
        self.jobs.append(Job(self, values, tell))
        return self.jobs[-1]

    def next_step_seconds(self, backend: str) -> float:
        self._steps[backend] *= 1 + self.drift
        return self._steps[backend]

    @property
    def open_jobs(self) -> list[Job]:
        return [job for job in self.jobs if job.open]

    def backends(self, asked: str) -> list[str]:
        """Return the backends of the jobs with this request."""
        return [job.values["backend"] for job in self.jobs if job.asked == asked]
