"""File readers for test_upload.py, run in a child process, which need not import the page."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from compute.export.decoding import limited_memory
from compute.lab.loaded import LoadedFile, fingerprint


@dataclass(frozen=True, eq=False)
class Measured(LoadedFile):
    """A file of which only the size is known."""

    size: int
    fingerprint: str
    ballast: bytes = b""


def measured(data, report):
    """Return the file's size as `Measured`."""
    return Measured(len(data), fingerprint(data))


def slow_if_long(data, report):
    """Like `measured`, but compute for a minute for a file of more than 100 bytes."""
    end = time.monotonic() + (60 if len(data) > 100 else 0)
    while time.monotonic() < end:
        sum(range(10_000))
    return measured(data, report)


def refused(data, report):
    """Raise ValueError, as for a file of the wrong kind."""
    raise ValueError("matrix must be a matrix")


def hungry(data, report):
    """Allocate more memory than allowed."""
    with limited_memory("matrix", 2**26):
        return bytearray(2**27)


def gone(data, report):
    """End the reader's process."""
    os._exit(9)
