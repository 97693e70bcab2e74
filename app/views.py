"""What the page shows of a lab: its stage, its controls, its line in the status bar, its keys.

A lab has parts of its own if there is a folder app/labs/<its name>/ with a PARTS in parts.py; any other lab gets
pictures of its rasters and controls made from its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, TypeAlias

from app.controls import Controls
from app.notices import Notices
from app.session import Session
from compute.backends import preferred
from compute.frames import Frame
from compute.lab import Lab

Ends: TypeAlias = Callable[[Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any]]]
Room: TypeAlias = tuple[int, int]  # width and height in px
Fact: TypeAlias = tuple[str, str, str]  # label, value, and "", "warn" or "bad"


class Column(Protocol):
    """The right column of a lab; made with (session, stage). See app.readout."""

    panel: Any

    def frame(self, frame: Frame) -> None:
        """One painted frame, its timing complete with the delivery."""

    def tick(self) -> None:
        """Four times a second."""

    def event(self, event: Any) -> None:
        """An engine event of the live lab."""

    def dress(self, dark: bool) -> None:
        """Follow the page's scheme."""

    def close(self) -> None:
        """The session is over."""


class Stage(Protocol):
    """The main area of a lab; made with (session, room). It shows the session's frames and acknowledges them."""

    panel: Any
    on_ready: Callable[[], object]  # called once the browser has drawn the plots, so that frames may come

    def fit(self, width: int, height: int) -> None:
        """Use a main area of width x height px."""

    def dress(self, dark: bool, presenter: bool) -> None:
        """Follow the page's scheme and type size."""

    def tick(self) -> None:
        """A few times a second: what need not follow every frame."""


@dataclass(frozen=True)
class Parts:
    """Everything a tab needs to know of its lab beyond the lab itself.

    facts: the status bar's entries for a frame; keys: key -> what Controls.press gets (app.browser says how keys are
    written); help: rows of the table of keys, in Markdown; pointer: what the pointer does, in Markdown; values: those
    that differ from what `first_values` begins with, or a function that finds them; pace: steps a frame at the start,
    None for as fast as it goes; plays: whether the lab runs as soon as it is shown; readout: the right column, None for
    the usual;
    films: ways of a planned film by title, each from the present values to the first and the last ones of the film.
    """

    stage: Callable[[Session, Room], Stage]
    controls: Callable[[Session, Any, Notices], Controls]
    facts: Callable[[Frame], Sequence[Fact]]
    keys: Mapping[str, str]
    help: str
    pointer: str
    values: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict)
    pace: int | None = None
    plays: bool = True
    films: Mapping[str, Ends] = field(default_factory=dict)
    readout: Callable[[Session, Any], Column] | None = None


def view_of(lab: type[Lab]) -> Parts:
    """The parts of `lab`: its own, or the plain ones."""
    own = f"app.labs.{lab.LAB}"
    name = f"{own}.parts" if find_spec(own) and find_spec(f"{own}.parts") else "app.labs.plain.parts"
    parts: Parts = import_module(name).PARTS
    return parts


def first_values(lab: type[Lab], parts: Parts) -> dict[str, Any]:
    """What a tab of `lab` begins with: its parts' values, on the best backend that is ready; the rest are defaults."""
    own = parts.values() if callable(parts.values) else parts.values
    return {"backend": preferred(lab.backends()).name, **own}
