"""Presets as tiles: a picture, the title, and a line about what to try; and About, with equations and sources.

The pictures are stored in assets/; `python -m app.labs.equations.preset_tiles` (`make thumbnails`) computes them again,
with the interpreter in float64. A preset without a picture is shown by its equations.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar

import numpy as np
import panel_material_ui as pmui
import param
from numpy.typing import NDArray
from panel.custom import JSComponent
from PIL import Image

from app.labs.equations.typeset import STYLE, typeset
from app.page.markup import filled
from app.page.theme import ASSETS, html_pane, stylesheet
from app.page.widgets import card_script
from app.tab.plots import palette
from compute.lab.frames import TOP_LEVEL
from compute.labs.equations.language import read
from compute.labs.equations.presets import Preset, presets
from compute.labs.equations.reference import Reference, initial
from compute.labs.equations.stability import stability

FOLDER = ASSETS / "thumbnails" / "equations"
WIDTH, HEIGHT = 192, 128  # px, and cells: twice the size on the page
QUALITY = 80  # of WebP: about 5 kB per picture
MOST_LINE = 44  # characters of the line of a tile; About has the whole sentence
WALL = (120, 130, 140)  # grey, on light and dark pages
DOI = re.compile(r"doi:(10\.[0-9]+/[^\s,;]*[^\s,;.])")


@dataclass(frozen=True)
class Thumbnail:
    """A picture of a preset. time: since the start; picture: a field or "show"."""

    time: float
    picture: str
    palette: str = "Viridis"


THUMBNAILS: Mapping[str, Thumbnail] = {
    "burgers": Thumbnail(40, "show", "Cool–warm"),
    "cahn_hilliard": Thumbnail(150, "c", "Cool–warm"),
    "chemotaxis": Thumbnail(150, "n"),
    "excitable": Thumbnail(24, "u", "Inferno"),
    "fisher_maze": Thumbnail(620, "u", "Inferno"),
    "fitzhugh_nagumo": Thumbnail(600, "u", "Inferno"),
    "gray_scott": Thumbnail(6000, "v"),
    "heat": Thumbnail(25, "u", "Inferno"),
    "porous_medium": Thumbnail(500, "u", "Inferno"),
    "schroedinger": Thumbnail(135, "show", "Inferno"),
    "swift_hohenberg": Thumbnail(60, "u", "Cool–warm"),
    "wave": Thumbnail(110, "u", "Cool–warm"),
}
TILE_STYLE = """
.presets { display: grid; grid-template-columns: repeat(auto-fill, minmax(216px, 1fr)); gap: 8px; margin: 0;
  padding: 4px; list-style: none; overflow: hidden auto; scrollbar-width: thin; max-height: max(296px, 100vh - 560px); }
.presets li { position: relative; }
.presets button { font: inherit; font-size: var(--small, 14px); line-height: 1.35; color: var(--ink); background: none;
  border: 1px solid transparent; border-radius: 6px; padding: 0; cursor: pointer; }
.presets .load { display: grid; grid-template-columns: 96px minmax(0, 1fr); gap: 8px; width: 100%; text-align: left;
  min-height: 66px; align-items: start; }
.presets .picture { width: 96px; height: 64px; border-radius: 6px; background: var(--line); overflow: hidden; }
.presets img.picture { display: block; object-fit: cover; }
.presets .picture .typed { padding: 4px; overflow: hidden; }
.presets b { display: block; font-weight: 700; overflow-wrap: anywhere; }
.presets .line { display: block; color: var(--muted); }
.presets .load:hover, .presets [aria-current=true] { border-color: var(--accent); }
.presets .about { position: absolute; left: 69px; top: 5px; width: 24px; height: 24px; border-color: var(--line);
  border-radius: 12px; background: var(--paper); line-height: 20px; text-align: center; }
.presets button:focus-visible { outline: 3px solid var(--accent); outline-offset: -1px; }
"""
ABOUT_STYLE = """
.about { font-size: var(--body); line-height: 1.5; color: var(--ink); padding: 0 8px 8px; }
.about h3 { margin: 12px 0 4px; font-size: var(--body); }
.about ul { margin: 0; padding-left: 24px; }
.about li { overflow-wrap: anywhere; }
.about a { color: var(--accent); }
"""


class PresetTiles(JSComponent):
    """The tiles of `shown`; picked(preset) and explain(preset) are called for a chosen tile and for its "?"."""

    items = param.List(default=[], item_type=dict, doc="title, line, picture and equation of each preset.")
    current = param.Integer(default=-1, doc="Index of the tile of the present text; -1 for an own text.")

    _stylesheets: ClassVar[list[str]] = [TILE_STYLE]
    _esm = card_script(Path(__file__).with_name("preset_tiles.js"))

    def __init__(
        self,
        shown: Mapping[str, Preset],
        picked: Callable[[Preset], object],
        explain: Callable[[Preset], object],
        **params: Any,
    ) -> None:
        self._presets = list(shown.values())
        items = [_item(each) for each in self._presets]
        sheets = [stylesheet(), STYLE]
        super().__init__(items=items, stylesheets=sheets, sizing_mode="stretch_width", margin=(4, 8), **params)
        self._picked, self._explain = picked, explain

    def show(self, text: str) -> None:
        """Mark the tile of the preset with this text."""
        texts = [each.text for each in self._presets]
        self.current = texts.index(text) if text in texts else -1

    def _handle_msg(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        for name, act in (("pick", self._picked), ("about", self._explain)):
            index = data.get(name)
            if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(self._presets):
                act(self._presets[index])


def _item(preset: Preset) -> dict[str, str]:
    picture = thumbnail(preset)
    equation = "" if picture else typeset(read(preset.text))
    line = shorten(preset.hints[0] if preset.hints else preset.sources[0], MOST_LINE, placeholder=" …")
    return {"title": preset.title, "line": line, "picture": picture, "equation": equation}


class PresetAbout:
    """The dialog `panel` about one preset: its equations, what to try, and its sources. load(preset) loads it."""

    def __init__(self, load: Callable[[Preset], object]) -> None:
        self._load = load
        self._preset: Preset | None = None
        self._words = html_pane("", STYLE, ABOUT_STYLE)
        button = pmui.Button(label="Load", icon="play_arrow", margin=(8, 16))
        button.on_click(lambda event: self._take())
        self.panel = pmui.Dialog(
            self._words, button, close_on_click=True, show_close_button=True, width_option="sm", title=""
        )

    def open(self, preset: Preset) -> None:
        """Open the dialog with a preset."""
        self._preset = preset
        self._words.object = about_html(preset)
        self.panel.param.update(title=preset.title, open=True)

    def _take(self) -> None:
        self.panel.open = False
        if self._preset is not None:
            self._load(self._preset)


def about_html(preset: Preset) -> str:
    """Return equations, hints and sources of a preset as HTML, with links to DOIs."""
    hints = "".join(filled("<li>{hint}</li>", hint=hint) for hint in preset.hints)
    sources = "".join(f"<li>{_linked(source)}</li>" for source in preset.sources)
    tries = f"<h3>What to try</h3><ul>{hints}</ul>" if hints else ""
    return f"<div class='about'>{typeset(read(preset.text))}{tries}<h3>Sources</h3><ul>{sources}</ul></div>"


def _linked(source: str) -> str:
    """Return a source as HTML with its DOI as a link."""
    found = DOI.search(source)
    if found is None:
        return filled("{source}", source=source)
    link = "<a href='https://doi.org/{doi}' target='_blank' rel='noopener noreferrer'>doi:{doi}</a>"
    before, after = source[: found.start()], source[found.end() :]
    return filled(f"{{before}} {link}{{after}}", before=before, doi=found[1], after=after)


# -- pictures


def thumbnail(preset: Preset, folder: Path = FOLDER) -> str:
    """Return the data URL of a preset's thumbnail, or "" without one."""
    path = folder / f"{preset.name}.webp"
    if preset.name not in THUMBNAILS or not path.exists():
        return ""
    return "data:image/webp;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


def draw(preset: Preset, shown: Thumbnail, ny: int = HEIGHT, nx: int = WIDTH) -> NDArray[np.uint8]:
    """Return the (ny, nx, 3) colours of a preset's thumbnail, row 0 at the top; walls are grey."""
    system = read(preset.text)
    start = initial(system, ny, nx)
    dt = system.dt or stability(system, start).dt
    simulation = Reference(system, ny, nx, dt=dt, start=start)
    simulation.advance(round(shown.time / dt))
    field = simulation.show() if shown.picture == "show" else simulation.arrays[shown.picture]
    wall = start.get("wall", np.zeros((ny, nx))) > 0
    low, high = (float(end) for end in np.percentile(field[~wall], (0.5, 99.5)))
    if shown.palette == "Cool–warm":
        high = max(high, -low)
        low = -high
    levels = np.clip((field - low) / ((high - low) or 1.0), 0, 1) * TOP_LEVEL
    table = np.array([tuple(bytes.fromhex(colour[1:])) for colour in palette(shown.palette)], np.uint8)
    colours = table[np.nan_to_num(levels).round().astype(int)]
    colours[wall] = WALL
    return colours[::-1]


def renew(folder: Path = FOLDER, thumbnails: Mapping[str, Thumbnail] = THUMBNAILS) -> None:
    """Compute the thumbnails of all presets in `thumbnails`, and delete other files."""
    folder.mkdir(parents=True, exist_ok=True)
    known = presets()
    for name, shown in thumbnails.items():
        file = io.BytesIO()
        Image.fromarray(draw(known[name], shown)).save(file, "WEBP", quality=QUALITY, method=6)
        (folder / f"{name}.webp").write_bytes(file.getvalue())
    for path in folder.glob("*.webp"):
        if path.stem not in thumbnails:
            path.unlink()


if __name__ == "__main__":
    renew()
