"""The raw results behind the picture, in full precision: NPZ, Zarr. Timings are saved where they are shown.

Below them: a table over parameters.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.controls import column
from app.export.fields import button, file_name
from app.export.jobs import Jobs
from app.export.subject import Moment, Subject
from app.export.table import TableFields
from app.theme import stylesheet
from app.widgets import FULL
from compute.export.arrays import DATA_INSTALL
from compute.export.errand import Errand

FORMATS = {"NPZ (NumPy)": ".npz", "Zarr, zipped": ".zarr.zip"}
WORDS = """<p class='quiet'>The arrays behind the picture, every cell in full precision, with what made them.
Timings as CSV, JSON, pyperf or trace are saved on the right, below the comparison.</p>"""


class NumbersSection:
    """The fields of one lab."""

    TITLE = "Numbers"

    def __init__(self, subject: Subject, jobs: Jobs) -> None:
        self._subject, self._jobs = subject, jobs
        absent = [] if find_spec("zarr") else [".zarr.zip"]
        self.form: Any = pmui.Select(
            label="Format", options=FORMATS, value=".npz", disabled_options=absent, size="small",
            helper_text=f"Zarr: {DATA_INSTALL}" if absent else "", **FULL,
        )  # fmt: skip
        self.save = button("Save the numbers", "download", self._save)
        words = pn.pane.HTML(WORDS, stylesheets=[stylesheet()], margin=(0, 8), sizing_mode="stretch_width")
        self.table = TableFields(subject, jobs)
        self.panel = column(words, self.form, self.save, self.table.panel)

    def tick(self) -> None:
        """Numbers can be saved as soon as there is a frame."""
        self.save.disabled = self.table.save.disabled = self._subject.frame is None

    def _save(self) -> None:
        job = self._jobs.add(file_name(self._subject.lab, "", self.form.value))

        def errand(moment: Moment) -> Errand:
            """See Job.order."""
            given = {"scene": moment.scene, "path": job.path, "present": moment.present}
            return Errand("compute.export.tasks:numbers", given)

        job.order(self._subject, "", errand)
