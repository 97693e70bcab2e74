"""Exact places for a picture whose axes are float64: what is looked at, and the anchor that the browser counts from.

A browser's numbers have 53 bits. It therefore counts from an anchor, a place known exactly here, in units of about the
view's height; its numbers then mean the same place at every depth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from compute.labs.mandelbrot.place import FARTHEST, VIEW_HEIGHT, Scaled, number

ZOOM_DIGITS = 24  # significant digits of a zoom at most
ROUND_ZOOM = 12  # of a zoom that has more: doubling it then stays exact for forty steps
CENTER_DIGITS = 9  # of a centre beyond those of the zoom: 1e-9 of a view that is 4 / zoom high
FINEST, COARSEST = 2.0**-16, 4.0  # height of a view in units of an anchor that serves it
FAR = 2.0**16  # distance of a view from such an anchor, in its own heights: 2^-37 of it is still told apart


@dataclass(frozen=True)
class Sight:
    """What is looked at: `re`, `im` is the centre, the height is 4 / `zoom`; exact."""

    re: Fraction
    im: Fraction
    zoom: Fraction

    @classmethod
    def read(cls, center: tuple[str, str], zoom: str) -> Sight:
        """From the lab's strings; ValueError names the one that is no number."""
        return cls(number("center[0]", center[0]), number("center[1]", center[1]), number("zoom", zoom))

    @property
    def height(self) -> Fraction:
        """Of the view, in the complex plane."""
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


@dataclass(frozen=True)
class Anchor:
    """A place (a multiple of its unit) and a unit, 10^exponent: what the browser's numbers count from."""

    re: Fraction
    im: Fraction
    exponent: int

    @classmethod
    def near(cls, sight: Sight) -> Anchor:
        """The anchor beside the centre whose unit is the power of ten at or above the height."""
        exponent = math.ceil(log10(sight.height) - 1e-12)
        unit = Fraction(10) ** exponent
        return cls(round(sight.re / unit) * unit, round(sight.im / unit) * unit, exponent)

    @property
    def unit(self) -> Fraction:
        """In the complex plane."""
        return Fraction(10) ** self.exponent

    def serves(self, sight: Sight) -> bool:
        """Whether float64 shows `sight` well when it counts from here."""
        height = sight.height / self.unit
        offset = max(abs(sight.re - self.re), abs(sight.im - self.im)) / self.unit
        return FINEST <= height <= COARSEST and offset <= FAR * height

    def can_draw(self, sight: Sight) -> bool:
        """Whether a picture of `sight` has a place in these numbers that a screen can show."""
        height = sight.height / self.unit
        offset = max(abs(sight.re - self.re), abs(sight.im - self.im)) / self.unit
        return FINEST**2 <= height <= FAR**2 and offset <= FAR**2

    def count(self, sight: Sight) -> tuple[float, float, float]:
        """(x, y, height) of `sight` in these numbers."""
        unit = self.unit
        return float((sight.re - self.re) / unit), float((sight.im - self.im) / unit), float(sight.height / unit)

    def place(self, x: float, y: float) -> tuple[Fraction, Fraction]:
        """(re, im) that the numbers x, y mean."""
        unit = self.unit
        return self.re + Fraction(x) * unit, self.im + Fraction(y) * unit

    def step_to(self, other: Anchor) -> tuple[float, float, float] | None:
        """(dx, dy, scale) with which a number q of this anchor becomes (q - d) * scale of `other`; None if too far."""
        unit = self.unit
        dx, dy, scale = (other.re - self.re) / unit, (other.im - self.im) / unit, unit / other.unit
        near = max(abs(dx), abs(dy)) <= FAR**2 and FINEST**2 <= scale <= FAR**2
        return (float(dx), float(dy), float(scale)) if near else None


def log10(number: Fraction) -> float:
    """Of a positive number that may lie beyond float64."""
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
