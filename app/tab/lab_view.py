"""The parts that a lab contributes to its tab: main area, controls and entries of the status bar.

A lab has its own parts if PARTS is defined in app/labs/<its name>/parts.py or, for a lab from outside this repository,
in a parts.py next to its lab.py. Any other lab gets pictures of its rasters and controls made from its parameters.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, TypeAlias, runtime_checkable

from app.page.equations import article
from app.page.notices import Notices
from app.tab.controls import Controls
from app.tab.publisher import Publisher
from app.tab.session import Session
from app.tab.stream import FirstDraw
from app.upstream.document_changes import changed_together
from compute.devices.backends import preferred
from compute.lab.frames import Frame
from compute.lab.lab import Lab, values_on
from compute.labs import LABS, labs, outside
from compute.measure.timing import Timing
from compute.own.code_files import CodeFile

log = logging.getLogger(__name__)

FilmEnds: TypeAlias = Callable[[Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any]]]
Size: TypeAlias = tuple[int, int]  # width and height in px
StatusFact: TypeAlias = tuple[str, str, str]  # label, value, and "", "warn" or "bad"


class ReadoutPanel(Protocol):
    """The right column of a lab, created with (session, view). See app.readout.readout."""

    panel: Any

    def on_painted(self, timing: Timing) -> None:
        """Record the timing of a painted frame, including its delivery."""

    def tick(self) -> None:
        """Update the column; called four times a second."""

    def on_event(self, event: Any) -> None:
        """Handle an engine event of the live lab."""

    def set_theme(self, dark: bool) -> None:
        """Follow the page's colour scheme."""

    def hide(self) -> None:
        """Pause while the lab is hidden; `tick` resumes when it is shown. May run without the document's lock."""

    def close(self) -> None:
        """Release the column's resources at the end of the session."""


_QUESTIONS = re.compile(r"^\*\*Questions to try\.\*\*.*\n\n((?:\d+\. .*\n(?:[ \t]+.*\n)*)+)", re.MULTILINE)


@runtime_checkable
class SaysHeadline(Protocol):
    """A right column that provides its headline and first sentence, as trusted HTML, for use while closed."""

    headline: str
    sentence: str


class LabView:
    """The main area of a lab, which shows the session's frames and confirms them. Base class of every lab's view.

    Changing a plot before the browser has drawn it for the first time is an error in the browser. A view therefore
    registers its plots with `wait_for`. When all are drawn, its size and theme are applied and frames are requested
    (`ready`).
    """

    panel: Any

    def __init__(self, session: Session, size: Size) -> None:
        self.session, self.size = session, size
        self.dark = self.presenter = False
        self.alone = False  # show only the main picture, as the page's address requests (app/page/address.py)
        self.ready: Publisher[None] = Publisher()  # when all plots are drawn
        self.first_draw = FirstDraw()

    def samples(self) -> tuple[str, str]:
        """Return the name of the samples that the view has recorded, and the samples as CSV; ("", "") for none."""
        return "", ""

    def wait_for(self, *plots: Any) -> None:
        """Delay all changes until the browser has drawn these Bokeh figures."""
        for plot in plots:
            self.first_draw.wait(plot, self._one_drawn)

    @property
    def drawn(self) -> bool:
        """Whether the browser has drawn all plots, so that they may be changed."""
        return not self.first_draw.pending

    def _one_drawn(self) -> None:
        if self.drawn:
            self._refresh()
            self.ready.publish(None)

    def _refresh(self) -> None:
        with changed_together(self.session.document):
            self.apply_theme()
            self.arrange()

    def resize(self, width: int, height: int) -> None:
        """Use a main area of width x height px, once the plots are drawn."""
        self.size = (width, height)
        if self.drawn:
            with changed_together(self.session.document):
                self.arrange()

    def fit(self, size: Size, dark: bool, presenter: bool) -> None:
        """Follow the page's size, colour scheme and type size in one layout, once the plots are drawn."""
        if (size, dark, presenter) != (self.size, self.dark, self.presenter):
            self.size, self.dark, self.presenter = size, dark, presenter
            if self.drawn:
                self._refresh()

    # -- overridden by the view of a lab

    def arrange(self) -> None:
        """Lay out all parts in `size`."""

    def apply_theme(self) -> None:
        """Draw in the colour scheme `dark` and in the type size of `presenter`."""

    def show_part(self, view: tuple[float, float, float, float] | None) -> None:
        """Show the part (x0, y0, x1, y1) in cells, None for everything, if a picture can show a part."""

    def tick(self) -> None:
        """Update the parts that need not follow every frame; called a few times a second."""


@dataclass(frozen=True)
class Parts:
    """The description of a lab's tab.

    facts: the status bar's entries for a frame; help: rows of the table of keys, in Markdown; pointer: the actions of
    the pointer, in Markdown; values: the initial values that differ from those of `first_values`, or a function that
    returns them; pace: initial steps per frame, None for the highest rate; plays: whether the lab runs as soon as it is
    shown; readout: the right column, None for the default one; code: the files that run for a session's values, None
    for those of the lab's backends; films: planned films by title, each a function from the current values to the first
    and the last values of the film.
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
        """Return the lab's README.md without its title as HTML, with equations typeset."""
        return article(lab.about().partition("\n")[2])


def questions(lab: type[Lab]) -> str:
    """Return the list below "Questions to try" in the lab's README.md as HTML, "" without one."""
    found = _QUESTIONS.search(lab.about())
    return article(found[1]) if found else ""


def parts_of(lab: type[Lab]) -> Parts:
    """Return the lab's own parts, for an external lab from its own package, or else the generic parts."""
    own = f"app.labs.{lab.LAB}" if lab in LABS else lab.PACKAGE
    name = f"{own}.parts" if find_spec(own) and find_spec(f"{own}.parts") else "app.labs.plain.parts"
    parts: Parts = import_module(name).PARTS
    return parts


def labs_with_tabs() -> tuple[tuple[type[Lab], ...], list[str]]:
    """Return the labs that have a tab, and an error message for each external lab without one.

    The parts are imported here, because the browser does not know a model that is defined after the page was sent.
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
    """Return the initial values of a tab: those of its parts, and the best available backend; others keep defaults."""
    own = parts.values() if callable(parts.values) else parts.values
    name = own.get("backend", preferred(lab.backends()).name)
    return {**own, **values_on(lab, name, {**lab.param.values(), **own})}
