"""Compile in advance what the first screens need, by doing what they do: `precompile` runs each part and says so.

Which kernels those are nobody lists: each lab is opened with the values that its tab begins with, advanced and shown,
and what it compiles on the way is kept in Numba's cache, where the engine's process finds it. So the parts are run in a
process of their own, whose death or error is no concern of the server's (app/serve.py starts it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Protocol

from compute import kernel_cache
from compute.builds import watching
from compute.engine.worker import HOST, prepare
from compute.lab import Lab
from compute.measure import machine_roofs
from compute.measure.verdict import pairing

PIXELS = (512, 512), (200, 200)  # of a picture as large as the plot or larger, and of one that must be reduced
INTERPRETED = "cpu_numpy"  # compiles nothing
QUIET = 6  # slices in a row that compile nothing, after which nothing more is expected
MOST_SLICES = 200
SAMPLED, SEED = 2, 20  # steps that the comparison's way is tried with, and the number its start is drawn from


@dataclass(frozen=True)
class Part:
    """One of the things that are compiled in advance. words: what its kernels are for."""

    words: str
    run: Callable[[], object]


class CompileListener(Protocol):
    """Hears how it goes; parts count from 1."""

    def began(self, number: int, count: int, words: str) -> None:
        """Part `number` of `count` has begun."""

    def ended(self, number: int, builds: int, seconds: float) -> None:
        """It is done; `builds` kernels had to be compiled for it."""

    def failed(self, number: int, why: str) -> None:
        """It could not be done, which ends that part alone."""


def parts(first_values: Mapping[type[Lab], Mapping[str, Any]]) -> tuple[Part, ...]:
    """What the first screens need: what measures the machine, and each lab with the values that its tab begins with."""
    screens = first_values.items()
    labs = [Part(f"the {lab.TITLE} kernels", partial(first_screen, lab, values)) for lab, values in screens]
    return (*labs, Part("what measures this machine", machine_roofs.measure_and_keep))


def first_screen(lab: type[Lab], values: Mapping[str, Any]) -> None:
    """Do what a tab of `lab` does at first: advance until nothing more is compiled, show, be compared.

    Before that what the host's engine does at its start, which is there for the comparison whatever the tab uses. The
    comparison's first number is of two ways: where the tab computes on a GPU, the other one is a kernel of the host.
    """
    prepare(HOST)
    with closing(lab(**values)) as live:
        quiet = 0
        for _ in range(MOST_SLICES):
            with watching() as builds:
                live.advance(1)
                for pixels in PIXELS:
                    live.frame(None, pixels)
            quiet = 0 if builds.count else quiet + 1
            if quiet == QUIET or live.resting:
                break
        live.snapshot()
        compared = live.benchmark().rules is not None
    if compared:
        _be_compared(lab, values)
        challenger, opponent, _ = pairing(values, [one.name for one in lab.backends()])
        for way in (challenger, opponent):
            if way is not None and way.backend not in (values["backend"], INTERPRETED):
                _be_compared(lab, {**values, "backend": way.backend})


def _be_compared(lab: type[Lab], values: Mapping[str, Any]) -> None:
    """Do what an engine does to compare and to time a way."""
    apart = lab(**values)
    with closing(apart.benchmark().target(apart)) as target:  # it closes its lab
        target.begin(SEED)
        target.warm()
        for steps in (1, SAMPLED):  # an engine begins with one, which may be another kernel
            target.advance(steps)
        target.result()


def precompile(wanted: Sequence[Part], listener: CompileListener) -> bool:
    """Run the parts one after the other; True if all of them could be, so that their kernels are in the cache."""
    kernel_cache.forget_stale()
    fine = True
    for number, part in enumerate(wanted, 1):
        listener.began(number, len(wanted), part.words)
        start = monotonic()
        try:
            with watching(ended=lambda: kernel_cache.remember(builds.kernel, builds.seconds)) as builds:
                part.run()
        except Exception as error:  # noqa: BLE001 - told; the page compiles when it is needed
            listener.failed(number, f"{type(error).__name__}: {error}")
            fine = False
        else:
            listener.ended(number, builds.count, monotonic() - start)
    if fine:
        kernel_cache.note_current()
    return fine
