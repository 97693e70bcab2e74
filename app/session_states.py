"""The states of a session, and what a move to another engine remembers. session.py draws how one leads to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from compute.engine import Checkpoint, LabHandle, messages
from compute.lab import Lab

HOST = "host"

Request: TypeAlias = Callable[[LabHandle], object]


@dataclass(frozen=True)
class Update:
    """A request for values; a lab that could not be opened remembers them for the next time."""

    values: Mapping[str, Any]

    def __call__(self, handle: LabHandle) -> None:
        """Ask for them."""
        handle.update(**self.values)


class State:
    """How a session is."""


@dataclass(frozen=True)
class Opening(State):
    """The lab is asked for; there is no frame yet."""


@dataclass(frozen=True)
class Live(State):
    """The lab shows frames; note: what its engine said last, why it was paused or restarted."""

    note: str = ""


@dataclass(frozen=True)
class Restarting(State):
    """The engine has died and is being replaced; the lab goes on from its last checkpoint."""

    reason: str


@dataclass(frozen=True)
class Broken(State):
    """The engine has given up; `play` tries it again."""

    reason: str


@dataclass(frozen=True)
class Closed(State):
    """Everything was given back."""


@dataclass(eq=False)
class Moving(State):
    """The lab is being opened on the engine `target`.

    cause: the values that name it, taken back if it fails; waiting: what was asked for meanwhile, in order, and wanted:
    the values among it; key, handle: of the new lab once it is asked for; broken, restarting: why the old lab cannot go
    on, or not yet.
    """

    target: str
    cause: dict[str, Any]
    waiting: list[Request] = field(default_factory=list)
    wanted: dict[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    key: int = 0
    handle: LabHandle | None = None
    broken: str = ""
    restarting: str = ""


@dataclass(frozen=True)
class FellBack(messages.Event):
    """The engine of a GPU has given up for `reason`; the lab goes on on the host, from its last checkpoint."""

    reason: str


class Values(Mapping[str, Any]):
    """Every parameter of the lab with the value that it has or was asked to have; always the present ones."""

    def __init__(self, read: Callable[[], dict[str, Any]]) -> None:
        self._read = read

    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


def host_values(lab: type[Lab], values: Mapping[str, Any]) -> dict[str, Any]:
    """What `values` must become for the host's engine to take them: another backend, and a kernel that it has."""
    ready = [one.name for one in lab.backends() if one.device == HOST and one.missing is None]
    usual = lab.param["backend"].default
    name = usual if usual in ready or not ready else ready[0]
    known = "variant" not in values or values["variant"] in ("", *lab.variants(name))
    return {"backend": name} | ({} if known else {"variant": ""})
