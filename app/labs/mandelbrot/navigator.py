"""Where the picture looks, exactly, and where it looked before. Every gesture, key and bookmark goes through here.

Two viewports are kept. The aim is what was asked for. What is shown is the aim moved by at most a pixel, so that the
pixels of the last picture can be used again: a pan is a whole number of pixels, and a step to twice or half the zoom
puts the old pixels' centres on new ones. Because each aim follows from the last aim, those little moves never add up.

Numbers are fractions, because float64 ends where a zoom of 1e14 begins. `Throttle` passes the moves on to the lab.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from app.stream import ignore
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.place import DEEPEST, FARTHEST, SHALLOWEST, VIEW_HEIGHT, Place, Scaled, number

ZOOM_DIGITS = 24  # significant digits of a zoom at most
ROUND_ZOOM = 12  # of a zoom that has more: doubling it then stays exact for forty steps
CENTER_DIGITS = 9  # of a centre beyond those of the zoom: 1e-9 of a view that is 4 / zoom high
CALM = 0.6  # seconds without a move after which the next one is a step of its own for `undo`
MOST_STEPS = 500  # steps that can be undone
SAME = 1e-9  # part by which two heights may differ and still be the same: a browser's numbers have 53 bits
DRIFT = 2  # pixels that what is shown may lie beside the aim before a pan makes it good
DOUBLE = (2.0, 0.5)  # zoom factors for which the lab uses its pixels again
ZOOMS = Fraction(Decimal(SHALLOWEST)), Fraction(Decimal(DEEPEST))
PACE = 0.05  # seconds between two changes at least: the time in which a coarse picture is there


@dataclass(frozen=True)
class Viewport:
    """What is looked at: `re`, `im` is the centre, the height is 4 / `zoom`; exact."""

    re: Fraction
    im: Fraction
    zoom: Fraction

    @classmethod
    def parse(cls, center: tuple[str, str], zoom: str) -> Viewport:
        """Make one of the lab's strings; ValueError names the one that is no number."""
        return cls(number("center[0]", center[0]), number("center[1]", center[1]), number("zoom", zoom))

    @property
    def height(self) -> Fraction:
        """Height of the view in the complex plane."""
        return VIEW_HEIGHT / self.zoom

    @property
    def center(self) -> tuple[str, str]:
        """Real and imaginary part as decimal strings, with no more digits than the zoom can show."""
        places = max(1, math.ceil(log10(self.zoom) - 1e-9) + CENTER_DIGITS)
        return decimal(self.re, places), decimal(self.im, places)

    @property
    def zoom_text(self) -> str:
        """The zoom as a decimal string, "5e113"."""
        return scientific(self.zoom, ZOOM_DIGITS)


def log10(number: Fraction) -> float:
    """The decimal logarithm of a positive number that may lie beyond float64."""
    return Scaled.of(number).log2 * math.log10(2)


def decimal(number: Fraction, places: int) -> str:
    """`number` rounded to that many decimal places, without trailing zeros: "-0.75", "0"."""
    digits = f"{abs(round(number * 10**places)):0{places + 1}d}"
    text = f"{digits[:-places]}.{digits[-places:]}".rstrip("0").rstrip(".")
    return f"-{text}" if number < 0 and text != "0" else text


def scientific(number: Fraction, digits: int) -> str:
    """`number` rounded to that many significant digits: "1e0", "3.2e5"."""
    with localcontext() as context:
        context.prec = digits
        rounded = (Decimal(number.numerator) / Decimal(number.denominator)).normalize()
    mantissa, exponent = f"{rounded:e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def within(re: Fraction, im: Fraction) -> tuple[Fraction, Fraction]:
    """The nearest place that may be a centre: a gesture stops at the edge of what the lab takes."""
    edge = Fraction(FARTHEST)
    return max(-edge, min(edge, re)), max(-edge, min(edge, im))


@dataclass(frozen=True)
class HistoryEntry:
    """One entry of the history."""

    aim: Viewport
    shown: Viewport
    max_iterations: int


class Navigator:
    """Moves the view and remembers it.

    change(center=, zoom=[, max_iterations=]) sets the lab's values; values holds the present ones (also ny and nx).
    forget() drops those of its changes that have not come to the lab.
    changed: callbacks, called after every move; jumps: how many places were gone to at once, not by moving there.
    fx, fy are fractions of the view from its lower left corner.
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
        self.changed: list[Callable[[], object]] = []
        self.jumps = 0

    # -- where it looks

    @property
    def aim(self) -> Viewport:
        """What was asked for."""
        return self._now.aim

    @property
    def shown(self) -> Viewport:
        """What the lab computes: the aim, moved by at most a pixel."""
        return self._now.shown

    @property
    def center(self) -> tuple[str, str]:
        """Real and imaginary part, decimal strings."""
        return self.shown.center

    @property
    def zoom(self) -> str:
        """A decimal string."""
        return self.shown.zoom_text

    @property
    def spacing(self) -> Fraction:
        """Distance of two pixels."""
        return self.shown.height / self._values["ny"]

    # -- moves

    def go(self, center: tuple[str, str], zoom: str, max_iterations: int | None = None) -> None:
        """Go to a place given as decimal strings; ValueError says what is wrong with it."""
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
        """Go to the whole set, with the iterations it takes."""
        self.settle()
        self._take(_standing({name: Mandelbrot.param[name].default for name in ("center", "zoom", "max_iterations")}))
        self.settle()

    def pan_pixels(self, dx: int, dy: int) -> None:
        """Move the view by whole pixels, to the right and up."""
        step = self.spacing
        self._take(replace(self._current, aim=_by(self.aim, dx * step, dy * step), shown=self._panned(dx, dy)))

    def zoom_at(self, fx: float, fy: float, factor: float) -> None:
        """Zoom in by `factor` (out if below 1) around the point at fx, fy, which stays where it is."""
        width = Fraction(self._values["nx"], self._values["ny"])
        right, up = (Fraction(fx) - Fraction(1, 2)) * width, Fraction(fy) - Fraction(1, 2)
        zoom = _zoom(self.aim.zoom * Fraction(factor))
        less = self.aim.height - Viewport(self.aim.re, self.aim.im, zoom).height
        self.set_view(Viewport(self.aim.re + right * less, self.aim.im + up * less, zoom))

    def box(self, fx0: float, fy0: float, fx1: float, fy1: float) -> None:
        """Show the box between two opposite corners, with as much around it as square pixels ask for."""
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
        """Go to `aim`, which may come from a browser's numbers; what is shown lies up to a pixel beside it."""
        ratio = float(aim.zoom / self.aim.zoom)
        if abs(ratio - 1) < SAME:
            aim = replace(aim, zoom=self.aim.zoom)
            shown = self._pan_to(aim)
        else:
            double = next((double for double in DOUBLE if abs(ratio / double - 1) < SAME), None)
            aim = replace(aim, zoom=_zoom(self.aim.zoom * Fraction(double) if double else aim.zoom))
            shown = self._aligned(aim, double) if double else aim
        self._take(replace(self._current, aim=aim, shown=shown))

    # -- steps

    def undo(self) -> None:
        """Take one step back; do nothing if there is none."""
        if self._past:
            self.settle()
            self._future.append(self._current)
            self._set(self._past.pop())

    def redo(self) -> None:
        """Take one step forward again; do nothing if there is none."""
        if self._future:
            self.settle()
            self._past.append(self._current)
            self._set(self._future.pop())

    @property
    def can_undo(self) -> bool:
        """Whether there is a step back."""
        return bool(self._past)

    @property
    def can_redo(self) -> bool:
        """Whether there is a step forward."""
        return bool(self._future)

    def settle(self) -> None:
        """End the gesture: the next move is a step of its own."""
        self._moved = -float("inf")

    def tick(self) -> None:
        """A few times a second: note with how many iterations the place is shown, for the way back to it."""
        self._now = self._current

    def show_values(self, values: Mapping[str, Any], refused: bool = True) -> None:
        """Take over a view that was set without this navigator; another one than before is a step, unless that was
        refused.
        """
        if {"center", "zoom", "max_iterations"} & set(values):
            self._forget()
            self.settle()
            left, self._now = self._now, _standing(self._values)
            if not refused and Viewport.parse(left.shown.center, left.shown.zoom_text) != self.shown:
                self._remember(left)
                self._future.clear()
            self._tell()

    # -- inside

    @property
    def _current(self) -> HistoryEntry:
        """Where it is, with the iterations that may have been set meanwhile."""
        return replace(self._now, max_iterations=self._values["max_iterations"])

    def _pan_to(self, aim: Viewport) -> Viewport:
        """What is shown of `aim` at the present zoom: whole pixels from what is shown now."""
        step = self.spacing
        panned = self._panned(round((aim.re - self.aim.re) / step), round((aim.im - self.aim.im) / step))
        if max(abs(panned.re - aim.re), abs(panned.im - aim.im)) <= DRIFT * step:
            return panned
        return self._panned(round((aim.re - self.shown.re) / step), round((aim.im - self.shown.im) / step))

    def _panned(self, dx: int, dy: int) -> Viewport:
        return _by(self.shown, dx * self.spacing, dy * self.spacing)

    def _aligned(self, aim: Viewport, factor: float) -> Viewport:
        """`aim` moved so that old and new pixels' centres coincide; in a zoom to twice, on new pixels of even index."""
        step, counts = self.spacing, (self._values["nx"], self._values["ny"])
        pairs = zip((self.shown.re, self.shown.im), (aim.re, aim.im), counts, strict=True)
        part = Fraction(1, 4) if factor > 1 else Fraction(1, 2)
        re, im = (old + step * _nearest((new - old) / step, -(count - 1) * part) for old, new, count in pairs)
        return Viewport(re, im, aim.zoom)

    def _take(self, step: HistoryEntry) -> None:
        """A move: a step of its own after a calm, else part of the gesture that is under way."""
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
        self._tell()

    def _tell(self) -> None:
        for callback in self.changed:
            callback()


def _standing(values: Mapping[str, Any]) -> HistoryEntry:
    view = Viewport.parse(values["center"], values["zoom"])
    return HistoryEntry(view, view, values["max_iterations"])


def _by(view: Viewport, right: Fraction, up: Fraction) -> Viewport:
    return replace(view, re=view.re + right, im=view.im + up)


def _zoom(wanted: Fraction) -> Fraction:
    """The zoom nearest to `wanted` that the lab takes and a short string holds: a gesture stops at the deepest."""
    zoom = max(ZOOMS[0], min(ZOOMS[1], wanted))
    exact = number("zoom", scientific(zoom, ZOOM_DIGITS)) == zoom
    return zoom if exact else number("zoom", scientific(zoom, ROUND_ZOOM))


def _nearest(wanted: Fraction, offset: Fraction) -> Fraction:
    """The number nearest to `wanted` that lies a whole number beside `offset`."""
    return round(wanted - offset) + offset


class Throttle:
    """Calls change(**values) at once, and then at most every PACE seconds, with the newest value of each name.

    later(callback, milliseconds) runs a callback once on the loop that owns the values.
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
        """Set `values`, now or soon."""
        self._waiting |= values
        left = self._last + PACE - self._clock()
        if left <= 0 and not self._scheduled:
            self._send()
        elif not self._scheduled:
            self._scheduled = True
            self._later(self._send, max(1, round(1000 * left)))

    def forget(self) -> None:
        """Drop what has not been sent yet: other values have come."""
        self._waiting = {}

    def _send(self) -> None:
        self._scheduled, self._last = False, self._clock()
        values, self._waiting = self._waiting, {}
        if values:
            self._change(**values)
