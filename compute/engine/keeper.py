"""Keeps a good state of every lab on the server's side, from which a restarted engine goes on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np

from compute.devices import Host
from compute.engine.memory import NoSharedMemory, Writer
from compute.engine.messages import Delivery
from compute.engine.port import Port
from compute.lab import Lab

Mark = tuple[str, int] | None

log = logging.getLogger(__name__)

PERIOD = 1.0  # seconds between deposits of a running lab
SOON = 0.1  # seconds after which a change by hand is deposited
WAIT = 60.0  # seconds before the next attempt when there is no memory for a deposit
MARGIN = 3  # a state is copied once, written once, and the last one is still there
SHARE = 0.02  # part of the time that deposits may cost


class Keeper:
    """Deposits one lab's snapshots, piece by piece between slices; only healthy and finite states are good.

    mark: how far a recording was (Delivery) is kept beside the state.
    """

    def __init__(self, number: int, lab: Lab, port: Port, mark: Callable[[], Mark] = lambda: None) -> None:
        self._number, self._lab, self._port, self._mark = number, lab, port, mark
        self._changed = False
        self._next = time.monotonic() + PERIOD
        self._rested_at = 0.0
        self._cost = 0.0
        self._writer: Writer | None = None
        self._values: Mapping[str, Any] = {}
        self._marked: Mark = None

    def touch(self, *, by_hand: bool) -> None:
        """The state changed: by steps, or by hand (a value, paint, reset), which is worth keeping at once."""
        self._changed = True
        if by_hand:
            self._next = min(self._next, max(time.monotonic() + SOON, self._rested_at))

    def wakes_at(self) -> float:
        """When there is something to write; inf if there is not."""
        if self._writer:
            return 0.0
        return self._next if self._changed else inf

    def turn(self) -> None:
        """Take a snapshot or write the next piece of it."""
        start = time.monotonic()
        try:
            self._write()
        except NoSharedMemory as error:
            log.warning("lab %d: no deposit for a restart: %s", self._number, error)
            self.close()
            self._cost = WAIT * SHARE
        now = time.monotonic()
        self._cost += now - start
        if self._writer is None:
            self._rested_at = now + self._cost / SHARE
            self._next, self._cost = max(now + PERIOD, self._rested_at), 0.0

    def _write(self) -> None:
        if self._writer is None:
            self._begin()
        elif self._writer.write():
            deposit = Delivery(self._number, "deposit", self._writer.parcel, self._values, self._marked)
            self._port.say(deposit, [self._writer.descriptor])
            self.close()

    def _begin(self) -> None:
        self._changed = False
        needed, free = self._lab.predicted_bytes(**self._lab.values()), Host().free_bytes()
        if needed > free / MARGIN:
            raise NoSharedMemory(f"{needed} bytes for a copy are too much where {free} are free")
        if self._lab.healthy and finite(snapshot := self._lab.snapshot()):
            self._values, self._marked = self._lab.values(), self._mark()
            self._writer = Writer(snapshot)

    def close(self) -> None:
        """Give up what is being written."""
        if self._writer:
            self._writer.close()
            self._writer = None


def finite(snapshot: Mapping[str, Any]) -> bool:
    """Whether the arrays of a snapshot are free of NaN and inf: their float64 sums tell, in one pass."""
    arrays = [value for value in snapshot.values() if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
    with np.errstate(over="ignore", invalid="ignore"):
        return all(np.isfinite(array.sum(dtype=np.float64)) for array in arrays)
