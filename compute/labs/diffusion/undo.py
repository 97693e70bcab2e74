"""The field that was replaced last: kept on the host, so that it can be brought back once.

Actions of LOSING, another preset and a restored state replace the field. It is kept if more than a press of a
button has gone into it: a preset as it was made is not, so that looking through presets drops nothing that was
computed. What is kept outlasts neither another grid nor another engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import param

from compute.devices import Host

if TYPE_CHECKING:
    from compute.labs.diffusion import Diffusion

LOSING = ("reset", "rollback", "load_image", "forget_image")
SHARE = 0.25  # of the free main memory, that a field may take which is kept


@dataclass(frozen=True)
class Lost:
    """A field that was replaced. initial: the parameters of INITIAL that it began with; snapshot: the state."""

    initial: Mapping[str, Any]
    snapshot: dict[str, Any]

    @property
    def words(self) -> str:
        """As in "gaussian at step 500"."""
        source = "your image" if self.snapshot["image"] else self.initial["preset"]
        return f"{source} at step {self.snapshot['steps']}"


class Undo:
    """Of one lab. lost: what can come back, None for nothing; name: of the last undo, "" before the first."""

    def __init__(self, lab: Diffusion) -> None:
        self._lab = lab
        self.lost: Lost | None = None
        self.name = ""

    @property
    def words(self) -> str:
        """What would come back, "" for nothing."""
        return self.lost.words if self.lost else ""

    def keep(self, *events: param.parameterized.Event) -> None:
        """The field is about to be replaced, after `events`, which have changed parameters already."""
        lab = self._lab
        if lab.steps or lab.history.entries or lab.history.missing:
            self.lost = self._present({event.name: event.old for event in events})

    @contextmanager
    def around(self, action: str) -> Iterator[None]:
        """The lab's `action` is done in the block; what it replaces is kept, unless it is refused."""
        before = self.lost
        if action in LOSING:
            self.keep()
        try:
            yield
        except Exception:
            self.lost = before
            raise

    def back(self) -> Lost:
        """What is to come back, which the present state takes the place of; ValueError if nothing is kept."""
        if self.lost is None:
            raise ValueError("undo needs a field that was lost; none is kept")
        lost, self.lost, self.name = self.lost, self._present({}), uuid4().hex
        return lost

    def _present(self, before: Mapping[str, Any]) -> Lost | None:
        """The lab as it is, `before` the values that have changed since; None if memory is short."""
        lab = self._lab
        if lab.ny * lab.nx * np.dtype(lab.dtype).itemsize > SHARE * Host().free_bytes():
            return None
        return Lost({name: before.get(name, getattr(lab, name)) for name in lab.INITIAL}, lab.snapshot())
