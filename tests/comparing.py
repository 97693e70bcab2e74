"""Stand-ins for measuring classes: an engine that answers immediately, and a bandwidth meter."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from app.readout.comparison import CALM, Comparison
from compute.engine import benchmark_target
from compute.engine.messages import Refused
from compute.measure.benchmark import benchmark_of
from compute.measure.verdict import ResultCache


def answer_of(slices: Generator[None, None, Any]) -> Any:
    """Run a measurement to its end and return its answer."""
    try:
        while True:
            next(slices)
    except StopIteration as stop:
        return stop.value
    except ValueError as error:
        return Refused(str(error))


class Handle:
    """A lab of `kind` under measurement; each (engine, values) pair that opens one is appended to `asked`."""

    def __init__(self, kind, asked, engine, values, on_event):
        self.kind, self.values, self.on_event = kind, values, on_event
        asked.append((engine, values))

    def sample(self, steps, repeat, roof="", dtype=""):
        self.run(benchmark_target.sample(self.kind, self.values, steps, repeat, roof, dtype))

    def solve(self, steps, seed):
        self.run(benchmark_target.solve(self.kind, self.values, steps, seed))

    def run(self, work):
        self.on_event(answer_of(work))

    def close(self):
        pass


class LiveComparison:
    """The live comparison of labs of `kind` with the given values and a fake clock; `asked`: as in Handle."""

    def __init__(self, kind, values):
        self.now, self.asked = 0.0, []
        rules, cache = benchmark_of(kind).rules, ResultCache()
        self.comparison = Comparison(kind.LAB, rules, partial(Handle, kind, self.asked), cache, lambda: self.now)
        self.comparison.follow(values)

    def turn(self, times=1):
        """Tick the comparison `times` times; return its verdict."""
        for _ in range(times):
            self.now += CALM + 1
            self.comparison.tick()
        return self.comparison.verdict()

    def settle(self):
        """Tick the comparison until it opens no further lab, independent of load; return its verdict."""
        asked, still = -1, 0
        while still < 20:
            asked, still = len(self.asked), still + 1 if len(self.asked) == asked else 0
            self.turn()
        return self.comparison.verdict()


class NoMeter:
    """A meter that measures no bandwidth."""

    def __init__(self, *what, **how):
        pass

    def sample(self):
        pass

    def close(self):
        pass
