"""The main area of the crossover lab: one view at a time, and above it the finding in a sentence."""

from __future__ import annotations

from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.lab_view import LabView, Size
from app.labs.crossover.findings import SENTENCE_STYLE, VERDICT_STYLE, sentence_html, verdicts
from app.labs.crossover.labels import way_styles
from app.labs.crossover.programs import ABOUT_STYLE, ProgramsView, TrapsView
from app.labs.crossover.roofline import RooflineView
from app.labs.crossover.sweep_view_model import SweepViewModel
from app.labs.crossover.time_parts import TimePartsView
from app.labs.crossover.time_plot import TimePlot
from app.session import Session
from app.theme import GRID, stylesheet
from compute.frames import Frame
from compute.labs.crossover import picture
from compute.labs.crossover.claims import conclusions
from compute.labs.crossover.trap import Trap

VIEWS = {
    "Crossover": "time",
    "Programs": "programs",
    "Parts of the time": "split",
    "Roofline": "roofline",
    "Lesson": "lesson",
    "Traps": "traps",
    "What held": "held",
}
CHOOSER = {False: 40, True: 52}  # px of the line that chooses the view
SENTENCE = {"time": {False: 92, True: 136}, "programs": {False: 40, True: 56}}  # px of it in the views that have one
WITH_PLOT = {"time": 1.0, "programs": 0.42}  # views that show the plot of time against n: part of the height it takes
REST = 0.2  # seconds after each frame: what draws does not measure
NARROW = {"& .MuiToggleButton-root": {"whiteSpace": "nowrap", "padding": "4px 12px", "lineHeight": 1.3}}


class CrossoverView(LabView):
    """The views of one session, and their sizes in its window."""

    def __init__(self, session: Session, size: Size) -> None:
        super().__init__(session, size)
        self.model = SweepViewModel(session)
        self.view = "time"
        self.plot = TimePlot(self._tapped)
        self.plot.frames.serve(session)
        self.plot.frames.rest = REST
        self.programs = ProgramsView(self.model)
        self.split, self.roofline = TimePartsView(self.model), RooflineView(self.model)
        self.traps = TrapsView(self._run_trap)
        session.on_frame = self._show
        self._build()

    def _build(self) -> None:
        self.chooser = pmui.RadioButtonGroup(
            options=VIEWS, value=self.view, size="small", margin=(0, 8, 4, 24), sx=NARROW
        )
        self.chooser.param.watch(lambda event: self.show_view(event.new), "value")
        self._sentence = pn.pane.HTML(
            "", stylesheets=[stylesheet(), SENTENCE_STYLE], margin=0, sizing_mode="stretch_width"
        )
        self._pane = pn.pane.Bokeh(self.plot.figure, margin=0)
        self._verdicts = pn.pane.HTML(
            "", stylesheets=[stylesheet(), VERDICT_STYLE], margin=0, sizing_mode="stretch_width"
        )
        self._claims = pn.Column(self._verdicts, scroll="y-auto", margin=0, sizing_mode="stretch_width")
        self._about = pn.pane.Markdown(
            "", stylesheets=[stylesheet(), ABOUT_STYLE], margin=0, sizing_mode="stretch_width"
        )
        self._lesson = pn.Column(self._about, scroll="y-auto", margin=0, sizing_mode="stretch_width")
        self._panels: dict[str, Any] = {
            "programs": self.programs.panel, "split": self.split.panel, "roofline": self.roofline.panel,
            "lesson": self._lesson, "traps": self.traps.panel, "held": self._claims,
        }  # fmt: skip
        for panel in self._panels.values():
            panel.visible = False
        parts = self.chooser, self._sentence, self._pane, *self._panels.values()
        self.panel = pn.Column(*parts, margin=(GRID, 0, 0, 0), sizing_mode="stretch_both")
        self.wait_for(self.plot.figure)
        self._write_sentence()

    # -- which view

    def show_view(self, view: str) -> None:
        """Show another view."""
        self.view = view
        if self.chooser.value != view:
            self.chooser.value = view
        if view == "programs":
            self.programs.show()
        if view == "held":
            chosen = self.model.workload.name
            self._verdicts.object = verdicts(sorted(conclusions(), key=lambda one: one.workload != chosen))
        self._sentence.visible = view in SENTENCE
        self._pane.visible = view in WITH_PLOT
        for name, panel in self._panels.items():
            panel.visible = name == view
        self.session.later(lambda: self.resize(*self.size))
        self.session.later(self.refresh)

    def _tapped(self, key: str) -> None:
        """Show the program of a line that was tapped."""
        self.programs.show_program(key.partition(" @ ")[0])
        self.show_view("programs")

    # -- sizes

    def arrange(self) -> None:
        """Give the view that is shown what the chooser and the sentence leave."""
        width, height = self.size
        presenter = self.presenter
        height -= CHOOSER[presenter] + GRID
        if self.view in WITH_PLOT:
            self._sentence.height = SENTENCE[self.view][presenter]
            height -= self._sentence.height
            plot = round(WITH_PLOT[self.view] * height)
            self.plot.resize(width, plot)
            self._pane.param.update(width=width, height=plot)
            height -= plot
        for name, part in (("programs", self.programs), ("split", self.split), ("roofline", self.roofline),
                           ("traps", self.traps)):  # fmt: skip
            if name == self.view:
                part.resize(width, height)  # type: ignore[attr-defined]
        self._claims.height = self._lesson.height = height

    def apply_theme(self) -> None:
        """Colour the plots, and set their type."""
        self.plot.set_theme(self.dark, self.presenter)
        self.roofline.set_theme(self.dark, self.presenter)
        self.refresh()

    # -- frames

    def _show(self, number: int, frame: Frame) -> None:
        self.refresh()
        self.plot.frames.skip(number)

    def refresh(self) -> None:
        """Show what is known now."""
        self.model.update(self.session.latest)
        if not self.drawn:
            return
        self._write_sentence()
        if self.view in WITH_PLOT:
            self.plot.show(self.model.time_plot_content(cited=self.view == "time"))
        elif self.view == "split":
            self.split.show()
        elif self.view == "roofline":
            self.roofline.show(way_styles(self.model.ways))
        elif self.view == "lesson":
            self._about.object = self.model.workload.about
        self._show_trap_result()

    def tick(self) -> None:
        """Show, a few times a second, what follows no frame."""
        self.refresh()

    @property
    def running(self) -> bool:
        """Whether something is being measured."""
        frame = self.model.frame
        return self.session.playing and not (frame is not None and frame.facts.get("finished") == 1)

    def _write_sentence(self) -> None:
        html = sentence_html(self.model, self.running, brief=self.view != "time")
        if html != self._sentence.object:
            self._sentence.object = html

    # -- traps

    def _run_trap(self, trap: Trap) -> None:
        self.session.act("try_trap", which=trap.name)
        if not self.running:
            self.session.step()

    def _show_trap_result(self) -> None:
        """Show what the programs of a trap saw, if the newest frame brings it."""
        latest = self.session.latest
        result = picture.trap_result(latest) if latest is not None else None
        if result is not None:
            self.traps.show_result(result["name"], result["wrong"], result["right"])
