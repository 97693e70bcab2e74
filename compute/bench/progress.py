"""How a bench gets on: a bar with the time left on a terminal, a line for each thing begun elsewhere.

The bar is drawn when the bench says something, which it does between samples: no thread of it runs while one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column

REDRAW = 0.25  # seconds between two drawings of the bar
SURE = 0.02  # part that must be done before the time left is guessed
Say = Callable[..., None]  # (text, part that is done or None)


@contextmanager
def shown(console: Console, clock: Callable[[], float] = monotonic) -> Iterator[Say]:
    """Show progress on `console` until the end of the block."""
    if console.is_terminal:
        with _bar(console) as bar:
            yield Bar(bar, clock)
    else:
        yield Lines(console)


def left(elapsed: float, done: float) -> str:
    """The time left in words, from the pace so far; empty as long as that tells too little."""
    if done < SURE or done >= 1:
        return ""
    seconds = round(elapsed * (1 - done) / done)
    return f"{seconds // 60}:{seconds % 60:02d} left"


def _bar(console: Console) -> Progress:
    wide = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True))
    columns = wide, BarColumn(30), TaskProgressColumn(), TextColumn("{task.fields[left]}")
    return Progress(*columns, console=console, auto_refresh=False, transient=True, expand=True)


class Bar:
    """A bar of rich, drawn anew at most every REDRAW seconds unless the words change."""

    def __init__(self, bar: Progress, clock: Callable[[], float]) -> None:
        self._bar, self._clock, self._start = bar, clock, clock()
        self._task = bar.add_task("starting", total=1.0, left="")
        self._words, self._drawn = "", -REDRAW

    def __call__(self, text: str, done: float | None = None) -> None:
        """Show it."""
        now = self._clock()
        if text == self._words and now - self._drawn < REDRAW:
            return
        self._words, self._drawn = text, now
        self._bar.update(self._task, description=text)
        if done is not None:
            self._bar.update(self._task, completed=done, left=left(now - self._start, done))
        self._bar.refresh()


class Lines:
    """What is done, a line each."""

    def __init__(self, console: Console) -> None:
        self._console, self._words = console, ""

    def __call__(self, text: str, done: float | None = None) -> None:  # noqa: ARG002 a log needs no percentages
        """Say it once."""
        if text != self._words:
            self._words = text
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
