"""How a lab came to its present state, as plain values: what a file needs so that the state can be made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compute.lab import Lab

MOST_ENTRIES = 5000
MOST_CHARACTERS = 500_000  # of a history as JSON

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
    return History(held, missing=f"data that was loaded from elsewhere: {lost}" if lost else "")


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
