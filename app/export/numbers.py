"""The raw results behind the picture, in full precision: NPZ, Zarr. Timings are saved where they are shown.

Below them: a table over parameters.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.controls import column
from app.export.exports import Exports
from app.export.fields import button, file_name
from app.export.subject import Moment, Subject
from app.export.table import TableFields
from app.theme import stylesheet
from app.widgets import FULL
from compute.export import tasks
from compute.export.arrays import DATA_INSTALL
from compute.export.job_queue import FILE
from compute.export.jobs import Job

FORMATS = {"NPZ (NumPy)": ".npz", "Zarr, zipped": ".zarr.zip"}
WORDS = """<p class='quiet'>The arrays behind the picture, every cell in full precision, with what made them.
Timings as CSV, JSON, pyperf or trace are saved on the right, below the comparison.</p>"""


class NumbersSection:
    """The fields of one lab."""

    TITLE = "Numbers"

    def __init__(self, subject: Subject, exports: Exports) -> None:
        self._subject, self._exports = subject, exports
        absent = [] if find_spec("zarr") else [".zarr.zip"]
        self.form: Any = pmui.Select(
            label="Format", options=FORMATS, value=".npz", disabled_options=absent, size="small",
            helper_text=f"Zarr: {DATA_INSTALL}" if absent else "", **FULL,
        )  # fmt: skip
        self.save = button("Save the numbers", "download", self._save)
        words = pn.pane.HTML(WORDS, stylesheets=[stylesheet()], margin=(0, 8), sizing_mode="stretch_width")
        self.table = TableFields(subject, exports)
        self.panel = column(words, self.form, self.save, self.table.panel)

    def tick(self) -> None:
        """Numbers can be saved as soon as there is a frame."""
        self.save.disabled = self.table.save.disabled = self._subject.frame is None

    def _save(self) -> None:
        export = self._exports.add(file_name(self._subject.lab, "", self.form.value))

        def job(moment: Moment) -> Job:
            """See Export.order."""
            return Job(partial(tasks.numbers, moment.scene, export.path, moment.current), FILE)

        export.order(self._subject, "", job)
