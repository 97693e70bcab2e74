"""The history of a scene: checked when it comes from a file, and retold to a lab at the right steps."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from compute.export.errors import SceneError, short
from compute.history import MOST_CHARACTERS, MOST_ENTRIES, Entries, Entry
from compute.lab import Lab

if TYPE_CHECKING:
    from compute.export.scene import Scene

MOST_STEPS = 10**7
SLICE = 64  # steps of a lab in one call

Told = Callable[[float], None]  # is told which part is done, from 0 to 1


def checked(kind: type[Lab], document: object) -> Entries:
    """A history from JSON; SceneError says which entry is wrong. Bounds of the values are for `Scene.check`."""
    if not isinstance(document, list) or len(document) > MOST_ENTRIES:
        raise SceneError(f"history must be a list of at most {MOST_ENTRIES} entries, not {short(document)}")
    if len(json.dumps(document)) > MOST_CHARACTERS + 2:
        raise SceneError(f"history has at most {MOST_CHARACTERS:,} characters")
    last = 0
    for number, entry in enumerate(document):
        try:
            last = _require(kind, entry, last, first=not number)
        except ValueError as error:
            raise SceneError(f"history, entry {number}: {error}") from error
    return tuple(document)


def _require(kind: type[Lab], entry: object, last: int, first: bool) -> int:
    """The entry's step."""
    if not isinstance(entry, dict) or set(entry) not in ({"step", "set"}, {"step", "do", "with"}):
        raise SceneError(f"it must have a step with set, or with do and with, not {short(entry)}")
    step, values = entry["step"], entry.get("set", entry.get("with"))
    if type(step) is not int or not last <= step <= MOST_STEPS:
        raise SceneError(f"step must be a whole number from {last} to {MOST_STEPS}, not {short(step)}")
    if not isinstance(values, dict):
        raise SceneError(f"it must hold an object, not {short(values)}")
    names = set(values) if "set" in entry else {str(entry["do"])}
    known = set(kind.HISTORY_NAMES) & set(kind.param if "set" in entry else kind.ACTIONS)
    if not names or not names <= known:
        raise SceneError(f"it must be of {', '.join(sorted(known)) or 'nothing'}, not {short(sorted(map(str, names)))}")
    if "do" in entry:
        kind.require_entry(entry["do"], values)
        if entry["do"] == kind.FIRST and not (first and step == 0):
            raise SceneError(f"{kind.FIRST} can only be the first entry, at step 0")
    return step


def stages(values: Mapping[str, Any], history: Entries) -> Iterator[dict[str, Any]]:
    """All values after each entry that sets some."""
    now = dict(values)
    for entry in history:
        if "set" in entry:
            now.update(entry["set"])
            yield dict(now)


def begun(scene: Scene, values: Mapping[str, Any] | None = None) -> Run:
    """The scene's lab at its beginning, perhaps with other values."""
    return Run(scene.opened(scene.values if values is None else values), scene.history)


class Run:
    """A new lab on its way through what is to happen to it: to any step, never back."""

    def __init__(self, lab: Lab, history: Entries = ()) -> None:
        self.lab, self.steps = lab, 0
        self._coming: deque[Entry] = deque(history)

    def to(self, steps: int, progress: Told = lambda _: None) -> None:
        """Let a lab that ends come to its end; another one go on to step `steps`, with what happened up to then."""
        if self.lab.ENDS:
            while not self.lab.resting:
                self.lab.advance(SLICE)
                progress(self.lab.headway)
            return
        while self._coming and self._coming[0]["step"] <= steps:
            entry = self._coming.popleft()
            self._advance(entry["step"], steps, progress)
            self.lab.replay(entry)
        self._advance(steps, steps, progress)

    def _advance(self, to: int, end: int, progress: Told) -> None:
        while self.steps < to:
            count = min(SLICE, to - self.steps)
            self.lab.advance(count)
            self.steps += count
            progress(self.steps / end)

    def close(self) -> None:
        """Close the lab."""
        self.lab.close()
