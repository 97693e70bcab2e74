"""One picture of what is seen, made again at any size: PNG without or with axes, SVG, PDF."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import panel_material_ui as pmui

from app.controls import column
from app.export.fields import button, choose, file_name, heights, row
from app.export.jobs import Jobs
from app.export.subject import Moment, Subject, slide
from app.widgets import FULL
from compute.export.errand import Errand

PLAIN, AXES = "PNG", "PNG with axes"
FORMATS = {PLAIN: ".png", AXES: ".png", "SVG": ".svg", "PDF": ".pdf"}


class PictureSection:
    """The fields of one lab."""

    TITLE = "Picture"

    def __init__(self, subject: Subject, jobs: Jobs) -> None:
        self._subject, self._jobs = subject, jobs
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
        job = self._jobs.add(file_name(self._subject.lab, self.what.value, FORMATS[self.form.value]))

        def errand(moment: Moment) -> Errand:
            """See Job.order."""
            given = {"scene": replace(moment.scene, size=size), "path": job.path, "present": moment.present}
            if plain:
                return Errand("compute.export.tasks:picture", given)
            return Errand("compute.export.tasks:drawing", given | {"transparent": transparent})

        job.order(self._subject, part, errand)
