"""What is computed: the workload, its settings, the number type, and the range of n."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import panel_material_ui as pmui

from app.controls import column
from app.labs.crossover.runner import Runner
from app.session import Session
from app.typed import Typed, pass_on
from app.widgets import FULL, Bound
from compute.labs.crossover.catalogue import workload, workloads

HALF: dict[str, Any] = {"width": 112, "sizing_mode": "fixed"}


class TaskControls(Bound):
    """The group "Workload"; turned() is called after another one was chosen."""

    def __init__(self, session: Session, runner: Runner, turned: Callable[[], object]) -> None:
        super().__init__(session)
        self._runner, self._turned = runner, turned
        values = session.values
        titles = {w.title: w.name for w in workloads()}
        self.workload = pmui.Select(label="Workload", options=titles, value=values["workload"], size="small", **FULL)
        self.workload.param.watch(lambda event: self._choose(event.new), "value")
        self.settings = {name: self._setting(name) for w in workloads() for name in w.settings}
        self.dtype = pmui.Select(
            label=self.parameter("dtype").label, options=list(self.parameter("dtype").objects), value=values["dtype"],
            size="small", **FULL,
        )  # fmt: skip
        self.dtype.param.watch(lambda event: runner.change(dtype=event.new), "value")
        self.least = Typed("n from", None, partial(self._end, "least"), whole=True, optional=True, **HALF)
        self.most = Typed("to", None, partial(self._end, "most"), whole=True, optional=True, **HALF)
        ends = pmui.Row(self.least.panel, self.most.panel, margin=0)
        self.panel = column(self.workload, *self.settings.values(), self.dtype, ends)
        self._refresh()

    def _setting(self, name: str) -> Any:
        """A list for a setting that some workload has; it is seen only with that one."""
        field = pmui.Select(label=name.capitalize(), options=[], size="small", visible=False, **FULL)
        field.param.watch(lambda event: self._set(name, event.new), "value")
        return field

    def _choose(self, name: str) -> None:
        if name != self.session.values["workload"]:
            self._runner.change(workload=name, ways=[], settings={}, least=None, most=None)
            self._refresh()
            self._turned()

    def _set(self, name: str, value: Any) -> None:
        chosen = workload(self.session.values["workload"])
        allowed = chosen.settings.get(name, ())
        if value in allowed and value != self.session.values["settings"].get(name, allowed[0]):
            self._runner.change(settings={**self.session.values["settings"], name: value})

    def _end(self, name: str, n: int | None) -> None:
        """Checked here as the lab checks it, so that what is wrong stands below its field."""
        chosen = workload(self.session.values["workload"])
        if n is not None:
            chosen.case(n, self.session.values["dtype"])
        usual = dict(zip(("least", "most"), chosen.sizes, strict=True))
        least, most = ({**usual, **{k: v for k, v in self._ends().items() if v}, name: n or usual[name]}[key]
                       for key in ("least", "most"))  # fmt: skip
        if least > most:
            raise ValueError(f"least must be at most {most}, not {least}")
        self._runner.change(**{name: n})
        self._show_ends()

    def _ends(self) -> dict[str, int | None]:
        return {name: self.session.values[name] for name in ("least", "most")}

    def _show_ends(self) -> None:
        least, most = workload(self.session.values["workload"]).sizes
        ends = self._ends()
        self.least.show(ends["least"] or least)
        self.most.show(ends["most"] or most)

    def _refresh(self) -> None:
        chosen = workload(self.session.values["workload"])
        given = self.session.values["settings"]
        for name, field in self.settings.items():
            allowed = chosen.settings.get(name, ())
            field.visible = bool(allowed)
            if allowed:
                field.param.update(options=list(allowed), value=given.get(name, allowed[0]))
        self._show_ends()

    def follow(self, values: Mapping[str, Any]) -> None:
        """Show values that the session took by itself."""
        if "workload" in values:
            self.workload.value = values["workload"]
        if "dtype" in values:
            self.dtype.value = values["dtype"]
        if not {"least", "most"} & set(values) or "workload" in values:
            self._refresh()

    def refused(self, text: str) -> bool:
        """The engine refused something, in these words; whether a field here says so now."""
        return pass_on(text, {"least": self.least, "most": self.most, "n": self.most})
