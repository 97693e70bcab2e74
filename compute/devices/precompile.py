"""Compile the kernels of the first screens in advance by running them, part by part.

There is no list of these kernels: each lab is opened with the start values of its tab, advanced and shown, and Numba's
cache stores the compiled kernels for the engine's process. The parts run in a separate process, so that its crash or
error does not affect the server (app/server/first_screens.py starts it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from compute.devices import kernel_cache
from compute.devices.builds import watching
from compute.devices.devices import HOST
from compute.engine.worker import prepare
from compute.lab.lab import Lab
from compute.measure import machine_roofs
from compute.measure.benchmark import benchmark_of
from compute.measure.verdict import pairing
from compute.process.tasks import Report

PIXELS = (512, 512), (200, 200)  # pictures at least as large as the plot, and smaller ones, which need reduction
INTERPRETED = "cpu_numpy"  # compiles nothing
QUIET = 6  # consecutive slices without compilation after which compilation is assumed complete
MOST_SLICES = 200
SAMPLED, SEED = 2, 20  # steps of the second trial of a compared way; seed of its start state


@dataclass(frozen=True)
class Part:
    """One part of the advance compilation. words: the purpose of its kernels; run: can be pickled."""

    words: str
    run: Callable[[], object]


def parts(first_values: Mapping[type[Lab], Mapping[str, Any]]) -> tuple[Part, ...]:
    """Return the parts for the first screens: each lab with the start values of its tab, and the machine's roofs."""
    screens = first_values.items()
    labs = [Part(f"the {lab.TITLE} kernels", partial(first_screen, lab, values)) for lab, values in screens]
    return (*labs, Part("the measurements of this machine", machine_roofs.measure_and_keep))


def first_screen(lab: type[Lab], values: Mapping[str, Any]) -> None:
    """Run the first actions of a tab of `lab`: advance until all kernels are compiled, draw, compare.

    Prepare the host's engine first, since the comparison uses that engine even for a tab on a GPU. The first headline
    of the comparison is of two ways: for a tab on a GPU, the other way is a kernel of the host.
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
            if quiet == QUIET or live.status.resting:
                break
        live.snapshot()
        compared = benchmark_of(lab).rules is not None
    if compared:
        _be_compared(lab, values)
        challenger, opponent, _ = pairing(values, [one.name for one in lab.backends()])
        for way in (challenger, opponent):
            if way is not None and way.backend not in (values["backend"], INTERPRETED):
                _be_compared(lab, {**values, "backend": way.backend})


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
