"""The places that the page offers, shallow first: the lab's own views, down to 1e1007, and a few more valleys."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.theme import ASSETS
from compute.labs.mandelbrot.place import number
from compute.labs.mandelbrot.views import VIEWS, Landmark

FOLDER = ASSETS / "thumbnails" / "mandelbrot"
HOME = Landmark(("-0.75", "0.0"), "1.5", 1000)  # the lab's view "home", closer: the whole set, 2.5 high, fills a screen
MORE = {
    "Whole set": HOME,
    "Triple spirals": Landmark(("-0.0888", "0.6555"), "6e2", 2000),
    "Scepter valley": Landmark(("-1.2542", "0.0245"), "1.5e3", 2000),
    "Branching point": Landmark(("-0.10109636384562", "0.95628651080914"), "6e1", 1000),  # z_4 = -z_3 stays where it is
}
TITLES = {  # of the lab's views whose names say too little
    "lesson": "Lesson's scene",
    "seahorses": "Seahorses 3e5",
    "e14": "Zoom 1e14",
    "e113": "Zoom 5e113",
    "dive e323": "Dive 1e323",
    "dive e1007": "Dive 1e1007",
}


@dataclass(frozen=True)
class Bookmark:
    """A named place with the address of its picture; `own`: marked by the user."""

    title: str
    view: Landmark
    picture: str
    own: bool = False


def places() -> dict[str, Landmark]:
    """All places by title, shallow first; the lab's "home" is offered as the whole set."""
    views = {TITLES.get(name, name[:1].upper() + name[1:]): view for name, view in VIEWS.items() if name != "home"}
    return dict(sorted((MORE | views).items(), key=lambda place: number("zoom", place[1].zoom)))


def file_of(title: str) -> str:
    """The file name of a place's thumbnail."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") + ".webp"
