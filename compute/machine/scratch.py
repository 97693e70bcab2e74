"""Temporary folders of a process. They are deleted with it, at the latest when the next server starts.

Their names identify the process: fieldlab-KIND-HOST-PID-… in the system's folder for temporary files.
"""

from __future__ import annotations

import atexit
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

HOST = re.sub(r"\W", "", platform.node())[:32] or "here"  # containers that share the folder number processes separately
NAME = re.compile(rf"fieldlab-[a-z]+-{HOST}-(\d+)-\w+")


def folder(kind: str) -> Path:
    """Return a new empty folder of this process. kind: lower-case letters that describe its contents."""
    if not re.fullmatch("[a-z]+", kind):
        raise ValueError(f"kind must be lower-case letters, not {kind!r}")
    return Path(tempfile.mkdtemp(prefix=f"fieldlab-{kind}-{HOST}-{os.getpid()}-"))


@contextmanager
def lent(kind: str) -> Iterator[Path]:
    """Yield a new empty folder; delete it after the block."""
    path = folder(kind)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def clear(pid: int) -> None:
    """Delete all folders of the process `pid` of this machine, which has ended or is about to end."""
    for path, owner in _found():
        if owner == pid:
            shutil.rmtree(path, ignore_errors=True)


def settle() -> None:
    """Delete the folders of killed processes. Folders of other users stay."""
    for path, owner in _found():
        if not psutil.pid_exists(owner):
            shutil.rmtree(path, ignore_errors=True)


def _found() -> list[tuple[Path, int]]:
    here = Path(tempfile.gettempdir())
    matches = [(path, NAME.fullmatch(path.name)) for path in here.glob("fieldlab-*")]
    return [(path, int(match[1])) for path, match in matches if match]


@atexit.register
def _leave() -> None:
    clear(os.getpid())
