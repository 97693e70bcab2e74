"""What the command line shows of long work, and where its file may be written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from compute.export.kept import Kept
from compute.export.scene import SceneError
from compute.machine import writable

FOLDERS = (".zarr",)  # endings of what is a folder


@contextmanager
def shown(what: str, total: int, kept: Kept) -> Iterator[Callable[..., None]]:
    """A progress bar on a terminal; what it gives takes (done, what = …). Ctrl-C says in the end what is kept."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    terminal = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=terminal, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(what, total=total)

        def tell(done: int, doing: str = what) -> None:
            bar.update(task, completed=done, description=doing)

        try:
            yield tell
        except KeyboardInterrupt as stop:
            stop.args = (kept.words,)
            raise


def require_writable(path: Path) -> None:
    """Raise SceneError if nothing can be written there: before hours of work."""
    if path.is_dir() and path.suffix.lower() not in FOLDERS:
        raise SceneError(f"{path} is a folder, not a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    if not writable(path):
        raise SceneError(f"{path} cannot be written")
