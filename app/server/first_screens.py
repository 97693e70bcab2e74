"""Compile the kernels of the first screens by running them in child processes, unless the cached ones are up to date.

`app.server.serve` does so before it becomes the server; `python -m app.server.first_screens` does only this, for an
image or a test run. Compiled kernels are kept for the next start, which only checks that they belong to this code
(devices/kernel_cache.py). If compilation fails, a message says so, and the page compiles kernels on demand, as with
plain `panel serve app`.

There is no list of these kernels: each lab is opened with the start values of its tab, advanced and shown, and Numba's
cache stores the compiled kernels for the engine's process.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, TextIO

from compute.devices import kernel_cache
from compute.devices.builds import watching
from compute.devices.devices import HOST, cpu_count
from compute.engine.worker import prepare
from compute.lab.lab import Lab
from compute.labs import LABS
from compute.measure import machine_roofs
from compute.measure.benchmark import benchmark_of
from compute.measure.verdict import pairing
from compute.process.tasks import TICK, Failure, Report, Result, TaskProcess, exchange
from compute.process.watchdog import Deadlines
from compute.start import start

LANES = 2  # parts compiled at the same time: the longest, Diffusion, takes 0.4 of all processor time
MOST_SECONDS = 900.0  # for all parts; a slower machine compiles on demand
CLEAR_LINE = "\r\033[K"
PIXELS = (512, 512), (200, 200)  # pictures at least as large as the plot, and smaller ones, which need reduction
INTERPRETED = "cpu_numpy"  # compiles nothing
QUIET = 6  # consecutive slices without compilation after which compilation is assumed complete
MOST_SLICES = 200
SAMPLED, SEED = 2, 20  # steps of the second trial of a compared way; seed of its start state


@dataclass(frozen=True)
class Part:
    """One part of the advance compilation.

    words: the purpose of its kernels; run: can be pickled; alone: it measures, so no other part runs at the same time.
    """

    words: str
    run: Callable[[], object]
    alone: bool = False


def first_parts() -> tuple[Part, ...]:
    """Return the parts to compile: each lab with the start values of its tab, and the roofs of this machine."""
    from app.tab.lab_view import first_values, parts_of  # takes a second, which a start with cached kernels saves

    screens = {lab: first_values(lab, parts_of(lab)) for lab in LABS}
    labs = (Part(f"the {lab.TITLE} kernels", partial(first_screen, lab, values)) for lab, values in screens.items())
    return (*labs, Part("the measurements of this machine", machine_roofs.measure_and_keep, alone=True))


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
        made = parts()
        fine = _compile(made, _Progress(out, len(made)))
        if fine:
            kernel_cache.note_current()
    except OSError as error:
        out.write(f"not compiled in advance, but on first use: {error}\n")
        fine = False
    out.flush()
    return fine


def main() -> int:
    """Compile; return the exit code, 0 if all kernels are cached."""
    return 0 if compile_first() else 1


def _compile(parts: Sequence[Part], progress: _Progress) -> bool:
    """Compile the parts in LANES children at once; return whether all succeeded.

    Raise OSError if a child crashes or takes too long.
    """
    fine, until = True, monotonic() + MOST_SECONDS
    waiting, running = deque(parts), dict[TaskProcess, Part]()
    with ExitStack() as open_children:
        idle = [
            open_children.enter_context(closing(TaskProcess(leads=True, low=False)))
            for _ in range(min(LANES, cpu_count(), len(parts)))
        ]
        while waiting or running:
            while waiting and idle and not (running and waiting[0].alone):
                part = waiting.popleft()
                running[child := idle.pop()] = part
                child.give(partial(compile_part, part), Deadlines(until - monotonic()))
                progress.begin(part.words)
            for child, answer in exchange(list(running), TICK):
                if isinstance(answer, Result | Failure):
                    progress.end(running.pop(child).words, answer.text if isinstance(answer, Failure) else "")
                    fine &= isinstance(answer, Result)
                    idle.append(child)
            for child in running:
                if lost := child.lost() or (child.end() if child.ended else None):
                    raise OSError(f"the compiling process was lost: {lost.text}")
            progress.show_seconds()
    return fine


class _Progress:
    """Writes a line for each finished part; on a terminal, a last line counts the seconds of those in progress."""

    def __init__(self, out: TextIO, count: int) -> None:
        self._out, self._live, self._count = out, out.isatty(), count
        self._ended = 0
        self._since: dict[str, float] = {}  # start of each part in progress, by its words

    def begin(self, words: str) -> None:
        """Begin a part."""
        self._since[words] = monotonic()
        self.show_seconds()

    def show_seconds(self) -> None:
        """Update the seconds on a terminal."""
        if self._live and self._since:
            running = ", ".join(f"{words} {monotonic() - since:.0f} s" for words, since in self._since.items())
            self._out.write(f"{CLEAR_LINE}compiling {running}")
            self._out.flush()

    def end(self, words: str, why: str = "") -> None:
        """Report a finished part. why: the reason if it failed."""
        self._ended += 1
        seconds = monotonic() - self._since.pop(words)
        said = f": failed, compiled on first use instead: {why}" if why else f", {seconds:.0f} s"
        self._out.write(f"{CLEAR_LINE if self._live else ''}{self._ended} of {self._count}: {words}{said}\n")
        self._out.flush()


# -- in the child


def first_screen(lab: type[Lab], values: Mapping[str, Any]) -> None:
    """Run the first actions of a tab of `lab`: advance until all kernels are compiled, draw, compare.

    Prepare the host's engine before the comparison, which uses that engine even for a tab on a GPU, and after the lab's
    own kernels: meanwhile another child has cached the common ones. The first headline of the comparison is of two
    ways. They have the values of the readout's comparison: float32 on the host, too, for a GPU without float64.
    """
    with closing(lab(**values)) as live:
        values = live.values()  # all of them
        quiet = 0
        for _ in range(MOST_SLICES):
            with watching() as builds:
                live.advance(1)
                for pixels in PIXELS:
                    live.frame(None, pixels)
            quiet = 0 if builds.count else quiet + 1
            if quiet == QUIET or live.status.resting:
                break
        live.snapshot()
    prepare(HOST)
    if (rules := benchmark_of(lab).rules) is not None:
        challenger, opponent, _ = pairing(values, [one.name for one in lab.backends()])
        small = rules.small(values)
        labs = [rules.values_of(rules.reference, values, small | rules.right(values))]
        for way in filter(None, (challenger, opponent)):
            labs += [rules.values_of(way, values, changes) for changes in (small, rules.sampled(values))]
        for number, each in enumerate(labs):
            if each["backend"] != INTERPRETED and each not in labs[:number]:
                _be_compared(lab, each)


def _be_compared(lab: type[Lab], values: Mapping[str, Any]) -> None:
    """Run an engine's operations for comparing and timing a way."""
    apart = lab(**values)
    with closing(benchmark_of(lab).target(apart)) as target:  # it closes its lab
        target.begin(SEED)
        target.warm()
        for steps in (1, SAMPLED):  # an engine starts with one step, which may use another kernel
            target.advance(steps)
        target.result()


def compile_part(part: Part, report: Report) -> None:
    """Compile the kernels of `part`, as a task of a child process, and record their build times."""
    report(0.0, part.words)
    with watching(ended=lambda: kernel_cache.remember(builds.kernel, builds.seconds)) as builds:
        part.run()


if __name__ == "__main__":
    sys.exit(start("app.server.first_screens"))  # imported by this name, from which the child imports its tasks
