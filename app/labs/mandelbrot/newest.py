"""Changes that come faster than they are worth following: only the newest values are passed on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PACE = 0.05  # seconds between two changes at least: the time in which a coarse picture is there


class Newest:
    """Calls change(**values) at once, and then at most every PACE seconds, with the newest value of each name.

    later(callback, milliseconds) runs a callback once on the loop that owns the values.
    """

    def __init__(
        self,
        change: Callable[..., object],
        later: Callable[[Callable[[], None], int], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._change, self._later, self._clock = change, later, clock
        self._waiting: dict[str, Any] = {}
        self._last, self._scheduled = -PACE, False

    def __call__(self, **values: Any) -> None:
        """Set `values`, now or soon."""
        self._waiting |= values
        left = self._last + PACE - self._clock()
        if left <= 0 and not self._scheduled:
            self._send()
        elif not self._scheduled:
            self._scheduled = True
            self._later(self._send, max(1, round(1000 * left)))

    def _send(self) -> None:
        self._scheduled, self._last = False, self._clock()
        values, self._waiting = self._waiting, {}
        self._change(**values)
