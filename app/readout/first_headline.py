"""The headline of the start page, measured while the server has no page yet.

A first visit would wait for the engines, for the pipelines of a GPU and for seven short measurements, one after the
other. The measurements are those that the page's own comparison would request: it finds their answers in the shared
results, and continues if it opens before the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from tornado.ioloop import IOLoop, PeriodicCallback

from app.readout.comparison import Comparison, Opener
from app.server.admission import session_limiter
from app.tab.lab_view import first_values, parts_of
from compute.lab.lab import Lab
from compute.labs import LABS
from compute.measure.benchmark import benchmark_of
from compute.measure.verdict import ResultCache, shared_results

if TYPE_CHECKING:
    from compute.engine import LabHandle

TICK = 250.0  # ms between two looks for an answer, apart from those at an event
LONGEST = 60.0  # seconds after which the pages measure themselves


class FirstHeadline:
    """The comparison of a lab with the start values of its tab, up to its first speed-up. clock: in seconds."""

    def __init__(
        self, lab: type[Lab], open_lab: Opener, results: ResultCache, clock: Callable[[], float] = monotonic
    ) -> None:
        known = [one.name for one in lab.backends()]
        rules = benchmark_of(lab).rules
        assert rules is not None  # noqa: S101 - of a lab with a headline
        self._comparison = Comparison(lab.LAB, rules, open_lab, results, clock, known)
        self._comparison.follow(lab.param.values() | first_values(lab, parts_of(lab)))
        self._clock, self._end = clock, clock() + LONGEST
        self.over = False

    def tick(self) -> bool:
        """Process an answer or start the next measurement; return whether it is over."""
        if not self.over:
            self._comparison.tick()
            verdict = self._comparison.verdict()
            self.over = (verdict is not None and verdict.speed_up is not None) or self._clock() > self._end
            if self.over:
                self._comparison.close()
        return self.over


def measure_first(lab: type[Lab] = LABS[0]) -> None:
    """Begin to measure the headline of the first tab on the current loop."""
    loop = IOLoop.current()

    def open_lab(engine: str, values: dict[str, Any], on_event: Callable[[Any], None]) -> LabHandle:
        """Open a lab on the engine; its events arrive on the engine's thread."""

        def forward(event: Any) -> None:
            """Pass on an event, and process it on the loop."""
            on_event(event)
            loop.add_callback(first.tick)

        return session_limiter().engines.get(engine).open(lab.LAB, values, forward)

    first = FirstHeadline(lab, open_lab, shared_results())
    ticks = PeriodicCallback(lambda: ticks.stop() if first.tick() else None, TICK)
    ticks.start()
