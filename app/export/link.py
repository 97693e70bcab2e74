"""The link to what is seen, and its file; both bring the same state back."""

from __future__ import annotations

import json
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.controls import column
from app.export.courier import Courier
from app.export.exports import Exports
from app.export.fields import button, file_name, row
from app.export.subject import Moment, Subject
from app.markup import quiet
from app.theme import stylesheet
from app.widgets import FULL
from compute.export.link import packed
from compute.export.scene import SceneError

NAME = "scene"  # of the entry in the address
WORDS = "<p class='quiet'>A picture (PNG) or JSON that was saved here brings its state back: drop it on the page.</p>"


class LinkSection:
    """The fields of one lab."""

    TITLE = "Link"

    def __init__(self, subject: Subject, exports: Exports, courier: Courier) -> None:
        self._subject, self._exports, self._courier = subject, exports, courier
        self.address: Any = pmui.TextInput(label="Address", value="", size="small", visible=False, **FULL)
        self.copy = button("Copy the link", "link", self._copy)
        self.save = button("Save as JSON", "download", self._save, filled=False)
        self._words = pn.pane.HTML("", stylesheets=[stylesheet()], margin=(0, 8), sizing_mode="stretch_width")
        about = pn.pane.HTML(WORDS, stylesheets=[stylesheet()], margin=(0, 8), sizing_mode="stretch_width")
        self.panel = column(row(self.copy, self.save), self._words, self.address, about)

    def tick(self) -> None:
        """There is a state to link to as soon as there is a frame."""
        self.copy.disabled = self.save.disabled = self._subject.frame is None

    def _part(self) -> str:
        return next(iter(self._subject.pictures().values()), "")

    def _copy(self) -> None:
        self._subject.ask(self._part(), self._linked, self._say)

    def _linked(self, moment: Moment) -> None:
        try:
            query = f"{NAME}={packed(moment.scene)}"
        except SceneError as error:
            self._say(str(error))
            return
        self._courier.link(query, lambda address, copied: self._copied(moment, address, copied))

    def _copied(self, moment: Moment, address: str, copied: bool) -> None:
        self.address.param.update(value=address, visible=True)
        words = "The link is on the clipboard" if copied else "The browser does not allow the clipboard: copy it here"
        lost = f"; what it cannot hold: {moment.scene.missing}" if moment.scene.missing else ""
        self._say(f"{words}{lost}.")

    def _save(self) -> None:
        export = self._exports.add(file_name(self._subject.lab, "", ".json"))

        def write(moment: Moment) -> None:
            """The plan alone; there is nothing to make."""
            export.path.write_text(json.dumps(moment.scene.plain(), indent=1, ensure_ascii=False), encoding="utf-8")
            export.made()

        export.ask(self._subject, self._part(), write)

    def _say(self, words: str) -> None:
        self._words.object = quiet(words)
