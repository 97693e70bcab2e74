"""Tasks that decode uploads: pictures and arrays. They run in the lane DECODE, each in a child process.

The child limits its own memory while it decodes, and its job has a deadline of a few seconds, so a hostile file costs
neither the server nor an engine any time. The result has a bounded size and is never decoded again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compute.files.images import LoadedPicture
from compute.labs.l_curve.problems.own import ArrayFile
from compute.process.tasks import Report

try:
    import resource
except ImportError:  # Windows: only the deadline bounds a task
    resource = None  # type: ignore[assignment]

MEMORY = 2**30  # bytes a task may allocate: 50 million pixels in colour take 250 MB, an array three times 256 MiB
STATUS = Path("/proc/self/status")


def picture(data: bytes, report: Report) -> LoadedPicture:
    """Decode a PNG or JPEG file. Raise ValueError for a refused file."""
    report(0.0, "reading")
    with limited_memory("image"):
        return LoadedPicture.read(data)


def arrays(data: bytes, name: str, report: Report) -> ArrayFile:
    """Read the arrays of a file for the problem option `name`. Raise ValueError for a refused file."""
    report(0.0, "reading")
    with limited_memory(name):
        return ArrayFile.read(data, name)


@contextmanager
def limited_memory(what: str, size: int = MEMORY) -> Iterator[None]:
    """Limit the memory that the block may allocate to `size` bytes; beyond it, raise a ValueError that names `what`.

    Without /proc, on systems other than Linux, there is no limit.
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
    """Return the bytes that RLIMIT_DATA counts, the private writable memory of this process; None if unknown."""
    try:
        found = re.search(r"^VmData:\s+(\d+) kB", STATUS.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
