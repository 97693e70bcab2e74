"""The card "Export" of a page, with the sections of the visible lab and the list of exports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.custom import JSComponent

from app.features.export.download import FileDownload
from app.features.export.exports import Exports
from app.features.export.fields import ExportSection
from app.features.export.film import FilmSection
from app.features.export.sections import LinkSection, NumbersSection, PictureSection, RecordSection, TimingsSection
from app.features.export.source import ExportSource
from app.page.feature import Feature, FeaturePage, HelpRow
from app.page.notices import Notices
from app.page.theme import CARD, html_pane
from app.page.widgets import FULL, icon
from app.readout.readout import SaveButtons
from app.server.builder import builder
from app.tab.controls import column
from app.tab.open_lab import OpenLab
from app.tab.restore import scene_in
from compute.export.jobs import JOBS
from compute.export.scene import SceneError

PLACE = CARD | {"z-index": "1250"}  # above the other card
TITLE = "<h2 class='along'>Export</h2>"
RECORDING = "Recording; stop it here (E)"
TICK = 250  # ms


class DropZone(JSComponent):
    """Invisible component for files dropped on the page: a picture or JSON of Fieldlab restores the state that made it.

    dropped(name, text) is called for each file; text is None for a file that cannot contain a scene.
    """

    _esm = Path(__file__).with_name("drop.js").read_text(encoding="utf-8")

    def __init__(self, dropped: Callable[[str, str | None], None], **params: Any) -> None:
        super().__init__(width=0, height=0, margin=0, **params)
        self._dropped = dropped

    def _handle_msg(self, data: Any) -> None:
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            return
        text = data.get("text")
        if text is None or isinstance(text, str):
            self._dropped(data["name"], text)


class ExportCard(Feature):
    """The card "Export" of one page."""

    name, order, key = "export", 50, "e"
    symbol, tip = "ios_share", "Export: link, picture, film, numbers (E)"
    help = (HelpRow(30, "**E**", "export: link, picture, film, recording, numbers"),)

    def __init__(self, page: FeaturePage) -> None:
        super().__init__(page)
        self.download = FileDownload()
        self.exports = Exports(page.document, self.download, self._notices)
        self.open = False
        self._sections: dict[str, LabExports] = {}
        self._tab: OpenLab | None = None
        self._ticking: Any = None
        self._body = pn.Column(margin=(0, 8), sizing_mode="stretch_width")
        self.card = pn.Column(styles=PLACE, margin=0, visible=False)  # filled when it is opened for the first time
        self.parts, self.corner = (self.card, self.download, DropZone(self._dropped)), self.card

    def _notices(self) -> Notices:
        if self.page.current is None:
            raise RuntimeError("no lab is shown yet")
        return self.page.current.notices

    def _dropped(self, name: str, text: str | None) -> None:
        """Show the scene in a file that was dropped on the page."""
        if self.page.current is None:
            return
        try:
            scene = scene_in(text)
        except SceneError as error:
            self._notices().tell("warning", f"{name} cannot be shown: {error}.")
        else:
            self.page.show_scene(scene, name)

    def _frame(self) -> list[Any]:
        """Return the fixed parts of the card: its title, the lab's sections, the list of exports."""
        title = html_pane(TITLE, margin=(8, 0, 0, 16), align="center", sizing_mode=None)
        close = icon("close", "Close (E)", self.toggle, color="default", align="center")
        gap = pn.Spacer(sizing_mode="stretch_width", margin=0)
        head = pn.Row(title, gap, close, margin=(4, 8, 0, 0), sizing_mode="stretch_width")
        return [head, self._body, self.exports.panel]

    def shown(self, tab: OpenLab) -> None:
        """Show the sections of `tab` from now on; called when the page shows another lab."""
        self._tab = tab
        if self.open:
            self._show()

    def discarded(self, tab: OpenLab) -> None:
        """Remove and close the sections of a tab that was closed permanently."""
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
            self._ticking = self.page.document.add_periodic_callback(self._tick, TICK)
            self._show()
        else:
            self.card.visible = False
            self.page.document.remove_periodic_callback(self._ticking)

    def ended(self) -> None:
        """End all exports when the page is closed."""
        self._tab = None
        self.exports.close()
        self.download.close()
        for sections in self._sections.values():
            sections.close()

    def _show(self) -> None:
        """Show the lab's sections. Building them is too slow for the event loop, so the builder does it."""
        if self._shown_sections is None:
            builder().queue_or_call(self.page.document, self._fill)
        else:
            self._fill()

    @property
    def _shown_sections(self) -> LabExports | None:
        """The sections of the visible lab; None before they are built."""
        return self._sections.get(self._tab.session.lab.LAB) if self._tab is not None else None

    def _fill(self) -> None:
        tab = self._tab
        if tab is None or not self.open:  # closed during construction
            return
        if not self.card.objects:
            self.card.objects = self._frame()
        sections = self._shown_sections
        if sections is None:
            sections = self._sections[tab.session.lab.LAB] = LabExports(tab, self.exports, self.download, self._mark)
            tab.session.events.subscribe(sections.on_event)
        self._body.objects = [sections.panel]
        self.card.visible = True
        self._tick()

    def _mark(self) -> None:
        """Colour the button in the header while a recording runs, also with the card closed."""
        recording = any(sections.recording for sections in self._sections.values())
        self.buttons[0].param.update(
            color="error" if recording else "default", description=RECORDING if recording else self.tip
        )  # fmt: skip

    def _tick(self) -> None:
        if self.open and self._shown_sections is not None:
            self._shown_sections.tick()


class LabExports:
    """The export sections of one tab, selected by a row of buttons; `panel` contains them.

    changed(): called when a recording begins or ends.
    """

    def __init__(self, tab: OpenLab, exports: Exports, download: FileDownload, changed: Callable[[], object]) -> None:
        self.source = source = ExportSource(tab)
        self._makers: dict[str, Callable[[], ExportSection]] = {
            LinkSection.TITLE: lambda: LinkSection(source, exports, download),
            PictureSection.TITLE: lambda: PictureSection(source, exports),
            FilmSection.TITLE: lambda: FilmSection(source, exports, dict(tab.parts.films)),
            RecordSection.TITLE: lambda: RecordSection(source, exports, changed),
            NumbersSection.TITLE: lambda: NumbersSection(source, exports),
        }
        saves = getattr(tab.readout, "saves", None)  # the readout of a plug-in may have no files to save
        if isinstance(saves, SaveButtons):
            self._makers[TimingsSection.TITLE] = lambda: TimingsSection(saves)
        self._made: dict[str, ExportSection] = {}  # built on first use: together they take 0.2 s
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
        """Update all sections; called a few times a second."""
        self.source.tick()
        for one in self._made.values():
            one.tick()

    def on_event(self, event: Any) -> None:
        """Pass an engine event of the lab to all sections."""
        self.source.on_event(event)
        for one in self._made.values():
            one.on_event(event)

    def close(self) -> None:
        """End estimates and recordings; called when the lab is closed."""
        self.source.close()
        for one in self._made.values():
            one.close()
