"""The first part of a sweep: which results are right, at which n. Only those are timed afterwards.

In pieces that are short, so that others on the device have their turn between them: `Checks.run` yields after each.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from math import inf, isfinite
from time import perf_counter
from typing import Any, NamedTuple

from compute.bench.samples import Sample
from compute.devices import Host
from compute.labs.crossover.catalogue import Case, Way
from compute.labs.crossover.plan import Plan
from compute.labs.crossover.point import Point
from compute.labs.crossover.stand import Stand
from compute.timings import Timing

OVERHEAD = 1e-3  # seconds of a call that may be launches and threads waking up: they do not grow with n
SLOWEST = 1e8  # bytes a second at least that arrays are handled with; what takes longer compiles
AGAIN = 0.1  # seconds: a call that takes longer is not repeated to know its pace

Points = Mapping[tuple[str, int], Point]  # by way's name and n


class Piece(NamedTuple):
    """A piece of the checks. done: part of them, from 0 to 1; doing: in words; point: what it is about."""

    done: float
    doing: str
    point: Point | None = None


class Checks:
    """Compares `points` of `plan` with the reference, from small n to large; they say what was found.

    stand: opens a way's arrays (Stand, or a stand-in for it).
    """

    def __init__(self, plan: Plan, points: Points, stand: type[Stand] = Stand) -> None:
        self._plan, self._points, self._stand = plan, points, stand
        self._references: dict[int, float] = {}  # seconds by n

    def run(self) -> Generator[Piece, None, None]:
        """Check all."""
        for point in self._points.values():
            if point.way.missing:
                help_ = point.way.backend.install
                point.refuse("missing", f"{point.way.missing}; {help_}" if help_ else point.way.missing)
        sizes = sorted({n for _, n in self._points})
        for number, n in enumerate(sizes):
            case = self._plan.case(n)
            points = [point for (_, m), point in self._points.items() if m == n and self._possible(point, case)]
            if points:
                yield from self._check(points, case, number / len(sizes))
        self._spread_disagreement()

    def _check(self, points: list[Point], case: Case, done: float) -> Generator[Piece, None, None]:
        yield Piece(done, f"reference, n = {case.n:,}")
        start = perf_counter()
        inputs = case.inputs(self._plan.seed)
        truth = case.reference(inputs)
        self._references[case.n] = perf_counter() - start
        for point in points:
            piece = Piece(done, f"checking {point.way.label}, n = {case.n:,}", point)
            yield piece
            for _ in self._compare(point, case, inputs, truth):
                yield piece

    def _compare(self, point: Point, case: Case, inputs: Any, truth: Any) -> Generator[None, None, None]:
        try:
            start = perf_counter()
            with self._stand(point.way, case, inputs) as stand:
                yield
                made, start = perf_counter() - start, perf_counter()
                found = stand.check(truth)
                compared = perf_counter() - start - found.first_call
                point.handling = max(0.0, made, compared)
                point.difference, point.first_call = found.difference, found.first_call
                point.cold = _cold(point, start)
                yield
                point.call_seconds = stand.time(1).compute
                if point.call_seconds < AGAIN:
                    point.call_seconds = min(point.call_seconds, stand.time(1).compute)
        except Exception as error:  # noqa: BLE001 one broken way must not lose the figures of the others
            point.fail(error)
            return
        point.status = "checked"
        if not found.difference <= case.tolerance:
            reason = f"differs by {found.difference:.1e}; the tolerance is {case.tolerance:.0e}"
            point.refuse("disagrees", reason)

    def _possible(self, point: Point, case: Case) -> bool:
        """Whether the way is here, and neither time nor memory forbids this n; the point says why not."""
        if point.status == "waiting":
            try:
                reason = self._too_slow(point, case) or _too_large(point.way, case)
            except Exception as error:  # noqa: BLE001 as in _compare
                point.fail(error)
            else:
                point.refuse("skipped" if reason else "waiting", reason)
        return point.status == "waiting"

    def _too_slow(self, point: Point, case: Case) -> str:
        """Why it would take too long, by the largest n that was tried before; empty if it would not."""
        allowed, longest = self._plan.call_allowed, self._plan.longest or inf
        before = [p for (name, n), p in self._points.items() if name == point.way.name and n < point.n]
        known = [p for p in before if isfinite(p.call_seconds)]
        if known:
            arithmetic, memory = self._growth(known[-1].n, case, point.way)
            expected = _expected([p.call_seconds for p in known], max(arithmetic, memory), OVERHEAD)
            if expected > allowed:
                return f"would take about {expected:.2g} s a call; {allowed:.2g} s are allowed"
            expected = _expected(self._handling(known), memory, 0.0)
            if expected > longest:
                return f"its arrays would take about {expected:.2g} s to handle; {longest:.2g} s are allowed"
        if self._references and point.n not in self._references:
            n = max(self._references)
            expected = self._references[n] * self._growth(n, case)[1]
            if expected > longest:
                return f"the reference would take about {expected:.2g} s; {longest:.2g} s are allowed"
        return ""

    def _handling(self, known: list[Point]) -> list[float]:
        """Seconds of handling at each n that was tried; the first is left out, or taken as if nothing was compiled."""
        if len(known) > 1:
            return [point.handling for point in known[1:]]
        first = known[0]
        return [min(first.handling, self._plan.case(first.n).work(first.way).moved / SLOWEST)]

    def _growth(self, n: int, case: Case, way: Way | None = None) -> tuple[float, float]:
        """How many times more operations, and more bytes, the case is than at n."""
        before, now = self._plan.case(n).work(way), case.work(way)
        return now.flops / max(before.flops, 1.0), now.moved / before.moved

    def _spread_disagreement(self) -> None:
        """Wrong at one n is wrong."""
        for wrong in [point for point in self._points.values() if point.status == "disagrees"]:
            for point in self._points.values():
                if point.way == wrong.way and point.status == "checked":
                    point.refuse("disagrees", f"at n = {wrong.n:,} it {wrong.reason}")


def _expected(seconds: list[float], growth: float, constant: float) -> float:
    """Seconds at an n where `growth` times more is done than at the last that was tried.

    seconds: those tried, from small n to large; the least of them does not grow, of a single one `constant` does not.
    """
    fixed = min(seconds) if len(seconds) > 1 else min(constant, seconds[0])
    return fixed + (seconds[-1] - fixed) * growth


def _cold(point: Point, began: float) -> Sample:
    """The first call as a sample."""
    way, seconds = point.way, point.first_call
    timing = Timing(way.backend.name, way.variant, 1, point.n, 0.0, seconds, first_call=True)
    return Sample(began, began + seconds, timing)


def _too_large(way: Way, case: Case) -> str:
    """Why the memory does not suffice, the device's or the host's; empty if it does."""
    needed = case.work(way).held
    free = min(way.backend.open_device().free_bytes(), Host().free_bytes())
    return f"needs {needed / 2**30:.2f} GiB; {free / 2**30:.2f} GiB are free" if needed > free else ""
