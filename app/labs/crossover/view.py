"""The main area of the crossover lab: one of several views, with the finding or a lesson as a sentence above it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.labs.crossover.findings import SENTENCE_STYLE, VERDICT_STYLE, headline, sentence_html, verdicts
from app.labs.crossover.lessons import of_claims
from app.labs.crossover.programs import ABOUT_STYLE, ProgramsView, TrapsView
from app.labs.crossover.roofline import RooflineView
from app.labs.crossover.sweep_view_model import SweepViewModel
from app.labs.crossover.time_plot import TimePlot
from app.page.equations import article
from app.page.theme import GRID, stylesheet
from app.tab.lab_view import LabView, Size
from app.tab.session import Session
from app.upstream.plot_pane import PlotPane
from compute.lab.frames import Frame
from compute.labs.crossover import picture
from compute.labs.crossover.claims import Conclusion, conclusions
from compute.labs.crossover.trap import Trap

CHOOSER = {False: 40, True: 52}  # px of a line of the chooser
LEAST = 120  # px, minimum height of the visible view, in windows of any height
READABLE = 200  # px of height that must remain for the view if the chooser needs several lines
SENTENCE = 600  # px of width for which the heights of the sentences are given
REST = 0.2  # s after each frame, so that drawing does not disturb the measurement
# Without this, Panel's component keeps the size of its first draw when its lab is shown again.
FILLS = ".radio-button-group { min-width: 0 !important; width: 100% !important; height: 100% !important; }"
BRIEF = {False: 52, True: 68}  # px of a sentence of two lines, by presenter mode
LINE = 430  # px of width for a chooser of one line
NARROW = {
    "flexWrap": "wrap",
    "& .MuiToggleButton-root": {
        "whiteSpace": "nowrap",
        "padding": "4px 10px",
        "lineHeight": 1.3,
        "width": "auto !important",
    },
}


def _nothing(*size: int) -> None:
    """Do nothing: default of Subview's callbacks."""


@dataclass(frozen=True)
class Subview:
    """One of the views in the chooser; every field is optional.

    panel: its content, below the plot of time over n, if any; opened: called when it is selected; show: updates
    the content after each frame; resize: receives (width, height) in px; lesson: returns the sentence above it as HTML,
    None for the finding; sentence: its height in px by presenter mode; plot: fraction of the height for the plot.
    """

    panel: Any = None
    opened: Callable[[], object] = _nothing
    show: Callable[[], object] = _nothing
    resize: Callable[[int, int], object] = _nothing
    lesson: Callable[[], str] | None = None
    sentence: Mapping[bool, int] = field(default_factory=dict)
    plot: float = 0.0


class CrossoverView(LabView):
    """The views of one session, of which one is visible, and their layout."""

    def __init__(self, session: Session, size: Size) -> None:
        super().__init__(session, size)
        self.model = SweepViewModel(session)
        self.plot = TimePlot(self._tapped)
        self.plot.frames.serve(session)
        self.plot.frames.rest = REST
        self.programs = ProgramsView(self.model)
        self.roofline = RooflineView(self.model, self.refresh)
        self.traps = TrapsView(self._run_trap)
        session.frames.subscribe(self._show)
        self._build()

    def _build(self) -> None:
        self._sentence = self._html(SENTENCE_STYLE)
        self._verdicts = self._html(VERDICT_STYLE)
        self._about = pn.pane.Markdown(
            "", stylesheets=[stylesheet(), ABOUT_STYLE], margin=0, sizing_mode="stretch_width"
        )
        claims = pn.Column(self._about, self._verdicts, scroll="y-auto", margin=0, sizing_mode="stretch_width")
        self.views = {
            "Crossover": Subview(show=self._show_plot, sentence={False: 176, True: 120}, plot=1.0),
            "Programs": Subview(
                self.programs.panel, self.programs.show, self._show_plot, self.programs.resize,
                lambda: headline(self.model, self.running), {False: 72, True: 0}, plot=0.42,
            ),
            "Roofline": Subview(
                self.roofline.panel, show=self.roofline.show, resize=self.roofline.resize,
                lesson=lambda: escape(self.roofline.lesson), sentence={False: 72, True: 88},
            ),
            "Traps": Subview(self.traps.panel, resize=self.traps.resize),
            "Claims checked": Subview(
                claims, self._show_claims, resize=partial(_set_height, claims),
                lesson=lambda: escape(self._lesson_of_claims()), sentence=BRIEF,
            ),
        }  # fmt: skip
        self.shown = self.views["Crossover"]
        self.chooser = pmui.RadioButtonGroup(
            options=list(self.views), value="Crossover", size="small", margin=(0, 8, 4, 24), sx=NARROW,
            stylesheets=[FILLS],
        )  # fmt: skip
        self.chooser.param.watch(lambda event: self.show_view(event.new), "value")
        self._pane = PlotPane(self.plot.figure, margin=0)
        panels = [view.panel for view in self.views.values() if view.panel is not None]
        for panel in panels:
            panel.visible = False
        parts = self.chooser, self._sentence, self._pane, *panels
        wide, high = self.size
        self.panel = pn.Column(*parts, margin=(GRID, 0, 0, 0), width=wide, height=high, sizing_mode="fixed")
        self.wait_for(self.plot.figure)
        self._write_sentence()

    @staticmethod
    def _html(style: str) -> pn.pane.HTML:
        return pn.pane.HTML("", stylesheets=[stylesheet(), style], margin=0, sizing_mode="stretch_width")

    # -- selecting a view

    def show_view(self, title: str) -> None:
        """Show the view with this title."""
        self.shown = self.views[title]
        if self.chooser.value != title:
            self.chooser.value = title
        self.shown.opened()
        self._pane.visible = self.shown.plot > 0
        for view in self.views.values():
            if view.panel is not None:
                view.panel.visible = view is self.shown
        self.session.later(lambda: self.resize(*self.size))
        self.session.later(self.refresh)

    def _show_plot(self) -> None:
        cited = self.shown is self.views["Crossover"]
        self.plot.show(self.model.time_plot_content(cited))

    def _claims(self) -> list[Conclusion]:
        """Return all claims, those about the selected workload first."""
        chosen = self.model.workload.name
        return sorted(conclusions(), key=lambda one: one.workload != chosen)

    def _lesson_of_claims(self) -> str:
        """Return how many claims hold, of those about the selected workload if there are any."""
        found = self._claims()
        return of_claims([one for one in found if one.workload == self.model.workload.name] or found)

    def _show_claims(self) -> None:
        """Show the workload's README and the verdicts on claims."""
        self._about.object = article(self.model.workload.about)
        self._verdicts.object = verdicts(self._claims())

    def _tapped(self, key: str) -> None:
        """Show the program of a tapped line."""
        self.programs.show_program(key.partition(" @ ")[0])
        self.show_view("Programs")

    # -- layout

    def arrange(self) -> None:
        """Fit the visible view into the space below the chooser and the sentence.

        A low window shows no sentence, a lower one no chooser: the view has at least LEAST px, and READABLE px with a
        chooser of several lines.
        """
        width, height = self.size
        self.panel.param.update(width=width, height=height)
        rows = -(-LINE * (1.4 if self.presenter else 1.0) // max(1, width))
        high = round(CHOOSER[self.presenter] * rows)
        choosing = not self.alone and height - high - GRID >= (LEAST if rows == 1 else READABLE)
        self.chooser.param.update(width=width - 4 * GRID, height=high - 4, visible=choosing)
        height -= (high + GRID) * choosing
        said = round(self.shown.sentence.get(self.presenter, 0) * max(1.0, SENTENCE / max(1, width)) ** 1.6)
        self._sentence.visible = saying = said > 0 and not self.alone and height - said >= LEAST
        if saying:
            self._sentence.height = said
            height -= said
        height = max(LEAST, height)
        if self.shown.plot:
            plot = height if self.alone else round(self.shown.plot * height)
            self.plot.resize(width, plot)
            self._pane.param.update(width=width, height=plot)
            height -= plot
        self.shown.resize(width, height)

    def apply_theme(self) -> None:
        """Apply colours and fonts to the plots."""
        self.plot.set_theme(self.dark, self.presenter)
        self.roofline.set_theme(self.dark, self.presenter)
        self.refresh()

    # -- frames

    def _show(self, frame: Frame) -> None:
        self.refresh()
        self.plot.frames.skip(frame.number)

    def refresh(self) -> None:
        """Show the current results."""
        self.model.update(self.session.latest)
        if not self.drawn:
            return
        self.shown.show()
        self._write_sentence()
        self._show_trap_result()

    def tick(self) -> None:
        """Update a few times a second, for changes without a frame."""
        self.refresh()

    @property
    def running(self) -> bool:
        """Whether a measurement is running."""
        frame = self.model.frame
        return self.session.playing and not (frame is not None and frame.facts.get("finished") == 1)

    def _write_sentence(self) -> None:
        lesson = self.shown.lesson and self.shown.lesson()
        html = sentence_html(self.model, self.running, lesson, said=not self.presenter)
        if html != self._sentence.object:
            self._sentence.object = html

    # -- traps

    def _run_trap(self, trap: Trap) -> None:
        self.session.act("try_trap", which=trap.name)
        if not self.running:
            self.session.step()

    def _show_trap_result(self) -> None:
        """Show the results of a trap's programs, if the latest frame contains them."""
        latest = self.session.latest
        result = picture.trap_result(latest) if latest is not None else None
        if result is not None:
            self.traps.show_result(result["name"], result["wrong"], result["right"])


def _set_height(panel: pn.Column, width: int, height: int) -> None:
    panel.height = height
