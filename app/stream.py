"""Never more frames under way than the browser can paint.

A frame goes engine -> gate -> browser -> acknowledgement -> gate. The gate holds at most one unsent frame (a newer
one replaces it), lets at most `window` frames be unacknowledged, and asks the engine for as many as that leaves room
for, plus `ahead` prepared while the browser paints. The window follows the network's delay, measured on frames that
travelled alone: one that waits behind another in a busy browser says nothing about the network. The browser
acknowledges after its paint, so a slow or hidden client simply stops the supply: nothing queues anywhere. This is the
only file that knows frame numbers.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from compute.frames import Frame
from compute.spans import Span

WIDEST = 8  # frames under way at most; the engine's ring has room for one more
TARGET_INTERVAL = 1 / 60  # seconds between frames beyond which a wider window buys nothing
FREE_DELAY = 0.010  # seconds of round trip that one frame under way hides by itself
RECENT = 8  # clean samples of the network's delay, and paints, that are remembered
PROBE = 64  # paints between two looks at the bare delay when several frames are under way
RATE_SPAN = 2.0  # seconds over which painted frames are counted


@dataclass(frozen=True)
class Delivered:
    """One painted frame: how long it was under way and how much of that the client itself took (seconds).

    at: when its acknowledgement came, by the gate's clock.
    """

    frame: Frame
    seconds: float
    client_seconds: float
    at: float = math.nan

    @property
    def timed(self) -> Frame:
        """The frame with its timing completed by the delivery."""
        timing = self.frame.timing
        spans = (*timing.spans, Span("delivery", self.at, self.seconds))
        return replace(self.frame, timing=replace(timing, delivery=self.seconds, spans=spans))


class FrameGate:
    """Paces one lab's frames into one browser tab.

    send(number, frame) writes a frame to the browser; credit(n) permits the engine n more; schedule(callback) runs a
    callback soon on the loop that owns the document; delivered(Delivered) hears of every paint. `offer` may be called
    from any thread, everything else from that loop.
    """

    def __init__(
        self,
        send: Callable[[int, Frame], None],
        credit: Callable[[int], None],
        schedule: Callable[[Callable[[], None]], object],
        delivered: Callable[[Delivered], None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
        ahead: int = 1,
    ) -> None:
        self._send, self._credit, self._schedule = send, credit, schedule
        self._delivered, self._clock, self._ahead = delivered, clock, ahead
        self._lock = threading.Lock()
        self._waiting: Frame | None = None
        self._scheduled = self._closed = self._open = False
        self._number = 0
        self._granted = 0
        self._sent: dict[int, tuple[float, Frame, bool]] = {}  # when, what, and whether nothing else was under way
        self._since_clean = 0
        self._delays: deque[float] = deque(maxlen=RECENT)
        self._client: deque[float] = deque(maxlen=RECENT)
        self._painted: deque[float] = deque(maxlen=256)
        self.window, self.dropped, self.latency = 1, 0, math.nan

    @property
    def under_way(self) -> int:
        """Frames written to the browser and not yet acknowledged."""
        return len(self._sent)

    @property
    def rate(self) -> float:
        """Frames painted a second, over the last RATE_SPAN seconds."""
        now = self._clock()
        recent = [moment for moment in self._painted if now - moment <= RATE_SPAN]
        if len(recent) < 2:
            return 0.0
        return len(recent) / RATE_SPAN if len(recent) > 2 * RATE_SPAN else (len(recent) - 1) / (now - recent[0])

    def open(self) -> None:
        """Start, or start again after a reconnect or with another engine: forget what was under way, ask for frames."""
        with self._lock:
            self._open = True
            self._sent.clear()
            self._granted = 0
        self._flush()

    def pause(self) -> None:
        """The client is gone for now: ask for nothing more, until `open`."""
        self._open = False

    def refresh(self) -> None:
        """Values have changed: a frame that waits shows the old ones, so ask for another instead."""
        with self._lock:
            self.dropped += self._waiting is not None
            self._waiting = None
        self._refill()

    def close(self) -> None:
        """For good: drop what waits, ask for nothing more."""
        with self._lock:
            self._closed, self._open, self._waiting = True, False, None
            self._sent.clear()

    def offer(self, frame: Frame) -> None:
        """Take the newest frame; an older one that was not yet written is dropped. Callable from any thread."""
        with self._lock:
            if self._closed:
                return
            self._granted = max(0, self._granted - 1)
            self.dropped += self._waiting is not None
            self._waiting = frame
            if self._scheduled or not self._has_room():
                return
            self._scheduled = True
        self._schedule(self._flush)

    def acknowledge(self, number: int, client_seconds: float = 0.0) -> None:
        """The browser has painted frame `number` (and so every older one), taking `client_seconds` for it."""
        now = self._clock()
        with self._lock:
            moment, frame, alone = self._sent.get(number, (now, None, False))
            for old in [sent for sent in self._sent if sent <= number]:
                del self._sent[old]
        if frame is not None:
            self._measure(now, now - moment, client_seconds, alone)
            if self._delivered is not None:
                self._delivered(Delivered(frame, now - moment, client_seconds, now))
        self._flush()

    def _measure(self, now: float, seconds: float, client_seconds: float, alone: bool) -> None:
        client = min(max(client_seconds, 0.0), seconds) if math.isfinite(client_seconds) else 0.0
        self._painted.append(now)
        self._client.append(client)
        self.latency = seconds
        self._since_clean += 1
        if alone:
            self._since_clean = 0
            self._delays.append(seconds - client)
            self.window = window_for(min(self._delays), sorted(self._client)[len(self._client) // 2])

    def _has_room(self) -> bool:
        window = 1 if self._since_clean >= PROBE else self.window
        return self._open and len(self._sent) < window

    def _flush(self) -> None:
        """Write the waiting frame if there is room for it, then ask the engine for what is missing."""
        with self._lock:
            self._scheduled = False
            frame = self._waiting if self._has_room() else None
            if frame is not None:
                self._waiting = None
                self._number += 1
                number = self._number
                self._sent[number] = (self._clock(), frame, not self._sent)
        if frame is not None:
            self._send(number, frame)
        self._refill()

    def _refill(self) -> None:
        with self._lock:
            if not self._open:
                return
            under_way = len(self._sent) + self._granted + (self._waiting is not None)
            missing = self.window + self._ahead - under_way
            if missing <= 0:
                return
            self._granted += missing
        self._credit(missing)


def window_for(delay: float, client_seconds: float) -> int:
    """How many frames may be under way: one, plus those that hide `delay` seconds of network at the client's pace."""
    pace = max(TARGET_INTERVAL, client_seconds)
    return min(WIDEST - 1, 1 + max(0, math.ceil((delay - FREE_DELAY) / pace)))
