"""What a new view can take over from the last one: pixels whose centres coincide.

After a pan by whole pixels all pixels that are in both views do, after a zoom by 2 a quarter of the new ones. What was
iterated stays; a pixel that was not finished goes on where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from compute.labs.mandelbrot.place import Place

CLOSE = Fraction(1, 1000)  # of a pixel: so far the new centres may lie from the old ones, and take their place
LEAST = 0.25  # of the new view that the old one must cover, else all is begun anew
RATIOS = {Fraction(1): (1, 1), Fraction(1, 2): (1, 2), Fraction(2): (2, 1)}  # of the pixel spacings, new to old


@dataclass(frozen=True)
class Overlap:
    """Pixel (i, j) of the new view is pixel ((i num + y0) / den, (j num + x0) / den) of the old one, where whole.

    place: the new view with its centre moved by at most CLOSE pixels, so that the centres coincide exactly.
    share: of the new view's pixels that the old one has.
    """

    place: Place
    num: int
    den: int
    y0: int
    x0: int
    share: float

    @property
    def strides(self) -> tuple[int, ...]:
        """The passes that a picture needs which begins with these pixels."""
        return (1,) if self.num == self.den else (2, 1) if self.den == 2 else (8, 4, 2, 1)


def overlap(old: Place, new: Place) -> Overlap | None:
    """What `new` shares with `old`; None if too little, or nothing exactly enough."""
    ratio = RATIOS.get(new.step / old.step)
    if ratio is None:
        return None
    num, den = ratio
    x0, right = _whole(old.re, new.re, old, (old.nx, new.nx), ratio)
    y0, up = _whole(old.im, new.im, old, (old.ny, new.ny), ratio)
    if max(abs(right), abs(up)) > CLOSE * num:
        return None
    unit = old.step / den
    place = replace(new, re=new.re - right * unit, im=new.im - up * unit)
    part = [_part(size, was, start, num, den) for size, was, start in ((new.nx, old.nx, x0), (new.ny, old.ny, y0))]
    covered = part[0] * part[1]
    if covered < LEAST:
        return None
    return Overlap(place, num, den, y0, x0, covered / (den * den))


def _whole(
    was: Fraction, now: Fraction, old: Place, sizes: tuple[int, int], ratio: tuple[int, int]
) -> tuple[int, Fraction]:
    """In units of 1 / den old pixels: where the new view's first pixel lies from the old view's, and what is left."""
    num, den = ratio
    start = Fraction(sizes[0] - 1, 2) * den + (now - was) / old.step * den - Fraction(sizes[1] - 1, 2) * num
    return round(start), start - round(start)


def _part(size: int, was: int, start: int, num: int, den: int) -> float:
    """Part of the new view's `size` pixels that lie within the old view, along one axis."""
    first = max(0, -(start // num))
    last = min(size - 1, ((was - 1) * den - start) // num)
    return max(0, last - first + 1) / size
