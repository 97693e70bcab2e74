"""Files that are there whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """The path of a new file for a program of its own to write in the block, with the same name as `path`.

    A reader of `path` sees the old file or the new one, never a part. After an error, which is passed on, the old file
    is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.", suffix=".part") as folder:
        made = Path(folder) / path.name
        yield made
        made.replace(path)


@contextmanager
def whole(path: Path) -> Iterator[TextIO]:
    """The same as a text file (UTF-8) to write in the block. Line ends are written as they are given."""
    with whole_file(path) as made, made.open("w", encoding="utf-8", newline="") as out:
        yield out
        out.flush()
