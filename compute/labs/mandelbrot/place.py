"""The position of a view: centre and zoom as decimal strings, exact at any depth, and the pixel grid they define.

A view is 4 / zoom high. Values are rounded to machine numbers only after the offset of a pixel from the centre is
computed.

Precision: the arithmetic that a view needs, which is direct iteration where float64 gives correct counts, and
perturbation below that. At a spacing of 2^-50 float64 still distinguishes pixels, but its rounding moves each by part
of a pixel: measured at the Seahorse valley (20 000 iterations), 60 % of the counts are wrong at 2^-50, 7 % at 2^-38,
0.4 % at 2^-20.

A backend without float64 iterates in float32 down to a spacing of 2^-12, then in double-single arithmetic down to
2^-20 if its device rounds sums of two float32 numbers exactly; below that a backend of the host computes. In float32
0.2 % of the counts of the whole set differ from those of float64 by more than 1; at the Seahorse valley 1 % at 2^-8,
8 % at 2^-12 and 20 % at 2^-18. In double-single arithmetic 0.5 % of the counts there are wrong at 2^-20, 4 % at 2^-28,
8 % at 2^-36 and 19 % at 2^-40.

Interpolation between two views, at any depth: by equal factors of zoom, towards a point that keeps its place in the
view.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.lab.interpolation import values_between

VIEW_HEIGHT = 4  # height of the view at zoom 1
FARTHEST = 8  # maximum size of a part of the centre; the set is within 2 of the origin
SHALLOWEST, DEEPEST = "1e-2", "1e2000"  # zooms
LONGEST = 4200  # maximum characters of a number: twice the digits that the deepest zoom can use
DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?")
GUARD_BITS = 64  # of the reference orbit, in addition to those of the pixel spacing

Line = NDArray[np.float64]

GUARD = 25  # digits of a centre in addition to those that distinguish its pixels
FIGURES = 15  # significant digits of a zoom

Center = tuple[str, str]


@dataclass(frozen=True)
class Scaled:
    """A number mantissa * 2^exponent with 1/2 <= |mantissa| < 1, or 0, for values outside the range of float64."""

    mantissa: float
    exponent: int

    @classmethod
    def of(cls, number: Fraction) -> Scaled:
        """Return `number` rounded to 53 bits."""
        if not number:
            return cls(0.0, 0)
        shift = number.numerator.bit_length() - number.denominator.bit_length()
        mantissa, rest = math.frexp(float(number / Fraction(2) ** shift))
        return cls(mantissa, shift + rest)

    @property
    def log2(self) -> float:
        """log2 |number|; -inf for 0."""
        return math.log2(abs(self.mantissa)) + self.exponent if self.mantissa else -math.inf


@dataclass(frozen=True)
class Place:
    """A view of ny x nx square pixels. Row 0 has the lowest imaginary part; a pixel represents its centre."""

    re: Fraction
    im: Fraction
    zoom: Fraction
    ny: int
    nx: int

    @classmethod
    def of(cls, center: tuple[str, str], zoom: str, ny: int, nx: int) -> Place:
        """Parse the strings; raise ValueError with the parameter's name, its value and the allowed range."""
        parts = [number(f"center[{k}]", text) for k, text in enumerate(center)]
        for k, part in enumerate(parts):
            if abs(part) > FARTHEST:
                raise ValueError(f"center[{k}] must be from -{FARTHEST} to {FARTHEST}, not {short(center[k])}")
        scale = number("zoom", zoom)
        if not Fraction(Decimal(SHALLOWEST)) <= scale <= Fraction(Decimal(DEEPEST)):
            raise ValueError(f"zoom must be from {SHALLOWEST} to {DEEPEST}, not {short(zoom)}")
        return cls(parts[0], parts[1], scale, ny, nx)

    @cached_property
    def step(self) -> Fraction:
        """Distance of two neighbouring pixels, exact."""
        return VIEW_HEIGHT / (self.zoom * self.ny)

    @cached_property
    def spacing(self) -> Scaled:
        """Distance of two neighbouring pixels."""
        return Scaled.of(self.step)

    @property
    def farthest(self) -> float:
        """The largest |c| of the view, at one of its corners."""
        sides = (self.re, self.nx), (self.im, self.ny)
        return math.hypot(*(float(abs(centre) + size * self.step / 2) for centre, size in sides))

    @property
    def bits(self) -> int:
        """Number of bits that distinguish these pixels, plus GUARD_BITS for the rounding of a long orbit."""
        return max(53, -self.spacing.exponent) + GUARD_BITS

    def away(self, re: Fraction, im: Fraction) -> tuple[Fraction, Fraction]:
        """Return the offset of the point re + i im from the centre, in pixels."""
        return (re - self.re) / self.step, (im - self.im) / self.step

    def offsets(self, re: Fraction | None = None, im: Fraction | None = None) -> tuple[Line, Line]:
        """Return (nx,) and (ny,): the offsets in pixels of all columns and rows from re + i im, or from the centre.

        Offsets from the centre are exact; others are rounded once, and inf outside the range of float64.
        """
        x, y = self.away(self.re if re is None else re, self.im if im is None else im)
        return _sum(Fraction(1 - self.nx, 2) - x, np.arange(self.nx)), _sum(
            Fraction(1 - self.ny, 2) - y, np.arange(self.ny)
        )

    def axes(self) -> tuple[Line, Line]:
        """Return the (nx,) real and (ny,) imaginary parts of the pixels in float64; each is rounded once."""
        step = math.ldexp(self.spacing.mantissa, max(self.spacing.exponent, -1074))
        across, up = self.offsets()
        return _sum(self.re, across * step), _sum(self.im, up * step)


def number(name: str, text: str) -> Fraction:
    """Return the exact value of a decimal string such as "-0.75" or "5e113"; ValueError names the parameter `name`."""
    if not isinstance(text, str):
        raise ValueError(f"{name} must be a decimal number as a string, not {text!r}")  # noqa: TRY004 one kind of error
    if len(text) > LONGEST:
        raise ValueError(f"{name} must have at most {LONGEST} characters, not {len(text)}")
    if not DECIMAL.fullmatch(text):
        raise ValueError(f'{name} must be a decimal number such as "-0.75" or "5e113", not {short(text)!r}')
    value = Decimal(text)
    if value and not -2 * LONGEST < value.adjusted() < LONGEST:
        raise ValueError(f"{name} must be 0 or lie between 1e-{2 * LONGEST} and 1e{LONGEST}, not {short(text)}")
    return Fraction(value)


def short(text: str) -> str:
    """Return `text`, shortened for a message."""
    return text if len(text) <= 40 else f"{text[:30]}… ({len(text)} characters)"


def _sum(centre: Fraction, offsets: NDArray[Any]) -> Line:
    """Return centre + offsets, where the centre has more digits than float64."""
    high = float(centre)
    low = float(centre - Fraction(high))
    total: Line = high + (low + offsets)
    return total


# -- the arithmetic that a view needs


@dataclass(frozen=True)
class Precision:
    """An arithmetic: `kernel` names its function in a backend's file, `dtype` the type of z and of the pixels' parts.

    finest: log2 of the smallest pixel spacing that it can draw; below that, neighbouring pixels coincide. good: log2 of
    the smallest spacing at which "auto" selects it, because its counts equal those of exact arithmetic; float32 and
    double-single are selected only on a backend without float64. parts: numbers of type `dtype` whose sum is a value;
    cost: duration of an iteration relative to one of float32.
    """

    name: str
    kernel: str
    dtype: str
    finest: float
    good: float = math.inf
    deep: bool = False
    parts: int = 1
    cost: int = 1

    def rounded(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Return `values` in this arithmetic; with parts = 2 an array of shape (2, …), the larger parts first."""
        high = values.astype(self.dtype)
        return high if self.parts == 1 else np.stack([high, (values - high).astype(self.dtype)])


DOUBLE_SINGLE = "double-single"  # sums of two float32 numbers, for a backend without float64
DIRECT = "direct"  # the kernel of which a backend may have variants
PRECISIONS = {
    each.name: each
    for each in (
        Precision("float32", DIRECT, "float32", -22, good=-12),
        Precision(DOUBLE_SINGLE, "double_single", "float32", -46, good=-20, parts=2, cost=32),
        Precision("float64", DIRECT, "float64", -50, good=-16),
        Precision("perturbation", "perturbed", "float64", -963, deep=True),  # 2^-963 = 1e-290
        Precision("extended", "far", "float64", -(2.0**30), deep=True),
    )
}
WHOLE_ZOOM = "1e0"  # shows the whole set
CHOICES = ("auto", "float32", "float64", "perturbation")  # perturbation becomes extended below a spacing of 1e-290


def choose(precision: str, place: Place, dtypes: tuple[str, ...] = ("float32", "float64")) -> Precision:
    """Return the arithmetic for `place` when the lab's precision is one of CHOICES.

    dtypes: number types of the lab's backend, with DOUBLE_SINGLE if its device can compute in it. If it lacks float64,
    "auto" selects float32 or double-single where that is good enough; elsewhere the result is an arithmetic for another
    backend.
    """
    if precision == "auto":
        direct = ("float64",) if "float64" in dtypes else (*dtypes, "float64")
        good = (name for name in direct if place.spacing.log2 >= PRECISIONS[name].good)
        precision = next(good, "perturbation")
    if precision == "perturbation" and not enough(precision, place):
        precision = "extended"
    return PRECISIONS[precision]


def enough(name: str, place: Place) -> bool:
    """Return whether the arithmetic `name` can draw `place`."""
    return place.spacing.log2 >= PRECISIONS[name].finest


# -- interpolation between two views


def views_between(first: dict[str, Any], last: dict[str, Any], part: float) -> dict[str, Any]:
    """Return values between two views: the zoom by equal factors, the centre in step with it, others as any lab's."""
    values = values_between(first, last, part)
    zooms = first.get("zoom", WHOLE_ZOOM), last.get("zoom", WHOLE_ZOOM)
    if "zoom" in first:
        values["zoom"] = zoom_between(*zooms, part)
    if "center" in first:
        values["center"] = center_between(first["center"], last["center"], zooms, values.get("zoom", zooms[0]), part)
    return values


def zoom_between(first: str, last: str, part: float) -> str:
    """Return the zoom at the fraction `part` between two zooms, by equal factors; both ends are exact."""
    if part in (0, 1):
        return last if part else first
    low, high = (_log10(number("zoom", text)) for text in (first, last))
    power = low + part * (high - low)
    exponent = math.floor(power)
    return f"{10 ** (power - exponent):.{FIGURES}g}e{exponent}"


def center_between(first: Center, last: Center, zooms: tuple[str, str], zoom: str, part: float) -> Center:
    """Return the centre of the view at `zoom`, the fraction `part` between two views with `zooms`; both ends are exact.

    The centre moves in proportion to the height of the view, so that the point that has the same place in both views
    keeps it throughout, as under a finger. Between views of equal zoom it moves evenly.
    """
    if part in (0, 1):
        return last if part else first
    low, high, here = (1 / number("zoom", text) for text in (*zooms, zoom))
    way = (here - low) / (high - low) if low != high else Fraction(part)
    digits = max(0, math.ceil(-_log10(min(low, high)))) + GUARD
    ends = [(number("center", a), number("center", b)) for a, b in zip(first, last, strict=True)]
    re, im = (_text(a + way * (b - a), digits) for a, b in ends)
    return re, im


def _text(value: Fraction, digits: int) -> str:
    with localcontext() as context:
        context.prec = digits + 10
        return f"{(Decimal(value.numerator) / Decimal(value.denominator)).quantize(Decimal(1).scaleb(-digits)):f}"


def _log10(value: Fraction) -> float:
    """Return log10 of any positive number, also outside the range of float64."""
    shift = value.numerator.bit_length() - value.denominator.bit_length()
    return math.log10(float(value / Fraction(2) ** shift)) + shift * math.log10(2)
