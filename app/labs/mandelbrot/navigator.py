"""Where the picture looks, exactly, and where it looked before. Every gesture, key and bookmark goes through here.

Two sights are kept. The aim is what was asked for. What is shown is the aim moved by at most a pixel, so that the
pixels of the last picture can be used again: a pan is a whole number of pixels, and a step to twice or half the zoom
puts the old pixels' centres on new ones. Because each aim follows from the last aim, those little moves never add up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from app.labs.mandelbrot.viewport import ROUND_ZOOM, ZOOM_DIGITS, Sight, scientific, within
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.place import DEEPEST, SHALLOWEST, Place, number

CALM = 0.6  # seconds without a move after which the next one is a step of its own for `undo`
MOST = 500  # steps that can be undone
SAME = 1e-9  # part by which two heights may differ and still be the same: a browser's numbers have 53 bits
DRIFT = 2  # pixels that what is shown may lie beside the aim before a pan makes it good
DOUBLE = (2.0, 0.5)  # zoom factors for which the lab uses its pixels again
ZOOMS = Fraction(Decimal(SHALLOWEST)), Fraction(Decimal(DEEPEST))


@dataclass(frozen=True)
class Step:
    """One entry of the history."""

    aim: Sight
    shown: Sight
    max_iterations: int


class Navigator:
    """Moves the view and remembers it.

    change(center=, zoom=[, max_iterations=]) sets the lab's values; values holds the present ones (also ny and nx).
    changed: callbacks, called after every move. fx, fy are fractions of the view from its lower left corner.
    """

    def __init__(
        self,
        change: Callable[..., object],
        values: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._change, self._values, self._clock = change, values, clock
        self._now = _standing(values)
        self._past: list[Step] = []
        self._future: list[Step] = []
        self._moved = -float("inf")
        self.changed: list[Callable[[], object]] = []

    # -- where it looks

    @property
    def aim(self) -> Sight:
        """What was asked for."""
        return self._now.aim

    @property
    def shown(self) -> Sight:
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
        """To a place given in words; ValueError says what is wrong with it."""
        Place.of(center, zoom, self._values["ny"], self._values["nx"])
        low, high = Mandelbrot.param["max_iterations"].bounds
        if max_iterations is not None and not low <= max_iterations <= high:
            raise ValueError(f"max_iterations must be from {low} to {high}, not {max_iterations}")
        sight = Sight.read(center, scientific(number("zoom", zoom), ZOOM_DIGITS))
        self.settle()
        self._take(Step(sight, sight, max_iterations or self._values["max_iterations"]))
        self.settle()

    def home(self) -> None:
        """To the whole set, with the iterations it takes."""
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
        less = self.aim.height - Sight(self.aim.re, self.aim.im, zoom).height
        self.look(Sight(self.aim.re + right * less, self.aim.im + up * less, zoom))

    def box(self, fx0: float, fy0: float, fx1: float, fy1: float) -> None:
        """Show the box between two opposite corners, with as much around it as square pixels ask for."""
        part = max(abs(fx1 - fx0), abs(fy1 - fy0))
        if not part > 0:
            raise ValueError("a box must have two different corners")
        width = self.aim.height * Fraction(self._values["nx"], self._values["ny"])
        right, up = (Fraction(fx0) + Fraction(fx1) - 1) / 2, (Fraction(fy0) + Fraction(fy1) - 1) / 2
        self.settle()
        zoom = _zoom(self.aim.zoom / Fraction(part))
        self.look(Sight(self.aim.re + right * width, self.aim.im + up * self.aim.height, zoom))
        self.settle()

    def look(self, aim: Sight) -> None:
        """To `aim`, which may come from a browser's numbers; what is shown lies up to a pixel beside it."""
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
        """One step back; nothing if there is none."""
        if self._past:
            self.settle()
            self._future.append(self._current)
            self._set(self._past.pop())

    def redo(self) -> None:
        """One step forward again; nothing if there is none."""
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
        """The gesture is over: the next move is a step of its own."""
        self._moved = -float("inf")

    def follow(self, values: Mapping[str, Any]) -> None:
        """Take over a view that was set without this navigator, for instance because the lab refused the last one."""
        if {"center", "zoom", "max_iterations"} & set(values):
            self._now = _standing(self._values)
            self._tell()

    # -- inside

    @property
    def _current(self) -> Step:
        """Where it is, with the iterations that may have been set meanwhile."""
        return replace(self._now, max_iterations=self._values["max_iterations"])

    def _pan_to(self, aim: Sight) -> Sight:
        """What is shown of `aim` at the present zoom: whole pixels from what is shown now."""
        step = self.spacing
        panned = self._panned(round((aim.re - self.aim.re) / step), round((aim.im - self.aim.im) / step))
        if max(abs(panned.re - aim.re), abs(panned.im - aim.im)) <= DRIFT * step:
            return panned
        return self._panned(round((aim.re - self.shown.re) / step), round((aim.im - self.shown.im) / step))

    def _panned(self, dx: int, dy: int) -> Sight:
        return _by(self.shown, dx * self.spacing, dy * self.spacing)

    def _aligned(self, aim: Sight, factor: float) -> Sight:
        """`aim` moved so that old and new pixels' centres coincide; in a zoom to twice, on new pixels of even index."""
        step, counts = self.spacing, (self._values["nx"], self._values["ny"])
        pairs = zip((self.shown.re, self.shown.im), (aim.re, aim.im), counts, strict=True)
        part = Fraction(1, 4) if factor > 1 else Fraction(1, 2)
        re, im = (old + step * _nearest((new - old) / step, -(count - 1) * part) for old, new, count in pairs)
        return Sight(re, im, aim.zoom)

    def _take(self, step: Step) -> None:
        """A move: a step of its own after a calm, else part of the gesture that is under way."""
        aim = Sight(*within(step.aim.re, step.aim.im), step.aim.zoom)
        step = replace(step, aim=aim, shown=Sight(*within(step.shown.re, step.shown.im), step.shown.zoom))
        if step == self._current:
            return
        now = self._clock()
        if now - self._moved > CALM:
            self._past = [*self._past, self._current][-MOST:]
        self._future.clear()
        self._moved = now
        self._set(step)

    def _set(self, step: Step) -> None:
        self._now, other = step, step.max_iterations != self._values["max_iterations"]
        budget = {"max_iterations": step.max_iterations} if other else {}
        self._change(center=self.center, zoom=self.zoom, **budget)
        self._tell()

    def _tell(self) -> None:
        for callback in self.changed:
            callback()


def _standing(values: Mapping[str, Any]) -> Step:
    sight = Sight.read(values["center"], values["zoom"])
    return Step(sight, sight, values["max_iterations"])


def _by(sight: Sight, right: Fraction, up: Fraction) -> Sight:
    return replace(sight, re=sight.re + right, im=sight.im + up)


def _zoom(wanted: Fraction) -> Fraction:
    """The zoom nearest to `wanted` that the lab takes and a short string holds: a gesture stops at the deepest."""
    zoom = max(ZOOMS[0], min(ZOOMS[1], wanted))
    exact = number("zoom", scientific(zoom, ZOOM_DIGITS)) == zoom
    return zoom if exact else number("zoom", scientific(zoom, ROUND_ZOOM))


def _nearest(wanted: Fraction, offset: Fraction) -> Fraction:
    """The number nearest to `wanted` that lies a whole number beside `offset`."""
    return round(wanted - offset) + offset
