"""How a lab came to its present state, as plain values: what a file needs so that the state can be made again."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from compute.lab import Lab

MOST_ENTRIES = 5000
MOST_CHARACTERS = 500_000  # of a history as JSON
LONG = f"more happened since the reset than a file keeps: {MOST_ENTRIES} entries, {MOST_CHARACTERS // 1000} kB"
LOADED = "uploaded data"
GIVEN = "the field was given as an array"

ALWAYS = ("backend",)  # written even at its default: a page opens with another one where there is a GPU

Entry = Mapping[str, Any]
Entries = tuple[Entry, ...]


@dataclass(frozen=True)
class History:
    """values: parameters that are not at their default, and those of ALWAYS; those that the history changes as they
    were at step 0; steps: done since then; missing: "" or, in words, what a file cannot hold of the state.

    entries: what happened on the way, in order, each entry for JSON: {"step": n, "set": {parameter: value, …}} or
    {"step": n, "do": action, "with": {argument: value, …}}.
    """

    values: Mapping[str, Any]
    steps: int = 0
    entries: Entries = ()
    missing: str = ""


def plain_history(kind: type[Lab], values: Mapping[str, Any]) -> History:
    """Return the history of a lab that its values alone make. Values that JSON cannot hold, as files, are missing."""
    changed = {
        name: value for name, value in values.items()
        if name in ALWAYS or not _same(value, kind.param[name].default)
    }  # fmt: skip
    held = {name: value for name, value in changed.items() if is_plain(value)}
    lost = ", ".join(str(kind.param[name].label) for name in changed if name not in held)
    return History(held, missing=f"{LOADED}: {lost}" if lost else "")


@dataclass
class StepHistory:
    """What happened to a state since its reset, each event with its step: the state can be made again from that.

    start: values at step 0; now: those on which steps depend, as the last step had them; missing: "", or why the
    entries do not tell everything.
    """

    start: dict[str, Any]
    now: dict[str, Any]
    entries: list[Entry] = field(default_factory=list)
    missing: str = ""
    length: int = 0  # characters of the entries as JSON

    def note(self, step: int, values: Mapping[str, Any]) -> None:
        """Before anything is done with `values`, of some or all of `now`: which of them are others than before."""
        changed = {name: value for name, value in values.items() if value != self.now[name]}
        self.now.update(changed)
        begins = self._beginning() if step == 0 else ()
        self.start.update({name: value for name, value in changed.items() if name in begins})
        later = {name: value for name, value in changed.items() if name not in begins}
        if not is_plain(later):
            self.lose(LOADED)
        elif later:
            self._add({"step": step, "set": later})

    def _beginning(self) -> Collection[str]:
        """The values that, changed before the first step, count as those that the state began with."""
        return self.now.keys()

    def did(self, step: int, action: str, arguments: Mapping[str, Any]) -> None:
        """An action that changed the state."""
        self._add({"step": step, "do": action, "with": arguments})

    def lose(self, why: str) -> None:
        """Something happened that cannot be written down."""
        self.missing, self.entries, self.length = self.missing or why, [], 0

    def _add(self, entry: Entry) -> None:
        if self.missing:
            return
        self.entries.append(entry)
        self.length += len(json.dumps(entry)) + 2
        if len(self.entries) > MOST_ENTRIES or self.length > MOST_CHARACTERS:
            self.lose(LONG)

    def as_plain(self, kind: type[Lab], values: Mapping[str, Any], steps: int) -> History:
        """Return it as plain values, for a lab of that kind with the present `values`, of which some may be unused."""
        whole = self.copy()
        whole.note(steps, {name: values[name] for name in whole.now})
        plain = plain_history(kind, values if whole.missing else {**values, **whole.start})
        missing = whole.missing or whole._unrepeatable()  # noqa: SLF001 - a copy of this one
        return replace(plain, steps=steps, entries=tuple(whole.entries), missing=missing or plain.missing)

    def _unrepeatable(self) -> str:
        """Why the same entries would make another state; "" if they make the same."""
        return ""

    def copy(self) -> Self:
        """One that goes on by itself."""
        return replace(self, start=dict(self.start), now=dict(self.now), entries=list(self.entries))


def is_plain(value: object) -> bool:
    """Whether JSON can hold `value`, a tuple as a list."""
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and is_plain(part) for name, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return all(is_plain(part) for part in value)
    return value is None or isinstance(value, bool | int | float | str)


def _same(value: object, default: object) -> bool:
    """Without asking arrays that may be inside."""
    return type(value) is type(default) and is_plain(value) and value == default
