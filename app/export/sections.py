"""All kinds of export of one lab, behind one row of buttons that chooses between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import panel_material_ui as pmui

from app.controls import column
from app.export.courier import Courier
from app.export.exports import Exports
from app.export.film import FilmSection
from app.export.link import LinkSection
from app.export.numbers import NumbersSection
from app.export.picture import PictureSection
from app.export.record import RecordSection
from app.export.subject import Subject
from app.widgets import FULL

if TYPE_CHECKING:
    from app.lab_view import LabView


class Sections:
    """The export of one view; `panel` is what the card shows of it. changed(): a recording has begun or ended."""

    def __init__(self, view: LabView, exports: Exports, courier: Courier, changed: Callable[[], object]) -> None:
        self.subject = subject = Subject(view)
        self._makers: dict[str, Callable[[], Any]] = {
            LinkSection.TITLE: lambda: LinkSection(subject, exports, courier),
            PictureSection.TITLE: lambda: PictureSection(subject, exports),
            FilmSection.TITLE: lambda: FilmSection(subject, exports, dict(view.parts.films)),
            RecordSection.TITLE: lambda: RecordSection(subject, exports, changed),
            NumbersSection.TITLE: lambda: NumbersSection(subject, exports),
        }
        self._made: dict[str, Any] = {}  # as they are first looked at: together they take 0.2 s
        first, titles = PictureSection.TITLE, list(self._makers)
        self.shown: Any = pmui.RadioButtonGroup(options=titles, value=first, size="small", **FULL)
        self.shown.param.watch(lambda event: self._choose(), "value")
        self._body = pmui.Column(margin=0, sizing_mode="stretch_width")
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
        return self._record is not None and self._record.recording

    def tick(self) -> None:
        """A few times a second."""
        self.subject.tick()
        for one in self._made.values():
            one.tick()

    def hear(self, event: Any) -> None:
        """An engine event of the lab."""
        self.subject.hear(event)
        if self._record is not None:
            self._record.hear(event)

    def close(self) -> None:
        """The lab is gone."""
        self.subject.close()
        for title in (FilmSection.TITLE, RecordSection.TITLE):
            if section := self._made.get(title):
                section.close()

    @property
    def _record(self) -> RecordSection | None:
        """The part that records; None before it was looked at."""
        return self._made.get(RecordSection.TITLE)
