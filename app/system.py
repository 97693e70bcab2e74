"""The system panel: what the machine is doing, on a card over the page that its user opens and closes.

The figures come from one sampler of the whole server, which reads in a thread of its own and only while a card is open
somewhere. Here they are only written down, once a second.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import panel as pn
import panel_material_ui as pmui
from bokeh.document import Document

from app import system_view as view
from app.theme import ASSETS, CARD, stylesheet
from app.widgets import icon
from compute.comparison.saved import provenance
from compute.devices import cpu_count
from compute.sampler import PERIOD, Sampler, sampler

SOON = 400  # ms until the second look: the first use is known then
LABEL = {"color": "var(--ink)", "fontSize": "0.875rem", "textTransform": "none", "whiteSpace": "nowrap"}
TITLE = "<h2 id='system'>This machine, now</h2>"


class SystemPanel:
    """`button` belongs into the header, `card` into the page; both are there from the start."""

    def __init__(self, document: Document, source: Sampler | None = None) -> None:
        self._document, self._sampler = document, source or sampler()
        self._ticking: Any = None
        self.open = False
        words = view.devices(known(), cpu_count())
        self.button = pmui.Button(
            label=words, icon="speed", variant="text", color="default", size="small", margin=2, align="center",
            description="What the machine is doing (U)", description_delay=400, sx=LABEL,
        )  # fmt: skip
        self.button.on_click(lambda event: self.toggle())
        sheets = [stylesheet(), (ASSETS / "system.css").read_text(encoding="utf-8")]
        self._text = pn.pane.HTML("", stylesheets=sheets, margin=(0, 16, 12, 16), sizing_mode="stretch_width")
        title = pn.pane.HTML(TITLE, stylesheets=sheets, margin=(8, 0, 0, 16), align="center")
        close = icon("close", "Close (U)", self.toggle, color="default", align="center")
        gap = pmui.Row(sizing_mode="stretch_width", margin=0)
        head = pmui.Row(title, gap, close, margin=(4, 8, 0, 0), sizing_mode="stretch_width")
        self.card = pn.Column(head, self._text, styles=CARD, margin=0, visible=False)

    def toggle(self) -> None:
        """Open or close the card."""
        self.open = self.card.visible = not self.open
        self.show(True)
        if self.open:
            self._ticking = self._document.add_periodic_callback(self._draw, round(1000 * PERIOD))
            self._document.add_timeout_callback(self._draw, SOON)
            self._draw()
        else:
            self._document.remove_periodic_callback(self._ticking)

    def show(self, shown: bool) -> None:
        """Whether this tab is there: one that is away does not look. The document is not touched."""
        if self.open and shown:
            self._sampler.look(self)
        else:
            self._sampler.leave(self)

    def name_devices(self) -> None:
        """Write the devices' names on the button, if they have become known since."""
        words = view.devices(known(), cpu_count())
        if words != self.button.label:
            self.button.label = words

    def present(self, on: bool) -> None:
        """In presenter mode the header has no room for names."""
        self.button.visible = not on

    def close(self) -> None:
        """The page is gone."""
        self._sampler.leave(self)

    def _draw(self) -> None:
        if self.open:
            text = f"<div class='system'>{view.page(self._sampler.history(), time.monotonic())}</div>"
            self._text.object = text


_facts: dict[str, Any] = {}  # of this machine, once they are known


def learn() -> None:
    """Find out in the background what the machine has; asking the driver's programs can take seconds."""
    threading.Thread(target=lambda: _facts.update(provenance()["machine"]), name="machine", daemon=True).start()


def known() -> dict[str, Any] | None:
    """The machine as compute.machine tells it; None as long as that is being found out."""
    return _facts or None
