"""What a field begins as, and what is drawn into it: presets, a picture that somebody loads, strokes of the brush.

A preset takes the grid and the lab's options and returns (ny, nx) float64, row 0 at the bottom.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from numbers import Real

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from compute.arguments import named
from compute.images import Kept, as_field, fingerprint, read_image
from compute.labs.diffusion.scheme import eigenmode

Grid = NDArray[np.float64]

WORTH_TRYING = 4  # cells for each byte allowed: a photograph in grey has about one byte for two cells

StrokePoints = Sequence[tuple[float, float]]

MAX_POINTS = 1000  # points of one stroke that a client may send
MAX_DISCS = 10_000


@dataclass(frozen=True)
class PresetOptions:
    """What some presets read: seed of the random ones, mode numbers p (along x) and q (along y), text, edges."""

    seed: int = 0
    p: int = 3
    q: int = 2
    text: str = "Fieldlab"
    edges: str = "zero-flux"


def _unit(ny: int, nx: int) -> tuple[Grid, Grid]:
    """Cell centres scaled so that the shorter side runs over -1 … 1."""
    half = min(ny, nx) / 2
    y = (np.arange(ny) + 0.5 - ny / 2) / half
    x = (np.arange(nx) + 0.5 - nx / 2) / half
    return np.broadcast_arrays(y[:, None], x[None, :])  # type: ignore[return-value]


def _gaussian(ny: int, nx: int, _options: PresetOptions) -> Grid:
    y, x = _unit(ny, nx)
    return np.exp(-(x**2 + y**2) / (2 * 0.15**2))


def _hot_spots(ny: int, nx: int, options: PresetOptions) -> Grid:
    """Twelve discs of random place, size and sign."""
    y, x = _unit(ny, nx)
    rng = np.random.default_rng(options.seed)
    field = np.zeros((ny, nx))
    for _ in range(12):
        cx, cy = rng.uniform(-0.85, 0.85, 2)
        field[(x - cx) ** 2 + (y - cy) ** 2 < rng.uniform(0.03, 0.2) ** 2] = rng.choice([-1.0, 1.0])
    return field


def _ring(ny: int, nx: int, _options: PresetOptions) -> Grid:
    y, x = _unit(ny, nx)
    return (np.abs(np.hypot(x, y) - 0.55) < 0.1).astype(float)


def _step(ny: int, nx: int, _options: PresetOptions) -> Grid:
    _, x = _unit(ny, nx)
    return (x < 0).astype(float)


def _square(ny: int, nx: int, _options: PresetOptions) -> Grid:
    y, x = _unit(ny, nx)
    return (np.maximum(np.abs(x), np.abs(y)) < 0.45).astype(float)


def _checkerboard(ny: int, nx: int, _options: PresetOptions) -> Grid:
    """Squares of 8 x 8 on the shorter side."""
    y, x = _unit(ny, nx)
    return (np.floor(x * 4) + np.floor(y * 4)) % 2


def _chequer_mode(ny: int, nx: int, options: PresetOptions) -> Grid:
    """A Gaussian with the cell-by-cell +-1 pattern that r = 1/4 never damps."""
    signs = 1 - 2 * (np.add.outer(np.arange(ny), np.arange(nx)) % 2)
    return _gaussian(ny, nx, options) + 0.2 * signs


def _jagged(ny: int, nx: int, _options: PresetOptions) -> Grid:
    """Teeth on every scale: (i j mod 64) / 63 of the cell numbers i, j."""
    return np.multiply.outer(np.arange(ny), np.arange(nx)) % 64 / 63


def _noise(ny: int, nx: int, options: PresetOptions) -> Grid:
    return np.random.default_rng(options.seed).random((ny, nx))


def _spiral(ny: int, nx: int, _options: PresetOptions) -> Grid:
    y, x = _unit(ny, nx)
    radius = np.hypot(x, y)
    return ((np.sin(2 * np.arctan2(y, x) - 14 * radius) > 0) & (radius < 0.95)).astype(float)


def _mode(ny: int, nx: int, options: PresetOptions) -> Grid:
    return eigenmode(ny, nx, options.p, options.q, options.edges)


def _letters(ny: int, nx: int, options: PresetOptions) -> Grid:
    """Forty letters at random, drawn small, so that they blur at once."""
    rng = np.random.default_rng(options.seed)
    picture = Image.new("L", (nx, ny))
    draw = ImageDraw.Draw(picture)
    size = max(min(ny, nx) / 8, 6)
    for _ in range(40):
        place = (int(rng.integers(0, nx)), int(rng.integers(0, ny)))
        letter = chr(int(rng.integers(ord("A"), ord("Z") + 1)))
        draw.text(place, letter, fill=int(rng.integers(96, 256)), font=ImageFont.load_default(size), anchor="mm")
    return as_field(picture, ny, nx)


def _text(ny: int, nx: int, options: PresetOptions) -> Grid:
    """The text, as large as fits with a margin."""
    font = ImageFont.load_default(100)
    left, top, right, bottom = font.getbbox(options.text or " ")
    scale = 0.9 * min(nx / max(right - left, 1), ny / max(bottom - top, 1))
    picture = Image.new("L", (nx, ny))
    font = ImageFont.load_default(max(100 * scale, 1))
    ImageDraw.Draw(picture).text((nx / 2, ny / 2), options.text, fill=255, font=font, anchor="mm")
    return as_field(picture, ny, nx)


PRESETS: dict[str, Callable[[int, int, PresetOptions], Grid]] = {
    "hot spots": _hot_spots,
    "gaussian": _gaussian,
    "ring": _ring,
    "step": _step,
    "square": _square,
    "checkerboard": _checkerboard,
    "spiral": _spiral,
    "text": _text,
    "letters": _letters,
    "noise": _noise,
    "single mode": _mode,
    "jagged": _jagged,
    "gaussian + chequerboard mode": _chequer_mode,
}


def make_preset(name: str, ny: int, nx: int, options: PresetOptions) -> Grid:
    """The preset `name` on an ny x nx grid; ValueError names the presets there are."""
    return named("preset", name, PRESETS)(ny, nx, options)


# -- a picture that somebody loads


@dataclass(frozen=True)
class LoadedImage:
    """data: the bytes of the file; picture: what it shows, in grey."""

    data: bytes
    picture: Image.Image

    @classmethod
    def read(cls, data: bytes) -> LoadedImage:
        """A PNG or JPEG file; ValueError says why it is refused."""
        return cls(data, read_image(data))

    def field(self, ny: int, nx: int) -> NDArray[np.float64]:
        """(ny, nx) brightness, 0 … 1."""
        return as_field(self.picture, ny, nx)

    @cached_property
    def fingerprint(self) -> str:
        """Tells this file from others."""
        return fingerprint(self.data)

    def kept(self, ny: int, nx: int) -> Kept:
        """The part of the picture that the (ny, nx) field shows."""
        return Kept.of(self.picture, ny, nx)

    def small(self, ny: int, nx: int, most: int) -> bytes | None:
        """A file of at most `most` bytes that gives the same (ny, nx) field: this one, or a PNG of the field's size.

        None if there is none.
        """
        if len(self.data) <= most:
            return self.data
        if ny * nx > WORTH_TRYING * most:
            return None
        grey = np.rint(255 * self.field(ny, nx)[::-1]).astype(np.uint8)
        out = io.BytesIO()
        Image.fromarray(grey).save(out, "PNG")
        return out.getvalue() if out.tell() <= most else None


# -- strokes of the brush


def require_stroke(points: object, value: object, radius: object) -> None:
    """Raise ValueError unless they are 1 to MAX_POINTS points (x, y), a value and a radius above 0, all finite."""
    if not (_finite(radius) and radius > 0):  # type: ignore[operator]
        raise ValueError(f"radius must be a finite number above 0, not {radius!r}")
    few = isinstance(points, Sequence) and not isinstance(points, str) and 1 <= len(points) <= MAX_POINTS
    if not (_finite(value) and few and all(map(_is_point, points))):  # type: ignore[call-overload]
        raise ValueError(f"paint needs a finite value and 1 to {MAX_POINTS} finite points (x, y)")


def _is_point(point: object) -> bool:
    return isinstance(point, Sequence) and len(point) == 2 and all(map(_finite, point))


def _finite(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def stroke_as_json(points: StrokePoints, value: float, radius: float) -> dict[str, object]:
    """A stroke for JSON."""
    return {"points": [[float(x), float(y)] for x, y in points], "value": float(value), "radius": float(radius)}


def discs_along(points: StrokePoints, spacing: float) -> Iterator[tuple[float, float]]:
    """Points (x, y) on the polyline, at most `spacing` apart; ValueError above MAX_DISCS of them."""
    count = 1
    yield points[0][0], points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        parts = max(1, math.ceil(math.hypot(x1 - x0, y1 - y0) / spacing))
        count += parts
        if count > MAX_DISCS:
            raise ValueError(f"a stroke must be at most {MAX_DISCS} half radii long; use a wider brush")
        for k in range(1, parts + 1):
            yield x0 + (x1 - x0) * k / parts, y0 + (y1 - y0) * k / parts
