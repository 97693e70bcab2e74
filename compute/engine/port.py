"""The worker's way to the server: reports, signs of life, and errors put into words."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from compute.engine.line import Line
from compute.engine.memory import Writer
from compute.engine.messages import Beat, Delivery, Event, Expect, Fatal, Notice, Report

log = logging.getLogger(__name__)

LONG = 115.0  # seconds allowed beyond the usual deadline where kernels may be compiled
LONGEST_TEXT = 400  # characters of an error shown to a client; it may quote what the client sent
QUIET = 10.0  # seconds between two logged tracebacks of the same kind
# CUDA errors after which "the process must be terminated and relaunched" (cuda.h)
LOST_CONTEXT = frozenset({226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911})


class Port:
    """Sends reports over `line`; a Beat goes out when nothing else did for `beat` seconds."""

    def __init__(self, line: Line, beat: float) -> None:
        self._line, self._beat = line, beat
        self._last = 0.0
        self._expected: list[Expect] = []
        self._logged: dict[tuple[int, str], float] = {}

    def say(self, report: Report, descriptors: Sequence[int] = ()) -> None:
        """Send `report`."""
        self._line.send(report, descriptors)
        self._last = time.monotonic()

    def tell(self, lab: int, event: Event) -> None:
        """Send a small event to the client of lab number `lab`."""
        self.say(Notice(lab, event))

    def deliver(self, lab: int, event: Event) -> None:
        """Send an event that may hold large arrays."""
        writer = Writer(event)
        try:
            while not writer.write():
                self.beat()
            self.say(Delivery(lab, "event", writer.parcel, {}), [writer.descriptor])
        finally:
            writer.close()

    def beat(self) -> None:
        """Give a sign of life if one is due."""
        if time.monotonic() - self._last >= self._beat:
            self.say(Beat())

    @contextmanager
    def expecting(self, lab: int, what: str, seconds: float) -> Iterator[None]:
        """Announce that the block may take `seconds` more than usual; the client hears `what` unless it is empty."""
        self.expect(lab, what, seconds)
        try:
            yield
        finally:
            self.expected()

    def expect(self, lab: int, what: str, seconds: float) -> None:
        """Announce that what follows may take `seconds` more than usual, until `expected`."""
        self._expected.append(Expect(lab, what, seconds))
        self.say(self._expected[-1])

    def expected(self) -> None:
        """What was announced last is over; what it was a part of goes on."""
        self._expected.pop()
        self.say(self._expected[-1] if self._expected else Beat())

    def trouble(self, lab: int, error: Exception, event: Callable[[str], Event]) -> None:
        """Tell the lab's client about `error`; log a traceback, at most one of a kind in QUIET seconds.

        A ValueError is a refused value and not logged. A lost device context ends this process.
        """
        if context_lost(error):
            log.error("device context lost", exc_info=error)
            self.say(Fatal(lab, f"the device reported an error that only a restart cures: {in_words(error)}"))
            raise SystemExit(3)
        if not isinstance(error, ValueError):
            self._log(lab, error)
        self.tell(lab, event(in_words(error)))

    def _log(self, lab: int, error: Exception) -> None:
        key, now = (lab, type(error).__name__), time.monotonic()
        if now - self._logged.get(key, -QUIET) >= QUIET:
            self._logged[key] = now
            log.error("lab %d: %s", lab, in_words(error), exc_info=error)

    def forget(self, lab: int) -> None:
        """Drop what is remembered of a closed lab."""
        self._logged = {key: moment for key, moment in self._logged.items() if key[0] != lab}


def in_words(error: Exception) -> str:
    """What an error says, without a traceback and of bounded length."""
    text = " ".join(str(error).split())
    if not isinstance(error, ValueError) or not text:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} …"


def context_lost(error: Exception) -> bool:
    """Whether a CUDA error, of CuPy (`status`) or Numba (`code`), has destroyed this process's context."""
    if type(error).__module__.partition(".")[0] not in {"cupy", "cupy_backends", "numba", "numba_cuda", "cuda"}:
        return False
    return getattr(error, "status", getattr(error, "code", None)) in LOST_CONTEXT
