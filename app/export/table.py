"""A table of results and timings over one or two parameters, made as `fieldlab sweep` makes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param

from app.controls import column
from app.export.exports import Exports
from app.export.fields import Whole, button, file_name, row
from app.export.subject import Moment, Subject
from app.theme import stylesheet
from app.widgets import FULL
from compute.export import tasks
from compute.export.jobs import Job
from compute.export.sweep import Sweep
from compute.export.tables import PARQUET_INSTALL
from compute.export.texts import axes_of

FORMATS = {"CSV": ".csv", "Parquet": ".parquet"}
NONE = ""
GAPS = re.compile(r"\s*([,:])\s*")  # blanks around what separates values
HOW = "a, b, c or low:high:5, by equal factors low:high:x5"
WORDS = """<h3 class='along'>A table over parameters</h3>
<p class='quiet'>A row for every combination: the facts of the status bar and what it took.</p>"""


class TableFields:
    """The fields of one lab."""

    def __init__(self, subject: Subject, exports: Exports) -> None:
        self._subject, self._exports = subject, exports
        names = varied(subject)
        first = next(iter(names.values()))
        self.names = [
            pmui.Select(label="Over", options=names, value=first, size="small", **FULL),
            pmui.Select(label="and over", options={"nothing else": NONE, **names}, value=NONE, size="small", **FULL),
        ]
        self.values = [pmui.TextInput(label="Values", value="", size="small", **FULL) for _ in self.names]
        self.values[0].helper_text = HOW
        self.steps = Whole("Steps of each row", 1000, 1, 10**6)
        self.steps.panel.visible = not subject.lab.ENDS
        absent = [] if find_spec("pyarrow") else [".parquet"]
        self.form: Any = pmui.Select(
            label="Format of the table", options=FORMATS, value=".csv", disabled_options=absent, size="small",
            helper_text=f"Parquet: {PARQUET_INSTALL}" if absent else "", **FULL,
        )  # fmt: skip
        self.save = button("Make the table", "table_chart", self._save)
        words = pn.pane.HTML(WORDS, stylesheets=[stylesheet()], margin=(8, 8, 0, 8), sizing_mode="stretch_width")
        axes = (row(name, values) for name, values in zip(self.names, self.values, strict=True))
        self.panel = column(words, *axes, row(self.steps.panel, self.form), self.save)

    def _texts(self) -> list[str]:
        """The axes as the command line has them."""
        pairs = zip(self.names, self.values, strict=True)
        return [f"{name.value}={_close(values.value)}" for name, values in pairs if name.value != NONE]

    def _save(self) -> None:
        lab, texts = self._subject.lab, self._texts()
        export = self._exports.add(file_name(lab, "table", self.form.value))

        def job(moment: Moment) -> Job:
            """See Export.order."""
            steps = 0 if lab.ENDS else self.steps.value
            axes = axes_of(lab, texts)
            rest = {name: value for name, value in moment.scene.values.items() if name not in axes}
            sweep = Sweep(lab.LAB, rest, axes, steps)
            return Job(partial(tasks.table, sweep, export.path))

        export.order(self._subject, "", job, not_made)


def not_made(counts: Mapping[str, int]) -> str:
    """What is said of rows that were not made, by how many rows have which status; "" if all were."""
    others = [f"{count} {status}" for status, count in counts.items() if status != "made"]
    return f"of {sum(counts.values())} rows {' and '.join(others)}: column why says the reason" if others else ""


def _close(text: str) -> str:
    return GAPS.sub(r"\1", text.strip())


def varied(subject: Subject) -> dict[str, str]:
    """Names of the parameters that a table may be over, by their labels: numbers and choices."""
    known: dict[str, Any] = subject.lab.param.objects("existing")
    kinds = (param.Number, param.Selector)
    return {one.label or name: name for name, one in known.items() if isinstance(one, kinds) and name != "device_index"}
