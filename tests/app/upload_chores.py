"""What reads a file in tests, in a child process: quick, slow, wrong, or the end of its process."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from compute.export.decoding import limited_memory
from compute.loaded import LoadedFile, fingerprint


@dataclass(frozen=True, eq=False)
class Measured(LoadedFile):
    """A file of which only the size is known."""

    size: int
    fingerprint: str
    ballast: bytes = b""


def measured(data, tell):
    """How large it is."""
    return Measured(len(data), fingerprint(data))


def slow_if_long(data, tell):
    """As `measured`; a file of more than 100 bytes takes a minute."""
    time.sleep(60 if len(data) > 100 else 0)
    return measured(data, tell)


def busy_if_long(data, tell):
    """The same, with a processor at work."""
    end = time.monotonic() + (60 if len(data) > 100 else 0)
    while time.monotonic() < end:
        sum(range(10_000))
    return measured(data, tell)


def refused(data, tell):
    """A file of the wrong kind."""
    raise ValueError("matrix must be a matrix")


def hungry(data, tell):
    """A file that takes too much memory."""
    with limited_memory("matrix", 2**26):
        return bytearray(2**27)


def gone(data, tell):
    """A file at which the reader's process ends."""
    os._exit(9)
