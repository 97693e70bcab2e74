"""One way to compute, and the pair of arrays it computes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from compute.backends import Backend
from compute.devices import Device
from compute.timings import Timing


@dataclass(frozen=True)
class Way:
    """One kernel of one backend."""

    backend: Backend
    variant: str
    step: Callable[..., None]

    @property
    def name(self) -> str:
        """Backend and variant."""
        return f"{self.backend.name} {self.variant}"


class Grid:
    """The pair of arrays of one backend on one grid, shared by its variants."""

    def __init__(self, device: Device, work: ModuleType, case: Any, start: Any) -> None:
        self.device, self._work, self._case, self._start = device, work, case, start
        self._u = device.upload(start)
        self._out = device.allocate(start.shape, start.dtype)
        self._age = 0

    def run(self, way: Way, steps: int) -> Timing:
        """Advance by `steps` and time it on the device; reload first if the field has faded."""
        if self._age > self._case.lifetime:
            self.load()
        stopwatch = self.device.stopwatch()
        with self.device.lock, stopwatch:
            way.step(self._u, self._out, self._work.R, self._case.edges, steps)
        seconds = stopwatch.seconds()
        self._u, self._out = self._out, self._u
        self._age += steps
        return Timing(way.backend.name, way.variant, steps, self._case.cells, stopwatch.launch, seconds)

    def load(self) -> None:
        """Back to the start."""
        self.device.write(self._start, self._u)
        self._age = 0

    def field(self) -> Any:
        """The newest field on the host."""
        return self.device.download(self._u)
