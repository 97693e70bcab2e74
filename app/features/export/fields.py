"""Base class of export sections, and their common fields: subject, size, format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import panel as pn
import panel_material_ui as pmui

from app.features.export.source import ExportSource, slide
from app.page.widgets import FULL, NumberField, set_options
from compute.cli import settings
from compute.export.formats import FILMS, FileFormat
from compute.export.packages import AV
from compute.lab.lab import Lab
from compute.machine.machine import now

HEIGHTS = {"720": 720, "1080": 1080, "2160 (4K)": 2160, "4320 (8K)": 4320}
TYPE = {"fontSize": "0.875rem"}  # font of a small button
AXES = "with axes"


class ExportSection:
    """One kind of export on the card; `panel` contains its fields. Subclasses define TITLE."""

    TITLE: ClassVar[str]
    panel: Any

    def tick(self) -> None:
        """Update the choices; called a few times a second while the card is open."""

    def on_event(self, event: Any) -> None:
        """Handle an engine event of the lab."""

    def close(self) -> None:
        """Cancel unfinished work; called when the lab is closed."""


def heights(value: int, lab: type[Lab], most: int = 4320) -> Any:
    """Return a field for the height in pixels; the width follows from the aspect ratio of the picture.

    In labs with one grid cell per pixel, heights above this server's limit of the grid are disabled.
    """
    options = {"360": 360} | {words: height for words, height in HEIGHTS.items() if height <= most}
    bound = settings.bound("grid") if lab.PICTURE_SIZE else None
    refused = [height for height in options.values() if bound is not None and prod(slide(height)) > bound]
    return pmui.Select(
        label="Height [pixels]", options=options, disabled_options=refused,
        value=max(height for height in options.values() if height <= value and height not in refused),
        helper_text=settings.bound_words("grid") if refused else "", size="small", **FULL,
    )  # fmt: skip


def format_field(label: str, formats: Sequence[FileFormat], hint: str) -> Any:
    """Return a drop-down of file formats. Formats without their library are disabled; `hint` is its install hint."""
    absent = [one.ending for one in formats if not one.installed]
    return pmui.Select(
        label=label, options={one.name: one.ending for one in formats}, disabled_options=absent,
        value=next(one.ending for one in formats if one.installed), helper_text=hint if absent else "", size="small",
        **FULL,
    )  # fmt: skip


def film_formats() -> Any:
    """Return the drop-down of film formats."""
    return format_field("Format", FILMS, f"MP4 and WebM need: {AV.install}, and a restart of the server")


class IntegerField:
    """Field for a whole number from `start` to `end`; `panel` is its widget, with errors shown below."""

    def __init__(self, label: str, value: int, start: int, end: int, hint: str = "") -> None:
        self._label, self._bounds, self._value = label, (start, end), value
        self.panel = NumberField(label, value, self._take, whole=True, helper_text=hint).panel

    @property
    def value(self) -> int:
        """The number; reading it raises ValueError with the reason if the typed value is invalid."""
        if self.panel.error_state:
            raise ValueError(self.panel.helper_text)
        return self._value

    def _take(self, value: int) -> None:
        start, end = self._bounds
        if not start <= value <= end:
            raise ValueError(f"{self._label} must be from {start} to {end}, not {value}")
        self._value = value


def choose(field: Any, options: Mapping[str, Any] | Iterable[str]) -> None:
    """Replace the options of a drop-down; keep its value if the new options contain it."""
    options = dict(options) if isinstance(options, Mapping) else list(options)
    if field.options == options:
        return
    known = list(options.values()) if isinstance(options, dict) else options
    set_options(field, options, field.value if field.value in known else next(iter(known), None))


class PartSelect:
    """Drop-down of the pictures and drawings of a lab; its values are (name of the panel, whether with axes)."""

    def __init__(self, source: ExportSource) -> None:
        self._source = source
        self.field: Any = pmui.Select(label="What", options=[], size="small", **FULL)

    def tick(self) -> bool:
        """Update the options from the current frame; return False without any."""
        source, drawings = self._source, self._source.drawings()
        panels = source.panels()
        pictures = source.pictures().values()
        plain = {title: (name, False) for title, name in drawings.items() if panels[name].image in pictures}
        choose(self.field, plain | {f"{title}, {AXES}": (name, True) for title, name in drawings.items()})
        return bool(drawings)

    @property
    def axes(self) -> bool:
        """Whether a drawing with axes is selected."""
        return bool(self.field.value[1])

    @property
    def part(self) -> str:
        """The name of the selected picture, or of the drawing."""
        name, axes = self.field.value
        panel = self._source.panels().get(name)
        return str(name if axes or panel is None else panel.image)

    def size(self, height: int) -> tuple[int, int]:
        """Return (height, width) in pixels, both even, in the shape of the picture, or of a slide for a drawing."""
        return slide(height) if self.axes else self._source.size(height)


def file_name(lab: type[Lab], what: str, ending: str) -> str:
    """Return fieldlab-<lab>-<what>-<date and time><ending>."""
    words = re.sub(r"[^a-z0-9]+", "-", what.lower()).strip("-")
    stamp = re.sub(r"[^0-9T]", "", now()[:19])
    return "-".join(part for part in ("fieldlab", lab.LAB.replace("_", "-"), words, stamp) if part) + ending


def row(*items: Any) -> Any:
    """Return a row of fields."""
    return pn.Row(*items, margin=0, sizing_mode="stretch_width")


def button(label: str, symbol: str, click: Any, filled: bool = True) -> Any:
    """Return a button with an icon and a label."""
    variant = "contained" if filled else "outlined"
    made = pmui.Button(label=label, icon=symbol, variant=variant, size="small", margin=(8, 8), sx=TYPE)
    made.on_click(lambda event: click())
    return made
