"""The side bar of the crossover lab: the Run button, then groups by the kind of value that they change.

Measurements start only on request, and changing a value ends the running one. The group "Compare" affects the display,
never the measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.labs.crossover.sweep_view_model import RECORDED_SHOWN, SweepViewModel
from app.labs.crossover.view import CrossoverView
from app.labs.crossover.way_list import WayList, list_items, state
from app.page.notices import Notices
from app.page.theme import html_pane, stylesheet
from app.page.widgets import FULL, NumberField, ValueWidgets, icon, range_words, set_options, show_refusal
from app.tab.controls import Controls, accordion, column
from app.tab.session import Session
from compute.cli import settings
from compute.devices.backends import backend
from compute.engine import messages
from compute.labs.crossover import Crossover
from compute.ways.catalogue import workload, workloads
from compute.ways.finding import BEST_CPU, BEST_GPU
from compute.ways.workload import Way

NOTHING_MEASURED = "Recorded numbers only: nothing is measured. “Numbers” in another lab's details switches back."


class SweepControls:
    """The buttons Run/Pause and Restart of one session; all changes of measured values go through `change`.

    tell(kind, text): see Notices. only_recorded: whether the page shows recorded numbers only, so that nothing runs.
    """

    def __init__(self, session: Session, tell: Callable[[str, str], object]) -> None:
        self.session, self._tell, self.only_recorded = session, tell, False
        self.run = pmui.Button(label="Run", icon="play_arrow", size="medium", margin=(2, 4, 2, 8), width=104)
        self.run.on_click(lambda event: self.toggle())
        self._again = icon("replay", "Restart (R)", self.restart, align="center")
        self._reason = html_pane(f"<p class='absent'>{NOTHING_MEASURED}</p>", margin=(0, 8), visible=False)
        buttons = pn.Row(self.run, self._again, margin=0, sizing_mode="stretch_width")
        self.panel = pn.Column(buttons, self._reason, margin=(8, 0), sizing_mode="stretch_width")
        session.param.watch(lambda event: self._played(), "playing")

    @property
    def finished(self) -> bool:
        """Whether the requested sweep is complete."""
        frame = self.session.latest
        return frame is not None and self.session.answered and frame.facts.get("finished") == 1

    @property
    def running(self) -> bool:
        """Whether a measurement is running."""
        return self.session.playing and not self.finished

    def show_only_recorded(self, only: bool) -> None:
        """Disable the buttons and end the measurement while the page shows recorded numbers only."""
        self.only_recorded = self.run.disabled = self._again.disabled = self._reason.visible = only
        if only and self.session.playing:
            self.session.play(False)

    def _played(self) -> None:
        """Follow the session, which a link or a story may also run."""
        if self.only_recorded and self.session.playing:
            self.session.later(lambda: self.session.play(False))
            self._tell("info", NOTHING_MEASURED)
        self.refresh()

    def toggle(self) -> None:
        """Run or pause; restart a complete sweep."""
        if self.only_recorded:
            self._tell("info", NOTHING_MEASURED)
        elif self.finished:
            self.restart()
        else:
            self.session.play(not self.session.playing)

    def restart(self) -> None:
        """Discard the measurements and run."""
        if self.only_recorded:
            self._tell("info", NOTHING_MEASURED)
            return
        self.session.answered = False  # the visible frame belongs to the previous sweep
        self.session.act("reset")
        self.session.play(True)
        self.refresh()

    def change(self, **values: Any) -> None:
        """Set values of the lab and end the running measurement, which used other values; no new one is started."""
        if all(self.session.values[name] == value for name, value in values.items()):
            return
        if self.session.playing:
            self.session.play(False)
        self.session.change(**values)

    def refresh(self) -> None:
        """Update the label and icon of the Run button."""
        running = self.running
        self.run.param.update(label="Pause" if running else "Run", icon="pause" if running else "play_arrow")


HALF: dict[str, Any] = {"width": 112, "sizing_mode": "fixed"}


class WorkloadControls(ValueWidgets):
    """The group "Workload": its settings, the dtype, the range of n; chosen() is called for another workload."""

    def __init__(self, session: Session, sweep: SweepControls, chosen: Callable[[], object]) -> None:
        super().__init__(session)
        self._sweep, self._chosen = sweep, chosen
        values = session.values
        titles = {w.title: w.name for w in workloads()}
        self.workload = pmui.Select(label="Workload", options=titles, value=values["workload"], size="small", **FULL)
        self.workload.param.watch(lambda event: self._choose(event.new), "value")
        self.settings = {name: self._setting(name) for w in workloads() for name in w.settings}
        self.dtype = pmui.Select(
            label=self.parameter("dtype").label, options=list(self.parameter("dtype").objects), value=values["dtype"],
            size="small", **FULL,
        )  # fmt: skip
        self.dtype.param.watch(lambda event: sweep.change(dtype=event.new), "value")
        self.least = NumberField("n from", None, partial(self._end, "least"), whole=True, optional=True, **HALF)
        self.most = NumberField("to", None, partial(self._end, "most"), whole=True, optional=True, **HALF)
        ends = pn.Row(self.least.panel, self.most.panel, margin=0)
        self.panel = column(self.workload, *self.settings.values(), self.dtype, ends)
        self._refresh()

    def _setting(self, name: str) -> Any:
        """Return a drop-down for a setting, visible only for workloads with this setting."""
        field = pmui.Select(label=name.capitalize(), options=[], size="small", visible=False, **FULL)
        field.param.watch(lambda event: self._set(name, event.new), "value")
        return field

    def _choose(self, name: str) -> None:
        if name != self.session.values["workload"]:
            self._sweep.change(workload=name, ways=[], settings={}, least=None, most=None)
            self._refresh()
            self._chosen()

    def _set(self, name: str, value: Any) -> None:
        chosen = workload(self.session.values["workload"])
        allowed = chosen.settings.get(name, ())
        if value in allowed and value != self.session.values["settings"].get(name, allowed[0]):
            self._sweep.change(settings={**self.session.values["settings"], name: value})

    def _end(self, name: str, n: int | None) -> None:
        """Set an end of the range, validated like in the lab, so that an error appears below its field."""
        chosen = workload(self.session.values["workload"])
        if n is not None:
            chosen.case(n, self.session.values["dtype"])
        usual = dict(zip(("least", "most"), chosen.sizes, strict=True))
        least, most = ({**usual, **{k: v for k, v in self._ends().items() if v}, name: n or usual[name]}[key]
                       for key in ("least", "most"))  # fmt: skip
        if least > most:
            raise ValueError(f"least must be at most {most}, not {least}")
        self._sweep.change(**{name: n})
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

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show values that were changed without these widgets, for instance because the engine refused others."""
        if "workload" in values:
            self.workload.value = values["workload"]
        if "dtype" in values:
            self.dtype.value = values["dtype"]
        if not {"least", "most"} & set(values) or "workload" in values:
            self._refresh()

    def refused(self, text: str) -> bool:
        """Show the engine's refusal of a value next to its field; return False if none of these fields is affected."""
        return show_refusal(text, {"least": self.least, "most": self.most, "n": self.most})


ONE = "<p class='absent' role='alert'>Select at least one implementation.</p>"


class WayControls:
    """The group "Ways": selects the ways to measure."""

    def __init__(self, session: Session, model: SweepViewModel, sweep: SweepControls) -> None:
        self.session, self._model, self._sweep = session, model, sweep
        self.list = WayList(self._switch, sizing_mode="stretch_width", margin=(0, 8))
        self._note = pn.pane.HTML("", stylesheets=[stylesheet()], margin=(0, 16), visible=False)
        self.panel = pn.Column(self.list, self._note, margin=0, sizing_mode="stretch_width")

    @property
    def chosen(self) -> list[str]:
        """The ways to measure: the ticked ways, or by default the lab's own selection."""
        ticked: list[str] = list(self.session.values["ways"])
        present = [way.name for way in self._model.ways if not way.missing]
        return ticked or [name for name in self._model.measured if name in present] or present

    def show(self) -> None:
        """Update the list with the state of each way."""
        states = {name: state(line) for name, line in self._model.measured.items()}
        self.list.show(list_items(self._model.ways, self.chosen, states))

    def _switch(self, way: str, on: bool) -> None:
        selected = {*self.chosen, way} if on else set(self.chosen) - {way}
        self._note.param.update(object="" if selected else ONE, visible=not selected)
        if selected:
            ticked = [known for known in self._model.ways if known.name in selected]
            self._sweep.change(ways=[known.name for known in ticked], **self._engine_for(ticked))
        self.show()
        self.list.redraw()

    def _engine_for(self, ticked: Sequence[Way]) -> dict[str, str]:
        """Return the backend to change to: a GPU's engine runs ways of the host, too, but not the other way round."""
        now = backend(self.session.values["backend"]).kind
        on_gpu = any(way.backend.kind == "gpu" and not way.missing for way in ticked)
        return {"backend": Crossover.home()} if on_gpu and now == "cpu" else {}


CACHES = {"warm": False, "evicted": True}
POINTS = {"1 n per decade": 1, "2 n per decade": 2, "3 n per decade": 3}


class MeasureControls(ValueWidgets):
    """The group "Measure": time budget, state of the caches, with or without transfers."""

    def __init__(self, session: Session, sweep: SweepControls) -> None:
        super().__init__(session)
        self._sweep = sweep
        values = session.values
        self.budget = NumberField(
            "Sampling budget  [s]", values["budget"], self._set_budget,
            accepted=partial(range_words, self.parameter("budget").bounds),
        )  # fmt: skip
        hint = settings.bound_words("call_seconds", self.parameter("longest").bounds[1])
        self.longest = NumberField(
            "Longest call  [s]", values["longest"], self._set_longest, helper_text=hint,
            accepted=partial(range_words, self.parameter("longest").bounds),
        )  # fmt: skip
        self.grid = self._bind("per_decade", pmui.Select(
            label="Points", options=POINTS, value=values["per_decade"], size="small", **FULL))  # fmt: skip
        self.caches = self._bind("evict", pmui.Select(
            label="Caches", options=CACHES, value=values["evict"], size="small", **FULL))  # fmt: skip
        self.split = self._bind("split", pmui.Switch(label="Measure transfers", value=values["split"], **FULL))
        self.panel = column(self.budget.panel, self.longest.panel, self.grid, self.caches, self.split)

    def _bind(self, name: str, widget: Any) -> Any:
        self._widgets[name] = widget
        widget.param.watch(lambda event: self._sweep.change(**{name: event.new}), "value")
        return widget

    def _set_budget(self, seconds: float) -> None:
        self._checked("budget", seconds)

    def _set_longest(self, seconds: float) -> None:
        self._checked("longest", seconds)

    def _checked(self, name: str, value: float) -> None:
        low, high = self.parameter(name).bounds
        if not low <= value <= high:
            raise ValueError(f"{name} must be from {low:g} to {high:g} s, not {value:g}")
        self._sweep.change(**{name: value})

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show values that were changed without these widgets, for instance because the engine refused others."""
        super().show_values(values)
        for name, field in (("budget", self.budget), ("longest", self.longest)):
            if name in values and not field.panel.error_state:
                field.show(values[name])

    def refused(self, text: str) -> bool:
        """Show the engine's refusal of a value next to its field; return False if none of these fields is affected."""
        fields = {"budget": self.budget, "longest": self.longest, "call_seconds": self.longest}
        field = fields.get(text.split(" ", 1)[0])
        if field is not None:
            field.complain(text)
        return field is not None


BEST = {"Best GPU way": BEST_GPU, "Best CPU way": BEST_CPU}
RECORDED = {"of missing implementations": RECORDED_SHOWN[0], "all": RECORDED_SHOWN[1], "none": RECORDED_SHOWN[2]}


class CompareControls:
    """The group "Compare": selects the two curves to compare and the additional curves to draw."""

    def __init__(self, model: SweepViewModel, changed: Callable[[], object]) -> None:
        self._model, self._changed = model, changed
        self.fast = self._list("fast", "From which n is", BEST_GPU)
        self.slow = self._list("slow", "faster than", BEST_CPU)
        self.recorded = pmui.Select(
            label="Recorded curves", options=RECORDED, value=RECORDED_SHOWN[0], size="small", **FULL
        )
        self.cited = pmui.Switch(label="Numbers from tutorials", value=True, **FULL)
        self.moving = pmui.Switch(label="Include transfers", value=False, **FULL)
        for name, field in (("recorded", self.recorded), ("cited", self.cited), ("moving", self.moving)):
            self._bind(name, field)
        self.panel = column(self.fast, self.slow, self.moving, self.recorded, self.cited)

    def _list(self, name: str, label: str, value: str) -> Any:
        field = pmui.Select(label=label, options=BEST, value=value, size="small", **FULL)
        self._bind(name, field)
        return field

    def _bind(self, name: str, widget: Any) -> None:
        widget.param.watch(lambda event: self._set(name, event.new), "value")

    def _set(self, name: str, value: Any) -> None:
        choice = replace(self._model.choice, **({} if value is None else {name: value}))
        if choice != self._model.choice:
            self._model.choice = choice
            self._model.session.later(self._changed)

    def forget(self) -> None:
        """Select the best way of each device again, after a change of the workload."""
        self.fast.value, self.slow.value = BEST_GPU, BEST_CPU

    def show(self) -> None:
        """Update the options with the available lines."""
        lines = {f"{line.label}, {line.place}" if line.place else line.label: line.key for line in self._model.lines}
        options = {**BEST, **lines}
        for field in (self.fast, self.slow):
            if field.options != options:
                known = field.value in options.values()
                set_options(field, options, field.value if known else next(iter(options.values())))
        enabled = bool(self._model.session.values["split"])
        self.moving.disabled = not enabled


class CrossoverControls(Controls):
    """The controls of the crossover lab, bound to one session."""

    def __init__(self, session: Session, lab_view: CrossoverView, notices: Notices) -> None:
        super().__init__(session)
        self.lab_view = lab_view
        self.sweep = sweep = SweepControls(session, notices.tell)
        self.ways = WayControls(session, lab_view.model, sweep)
        self.workload = WorkloadControls(session, sweep, self._workload_chosen)
        self.measure = MeasureControls(session, sweep)
        self.compare = compare = CompareControls(lab_view.model, lab_view.refresh)
        self.keep_display(transfers=compare.moving, recorded=compare.recorded, cited=compare.cited)
        groups = {
            "Workload": self.workload.panel,
            "Ways": self.ways.panel,
            "Measure": self.measure.panel,
            "Compare": self.compare.panel,
        }
        self.panel = column(sweep.panel, accordion(groups, opened=(0, 1)))
        self.keys = {
            " ": sweep.toggle,
            "r": sweep.restart,
            **{str(i): partial(lab_view.show_view, view) for i, view in enumerate(lab_view.views, start=1)},
        }
        self.tick()

    def _workload_chosen(self) -> None:
        """Reset the choices that refer to the ways of the previous workload."""
        self.lab_view.model.choice.code = ()
        self.compare.forget()
        self.lab_view.model.update(self.session.latest)
        self.tick()
        if self.lab_view.shown is self.lab_view.views["Programs"]:
            self.lab_view.programs.show()
        self.session.later(self.lab_view.refresh)

    def show_only_recorded(self, only: bool) -> None:
        """Measure nothing, and draw all recorded curves, while the page shows recorded numbers only."""
        if only != self.only_recorded:
            super().show_only_recorded(only)
            self.lab_view.traps.bar(NOTHING_MEASURED if only else "")
            self.sweep.show_only_recorded(only)
            self.compare.recorded.value = RECORDED_SHOWN[int(only)]

    def landmark(self) -> object:
        """Return the workload: changing it adds an entry to the browser's history."""
        return self.session.values["workload"]

    def tick(self) -> None:
        """Update the controls from the latest frame, a few times a second."""
        self.sweep.refresh()
        self.ways.show()
        self.compare.show()

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show values that were changed without these widgets, for instance because the engine refused others."""
        super().show_values(values)
        for part in (self.workload, self.measure):
            part.show_values(values)
        self.ways.list.redraw()

    def on_event(self, event: Any) -> bool:
        """Show an engine event next to the affected field; return False if no field here is affected."""
        if isinstance(event, messages.Refused):
            return self.workload.refused(event.text) or self.measure.refused(event.text)
        return False
