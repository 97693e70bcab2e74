"""Initial fields: presets and pictures.

An initial field is a FieldRows, which returns its rows in float64, row 0 at the bottom. `fill` requests blocks of rows,
since intermediate results of the whole grid would need several times the lab's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from compute.cli.arguments import named
from compute.files.images import LoadedPicture
from compute.labs.diffusion.scheme import mode_profile

Grid = NDArray[np.float64]
FieldRows = Callable[[int, int], NDArray[Any]]  # (first, last): rows first to last - 1, requested in order, each once

SINGLE_MODE = "single mode"  # a preset
BLOCK = 2**16  # cells of a block of rows


@dataclass(frozen=True)
class PresetOptions:
    """Options of presets: seed of the random ones, mode numbers p (along x) and q (along y), text, edges."""

    seed: int = 0
    p: int = 3
    q: int = 2
    text: str = "Fieldlab"
    edges: str = "zero-flux"


def fill(out: NDArray[Any], rows: FieldRows) -> None:
    """Write a field to `out` (ny, nx) of any number type; the additional memory is a block of rows."""
    ny, nx = out.shape
    height = max(1, BLOCK // nx)
    for first in range(0, ny, height):
        last = min(first + height, ny)
        out[first:last] = rows(first, last)


def _unit(ny: int, nx: int, first: int, last: int) -> tuple[Grid, Grid]:
    """Return the cell centres of these rows, scaled so that the shorter side of the grid spans -1 … 1."""
    half = min(ny, nx) / 2
    y = (np.arange(first, last) + 0.5 - ny / 2) / half
    x = (np.arange(nx) + 0.5 - nx / 2) / half
    return np.broadcast_arrays(y[:, None], x[None, :])  # type: ignore[return-value]


def _of_place(ny: int, nx: int, value: Callable[[Grid, Grid], NDArray[Any]]) -> FieldRows:
    """Return the field whose cells at y, x are value(y, x)."""
    return lambda first, last: value(*_unit(ny, nx, first, last))


def _gaussian(ny: int, nx: int, _options: PresetOptions) -> FieldRows:
    return _of_place(ny, nx, lambda y, x: np.exp(-(x**2 + y**2) / (2 * 0.15**2)))


def _hot_spots(ny: int, nx: int, options: PresetOptions) -> FieldRows:
    """Return twelve discs of random position, size and sign."""
    rng = np.random.default_rng(options.seed)
    discs = [(*rng.uniform(-0.85, 0.85, 2), rng.choice([-1.0, 1.0]), rng.uniform(0.03, 0.2)) for _ in range(12)]

    def value(y: Grid, x: Grid) -> Grid:
        """Draw each disc over the previous ones."""
        field = np.zeros(x.shape)
        for cx, cy, sign, radius in discs:
            field[(x - cx) ** 2 + (y - cy) ** 2 < radius**2] = sign
        return field

    return _of_place(ny, nx, value)


def _ring(ny: int, nx: int, _options: PresetOptions) -> FieldRows:
    return _of_place(ny, nx, lambda y, x: np.abs(np.hypot(x, y) - 0.55) < 0.1)


def _step(ny: int, nx: int, _options: PresetOptions) -> FieldRows:
    return _of_place(ny, nx, lambda _, x: x < 0)


def _square(ny: int, nx: int, _options: PresetOptions) -> FieldRows:
    return _of_place(ny, nx, lambda y, x: np.maximum(np.abs(x), np.abs(y)) < 0.45)


def _checkerboard(ny: int, nx: int, _options: PresetOptions) -> FieldRows:
    """Return squares, 8 x 8 on the shorter side."""
    return _of_place(ny, nx, lambda y, x: (np.floor(x * 4) + np.floor(y * 4)) % 2)


def _chequer_mode(ny: int, nx: int, options: PresetOptions) -> FieldRows:
    """Return a Gaussian with the cell-by-cell +-1 pattern that r = 1/4 never damps."""
    smooth = _gaussian(ny, nx, options)

    def rows(first: int, last: int) -> Grid:
        """Return the sum of both."""
        signs = 1 - 2 * (np.add.outer(np.arange(first, last), np.arange(nx)) % 2)
        return smooth(first, last) + 0.2 * signs

    return rows


def _jagged(_ny: int, nx: int, _options: PresetOptions) -> FieldRows:
    """Return teeth on all scales: (i j mod 64) / 63 of the cell numbers i, j."""
    return lambda first, last: np.multiply.outer(np.arange(first, last), np.arange(nx)) % 64 / 63


def _noise(_ny: int, nx: int, options: PresetOptions) -> FieldRows:
    rng = np.random.default_rng(options.seed)
    return lambda first, last: rng.random((last - first, nx))


def _spiral(ny: int, nx: int, _options: PresetOptions) -> FieldRows:
    def value(y: Grid, x: Grid) -> NDArray[np.bool_]:
        """Return the two arms."""
        radius = np.hypot(x, y)
        return (np.sin(2 * np.arctan2(y, x) - 14 * radius) > 0) & (radius < 0.95)

    return _of_place(ny, nx, value)


def _mode(ny: int, nx: int, options: PresetOptions) -> FieldRows:
    upward, across = mode_profile(ny, options.q, options.edges), mode_profile(nx, options.p, options.edges)
    return lambda first, last: np.outer(upward[first:last], across)


def _letters(ny: int, nx: int, options: PresetOptions) -> FieldRows:
    """Return forty random letters, small enough to blur quickly."""
    rng = np.random.default_rng(options.seed)
    picture = Image.new("L", (nx, ny))
    draw = ImageDraw.Draw(picture)
    size = max(min(ny, nx) / 8, 6)
    for _ in range(40):
        place = (int(rng.integers(0, nx)), int(rng.integers(0, ny)))
        letter = chr(int(rng.integers(ord("A"), ord("Z") + 1)))
        draw.text(place, letter, fill=int(rng.integers(96, 256)), font=ImageFont.load_default(size), anchor="mm")
    return _drawn(picture)


def _text(ny: int, nx: int, options: PresetOptions) -> FieldRows:
    """Return the text, as large as fits with a margin."""
    font = ImageFont.load_default(100)
    left, top, right, bottom = font.getbbox(options.text or " ")
    scale = 0.9 * min(nx / max(right - left, 1), ny / max(bottom - top, 1))
    picture = Image.new("L", (nx, ny))
    font = ImageFont.load_default(max(100 * scale, 1))
    ImageDraw.Draw(picture).text((nx / 2, ny / 2), options.text, fill=255, font=font, anchor="mm")
    return _drawn(picture)


def picture_rows(picture: LoadedPicture, ny: int, nx: int) -> FieldRows:
    """Return the rows of `LoadedPicture.field`: brightness, 0 … 1."""
    return _brightness(picture.fitted(ny, nx), picture.scale)


def _drawn(picture: Image.Image) -> FieldRows:
    """Return the rows of a generated picture of the grid's size, in 256 levels of grey."""
    return _brightness(np.asarray(picture), 255)


def _brightness(levels: NDArray[Any], white: int) -> FieldRows:
    """Return the rows, 0 … 1, of levels with row 0 at the top."""
    upright = levels[::-1]
    return lambda first, last: upright[first:last].astype(np.float64) / white


PRESETS: dict[str, Callable[[int, int, PresetOptions], FieldRows]] = {
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
    SINGLE_MODE: _mode,
    "jagged": _jagged,
    "gaussian + chequerboard mode": _chequer_mode,
}


def preset_rows(name: str, ny: int, nx: int, options: PresetOptions) -> FieldRows:
    """Return the preset `name` on an ny x nx grid. Raise ValueError, with the known presets, for another name."""
    return named("preset", name, PRESETS)(ny, nx, options)


# -- strokes of the brush
