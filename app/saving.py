"""A row of buttons that save what was timed, each in one format. Nothing is made before its button is pressed."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from operator import attrgetter
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.theme import stylesheet
from compute.comparison.saved import as_csv, as_json, as_pyperf, as_trace

HEAD = "<h3 class='saves'>Save these timings</h3>"
LOOK = """
.saves { margin: 8px 0 0; font-size: var(--small, 14px); font-weight: 700; color: var(--muted); }
.about { margin: 0; font-size: var(--small, 14px); line-height: 1.35; color: var(--muted); }
"""
SX = {
    "minWidth": 0, "padding": "2px 6px", "fontSize": "0.875rem", "textTransform": "none",
    "& .MuiButton-startIcon": {"margin": "0 4px 0 0"},
}  # fmt: skip


@dataclass(frozen=True)
class Format:
    """One button. suffix: of the file's name; about: what it is for; make: the text of the file.

    ready: whether there is something that this format can hold.
    """

    label: str
    suffix: str
    about: str
    make: Callable[[Any], str]
    ready: Callable[[Any], bool] = lambda what: True


FORMATS = (
    Format("CSV", ".csv", "table", as_csv),
    Format("JSON", ".json", "every sample", as_json),
    Format("pyperf", ".pyperf.json", "stats, compare_to", as_pyperf, attrgetter("timed")),
    Format("Trace", ".trace.json", "ui.perfetto.dev", as_trace, attrgetter("placed")),
)


class Saves:
    """The row. what(): a Shown, or what else the formats make their texts of; it has `lab` and `date`."""

    def __init__(self, formats: tuple[Format, ...], what: Callable[[], Any]) -> None:
        self._formats, self._what = formats, what
        self.buttons = {entry.label: self._button(entry) for entry in formats}
        head = pn.pane.HTML(HEAD, stylesheets=[stylesheet(), LOOK], margin=0)
        row = pmui.Row(*self.buttons.values(), margin=0, sizing_mode="stretch_width")
        words = "; ".join(f"{entry.label}: {entry.about}" for entry in formats)
        about = pn.pane.HTML(f"<p class='about'>{escape(words)}.</p>", stylesheets=[stylesheet(), LOOK], margin=0)
        self.panel = pmui.Column(head, row, about, margin=0, sizing_mode="stretch_width")
        self.allow(False)

    def allow(self, something: bool) -> None:
        """There is something to save, or there is not."""
        for entry in self._formats:
            button, ready = self.buttons[entry.label], something and entry.ready(self._what())
            if button.disabled == ready:
                button.disabled = not ready

    def _button(self, entry: Format) -> pmui.FileDownload:
        button = pmui.FileDownload(
            label=entry.label, filename=f"timings{entry.suffix}", auto=True, embed=False, size="small", sx=SX,
            margin=(4, 6, 4, 0),
        )  # fmt: skip
        button.variant = "outlined"  # given above it is said to clash with an option of Panel's own button
        button.callback = partial(self._make, entry, button)
        return button

    def _make(self, entry: Format, button: pmui.FileDownload) -> io.BytesIO:
        what = self._what()
        button.filename = f"fieldlab-{what.lab}-{re.sub(r'[^0-9T]', '', what.date[:19])}{entry.suffix}"
        button.data = None  # the same text as before would be no change, and bring no file
        return io.BytesIO(entry.make(what).encode("utf-8"))
