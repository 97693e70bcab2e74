"""Initial fields. Each takes the grid and the lab's options and returns (ny, nx) float64, row 0 at the bottom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from compute.images import as_field
from compute.labs.diffusion.modes import mode

Grid = NDArray[np.float64]


@dataclass(frozen=True)
class Options:
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


def _gaussian(ny: int, nx: int, _options: Options) -> Grid:
    y, x = _unit(ny, nx)
    return np.exp(-(x**2 + y**2) / (2 * 0.15**2))


def _hot_spots(ny: int, nx: int, options: Options) -> Grid:
    """Twelve discs of random place, size and sign."""
    y, x = _unit(ny, nx)
    rng = np.random.default_rng(options.seed)
    field = np.zeros((ny, nx))
    for _ in range(12):
        cx, cy = rng.uniform(-0.85, 0.85, 2)
        field[(x - cx) ** 2 + (y - cy) ** 2 < rng.uniform(0.03, 0.2) ** 2] = rng.choice([-1.0, 1.0])
    return field


def _ring(ny: int, nx: int, _options: Options) -> Grid:
    y, x = _unit(ny, nx)
    return (np.abs(np.hypot(x, y) - 0.55) < 0.1).astype(float)


def _step(ny: int, nx: int, _options: Options) -> Grid:
    _, x = _unit(ny, nx)
    return (x < 0).astype(float)


def _square(ny: int, nx: int, _options: Options) -> Grid:
    y, x = _unit(ny, nx)
    return (np.maximum(np.abs(x), np.abs(y)) < 0.45).astype(float)


def _checkerboard(ny: int, nx: int, _options: Options) -> Grid:
    """Squares of 8 x 8 on the shorter side."""
    y, x = _unit(ny, nx)
    return (np.floor(x * 4) + np.floor(y * 4)) % 2


def _chequer_mode(ny: int, nx: int, options: Options) -> Grid:
    """A Gaussian with the cell-by-cell +-1 pattern that r = 1/4 never damps."""
    signs = 1 - 2 * (np.add.outer(np.arange(ny), np.arange(nx)) % 2)
    return _gaussian(ny, nx, options) + 0.2 * signs


def _jagged(ny: int, nx: int, _options: Options) -> Grid:
    """Teeth on every scale: (i j mod 64) / 63 of the cell numbers i, j."""
    return np.multiply.outer(np.arange(ny), np.arange(nx)) % 64 / 63


def _noise(ny: int, nx: int, options: Options) -> Grid:
    return np.random.default_rng(options.seed).random((ny, nx))


def _spiral(ny: int, nx: int, _options: Options) -> Grid:
    y, x = _unit(ny, nx)
    radius = np.hypot(x, y)
    return ((np.sin(2 * np.arctan2(y, x) - 14 * radius) > 0) & (radius < 0.95)).astype(float)


def _mode(ny: int, nx: int, options: Options) -> Grid:
    return mode(ny, nx, options.p, options.q, options.edges)


def _letters(ny: int, nx: int, options: Options) -> Grid:
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


def _text(ny: int, nx: int, options: Options) -> Grid:
    """The text, as large as fits with a margin."""
    font = ImageFont.load_default(100)
    left, top, right, bottom = font.getbbox(options.text or " ")
    scale = 0.9 * min(nx / max(right - left, 1), ny / max(bottom - top, 1))
    picture = Image.new("L", (nx, ny))
    font = ImageFont.load_default(max(100 * scale, 1))
    ImageDraw.Draw(picture).text((nx / 2, ny / 2), options.text, fill=255, font=font, anchor="mm")
    return as_field(picture, ny, nx)


PRESETS: dict[str, Callable[[int, int, Options], Grid]] = {
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


def make(name: str, ny: int, nx: int, options: Options) -> Grid:
    """The preset `name` on an ny x nx grid; ValueError names the presets there are."""
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, not {name!r}")
    return PRESETS[name](ny, nx, options)
