"""Bookmarks of the page, sorted by zoom, and their thumbnails.

They are the lab's predefined views, down to 1e1007, and a few more valleys. Their thumbnails are stored in assets/;
those of a user's marks are made from the latest frame. `python -m app.labs.mandelbrot.bookmarks` (`make thumbnails`)
renders the files in assets/ again, with the lab itself.
"""

from __future__ import annotations

import base64
import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from app.labs.mandelbrot.colour_scale import INSIDE, PALETTE
from app.page.theme import ASSETS
from app.tab.plots import palette
from compute.export.scene import NOT_COMPUTED
from compute.lab.frames import NOT_FINITE, WAITING
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.place import number
from compute.labs.mandelbrot.views import VIEWS, Landmark

FOLDER = ASSETS / "thumbnails" / "mandelbrot"
HOME = Landmark(("-0.75", "0.0"), "1.5", 1000)  # like the lab's "home", but closer: the set, 2.5 high, fills the screen
MORE = {
    "Whole set": HOME,
    "Triple spirals": Landmark(("-0.0888", "0.6555"), "6e2", 2000),
    "Scepter valley": Landmark(("-1.2542", "0.0245"), "1.5e3", 2000),
    "Branching point": Landmark(("-0.10109636384562", "0.95628651080914"), "6e1", 1000),  # z_4 = -z_3 is a fixed point
}
TITLES = {  # titles for views with unclear names
    "lesson": "Lesson's scene",
    "seahorses": "Seahorses 3e5",
    "e14": "Zoom 1e14",
    "e113": "Zoom 5e113",
    "dive e323": "Dive 1e323",
    "dive e1007": "Dive 1e1007",
}
WIDTH, HEIGHT = 256, 144  # px: twice the size on the page, for high-resolution screens and presenter mode
QUALITY = 80  # of WebP: about 6 kB per picture


@dataclass(frozen=True)
class Bookmark:
    """A named place with the URL of its picture; `own`: marked by the user."""

    title: str
    view: Landmark
    picture: str
    own: bool = False


def places() -> dict[str, Landmark]:
    """Return all places by title, sorted by zoom; the lab's "home" is replaced by "Whole set"."""
    views = {TITLES.get(name, name[:1].upper() + name[1:]): view for name, view in VIEWS.items() if name != "home"}
    return dict(sorted((MORE | views).items(), key=lambda place: number("zoom", place[1].zoom)))


def file_of(title: str) -> str:
    """Return the file name of a place's thumbnail."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") + ".webp"


def draw(view: Landmark) -> NDArray[np.uint8]:
    """Return (HEIGHT, WIDTH) levels of `view`, row 0 at the bottom, computed by the lab on this machine's CPU."""
    lab = Mandelbrot(
        backend="cpu_numba",
        center=view.center,
        zoom=view.zoom,
        max_iterations=view.max_iterations,
        ny=HEIGHT,
        nx=WIDTH,
        samples=4,
    )
    while not lab.status.resting:
        lab.advance()
    levels = lab.frame(pixels=(HEIGHT, WIDTH)).rasters["escape"].levels
    lab.close()
    return levels


def small(levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the centre of a picture at HEIGHT x WIDTH; nearest pixels, as levels cannot be averaged."""
    ny, nx = levels.shape
    side = min(ny / HEIGHT, nx / WIDTH)
    rows = ((np.arange(HEIGHT) - HEIGHT / 2 + 0.5) * side + ny / 2).astype(int)
    columns = ((np.arange(WIDTH) - WIDTH / 2 + 0.5) * side + nx / 2).astype(int)
    return levels[np.ix_(rows, columns)]


def webp(levels: NDArray[np.uint8], colours: list[str], waiting: bool = False) -> bytes:
    """Return `levels` (row 0 at the bottom) as a WebP file; the set is black.

    colours: of levels 0 … 254, as #rrggbb; waiting: as in Raster.
    """
    table = np.zeros((NOT_FINITE + 1, 3), np.uint8)
    for level, colour in enumerate([*colours, INSIDE]):
        table[level] = tuple(bytes.fromhex(colour[1:]))
    if waiting:
        table[WAITING] = NOT_COMPUTED
    file = io.BytesIO()
    Image.fromarray(table[levels[::-1]]).save(file, "WEBP", quality=QUALITY, method=6)
    return file.getvalue()


def data_url(data: bytes) -> str:
    """Return a WebP file as a data URL."""
    return "data:image/webp;base64," + base64.b64encode(data).decode("ascii")


def renew(folder: Path = FOLDER) -> None:
    """Render the thumbnails of all places, and remove other files."""
    folder.mkdir(parents=True, exist_ok=True)
    expected = {file_of(title): view for title, view in places().items()}
    for name, view in expected.items():
        (folder / name).write_bytes(webp(draw(view), palette(PALETTE)))
    for path in folder.glob("*.webp"):
        if path.name not in expected:
            path.unlink()


if __name__ == "__main__":
    renew()
