"""The card over the page from which everything can be taken along, and what the page does with what comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import panel as pn
import panel_material_ui as pmui
from bokeh.document import Document

from app.export.courier import Courier
from app.export.drop import DropZone
from app.export.exports import Exports
from app.export.sections import Sections
from app.notices import Notices
from app.theme import CARD, stylesheet
from app.widgets import icon
from compute.export.job_queue import JOBS

if TYPE_CHECKING:
    from app.lab_view import LabView

PLACE = CARD | {"z-index": "1250"}  # over the other card
TITLE = "<h2 class='along'>Take it along</h2>"
LIST = {  # always in sight, however long the fields above it are
    "position": "sticky", "bottom": "0", "z-index": "1", "max-height": "216px", "overflow-y": "auto",
    "padding": "0 8px 8px", "background": "var(--paper)", "border-top": "1px solid var(--line)",
}  # fmt: skip
WORDS = "Take it along: link, picture, film, numbers (E)"
RECORDING = "Recording; stop it here (E)"
TICK = 250  # ms


class ExportCard:
    """`button` belongs into the header, `parts` into the page, both from the start.

    dropped(name, text): a file was dropped on the page.
    """

    def __init__(
        self, document: Document, notices: Callable[[], Notices], dropped: Callable[[str, str | None], None]
    ) -> None:
        self._document = document
        self.courier, self.zone = Courier(), DropZone(dropped)
        self.exports = Exports(document, self.courier, notices)
        self.open = False
        self._sections: dict[str, Sections] = {}
        self._view: LabView | None = None
        self._ticking: Any = None
        self.button = icon("ios_share", WORDS, self.toggle,
                           color="default", align="center")  # fmt: skip
        title = pn.pane.HTML(TITLE, stylesheets=[stylesheet()], margin=(8, 0, 0, 16), align="center")
        close = icon("close", "Close (E)", self.toggle, color="default", align="center")
        gap = pmui.Row(sizing_mode="stretch_width", margin=0)
        head = pmui.Row(title, gap, close, margin=(4, 8, 0, 0), sizing_mode="stretch_width")
        self._body = pn.Column(margin=(0, 8), sizing_mode="stretch_width")
        below = pn.Column(self.exports.panel, margin=0, styles=LIST, sizing_mode="stretch_width")
        self.card = pn.Column(head, self._body, below, styles=PLACE, margin=0, visible=False)

    @property
    def parts(self) -> tuple[Any, ...]:
        """What belongs into the page."""
        return self.card, self.courier, self.zone

    def show(self, view: LabView) -> None:
        """The page shows this lab now."""
        self._view = view
        if self.open:
            self._fill()

    def forget(self, view: LabView) -> None:
        """The view is closed for good."""
        sections = self._sections.pop(view.session.lab.LAB, None)
        if sections is not None:
            sections.close()

    def toggle(self) -> None:
        """Open or close the card."""
        if self._view is None:
            return
        self.open = self.card.visible = not self.open
        if self.open:
            JOBS.prepare()
            self._fill()
            self._ticking = self._document.add_periodic_callback(self._tick, TICK)
        elif self._ticking is not None:
            self._document.remove_periodic_callback(self._ticking)
            self._ticking = None

    def close(self) -> None:
        """The page is gone."""
        self.exports.close()
        for sections in self._sections.values():
            sections.close()

    def _fill(self) -> None:
        view = self._view
        if view is None:
            return
        if view.session.lab.LAB not in self._sections:
            sections = self._sections[view.session.lab.LAB] = Sections(view, self.exports, self.courier, self._mark)
            view.listeners.append(sections.hear)
        self._body.objects = [self._sections[view.session.lab.LAB].panel]
        self._tick()

    def _mark(self) -> None:
        """The button in the header says that something is being recorded, with the card closed too."""
        recording = any(sections.recording for sections in self._sections.values())
        self.button.param.update(
            color="error" if recording else "default", description=RECORDING if recording else WORDS
        )  # fmt: skip

    def _tick(self) -> None:
        if self.open and self._view is not None:
            self._sections[self._view.session.lab.LAB].tick()
