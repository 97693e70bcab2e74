"""The states of a session, their texts, and the status that its parts share and change.

app/tab/session.py draws the transitions between the states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import param

from app.tab.publisher import Publisher
from compute.engine import Checkpoint, LabHandle, messages
from compute.lab.frames import Frame

if TYPE_CHECKING:
    from app.tab.shown_lab import OpenedLab

LabRequest: TypeAlias = Callable[[LabHandle], object]


class SessionState:
    """Base class of the states of a session."""


@dataclass(frozen=True)
class Opening(SessionState):
    """The lab was requested, but has sent no frame."""


@dataclass(frozen=True)
class Live(SessionState):
    """The lab shows frames; note: the engine's last message, why the lab was paused or restarted."""

    note: str = ""


@dataclass(frozen=True)
class Restarting(SessionState):
    """The engine has died and is being replaced; the lab will continue from its last checkpoint."""

    reason: str


@dataclass(frozen=True)
class Broken(SessionState):
    """The engine has given up; `play` tries it again."""

    reason: str


@dataclass(frozen=True)
class Failed(Broken):
    """The engine failed twice while it worked for this lab, and closed it. Other labs are not affected.

    `play` opens the lab again from its initial state; after a second failure with the same values it uses the defaults.
    """


@dataclass(frozen=True)
class Closed(SessionState):
    """All resources are released."""


@dataclass(eq=False)
class Moving(SessionState):
    """The lab is being opened on the engine `target`.

    cause: the values that select the engine, reverted if the move fails; queue: the requests made during the move, in
    order; changes: the values among them; new: the new lab after its request; broken: why the old lab cannot continue;
    restarting: why its engine is being restarted.
    """

    target: str
    cause: dict[str, Any]
    queue: list[LabRequest] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    new: OpenedLab | None = None
    broken: str = ""
    restarting: str = ""

    def values(self, shown: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the shown lab with those that the move requests."""
        return {**shown, **self.cause, **self.changes}


@dataclass(frozen=True)
class FellBack(messages.Event):
    """The engine of a GPU has given up for `reason`; the lab continues on the host, from its last checkpoint."""

    reason: str


@dataclass(frozen=True)
class UpdateRequest:
    """A request for values; a lab that could not be opened stores them until it is opened again."""

    values: Mapping[str, Any]

    def __call__(self, handle: LabHandle) -> None:
        """Request the values."""
        handle.update(**self.values)


class SessionStatus(param.Parameterized):
    """The status of a session, which its transitions change.

    busy: description of a long operation of the engine for this lab, or ""; playing: whether the lab should run, in any
    state; latest: the frame sent last; answered: False from a change until the next frame. The publishers call on the
    document's loop. events: engine events; value_changes: values that were changed without their widgets, because
    others were refused or a scene was loaded.
    """

    WHERE: ClassVar[tuple[str, ...]] = ("backend", "device_index", "variant")  # values that select engine and kernel
    where: tuple[str, ...]  # the same and the lab's number type, which a lab needs to be opened on another engine

    state = param.ClassSelector(class_=SessionState, default=Opening())
    busy = param.String(default="")
    playing = param.Boolean(default=False)

    def __init__(self) -> None:
        super().__init__()
        self.latest: Frame | None = None
        self.answered = False
        self.events: Publisher[messages.Event] = Publisher()
        self.value_changes: Publisher[Mapping[str, Any]] = Publisher()

    @property
    def phase(self) -> str:
        """The state in a word: starting, running, paused, moving, restarting, broken, failed or closed."""
        match self.state:
            case Live():
                return "running" if self.playing else "paused"
            case Opening():
                return "starting"
            case other:
                return type(other).__name__.lower()

    @property
    def detail(self) -> str:
        """An explanation of the state; "" for none."""
        if self.busy:
            return f"{self.busy} …"
        match self.state:
            case Moving(target=target):
                return f"moving to {target}"
            case Failed(reason=text):
                return f"{text}. Press Run to start it again from its initial state"
            case Restarting(reason=text) | Broken(reason=text) | Live(note=text):
                return text
        return ""

    def settle(self, note: str = "") -> None:
        """Set the state of a lab without a move or a fault."""
        self.state = Live(note) if self.latest is not None else Opening()
