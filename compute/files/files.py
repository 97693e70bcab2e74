"""Atomic writing of files, and the check that a path can be written.

A regular file is written to a temporary path in the same folder and renamed. A symbolic link is preserved: its target
is replaced. A device, a pipe or an open descriptor (/dev/null, a FIFO, /dev/stdout) would be destroyed by a rename, so
the finished bytes are copied into it.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from pathlib import Path
from typing import TextIO

REASONS = {
    ENOSPC: "the disk is full",
    EDQUOT: "the disk quota is exceeded",
    EFBIG: "the file exceeds the size limit of this file system",
}
NO_ROOM = 2**16  # free bytes below which an unexplained error is attributed to the disk
UNEXPLAINED = (0, EIO)  # error numbers that give no reason
MOST_LINKS = 40  # symbolic links in a row, as in Linux


class DiskFull(OSError):
    """No space is left for a file. The text names the file and the free bytes."""

    def __init__(self, text: str, errno: int = ENOSPC) -> None:
        super().__init__(text)
        self.errno = errno


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path with the name of `path`, where the block writes a file or a folder.

    At the end of the block the result replaces `path`: a reader sees the old file or the new one, never a part. If the
    block raises, the error is propagated and the old file is unchanged; DiskFull reports a lack of space.
    """
    stream = is_stream(path)
    target = path if stream else Path(os.path.realpath(path))
    place = Path(tempfile.gettempdir()) if stream else target.parent
    place.mkdir(parents=True, exist_ok=True)
    with _room_for(path, place), tempfile.TemporaryDirectory(dir=place, prefix=f".{path.name}.", suffix=".part") as new:
        made = Path(new) / path.name
        with _room_for(path, place):  # measured before the temporary folder is deleted, which frees space
            yield made
        if stream:
            _copy_into(made, path)
            return
        if target.is_file():
            with suppress(OSError):
                shutil.copymode(target, made)
        made.replace(target)


@contextmanager
def whole(path: Path) -> Iterator[TextIO]:
    """Yield a text file (UTF-8) to write in the block; see whole_file. Line ends are written unchanged."""
    with whole_file(path) as made, made.open("w", encoding="utf-8", errors="backslashreplace", newline="") as out:
        yield out
        out.flush()


def is_stream(path: Path) -> bool:
    """Return whether `path` is a device, a pipe, a socket or an open descriptor of this process."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or _is_descriptor(path)


def _is_descriptor(path: Path) -> bool:
    """Return whether a link on the path leads into /proc/…/fd, as /dev/stdout does: a shell may append to that file."""
    for _ in range(MOST_LINKS):
        folder = Path(os.path.realpath(path.parent))
        if folder.name == "fd" and folder.parts[1:2] == ("proc",):
            return True
        if not path.is_symlink():
            return False
        path = path.parent / path.readlink()
    return False


def _copy_into(made: Path, stream: Path) -> None:
    if made.is_dir():
        raise IsADirectoryError(f"{stream} must be a folder, not a device or a pipe")
    with made.open("rb") as data, stream.open("ab", buffering=0) as out:
        shutil.copyfileobj(data, out)


def require_writable(path: Path, folder: bool = False) -> None:
    """Raise ValueError unless `path` can be created or replaced; for use before long work. Creates the parent folder.

    folder: the result is a folder, so an existing folder is permitted.
    """
    try:
        if path.is_dir() and not folder:
            raise ValueError(f"{path} is a folder, not a file")
        if is_stream(path):
            if folder or not os.access(path, os.W_OK):
                raise ValueError(f"{path} cannot be written")
            return
        target = Path(os.path.realpath(path))
        if target.parent.exists() and not target.parent.is_dir():
            raise ValueError(f"{target.parent} is not a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not os.access(target, os.W_OK):
            raise ValueError(f"{path} cannot be written: it is read-only")
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{path.name}.", suffix=".part"):
            pass  # the folder accepts new entries
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror or error}") from error


@contextmanager
def _room_for(path: Path, place: Path) -> Iterator[None]:
    """Convert an error in the block to DiskFull if a lack of space in `place` explains it."""
    try:
        yield
    except DiskFull:
        raise
    except Exception as error:
        number = getattr(error, "errno", None) or 0
        free = shutil.disk_usage(place).free
        if number not in REASONS and not (number in UNEXPLAINED and free <= NO_ROOM):
            raise  # in /proc no bytes are free, but the error gives another reason
        reason = REASONS.get(number, REASONS[ENOSPC])
        raise DiskFull(f"{path.name} cannot be written: {reason}, {size(free)} are free", number or ENOSPC) from error


def size(count: float) -> str:
    """Return a number of bytes as text."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} bytes"
