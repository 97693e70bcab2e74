"""Checkpoints of a lab, taken by the worker and stored on the server; a restarted engine continues from them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np

from compute.devices.devices import Host
from compute.engine.messages import CheckpointMessage, RecordingOffset
from compute.engine.sending import EventSender
from compute.engine.shared_memory import BlobWriter, NoSharedMemory
from compute.lab.lab import Lab
from compute.lab.two_runs import SECOND

log = logging.getLogger(__name__)

PERIOD = 1.0  # seconds between checkpoints of a running lab
AFTER_CHANGE = 0.1  # seconds between a change by hand and its checkpoint
RETRY = 60.0  # seconds before the next attempt when there is no memory for a checkpoint
MARGIN = 3  # times its size in free memory: a state is copied once, written once, and the last one still exists
SHARE = 0.02  # part of the time that the checkpoints of one lab may use
TOGETHER = 0.05  # and those of all labs: 40 labs of 2048 x 2048 cells would otherwise use most of an engine's time


class Checkpointer:
    """Sends snapshots of one lab, in pieces between slices. Only healthy labs with finite arrays are saved.

    recording_offset: returns the position of the recording, which is stored with the state; None without a recording.
    labs: number of labs on the engine.
    """

    def __init__(
        self,
        number: int,
        lab: Lab,
        sender: EventSender,
        recording_offset: Callable[[], RecordingOffset | None] = lambda: None,
    ) -> None:
        self._number, self._lab, self._sender, self._recording_offset = number, lab, sender, recording_offset
        self.labs = 1
        self._changed = False
        self._next = time.monotonic() + PERIOD
        self._rested_at = 0.0
        self._cost = 0.0
        self._writer: BlobWriter | None = None
        self._values: Mapping[str, Any] = {}
        self._offset: RecordingOffset | None = None

    def touch(self, *, by_hand: bool) -> None:
        """Note that the state has changed, by steps or by hand (a value, paint, reset); the latter is saved soon."""
        self._changed = True
        if by_hand:
            self._next = min(self._next, max(time.monotonic() + AFTER_CHANGE, self._rested_at))

    def wakes_at(self) -> float:
        """Return the time of the next piece of work; inf if the state is unchanged."""
        if self._writer:
            return 0.0
        return self._next if self._changed else inf

    def turn(self) -> None:
        """Take a snapshot or write the next piece of it."""
        start = time.monotonic()
        try:
            self._write()
        except (NoSharedMemory, OSError) as error:
            log.warning("lab %d: no checkpoint for a restart: %s", self._number, error)
            self.close()
            self._cost = RETRY * SHARE
        now = time.monotonic()
        self._cost += now - start
        if self._writer is None:
            self._rested_at = now + self._cost / min(SHARE, TOGETHER / self.labs)
            self._next, self._cost = max(now + PERIOD, self._rested_at), 0.0

    def _write(self) -> None:
        if self._writer is None:
            self._begin()
        elif self._writer.write():
            message = CheckpointMessage(self._number, self._writer.payload, self._values, self._offset)
            self._sender.send(message, [self._writer.descriptor])
            self.close()

    def _begin(self) -> None:
        self._changed = False
        needed, free = self._lab.predicted_bytes(**self._lab.values()), Host().free_bytes()
        if needed > free / MARGIN:
            raise NoSharedMemory(f"{needed} bytes for a copy are too much where {free} are free")
        if self._lab.status.healthy and all_finite(snapshot := self._lab.snapshot()):
            self._values, self._offset = self._lab.values(), self._recording_offset()
            self._writer = BlobWriter(snapshot)

    def close(self) -> None:
        """Discard an unfinished checkpoint."""
        if self._writer:
            self._writer.close()
            self._writer = None


def all_finite(snapshot: Mapping[str, Any]) -> bool:
    """Return whether the arrays of a snapshot, and of a second run in it, contain no NaN or inf.

    This is determined by their float64 sums, in one pass.
    """
    if SECOND in snapshot and not all_finite(snapshot[SECOND]):
        return False
    arrays = [value for value in snapshot.values() if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
    with np.errstate(over="ignore", invalid="ignore"):
        return all(np.isfinite(array.sum(dtype=np.float64)) for array in arrays)
