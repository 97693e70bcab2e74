"""Earlier fields of a lab on a grid, which undo restores.

A field is copied to the host before a stroke, an action of LOSING, another preset or a restored state changes it.
Redo restores the field that an undo replaced. A brush stroke, or the drag of a preset's option, is one change even if
it consists of many requests. A lab keeps at most MOST_KEPT fields and MOST_BYTES, dropping the oldest; all labs of a
process together keep at most the server's setting `memory`. All bytes count, including pictures and histories; shared
objects count once. The lab reports that older fields were dropped. Kept fields are lost with a change of the grid or
the engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol
from uuid import uuid4
from weakref import WeakSet

import numpy as np
import param

from compute.devices.devices import Host
from compute.lab.history import Entry
from compute.lab.limits import MIB, limit
from compute.lab.loaded import kept_bytes

LOSING = ("reset", "rollback", "load_image", "forget_image")
PAUSE = 1.0  # s: a later change of the same option is a separate change, not part of the same drag
KEPT_SHARE = 0.25  # of the free main memory: larger fields are not kept
MOST_KEPT = 30  # fields
MOST_BYTES = 128 * MIB  # of all fields together, except that one is always kept
ENTRY_BYTES, POINT_BYTES = 500, 160  # estimates of Python's memory for a history entry, and for a point (x, y) in it


class UndoableLab(Protocol):
    """The part of a lab on a grid that its undo history uses. run: id of its unbroken run of steps."""

    INITIAL: ClassVar[tuple[str, ...]]
    run: str
    ny: int
    nx: int
    dtype: str
    steps: int
    history: Any

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state."""

    def origin_of(self, initial: Mapping[str, Any], snapshot: Mapping[str, Any]) -> str:
        """Return the origin of a field, as text."""


@dataclass(frozen=True, eq=False)
class EarlierField:
    """A field before a change. initial: its values of the parameters INITIAL; snapshot: its state.

    source: the origin of the field, as text; sizes: bytes, by id, of its objects that other fields may share.
    """

    source: str
    initial: Mapping[str, Any]
    snapshot: dict[str, Any]
    sizes: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for state in filter(None, (self.snapshot, self.snapshot.get("saved"))):
            self.sizes.update(_sizes(state))

    @property
    def words(self) -> str:
        """The field as text, for example "gaussian at step 500"."""
        return f"{self.source} at step {self.snapshot['steps']}"


def _sizes(state: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield the id and the bytes of the large parts of a snapshot: its arrays, picture, and history."""
    for name, part in state.items():
        if name == "history":
            yield from ((id(entry), _entry_bytes(entry)) for entry in part.entries)
        elif name != "saved":
            yield id(part), kept_bytes([part])


def _entry_bytes(entry: Entry) -> int:
    """Estimate the bytes of a history entry from its number of points and its texts."""
    arguments = entry.get("with", {})
    texts = sum(len(value) for value in arguments.values() if isinstance(value, str))
    return ENTRY_BYTES + texts + POINT_BYTES * len(arguments.get("points", ()))


_HISTORIES: WeakSet[UndoHistory] = WeakSet()  # of all labs of this process


def _fit_together() -> None:
    """Drop fields of the largest histories in this process until all histories fit in the setting `memory`."""
    sizes = {each: each.held for each in _HISTORIES}
    most = limit("memory") * MIB
    while sizes and sum(sizes.values()) > most:
        largest = max(sizes, key=sizes.__getitem__)
        if not largest.give_up_one():
            return
        sizes[largest] = largest.held


class UndoHistory:
    """The undo history of a lab. past, future: the fields for undo and redo, the next one last; name: id of the latest
    undo or redo, "" before the first; gone: text that says why older fields were dropped, "" if none were; clock: in
    seconds.
    """

    def __init__(self, lab: UndoableLab, names: Sequence[str] = ()) -> None:
        """names: the parameters to keep with a field, by default the lab's INITIAL."""
        self._lab, self._names = lab, tuple(names) or lab.INITIAL
        self.past: list[EarlierField] = []
        self.future: list[EarlierField] = []
        self.name = self.gone = ""
        self._cause = ""  # the change for which the latest past field was kept, if later requests can belong to it
        self._first_run = ""  # run of the field with which the lab was opened
        self.clock: Callable[[], float] = time.monotonic
        self._changed = 0.0  # time of the last change of options of the initial field
        self._resting = False
        _HISTORIES.add(self)

    @property
    def undo_words(self) -> str:
        """The field that an undo would restore, as text; "" if none."""
        return self.past[-1].words if self.past else ""

    @property
    def redo_words(self) -> str:
        """The field that a redo would restore, as text; "" if none."""
        return self.future[-1].words if self.future else ""

    def forget(self, why: str) -> None:
        """Drop all fields and note the reason."""
        self.gone = why if self.past or self.future else self.gone
        self.past, self.future, self._cause = [], [], ""

    def close(self) -> None:
        """Drop all fields."""
        self.past, self.future = [], []

    def begin(self) -> None:
        """Note that the lab was opened or has another grid: its initial field was not chosen by a user."""
        self._first_run = self._lab.run

    def reseed(self, events: Sequence[param.parameterized.Event]) -> None:
        """Keep the field before changed parameters replace it; the drag of a slider is one change.

        A drag ends with a pause longer than PAUSE, no matter how many steps a running lab makes during the drag.
        """
        if self.clock() > self._changed + PAUSE:
            self._cause = ""
        options = ",".join(event.name for event in events if event.name != "preset")
        chosen = any(event.name == "preset" for event in events) and self._lab.run != self._first_run
        self.keep(*events, cause="" if chosen else options, untouched=chosen)

    def reseeded(self) -> None:
        """Note that the field was replaced: a pause is measured from now, however long the replacement took."""
        self._changed = self.clock()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Keep nothing in the block, in which a history is replayed."""
        self._resting = True
        try:
            yield
        finally:
            self._resting = False

    def keep(self, *events: param.parameterized.Event, cause: str = "", untouched: bool = False) -> None:
        """Keep the field before a change. events: changes of parameters that were already made.

        cause: identifies requests of the same change, such as the parts of a stroke; "" for a separate change;
        untouched: keep the field even if it can be recreated with one press of a button.
        """
        if self._resting or (cause and cause == self._cause) or not (untouched or self._touched):
            return
        present = self._present({event.name: event.old for event in events})
        self.future.clear()
        self._cause = cause if present else ""
        if present:
            self.past.append(present)
            self._trim()
        else:
            self.past.clear()
            self.gone = "there is not enough memory for a field of this size"

    @property
    def _touched(self) -> bool:
        """Whether the field cannot be recreated with one press of a button."""
        lab = self._lab
        return bool(lab.steps or lab.history.entries or lab.history.missing)

    @contextmanager
    def around(self, action: str, arguments: Mapping[str, Any]) -> Iterator[None]:
        """Run the lab's `action` in the block and keep the field that it changes, unless the action is refused."""
        with self.unless_refused():
            if action == "paint":
                self._cause = "" if arguments.get("begins", True) else self._cause
                self.keep(cause="stroke", untouched=True)
            elif action in LOSING:
                self.keep(untouched=action != "reset")
            yield

    @contextmanager
    def unless_refused(self) -> Iterator[None]:
        """Restore the kept fields if the block raises."""
        before = self.past[:], self.future[:], self._cause, self.gone
        try:
            yield
        except Exception:
            self.past, self.future, self._cause, self.gone = before
            raise

    def back(self) -> EarlierField:
        """Return the field to restore, and keep the present one for redo. Raise ValueError if none is kept."""
        return self._swap(self.past, self.future, "nothing to undo")

    def forth(self) -> EarlierField:
        """Return the field of the last undo. Raise ValueError if none was undone, or another change followed."""
        return self._swap(self.future, self.past, "nothing to redo")

    def _swap(self, here: list[EarlierField], there: list[EarlierField], needs: str) -> EarlierField:
        if not here:
            raise ValueError(needs + f" ({self.gone})" * bool(self.gone))
        present = self._present({})
        wanted = here.pop()
        if present:
            there.append(present)
            _fit_together()
        else:
            there.clear()
        self._cause, self.name = "", uuid4().hex
        return wanted

    def _trim(self) -> None:
        """Drop this lab's oldest fields beyond its limits, except the latest; then apply the limit of all labs."""
        while len(self.past) > 1 and (len(self.past) > MOST_KEPT or self.held > MOST_BYTES):
            del self.past[0]
            self.gone = f"older fields were discarded: the limit is {MOST_KEPT} fields or {MOST_BYTES // MIB} MB"
        _fit_together()

    def give_up_one(self) -> bool:
        """Drop the field farthest from the present; return False without one."""
        if not (self.past or self.future):
            return False
        del (self.past if len(self.past) >= len(self.future) else self.future)[0]
        allowed = f"{limit('memory'):,} MiB on this server (its setting memory)"
        self.gone = f"older fields were discarded: the limit of all pages is {allowed}"
        return True

    @property
    def held(self) -> int:
        """Bytes of all fields; a shared object counts once."""
        known: dict[int, int] = {}
        for each in (*self.past, *self.future):
            known |= each.sizes
        return sum(known.values())

    def _present(self, before: Mapping[str, Any]) -> EarlierField | None:
        """Return the lab's present field, with `before` for values that have changed since; None if memory is short."""
        lab = self._lab
        if lab.ny * lab.nx * np.dtype(lab.dtype).itemsize > KEPT_SHARE * Host().free_bytes():
            return None
        initial, snapshot = {name: before.get(name, getattr(lab, name)) for name in self._names}, lab.snapshot()
        return EarlierField(lab.origin_of(initial, snapshot), initial, snapshot)
