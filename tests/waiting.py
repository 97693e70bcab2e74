"""Wait for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

PAUSE = 0.01  # seconds between two checks


def until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Return once `condition()` is true; fail after `seconds`, which is far more than any machine needs."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(PAUSE)
