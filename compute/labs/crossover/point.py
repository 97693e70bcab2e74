"""One way at one n within a sweep: how far it is, and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import nan
from typing import Literal, get_args

from compute.bench.measure import MOST
from compute.bench.samples import Sample
from compute.labs.crossover.catalogue import Way
from compute.timings import Measurement, Spread, Timing, settled

Status = Literal["waiting", "checked", "measured", "disagrees", "failed", "skipped", "missing"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass
class Point:
    """One way at one n. cold: the first call; samples: those that count; transfers: seconds there and back.

    difference: from the reference; first_call: seconds, compilation included; call_seconds: those of a later call;
    handling: seconds that making its arrays and comparing its results took.
    """

    way: Way
    n: int
    status: Status = "waiting"
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
        """What the samples took."""
        return [sample.timing for sample in self.samples]

    @property
    def measurement(self) -> Measurement | None:
        """Its times; None unless it was measured and is right."""
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
        """Seconds of the inputs to the device and of the results back."""
        return Spread.of(self.transfers)

    @property
    def label(self) -> str:
        """Its status, or "noisy" if the time scatters too much to be quoted without saying so."""
        measured = self.measurement
        return "noisy" if measured and measured.noisy else self.status

    @property
    def finished(self) -> bool:
        """Whether more samples would tell nothing new."""
        seconds = [timing.step_seconds for timing in self.timings]
        return len(seconds) >= MOST or settled(seconds)

    def refuse(self, status: Status, reason: str) -> None:
        """It has no time: why."""
        self.status, self.reason = status, reason

    def fail(self, error: Exception) -> None:
        """It raised."""
        self.refuse("failed", " ".join(f"{type(error).__name__}: {error}".split())[:300])
