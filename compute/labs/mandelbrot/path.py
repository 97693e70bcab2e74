"""Ways from one view to another, at any depth: by equal factors of zoom, towards a point that stays where it is."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

from compute.labs.mandelbrot.place import number

GUARD = 25  # digits of a centre beyond those that tell its pixels apart
FIGURES = 15  # of a zoom

Center = tuple[str, str]


def zoom_between(first: str, last: str, part: float) -> str:
    """The zoom `part` of the way, by equal factors; both ends are met exactly."""
    if part in (0, 1):
        return last if part else first
    low, high = (_log10(number("zoom", text)) for text in (first, last))
    power = low + part * (high - low)
    exponent = math.floor(power)
    return f"{10 ** (power - exponent):.{FIGURES}g}e{exponent}"


def center_between(first: Center, last: Center, zooms: tuple[str, str], zoom: str, part: float) -> Center:
    """The centre of the view at `zoom`, `part` of the way between two views with `zooms`; both ends are met exactly.

    It moves in proportion to the height of the view, so that the point that lies at the same place of both views lies
    there all the way, as under a finger; evenly between views of equal zoom.
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
    """log10 of any positive number, beyond the range of float64 too."""
    shift = value.numerator.bit_length() - value.denominator.bit_length()
    return math.log10(float(value / Fraction(2) ** shift)) + shift * math.log10(2)
