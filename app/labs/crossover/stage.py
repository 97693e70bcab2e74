"""The main area of the crossover lab: one view at a time, and above it the finding in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.labs.crossover.held import STYLE as HELD
from app.labs.crossover.held import held
from app.labs.crossover.looks import looks
from app.labs.crossover.programs import Programs
from app.labs.crossover.roofline_view import RooflineView
from app.labs.crossover.sentence import STYLE, sentence
from app.labs.crossover.sight import Sight
from app.labs.crossover.split_view import SplitView
from app.labs.crossover.time_plot import TimePlot
from app.labs.crossover.traps_view import TEXT, TrapsView
from app.session import Session
from app.theme import GRID, stylesheet
from compute.frames import Frame
from compute.labs.crossover import conclusions, picture
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


class CrossoverStage:
    """Views of one session, and their sizes in its window."""

    def __init__(self, session: Session, room: tuple[int, int]) -> None:
        self.session, self._room = session, room
        self.sight = Sight(session)
        self.on_ready: Callable[[], object] = _ignore
        self._look = (False, False)
        self._drawn = False
        self.view = "time"
        self.plot = TimePlot(self._tapped)
        self.plot.frames.serve(session, self._painted)
        self.programs = Programs(self.sight)
        self.split, self.roofline = SplitView(self.sight), RooflineView(self.sight)
        self.traps = TrapsView(self._try)
        session.on_frame = self._show
        self._build()

    def _build(self) -> None:
        self.chooser = pmui.RadioButtonGroup(
            options=VIEWS, value=self.view, size="small", margin=(0, 8, 4, 24), sx=NARROW
        )
        self.chooser.param.watch(lambda event: self.turn(event.new), "value")
        self._sentence = pn.pane.HTML("", stylesheets=[stylesheet(), STYLE], margin=0, sizing_mode="stretch_width")
        self._pane = pn.pane.Bokeh(self.plot.figure, margin=0)
        self._held = pn.pane.HTML("", stylesheets=[stylesheet(), HELD], margin=0, sizing_mode="stretch_width")
        self._claims = pn.Column(self._held, scroll="y-auto", margin=0, sizing_mode="stretch_width")
        self._about = pn.pane.Markdown("", stylesheets=[stylesheet(), TEXT], margin=0, sizing_mode="stretch_width")
        self._lesson = pn.Column(self._about, scroll="y-auto", margin=0, sizing_mode="stretch_width")
        self._panels: dict[str, Any] = {
            "programs": self.programs.panel, "split": self.split.panel, "roofline": self.roofline.panel,
            "lesson": self._lesson, "traps": self.traps.panel, "held": self._claims,
        }  # fmt: skip
        for panel in self._panels.values():
            panel.visible = False
        parts = self.chooser, self._sentence, self._pane, *self._panels.values()
        self.panel = pn.Column(*parts, margin=(GRID, 0, 0, 0), sizing_mode="stretch_both")
        self.plot.figure.on_change("inner_width", lambda attr, old, new: self._ready())
        self._say()

    def _ready(self) -> None:
        """The browser has drawn the plot. Changing one before that is an error there."""
        if not self._drawn:
            self._drawn = True
            self._arrange()
            self.refresh()
            self.on_ready()

    # -- which view

    def turn(self, view: str) -> None:
        """Show another view."""
        self.view = view
        if self.chooser.value != view:
            self.chooser.value = view
        if view == "programs":
            self.programs.show()
        if view == "held":
            chosen = self.sight.workload.name
            self._held.object = held(sorted(conclusions.conclusions(), key=lambda one: one.workload != chosen))
        self._sentence.visible = view in SENTENCE
        self._pane.visible = view in WITH_PLOT
        for name, panel in self._panels.items():
            panel.visible = name == view
        self.session.later(self._arrange)
        self.session.later(self.refresh)

    def _tapped(self, key: str) -> None:
        """A line was tapped: read its program."""
        self.programs.put(key.partition(" @ ")[0])
        self.turn("programs")

    # -- sizes

    def fit(self, width: int, height: int) -> None:
        """Use a main area of width x height px, as soon as the plot is there."""
        self._room = (width, height)
        if self._drawn:
            self._arrange()

    def _arrange(self) -> None:
        if not self._drawn:
            return
        width, height = self._room
        presenter = self._look[1]
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
                part.fit(width, height)  # type: ignore[attr-defined]
        self._claims.height = self._lesson.height = height

    def dress(self, dark: bool, presenter: bool) -> None:
        """Follow the page's scheme and type size."""
        self._look = (dark, presenter)
        if self._drawn:
            self.plot.dress(dark, presenter)
        self.roofline.dress(dark, presenter)
        self.fit(*self._room)

    # -- frames

    def _show(self, number: int, frame: Frame) -> None:
        self.refresh()
        self.plot.frames.skip(number)

    def _painted(self, number: int, seconds: float) -> None:
        """The browser has painted a frame. The next one may wait: painting takes time from what is measured."""
        done = partial(self.session.gate.acknowledge, number, seconds + REST)
        self.session.document.add_timeout_callback(done, round(1000 * REST))

    def refresh(self) -> None:
        """Show what is known now."""
        self.sight.look(self.session.latest)
        if not self._drawn:
            return
        self._say()
        if self.view in WITH_PLOT:
            self.plot.show(self.sight.picture(cited=self.view == "time"))
        elif self.view == "split":
            self.split.show()
        elif self.view == "roofline":
            self.roofline.show(looks(self.sight.ways))
        elif self.view == "lesson":
            self._about.object = self.sight.workload.about
        self._hear_trap()

    def tick(self) -> None:
        """A few times a second: what follows no frame."""
        self.refresh()

    @property
    def running(self) -> bool:
        """Whether something is being measured."""
        frame = self.sight.frame
        return self.session.playing and not (frame is not None and frame.facts.get("finished") == 1)

    def _say(self) -> None:
        html = sentence(self.sight, self.running, brief=self.view != "time")
        if html != self._sentence.object:
            self._sentence.object = html

    # -- traps

    def _try(self, trap: Trap) -> None:
        self.session.act("try_trap", which=trap.name)
        if not self.running:
            self.session.step()

    def _hear_trap(self) -> None:
        """A frame brings what the programs of a trap saw."""
        latest = self.session.latest
        result = picture.tried(latest) if latest is not None else None
        if result is not None:
            self.traps.answer(result["name"], result["wrong"], result["right"])


def _ignore() -> None:
    """Nobody waits."""
