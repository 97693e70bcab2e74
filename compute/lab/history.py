"""The history of a lab's state, as plain values: the contents of a file from which the state can be recomputed."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from compute.lab.lab import Lab

MOST_ENTRIES = 5000
MOST_CHARACTERS = 500_000  # of a history as JSON
LONG = f"more happened since the reset than a file keeps: {MOST_ENTRIES} entries, {MOST_CHARACTERS // 1000} kB"
LOADED = "uploaded data"
GIVEN = "the field was given as an array"

NUMBER_TYPE = "dtype"
PLACE = ("backend", "device_index")  # parameters on which the brush depends
ALWAYS = ("backend",)  # written even at its default: a page on a machine with a GPU starts with another one

Entry = Mapping[str, Any]
Entries = tuple[Entry, ...]


@dataclass(frozen=True)
class History:
    """The plain form of a history.

    values: parameters that differ from their defaults, and those of ALWAYS; parameters that the history changes have
    their value at step 0; steps: computed since then; missing: the part of the state that a file cannot contain, as
    text, or "".

    entries: the changes in order, each entry for JSON: {"step": n, "set": {parameter: value, …}} or
    {"step": n, "do": action, "with": {argument: value, …}}.
    """

    values: Mapping[str, Any]
    steps: int = 0
    entries: Entries = ()
    missing: str = ""


def plain_history(kind: type[Lab], values: Mapping[str, Any]) -> History:
    """Return the history of a lab that depends only on its values; those without a JSON form, as files, are missing."""
    changed = {
        name: value for name, value in values.items()
        if name in ALWAYS or not _same(value, kind.param[name].default)
    }  # fmt: skip
    held = {name: value for name, value in changed.items() if is_plain(value)}
    lost = ", ".join(str(kind.param[name].label) for name in changed if name not in held)
    return History(held, missing=f"{LOADED}: {lost}" if lost else "")


@dataclass
class StepHistory:
    """The changes of a state since its reset, each with its step, from which the state can be recomputed.

    start: values at step 0; now: the values that affect steps, as of the last step; missing: "", or why the entries are
    incomplete.
    """

    start: dict[str, Any]
    now: dict[str, Any]
    entries: list[Entry] = field(default_factory=list)
    missing: str = ""
    length: int = 0  # characters of the entries as JSON

    def note(self, step: int, values: Mapping[str, Any]) -> None:
        """Record the changed ones among `values`, some or all of `now`. Call it before anything is done with them."""
        changed = {name: value for name, value in values.items() if value != self.now[name]}
        self.now.update(changed)
        begins = self._beginning() if step == 0 else ()
        self.start.update({name: value for name, value in changed.items() if name in begins})
        later = {name: value for name, value in changed.items() if name not in begins}
        if not is_plain(later):
            self.mark_incomplete(LOADED)
        elif later:
            self._add({"step": step, "set": later})

    def _beginning(self) -> Collection[str]:
        """Return the names of the values that, if changed before the first step, replace their values in `start`.

        Not the number type, to which the present field is rounded, and after an action not the device that did it.
        """
        late = (NUMBER_TYPE, *PLACE) if self.entries else (NUMBER_TYPE,)
        return [name for name in self.now if name not in late]

    def record_action(self, step: int, action: str, arguments: Mapping[str, Any]) -> None:
        """Record an action that changed the state."""
        self._add({"step": step, "do": action, "with": arguments})

    def mark_incomplete(self, why: str) -> None:
        """Mark the history as incomplete, because of a change that cannot be recorded."""
        self.missing, self.entries, self.length = self.missing or why, [], 0

    def _add(self, entry: Entry) -> None:
        if self.missing:
            return
        self.entries.append(entry)
        self.length += len(json.dumps(entry)) + 2
        if len(self.entries) > MOST_ENTRIES or self.length > MOST_CHARACTERS:
            self.mark_incomplete(LONG)

    def as_plain(self, kind: type[Lab], values: Mapping[str, Any], steps: int) -> History:
        """Return the history as plain values, for a lab of class `kind` with the present `values`, used or not."""
        whole = self.copy()
        whole.note(steps, {name: values[name] for name in whole.now})
        plain = plain_history(kind, values if whole.missing else {**values, **whole.start})
        missing = whole.missing or whole._unrepeatable()  # noqa: SLF001 - a copy of this one
        return replace(plain, steps=steps, entries=tuple(whole.entries), missing=missing or plain.missing)

    def _unrepeatable(self) -> str:
        """Return why the same entries would produce another state; "" if they reproduce it."""
        return ""

    def copy(self) -> Self:
        """Return an independent copy."""
        return replace(self, start=dict(self.start), now=dict(self.now), entries=list(self.entries))


class HistoryRules:
    """How files and links recreate the state of a lab: by the entries of a history, applied to a new lab."""

    def origin(self, lab: Lab) -> dict[str, Any]:
        """Return the snapshot entries that `of` needs of a lab that never ends: steps and history, no array."""
        return {"steps": lab.steps, "history": lab.history.copy()}

    def of(self, kind: type[Lab], values: Mapping[str, Any], snapshot: Mapping[str, Any] | None = None) -> History:
        """Return the history of a lab with these values, up to its `snapshot`; without one, that of a new lab."""
        if snapshot and "history" in snapshot:
            history: StepHistory = snapshot["history"]
            return history.as_plain(kind, values, snapshot["steps"])
        return plain_history(kind, values)

    def require_entry(self, action: str, arguments: Mapping[str, Any]) -> None:
        """Raise ValueError unless the arguments of an entry, which may come from anywhere, are valid."""

    def apply(self, lab: Lab, entry: Entry) -> None:
        """Apply an entry to a lab that has already done the steps before it."""
        if "set" in entry:
            lab.update(**entry["set"])
        else:
            lab.act(entry["do"], **entry["with"])


def is_plain(value: object) -> bool:
    """Return whether JSON can represent `value`, a tuple as a list."""
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and is_plain(part) for name, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return all(is_plain(part) for part in value)
    return value is None or isinstance(value, bool | int | float | str)


def _same(value: object, default: object) -> bool:
    """Return whether two values are equal, without comparing arrays in them."""
    return type(value) is type(default) and is_plain(value) and value == default
