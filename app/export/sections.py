"""All kinds of export of one lab, behind one row of buttons that chooses between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import panel_material_ui as pmui

from app.controls import column
from app.export.courier import Courier
from app.export.film import FilmSection
from app.export.jobs import Jobs
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

    def __init__(self, view: LabView, jobs: Jobs, courier: Courier, changed: Callable[[], object]) -> None:
        self.subject = subject = Subject(view)
        self.link = LinkSection(subject, jobs, courier)
        self.picture = PictureSection(subject, jobs)
        self.film = FilmSection(subject, jobs, dict(view.parts.films))
        self.record = RecordSection(subject, jobs, changed)
        self.numbers = NumbersSection(subject, jobs)
        self._all: dict[str, Any] = {
            one.TITLE: one for one in (self.link, self.picture, self.film, self.record, self.numbers)
        }
        self.shown: Any = pmui.RadioButtonGroup(options=list(self._all), value=self.picture.TITLE, size="small", **FULL)
        self.shown.param.watch(lambda event: self._choose(), "value")
        self._body = pmui.Column(margin=0, sizing_mode="stretch_width")
        self.panel = column(self.shown, self._body)
        self._choose()

    def _choose(self) -> None:
        self._body.objects = [self._all[self.shown.value].panel]

    def tick(self) -> None:
        """A few times a second."""
        for one in self._all.values():
            one.tick()

    def hear(self, event: Any) -> None:
        """An engine event of the lab."""
        self.subject.hear(event)
        self.record.hear(event)

    def close(self) -> None:
        """The page is gone."""
        self.film.close()
        self.record.close()
