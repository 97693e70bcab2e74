"""One picture of what is seen, made again at any size: PNG without or with axes, SVG, PDF."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import panel_material_ui as pmui

from app.controls import column
from app.export.exports import Exports
from app.export.fields import button, choose, file_name, heights, row
from app.export.subject import Moment, Subject, slide
from app.widgets import FULL
from compute.export import tasks
from compute.export.job_queue import FILE
from compute.export.jobs import Job

PLAIN, AXES = "PNG", "PNG with axes"
FORMATS = {PLAIN: ".png", AXES: ".png", "SVG": ".svg", "PDF": ".pdf"}


class PictureSection:
    """The fields of one lab."""

    TITLE = "Picture"

    def __init__(self, subject: Subject, exports: Exports) -> None:
        self._subject, self._exports = subject, exports
        self.what = pmui.Select(label="What", options=[], size="small", **FULL)
        self.what.param.watch(lambda event: self._offer(), "value")
        self.form = pmui.Select(label="Format", options=list(FORMATS), value=PLAIN, size="small", **FULL)
        self.form.param.watch(lambda event: self._suit(), "value")
        self.height = heights(1080)
        self.transparent = pmui.Switch(label="Nothing behind the drawing", value=False, visible=False, **FULL)
        self.save = button("Save the picture", "download", self._save)
        self.panel = column(self.what, row(self.form, self.height), self.transparent, self.save)

    def tick(self) -> None:
        """Offer what there is now."""
        titles = self._subject.drawings()
        choose(self.what, titles)
        self.save.disabled = not titles

    def _offer(self) -> None:
        """Lines have no picture without axes."""
        pictures = self._subject.pictures().values()
        panel = self._panel()
        drawn = panel is not None and panel.image in pictures
        choose(self.form, list(FORMATS) if drawn else [name for name in FORMATS if name != PLAIN])

    def _suit(self) -> None:
        self.transparent.visible = self.form.value not in (None, PLAIN)

    def _panel(self) -> Any:
        return self._subject.panels().get(self.what.value)

    def _save(self) -> None:
        panel = self._panel()
        if panel is None:
            return
        plain, height, transparent = self.form.value == PLAIN, self.height.value, self.transparent.value
        size = self._subject.size(height) if plain else slide(height)
        part = panel.image if plain else self.what.value
        export = self._exports.add(file_name(self._subject.lab, self.what.value, FORMATS[self.form.value]))

        def job(moment: Moment) -> Job:
            """See Export.order."""
            scene = replace(moment.scene, size=size)
            if plain:
                return Job(partial(tasks.picture, scene, export.path, moment.current), FILE)
            return Job(partial(tasks.drawing, scene, export.path, moment.current, transparent), FILE)

        export.order(self._subject, part, job)
