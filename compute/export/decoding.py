"""Tasks that read what a user has loaded: a picture, arrays. They run in the lane DECODE, each in a child process.

The child limits its own memory while it decodes, and its job has a deadline of seconds: whatever a file does to a
library, neither the server nor an engine waits for it. What comes back is decoded, bounded in size, and never decoded
again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compute.export.child_process import Tell
from compute.images import Picture
from compute.labs.l_curve.problems.own import ArrayFile

try:
    import resource
except ImportError:  # Windows: the deadline alone bounds a task
    resource = None  # type: ignore[assignment]

MEMORY = 2**30  # bytes beyond what the process has: 50 million pixels in colour take 250 MB, an array 256 MiB thrice
STATUS = Path("/proc/self/status")


def picture(data: bytes, tell: Tell) -> Picture:
    """Decode the picture that `data` holds; ValueError if it is refused."""
    tell(0.0, "reading")
    with limited_memory("image"):
        return Picture.read(data)


def arrays(data: bytes, name: str, tell: Tell) -> ArrayFile:
    """Read the arrays of a file for the option `name` of a problem; ValueError if it is refused."""
    tell(0.0, "reading")
    with limited_memory(name):
        return ArrayFile.read(data, name)


@contextmanager
def limited_memory(what: str, size: int = MEMORY) -> Iterator[None]:
    """Let this process allocate at most `size` bytes more in the block; ValueError names `what` needs more than that.

    Where the system does not tell what a process has, as outside Linux, nothing is limited.
    """
    used = _data_bytes()
    if resource is None or used is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = used + size
    resource.setrlimit(resource.RLIMIT_DATA, (min(most, hard) if hard >= 0 else most, hard))
    try:
        yield
    except MemoryError as error:
        raise ValueError(f"{what} must be readable in {size // 2**20} MiB of memory, and needs more") from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int | None:
    """Return what the system compares with the limit: private memory that can be written to; None if it is unknown."""
    try:
        found = re.search(r"^VmData:\s+(\d+) kB", STATUS.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
