"""What a lab brings to its tab: its main area, its controls, its line in the status bar.

A lab has parts of its own if there is a folder app/labs/<its name>/ with a PARTS in parts.py, or, for a lab from
outside this repository, a parts.py beside its lab.py; any other lab gets pictures of its rasters and controls made from
its parameters.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, TypeAlias, runtime_checkable

from app.bokeh_messages import changed_together
from app.controls import Controls
from app.equations import article
from app.notices import Notices
from app.session import Session
from app.stream import FirstDraw
from compute.backends import preferred
from compute.frames import Frame
from compute.lab import Lab
from compute.labs import LABS, labs, outside
from compute.measure.timing import Timing
from compute.own.code_files import CodeFile

log = logging.getLogger(__name__)

FilmEnds: TypeAlias = Callable[[Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any]]]
Size: TypeAlias = tuple[int, int]  # width and height in px
StatusFact: TypeAlias = tuple[str, str, str]  # label, value, and "", "warn" or "bad"


class ReadoutPanel(Protocol):
    """The right column of a lab; made with (session, view). See app.readout."""

    panel: Any

    def on_painted(self, timing: Timing) -> None:
        """One painted frame's timing, complete with the delivery."""

    def tick(self) -> None:
        """Four times a second."""

    def on_event(self, event: Any) -> None:
        """An engine event of the live lab."""

    def set_theme(self, dark: bool) -> None:
        """Follow the page's scheme."""

    def hide(self) -> None:
        """Nobody looks at the lab: `tick` is not called until somebody does. Bokeh may hold no lock of the document."""

    def close(self) -> None:
        """The session is over."""


_QUESTIONS = re.compile(r"^\*\*Questions to try\.\*\*.*\n\n((?:\d+\. .*\n(?:[ \t]+.*\n)*)+)", re.MULTILINE)


@runtime_checkable
class SaysHeadline(Protocol):
    """A right column whose large number and first sentence are also shown where it is closed; both as HTML of ours."""

    headline: str
    sentence: str


class LabView:
    """The main area of a lab: it shows the session's frames and confirms them. Every lab's own derives from it.

    Changing a plot before the browser has drawn it for the first time is an error there. So a view says which plots
    those are (`wait_for`), and its size and theme are applied, and frames asked for (`on_ready`), once all are drawn.
    """

    panel: Any

    def __init__(self, session: Session, size: Size) -> None:
        self.session, self.size = session, size
        self.dark = self.presenter = False
        self.alone = False  # only the main picture is shown, as the page's address asks (app/address.py)
        self.on_ready: Callable[[], object] = lambda: None
        self.first_draw = FirstDraw()

    def samples(self) -> tuple[str, str]:
        """Return the name of what the view has recorded over time, and its samples as CSV; ("", "") for nothing."""
        return "", ""

    def wait_for(self, *plots: Any) -> None:
        """Change nothing before the browser has drawn these Bokeh figures."""
        for plot in plots:
            self.first_draw.wait(plot, self._one_drawn)

    @property
    def drawn(self) -> bool:
        """Whether the browser has drawn all plots, so that they may be changed."""
        return not self.first_draw.waiting

    def _one_drawn(self) -> None:
        if self.drawn:
            self._refresh()
            self.on_ready()

    def _refresh(self) -> None:
        with changed_together(self.session.document):
            self.apply_theme()
            self.arrange()

    def resize(self, width: int, height: int) -> None:
        """Use a main area of width x height px, as soon as the plots are there."""
        self.size = (width, height)
        if self.drawn:
            with changed_together(self.session.document):
                self.arrange()

    def fit(self, size: Size, dark: bool, presenter: bool) -> None:
        """Follow the page's size, scheme and type size as soon as the plots are there, laid out once for all three."""
        if (size, dark, presenter) != (self.size, self.dark, self.presenter):
            self.size, self.dark, self.presenter = size, dark, presenter
            if self.drawn:
                self._refresh()

    # -- what a lab's own view does

    def arrange(self) -> None:
        """Give every part its place in `size`."""

    def apply_theme(self) -> None:
        """Draw in the scheme `dark`, in the type size of `presenter`."""

    def show_part(self, view: tuple[float, float, float, float] | None) -> None:
        """Show (x0, y0, x1, y1) in cells, None for all, where there is a picture that can show a part."""

    def tick(self) -> None:
        """A few times a second: what need not follow every frame."""


@dataclass(frozen=True)
class Parts:
    """Everything a tab needs to know of its lab beyond the lab itself.

    facts: the status bar's entries for a frame; help: rows of the table of keys, in Markdown; pointer: what the pointer
    does, in Markdown; values: those that differ from what `first_values` begins with, or a function that finds them;
    pace: steps a frame at the start, None for as fast as it goes; plays: whether the lab runs as soon as it is shown;
    readout: the right column, None for the usual; code: the files that run for a session's values, None for those of
    the lab's backends; films: planned films by title, each from the present values to the
    first and the last ones of the film.
    """

    view: Callable[[Session, Size], LabView]
    controls: Callable[[Session, Any, Notices], Controls]
    facts: Callable[[Frame], Sequence[StatusFact]]
    help: str
    pointer: str
    values: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict)
    pace: int | None = None
    plays: bool = True
    films: Mapping[str, FilmEnds] = field(default_factory=dict)
    readout: Callable[[Session, Any], ReadoutPanel] | None = None
    code: Callable[[Session], tuple[CodeFile, ...]] | None = None

    @staticmethod
    def about(lab: type[Lab]) -> str:
        """Return what is to be read about `lab`: its README.md without the title, as HTML, equations typeset."""
        return article(lab.about().partition("\n")[2])


def questions(lab: type[Lab]) -> str:
    """Return the list below "Questions to try" in the lab's README.md as HTML, "" without one."""
    found = _QUESTIONS.search(lab.about())
    return article(found[1]) if found else ""


def parts_of(lab: type[Lab]) -> Parts:
    """The parts of `lab`: its own, which lie beside lab.py if it is from outside this repository, or the plain ones."""
    own = f"app.labs.{lab.LAB}" if lab in LABS else lab.PACKAGE
    name = f"{own}.parts" if find_spec(own) and find_spec(f"{own}.parts") else "app.labs.plain.parts"
    parts: Parts = import_module(name).PARTS
    return parts


def labs_with_tabs() -> tuple[tuple[type[Lab], ...], list[str]]:
    """The labs that have a tab, and what is wrong with those from outside that have none, in words.

    Their parts are imported for it: a model that is defined after the page was sent is unknown to the browser.
    """
    shown, problems = [], [f"The lab {one.name} is not there: {one.why}" for one in outside().problems]
    for lab in labs():
        try:
            parts_of(lab)
        except Exception as error:
            if lab in LABS:
                raise
            log.exception("the view of the lab %s", lab.LAB)
            problems.append(f"The lab {lab.LAB} is not there: its parts.py: {type(error).__name__}: {error}")
        else:
            shown.append(lab)
    return tuple(shown), problems


def first_values(lab: type[Lab], parts: Parts) -> dict[str, Any]:
    """What a tab of `lab` begins with: its parts' values, on the best backend that is ready; the rest are defaults."""
    own = parts.values() if callable(parts.values) else parts.values
    return {"backend": preferred(lab.backends()).name, **own}
