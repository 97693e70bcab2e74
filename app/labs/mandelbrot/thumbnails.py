"""Small pictures of places: kept in assets/ for those the page offers, made of the latest frame for a user's own.

`python -m app.labs.mandelbrot.thumbnails` draws those in assets/ anew, with the lab itself (`make thumbnails`).
"""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from app.labs.mandelbrot.bookmarks import FOLDER, file_of, places
from app.palettes import palette
from compute.frames import NOT_FINITE
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.views import Landmark

WIDTH, HEIGHT = 256, 144  # px: twice the size on the page, for fine screens and presenter mode
PALETTE = "Inferno"
INSIDE = "#000000"
QUALITY = 80  # of WebP: about 6 kB a picture


def draw(view: Landmark) -> NDArray[np.uint8]:
    """(HEIGHT, WIDTH) levels of `view`, row 0 lowest, computed with the lab on this machine's processor."""
    lab = Mandelbrot(
        backend="cpu_numba",
        center=view.center,
        zoom=view.zoom,
        max_iterations=view.max_iterations,
        ny=HEIGHT,
        nx=WIDTH,
        samples=4,
    )
    while not lab.resting:
        lab.advance()
    levels = lab.frame(pixels=(HEIGHT, WIDTH)).rasters["escape"].levels
    lab.close()
    return levels


def small(levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The middle of a picture, HEIGHT x WIDTH; nearest pixels, so that a level stays a level."""
    ny, nx = levels.shape
    side = min(ny / HEIGHT, nx / WIDTH)
    rows = ((np.arange(HEIGHT) - HEIGHT / 2 + 0.5) * side + ny / 2).astype(int)
    columns = ((np.arange(WIDTH) - WIDTH / 2 + 0.5) * side + nx / 2).astype(int)
    return levels[np.ix_(rows, columns)]


def webp(levels: NDArray[np.uint8], colours: list[str]) -> bytes:
    """The picture of `levels` (row 0 lowest) in `colours`, those of levels 0 … 254 as #rrggbb; the set in black."""
    table = np.zeros((NOT_FINITE + 1, 3), np.uint8)
    for level, colour in enumerate([*colours, INSIDE]):
        table[level] = tuple(bytes.fromhex(colour[1:]))
    file = io.BytesIO()
    Image.fromarray(table[levels[::-1]]).save(file, "WEBP", quality=QUALITY, method=6)
    return file.getvalue()


def address(data: bytes) -> str:
    """`data`, a WebP file, as an address that a page can hold by itself."""
    return "data:image/webp;base64," + base64.b64encode(data).decode("ascii")


def renew(folder: Path = FOLDER) -> None:
    """Draw every place that the page offers, and remove what belongs to none."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {file_of(title): view for title, view in places().items()}
    for name, view in wanted.items():
        (folder / name).write_bytes(webp(draw(view), palette(PALETTE)))
    for path in folder.glob("*.webp"):
        if path.name not in wanted:
            path.unlink()


if __name__ == "__main__":
    renew()
