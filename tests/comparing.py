"""Stand-ins of what measures: an engine for tests of the live comparison, which answers at once, and a meter."""

from __future__ import annotations

from compute.engine import benchmark_target
from compute.engine.messages import Refused


class Handle:
    """A lab of `kind` under measurement; what it was opened with is appended to `asked`."""

    def __init__(self, kind, asked, engine, values, on_event):
        self.kind, self.values, self.on_event = kind, values, on_event
        asked.append((engine, values))

    def sample(self, steps, repeat, roof="", dtype=""):
        self.run(benchmark_target.sample(self.kind, self.values, steps, repeat, roof, dtype))

    def solve(self, steps, seed):
        self.run(benchmark_target.solve(self.kind, self.values, steps, seed))

    def run(self, work):
        try:
            while True:
                next(work)
        except StopIteration as stop:
            self.on_event(stop.value)
        except ValueError as error:
            self.on_event(Refused(str(error)))

    def close(self):
        pass


class NoMeter:
    """Measures no bandwidth, and counts how often it was asked."""

    sampled = 0

    def __init__(self, *what, **how):
        pass

    def sample(self):
        NoMeter.sampled += 1

    def close(self):
        pass
