"""The exact viewport of the picture with its undo history. All gestures, keys and bookmarks change it.

There are two viewports. The aim is the requested view. The shown view is the aim, shifted by at most a pixel so that
the last picture's pixels can be reused: a pan is a whole number of pixels, and a zoom by 2 or 1/2 aligns the centres of
old and new pixels. Each aim is computed from the previous aim, so these shifts do not accumulate. Numbers are
fractions, as float64 is too coarse from a zoom of 1e14. `Throttle` limits the rate of changes sent to the lab.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from app.tab.publisher import Publisher
from app.tab.stream import ignore
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.place import DEEPEST, FARTHEST, SHALLOWEST, VIEW_HEIGHT, Place, Scaled, number

ZOOM_DIGITS = 24  # maximum of significant digits of a zoom
ROUND_ZOOM = 12  # digits of a zoom that exceeds this: 40 doublings then remain exact
CENTER_DIGITS = 9  # digits of a centre beyond those of the zoom: 1e-9 of the view's height 4 / zoom
CALM = 0.6  # s without a move after which the next move is a separate undo step
MOST_STEPS = 500  # undo steps
SAME = 1e-9  # relative difference below which two heights are equal: a browser's numbers have 53 bits
DRIFT = 2  # pixels between shown view and aim above which a pan realigns them
DOUBLE = (2.0, 0.5)  # zoom factors for which the lab reuses its pixels
ZOOMS = Fraction(Decimal(SHALLOWEST)), Fraction(Decimal(DEEPEST))
PACE = 0.05  # s, minimum time between two changes: enough for a coarse picture


@dataclass(frozen=True)
class Viewport:
    """A view: centre `re`, `im` and height 4 / `zoom`, all exact."""

    re: Fraction
    im: Fraction
    zoom: Fraction

    @classmethod
    def parse(cls, center: tuple[str, str], zoom: str) -> Viewport:
        """Return a viewport from the lab's strings; raise ValueError naming the string that is not a number."""
        return cls(number("center[0]", center[0]), number("center[1]", center[1]), number("zoom", zoom))

    @property
    def height(self) -> Fraction:
        """Height of the view in the complex plane."""
        return VIEW_HEIGHT / self.zoom

    @property
    def center(self) -> tuple[str, str]:
        """Real and imaginary part as decimal strings, with as many digits as the zoom requires."""
        places = max(1, math.ceil(log10(self.zoom) - 1e-9) + CENTER_DIGITS)
        return decimal(self.re, places), decimal(self.im, places)

    @property
    def zoom_text(self) -> str:
        """The zoom as a decimal string, "5e113"."""
        return scientific(self.zoom, ZOOM_DIGITS)


def log10(number: Fraction) -> float:
    """Return the decimal logarithm of a positive number, which may exceed the range of float64."""
    return Scaled.of(number).log2 * math.log10(2)


def decimal(number: Fraction, places: int) -> str:
    """Return `number` rounded to `places` decimal places, without trailing zeros: "-0.75", "0"."""
    digits = f"{abs(round(number * 10**places)):0{places + 1}d}"
    text = f"{digits[:-places]}.{digits[-places:]}".rstrip("0").rstrip(".")
    return f"-{text}" if number < 0 and text != "0" else text


def scientific(number: Fraction, digits: int) -> str:
    """Return `number` rounded to `digits` significant digits: "1e0", "3.2e5"."""
    with localcontext() as context:
        context.prec = digits
        rounded = (Decimal(number.numerator) / Decimal(number.denominator)).normalize()
    mantissa, exponent = f"{rounded:e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def within(re: Fraction, im: Fraction) -> tuple[Fraction, Fraction]:
    """Return the nearest valid centre: gestures stop at the edge of the lab's range."""
    edge = Fraction(FARTHEST)
    return max(-edge, min(edge, re)), max(-edge, min(edge, im))


@dataclass(frozen=True)
class HistoryEntry:
    """One entry of the history."""

    aim: Viewport
    shown: Viewport
    max_iterations: int


class Navigator:
    """Moves the view and records its history.

    change(center=, zoom=[, max_iterations=]) sets the lab's values; values contains the current ones, including ny and
    nx. forget() discards changes that have not been sent to the lab. changed: the view after every move; jumps: number
    of jumps to a place, as opposed to gradual moves. fx, fy are fractions of the view from its lower left corner.
    """

    def __init__(
        self,
        change: Callable[..., object],
        values: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
        forget: Callable[[], object] = ignore,
    ) -> None:
        self._change, self._values, self._clock, self._forget = change, values, clock, forget
        self._now = _standing(values)
        self._past: list[HistoryEntry] = []
        self._future: list[HistoryEntry] = []
        self._moved = -float("inf")
        self.changed: Publisher[Viewport] = Publisher()
        self.jumps = 0

    # -- current view

    @property
    def aim(self) -> Viewport:
        """The requested view."""
        return self._now.aim

    @property
    def shown(self) -> Viewport:
        """The view computed by the lab: the aim, shifted by at most a pixel."""
        return self._now.shown

    @property
    def center(self) -> tuple[str, str]:
        """Real and imaginary part as decimal strings."""
        return self.shown.center

    @property
    def zoom(self) -> str:
        """The zoom as a decimal string."""
        return self.shown.zoom_text

    @property
    def spacing(self) -> Fraction:
        """The distance of two pixels."""
        return self.shown.height / self._values["ny"]

    # -- moves

    def go(self, center: tuple[str, str], zoom: str, max_iterations: int | None = None) -> None:
        """Jump to a place given as decimal strings; raise ValueError for an invalid one."""
        Place.of(center, zoom, self._values["ny"], self._values["nx"])
        low, high = Mandelbrot.param["max_iterations"].bounds
        if max_iterations is not None and not low <= max_iterations <= high:
            raise ValueError(f"max_iterations must be from {low} to {high}, not {max_iterations}")
        view = Viewport.parse(center, scientific(number("zoom", zoom), ZOOM_DIGITS))
        self.jumps += 1
        self.settle()
        self._take(HistoryEntry(view, view, max_iterations or self._values["max_iterations"]))
        self.settle()

    def home(self) -> None:
        """Go to the whole set, with the lab's default limit of iterations."""
        self.settle()
        self._take(_standing({name: Mandelbrot.param[name].default for name in ("center", "zoom", "max_iterations")}))
        self.settle()

    def pan_pixels(self, dx: int, dy: int) -> None:
        """Pan by whole pixels, to the right and up."""
        step = self.spacing
        self._take(replace(self._current, aim=_by(self.aim, dx * step, dy * step), shown=self._panned(dx, dy)))

    def zoom_at(self, fx: float, fy: float, factor: float) -> None:
        """Zoom in by `factor` (out if below 1) around the fixed point fx, fy."""
        width = Fraction(self._values["nx"], self._values["ny"])
        right, up = (Fraction(fx) - Fraction(1, 2)) * width, Fraction(fy) - Fraction(1, 2)
        zoom = _zoom(self.aim.zoom * Fraction(factor))
        less = self.aim.height - Viewport(self.aim.re, self.aim.im, zoom).height
        self.set_view(Viewport(self.aim.re + right * less, self.aim.im + up * less, zoom))

    def box(self, fx0: float, fy0: float, fx1: float, fy1: float) -> None:
        """Show the box between two opposite corners, enlarged to the aspect ratio of the picture."""
        part = max(abs(fx1 - fx0), abs(fy1 - fy0))
        if not part > 0:
            raise ValueError("a box must have two different corners")
        width = self.aim.height * Fraction(self._values["nx"], self._values["ny"])
        right, up = (Fraction(fx0) + Fraction(fx1) - 1) / 2, (Fraction(fy0) + Fraction(fy1) - 1) / 2
        self.settle()
        zoom = _zoom(self.aim.zoom / Fraction(part))
        self.set_view(Viewport(self.aim.re + right * width, self.aim.im + up * self.aim.height, zoom))
        self.settle()

    def set_view(self, aim: Viewport) -> None:
        """Show `aim`, which may come from a browser's numbers; the shown view differs by up to a pixel."""
        ratio = float(aim.zoom / self.aim.zoom)
        if abs(ratio - 1) < SAME:
            aim = replace(aim, zoom=self.aim.zoom)
            shown = self._pan_to(aim)
        else:
            double = next((double for double in DOUBLE if abs(ratio / double - 1) < SAME), None)
            aim = replace(aim, zoom=_zoom(self.aim.zoom * Fraction(double) if double else aim.zoom))
            shown = self._aligned(aim, double) if double else aim
        self._take(replace(self._current, aim=aim, shown=shown))

    # -- undo history

    def undo(self) -> None:
        """Undo one step, if possible."""
        if self._past:
            self.settle()
            self._future.append(self._current)
            self._set(self._past.pop())

    def redo(self) -> None:
        """Redo one step, if possible."""
        if self._future:
            self.settle()
            self._past.append(self._current)
            self._set(self._future.pop())

    @property
    def can_undo(self) -> bool:
        """Whether a step can be undone."""
        return bool(self._past)

    @property
    def can_redo(self) -> bool:
        """Whether a step can be redone."""
        return bool(self._future)

    def settle(self) -> None:
        """End the gesture: the next move is a separate undo step."""
        self._moved = -float("inf")

    def tick(self) -> None:
        """Record the current limit of iterations with the view; called a few times a second."""
        self._now = self._current

    def show_values(self, values: Mapping[str, Any], refused: bool = True) -> None:
        """Use a view that was set without this navigator; a different view becomes an undo step unless refused."""
        if {"center", "zoom", "max_iterations"} & set(values):
            self._forget()
            self.settle()
            left, self._now = self._now, _standing(self._values)
            if not refused and Viewport.parse(left.shown.center, left.shown.zoom_text) != self.shown:
                self._remember(left)
                self._future.clear()
            self.changed.publish(self._now.aim)

    # -- internal

    @property
    def _current(self) -> HistoryEntry:
        """The current entry, with the current limit of iterations."""
        return replace(self._now, max_iterations=self._values["max_iterations"])

    def _pan_to(self, aim: Viewport) -> Viewport:
        """Return the shown view for `aim` at the current zoom: whole pixels from the current one."""
        step = self.spacing
        panned = self._panned(round((aim.re - self.aim.re) / step), round((aim.im - self.aim.im) / step))
        if max(abs(panned.re - aim.re), abs(panned.im - aim.im)) <= DRIFT * step:
            return panned
        return self._panned(round((aim.re - self.shown.re) / step), round((aim.im - self.shown.im) / step))

    def _panned(self, dx: int, dy: int) -> Viewport:
        return _by(self.shown, dx * self.spacing, dy * self.spacing)

    def _aligned(self, aim: Viewport, factor: float) -> Viewport:
        """Return `aim` shifted to align old and new pixel centres; for a zoom by 2 with new pixels of even index."""
        step, counts = self.spacing, (self._values["nx"], self._values["ny"])
        pairs = zip((self.shown.re, self.shown.im), (aim.re, aim.im), counts, strict=True)
        part = Fraction(1, 4) if factor > 1 else Fraction(1, 2)
        re, im = (old + step * _nearest((new - old) / step, -(count - 1) * part) for old, new, count in pairs)
        return Viewport(re, im, aim.zoom)

    def _take(self, step: HistoryEntry) -> None:
        """Apply a move: a separate undo step after CALM seconds, else part of the current gesture."""
        aim = Viewport(*within(step.aim.re, step.aim.im), step.aim.zoom)
        step = replace(step, aim=aim, shown=Viewport(*within(step.shown.re, step.shown.im), step.shown.zoom))
        if step == self._current:
            return
        now = self._clock()
        if now - self._moved > CALM:
            self._remember(self._current)
        self._future.clear()
        self._moved = now
        self._set(step)

    def _remember(self, step: HistoryEntry) -> None:
        self._past = [*self._past, step][-MOST_STEPS:]

    def _set(self, step: HistoryEntry) -> None:
        self._now, other = step, step.max_iterations != self._values["max_iterations"]
        budget = {"max_iterations": step.max_iterations} if other else {}
        self._change(center=self.center, zoom=self.zoom, **budget)
        self.changed.publish(step.aim)


def _standing(values: Mapping[str, Any]) -> HistoryEntry:
    view = Viewport.parse(values["center"], values["zoom"])
    return HistoryEntry(view, view, values["max_iterations"])


def _by(view: Viewport, right: Fraction, up: Fraction) -> Viewport:
    return replace(view, re=view.re + right, im=view.im + up)


def _zoom(requested: Fraction) -> Fraction:
    """Return the nearest zoom within the lab's range that a short string represents exactly."""
    zoom = max(ZOOMS[0], min(ZOOMS[1], requested))
    exact = number("zoom", scientific(zoom, ZOOM_DIGITS)) == zoom
    return zoom if exact else number("zoom", scientific(zoom, ROUND_ZOOM))


def _nearest(requested: Fraction, offset: Fraction) -> Fraction:
    """Return the number nearest to `requested` that differs from `offset` by an integer."""
    return round(requested - offset) + offset


class Throttle:
    """Calls change(**values) immediately, then at most once per PACE seconds, with the latest value of each name.

    later(callback, milliseconds) schedules a callback on the event loop of the values.
    """

    def __init__(
        self,
        change: Callable[..., object],
        later: Callable[[Callable[[], None], int], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._change, self._later, self._clock = change, later, clock
        self._waiting: dict[str, Any] = {}
        self._last, self._scheduled = -PACE, False

    def __call__(self, **values: Any) -> None:
        """Set `values`, immediately or at the next scheduled time."""
        self._waiting |= values
        left = self._last + PACE - self._clock()
        if left <= 0 and not self._scheduled:
            self._send()
        elif not self._scheduled:
            self._scheduled = True
            self._later(self._send, max(1, round(1000 * left)))

    def forget(self) -> None:
        """Discard unsent values, which newer ones have replaced."""
        self._waiting = {}

    def _send(self) -> None:
        self._scheduled, self._last = False, self._clock()
        values, self._waiting = self._waiting, {}
        if values:
            self._change(**values)
