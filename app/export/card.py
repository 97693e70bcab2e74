"""The card over the page from which everything can be taken along, and what the page does with what comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import panel as pn
import panel_material_ui as pmui
from bokeh.document import Document

from app.builder import builder
from app.controls import column
from app.export.download import FileDownload
from app.export.exports import Exports
from app.export.fields import ExportSection
from app.export.film import FilmSection
from app.export.restore import DropZone
from app.export.sections import LinkSection, NumbersSection, PictureSection, RecordSection, TimingsSection
from app.export.source import ExportSource
from app.notices import Notices
from app.readout import SaveButtons
from app.theme import CARD, html_pane
from app.widgets import FULL, icon
from compute.export.jobs import JOBS

if TYPE_CHECKING:
    from app.lab_tab import LabTab

PLACE = CARD | {"z-index": "1250"}  # over the other card
TITLE = "<h2 class='along'>Export</h2>"
WORDS = "Export: link, picture, film, numbers (E)"
RECORDING = "Recording; stop it here (E)"
TICK = 250  # ms


class ExportCard:
    """The card "Export" of one page. `button` belongs into its header, `parts` into its body, from the start.

    dropped(name, text): a file was dropped on the page.
    """

    def __init__(
        self, document: Document, notices: Callable[[], Notices], dropped: Callable[[str, str | None], None]
    ) -> None:
        self._document = document
        self.download, self.zone = FileDownload(), DropZone(dropped)
        self.exports = Exports(document, self.download, notices)
        self.open = False
        self._sections: dict[str, LabExports] = {}
        self._tab: LabTab | None = None
        self._ticking: Any = None
        self.button = icon("ios_share", WORDS, self.toggle,
                           color="default", align="center")  # fmt: skip
        self._body = pn.Column(margin=(0, 8), sizing_mode="stretch_width")
        self.card = pn.Column(styles=PLACE, margin=0, visible=False)  # filled when it is opened first

    @property
    def parts(self) -> tuple[Any, ...]:
        """The components that belong into the page."""
        return self.card, self.download, self.zone

    def _frame(self) -> list[Any]:
        """What the card always shows: its title, the lab's sections, the list of exports."""
        title = html_pane(TITLE, margin=(8, 0, 0, 16), align="center", sizing_mode=None)
        close = icon("close", "Close (E)", self.toggle, color="default", align="center")
        gap = pn.Spacer(sizing_mode="stretch_width", margin=0)
        head = pn.Row(title, gap, close, margin=(4, 8, 0, 0), sizing_mode="stretch_width")
        return [head, self._body, self.exports.panel]

    def show(self, tab: LabTab) -> None:
        """Export from this tab from now on: the page shows it."""
        self._tab = tab
        if self.open:
            self._show()

    def forget(self, tab: LabTab) -> None:
        """Close the sections of a tab that is closed for good."""
        sections = self._sections.pop(tab.session.lab.LAB, None)
        if sections is not None:
            sections.close()

    def toggle(self) -> None:
        """Open or close the card."""
        if self._tab is None:
            return
        self.open = not self.open
        if self.open:
            JOBS.prepare()
            self._ticking = self._document.add_periodic_callback(self._tick, TICK)
            self._show()
        else:
            self.card.visible = False
            self._document.remove_periodic_callback(self._ticking)

    def close(self) -> None:
        """End all exports: the page is gone."""
        self._tab = None
        self.exports.close()
        self.download.close()
        for sections in self._sections.values():
            sections.close()

    def _show(self) -> None:
        """Show the sections of the lab; the first time they are made for it, which takes too long for the loop."""
        if self._shown is None:
            builder().beside(self._document, self._fill)
        else:
            self._fill()

    @property
    def _shown(self) -> LabExports | None:
        """The sections of the lab that is shown, if they have been made."""
        return self._sections.get(self._tab.session.lab.LAB) if self._tab is not None else None

    def _fill(self) -> None:
        tab = self._tab
        if tab is None or not self.open:  # closed meanwhile
            return
        if not self.card.objects:
            self.card.objects = self._frame()
        sections = self._shown
        if sections is None:
            sections = self._sections[tab.session.lab.LAB] = LabExports(tab, self.exports, self.download, self._mark)
            tab.listeners.append(sections.on_event)
        self._body.objects = [sections.panel]
        self.card.visible = True
        self._tick()

    def _mark(self) -> None:
        """The button in the header says that something is being recorded, with the card closed too."""
        recording = any(sections.recording for sections in self._sections.values())
        self.button.param.update(
            color="error" if recording else "default", description=RECORDING if recording else WORDS
        )  # fmt: skip

    def _tick(self) -> None:
        if self.open and self._shown is not None:
            self._shown.tick()


class LabExports:
    """All kinds of export of one tab, behind one row of buttons that chooses between them; `panel` shows them.

    changed(): a recording has begun or ended.
    """

    def __init__(self, tab: LabTab, exports: Exports, download: FileDownload, changed: Callable[[], object]) -> None:
        self.source = source = ExportSource(tab)
        self._makers: dict[str, Callable[[], ExportSection]] = {
            LinkSection.TITLE: lambda: LinkSection(source, exports, download),
            PictureSection.TITLE: lambda: PictureSection(source, exports),
            FilmSection.TITLE: lambda: FilmSection(source, exports, dict(tab.parts.films)),
            RecordSection.TITLE: lambda: RecordSection(source, exports, changed),
            NumbersSection.TITLE: lambda: NumbersSection(source, exports),
        }
        saves = getattr(tab.readout, "saves", None)  # a lab from outside may have a readout without files
        if isinstance(saves, SaveButtons):
            self._makers[TimingsSection.TITLE] = lambda: TimingsSection(saves)
        self._made: dict[str, ExportSection] = {}  # as they are first looked at: together they take 0.2 s
        first, titles = PictureSection.TITLE, list(self._makers)
        self.shown: Any = pmui.RadioButtonGroup(options=titles, value=first, size="small", **FULL)
        self.shown.param.watch(lambda event: self._choose(), "value")
        self._body = pn.Column(margin=0, sizing_mode="stretch_width")
        self.panel = column(self.shown, self._body)
        self._choose()

    def _choose(self) -> None:
        title = self.shown.value
        if title not in self._made:
            self._made[title] = self._makers[title]()
            self._made[title].tick()
        self._body.objects = [self._made[title].panel]

    @property
    def recording(self) -> bool:
        """Whether the lab is being recorded."""
        return any(isinstance(one, RecordSection) and one.recording for one in self._made.values())

    def tick(self) -> None:
        """Offer what there is now; called a few times a second."""
        self.source.tick()
        for one in self._made.values():
            one.tick()

    def on_event(self, event: Any) -> None:
        """Pass on an engine event of the lab."""
        self.source.on_event(event)
        for one in self._made.values():
            one.on_event(event)

    def close(self) -> None:
        """End what is under way: the lab is gone."""
        self.source.close()
        for one in self._made.values():
            one.close()
