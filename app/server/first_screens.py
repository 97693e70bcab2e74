"""Compile the kernels of the first screens in a child process, unless the cached ones are up to date.

`app.server.serve` does so before it becomes the server; `python -m app.server.first_screens` does only this, for an
image or a test run. Compiled kernels are kept for the next start, which only checks that they belong to this code
(devices/kernel_cache.py). If compilation fails, a message says so, and the page compiles kernels on demand, as with
plain `panel serve app`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from time import monotonic
from typing import TextIO

from compute.devices import kernel_cache, precompile
from compute.devices.precompile import Part
from compute.process.child import ProcessEnd
from compute.process.tasks import Failure, Result, TaskProcess
from compute.process.watchdog import Deadlines, Loss

MOST_SECONDS = 900.0  # for all parts; a slower machine compiles on demand
CLEAR_LINE = "\r\033[K"


def first_parts() -> tuple[Part, ...]:
    """Return the parts to compile: each lab with the start values of its tab, and the roofs of this machine."""
    from app.tab.lab_view import first_values, parts_of  # takes a second, which a start with cached kernels saves
    from compute.labs import LABS

    return precompile.parts({lab: first_values(lab, parts_of(lab)) for lab in LABS})


def compile_first(out: TextIO = sys.stdout, parts: Callable[[], Sequence[Part]] = first_parts) -> bool:
    """Compile the kernels of the first screens; return whether all are cached. Progress and errors go to `out`."""
    if why := kernel_cache.problem():
        out.write(f"compiled kernels cannot be cached, so each process compiles its own: {why}\n")
        return False
    if kernel_cache.is_current():
        return True
    out.write("Compiling the kernels of the first screens; the result is cached until the next update.\n")
    out.flush()
    try:
        kernel_cache.forget_stale()
        fine = _compile(parts(), _Progress(out))
        if fine:
            kernel_cache.note_current()
    except OSError as error:
        out.write(f"not compiled in advance, but on first use: {error}\n")
        fine = False
    out.flush()
    return fine


def _compile(parts: Sequence[Part], progress: _Progress) -> bool:
    """Compile each part in one child; return whether all succeeded. OSError if the child crashes or takes too long."""
    fine, start = True, monotonic()
    with closing(TaskProcess(leads=True, low=False)) as child:
        for number, part in enumerate(parts, 1):
            progress.begin(f"compiling {part.words} {number} of {len(parts)}")
            limits = Deadlines(MOST_SECONDS - (monotonic() - start))
            match child.run(partial(precompile.compile_part, part), limits, is_paused=progress.show_seconds):
                case Result():
                    progress.end(f", {progress.seconds:.0f} s")
                case Failure(text=why):
                    progress.end(f": failed, compiled on first use instead: {why}")
                    fine = False
                case Loss(text=why) | ProcessEnd(text=why):
                    raise OSError(f"the compiling process was lost: {why}")
    return fine


class _Progress:
    """Writes one line per part; on a terminal, the line of the current part counts its seconds."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._live = out, out.isatty()
        self._words, self._since = "", monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the part began."""
        return monotonic() - self._since

    def begin(self, words: str) -> None:
        """Begin the line of a part."""
        self._words, self._since = words, monotonic()
        self.show_seconds()

    def show_seconds(self) -> bool:
        """Update the seconds on a terminal. Return False: a compilation is never paused."""
        if self._live:
            self._out.write(f"{CLEAR_LINE}{self._words}, {self.seconds:.0f} s")
            self._out.flush()
        return False

    def end(self, words: str) -> None:
        """Complete the line of a part."""
        self._out.write(f"{CLEAR_LINE if self._live else ''}{self._words}{words}\n")
        self._out.flush()


if __name__ == "__main__":
    sys.exit(0 if compile_first() else 1)
