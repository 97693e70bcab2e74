"""Fields that several kinds of export share: how large, in which format, how a file is called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

import panel_material_ui as pmui

from app.typed import Typed
from app.widgets import FULL
from compute.export.writers import VIDEO, VIDEO_INSTALL
from compute.lab import Lab
from compute.machine import now

HEIGHTS = {"720": 720, "1080": 1080, "2160 (4K)": 2160, "4320 (8K)": 4320}
TYPE = {"fontSize": "0.875rem"}  # of a small button's words
FILMS = {"MP4": ".mp4", "WebM": ".webm", "GIF": ".gif", "WebP": ".webp"}


def heights(value: int, most: int = 4320) -> Any:
    """How many pixels high; the width follows from what is shown."""
    options = {words: height for words, height in HEIGHTS.items() if height <= most}
    return pmui.Select(label="Height [pixels]", options={"360": 360, **options}, value=value, size="small", **FULL)


def film_formats() -> Any:
    """The formats of a film; those whose library is missing are greyed, with the line that installs it."""
    absent = [] if find_spec("av") else list(VIDEO)
    first = next(ending for ending in FILMS.values() if ending not in absent)
    words = f"MP4 and WebM need: {VIDEO_INSTALL}, and a restart of the server" if absent else ""
    return pmui.Select(
        label="Format", options=FILMS, disabled_options=absent, value=first, helper_text=words, size="small", **FULL
    )  # fmt: skip


class Whole:
    """The field `panel` for a whole number from `start` to `end`. What is wrong with what was typed stands below it."""

    def __init__(self, label: str, value: int, start: int, end: int, hint: str = "") -> None:
        self._label, self._bounds, self._value = label, (start, end), value
        self.panel = Typed(label, value, self._take, whole=True, helper_text=hint).panel

    @property
    def value(self) -> int:
        """What was typed; a ValueError says what is wrong with it."""
        if self.panel.error_state:
            raise ValueError(self.panel.helper_text)
        return self._value

    def _take(self, value: int) -> None:
        start, end = self._bounds
        if not start <= value <= end:
            raise ValueError(f"{self._label} must be from {start} to {end}, not {value}")
        self._value = value


def choose(field: Any, options: Mapping[str, Any] | Iterable[str]) -> None:
    """Give a drop-down other options; it keeps its value if that is still one of them."""
    options = dict(options) if isinstance(options, Mapping) else list(options)
    if field.options == options:
        return
    known = list(options.values()) if isinstance(options, dict) else options
    field.param.update(options=options, value=field.value if field.value in known else next(iter(known), None))


def file_name(lab: type[Lab], what: str, ending: str) -> str:
    """fieldlab-<lab>-<what>-<date and time><ending>."""
    words = re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-")
    stamp = re.sub(r"[^0-9T]", "", now()[:19])
    return "-".join(part for part in ("fieldlab", lab.LAB.replace("_", "-"), words, stamp) if part) + ending


def row(*items: Any) -> Any:
    """Fields beside each other."""
    return pmui.Row(*items, margin=0, sizing_mode="stretch_width")


def button(label: str, symbol: str, click: Any, filled: bool = True) -> Any:
    """A button with words."""
    variant = "contained" if filled else "outlined"
    made = pmui.Button(label=label, icon=symbol, variant=variant, size="small", margin=(8, 8), sx=TYPE)
    made.on_click(lambda event: click())
    return made
