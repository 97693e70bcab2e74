"""Files that are there whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import TextIO

REASONS = {
    ENOSPC: "the disk is full",
    EDQUOT: "what you may keep on this disk is used up",
    EFBIG: "a file may not be as large here",
}
NO_ROOM = 2**16  # free bytes below which an error of a library that names no reason is put down to the disk


class DiskFull(OSError):
    """There is no room for a file; the text names it, and says how much is free."""

    def __init__(self, text: str, errno: int = ENOSPC) -> None:
        super().__init__(text)
        self.errno = errno


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """The path of a new file for a program of its own to write in the block, with the same name as `path`.

    A reader of `path` sees the old file or the new one, never a part. After an error, which is passed on, the old file
    is as it was; one for want of room is a DiskFull.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _room_for(path), tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.", suffix=".part") as new:
        made = Path(new) / path.name
        with _room_for(path):  # asked before what was written is deleted, which makes room
            yield made
        made.replace(path)


@contextmanager
def whole(path: Path) -> Iterator[TextIO]:
    """The same as a text file (UTF-8) to write in the block. Line ends are written as they are given."""
    with whole_file(path) as made, made.open("w", encoding="utf-8", newline="") as out:
        yield out
        out.flush()


@contextmanager
def _room_for(path: Path) -> Iterator[None]:
    try:
        yield
    except DiskFull:
        raise
    except Exception as error:
        free = shutil.disk_usage(path.parent).free
        number = getattr(error, "errno", None) or 0
        if number not in REASONS and free > NO_ROOM:
            raise
        reason = REASONS.get(number, REASONS[ENOSPC])
        raise DiskFull(f"{path.name} cannot be written: {reason}, {size(free)} are free", number or ENOSPC) from error


def size(count: float) -> str:
    """A number of bytes for a sentence."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} bytes"
