"""What a planned film can be of: time, one parameter, the way between states, or what the lab itself proposes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import panel as pn
import panel_material_ui as pmui
import param

from app.controls import column
from app.export.fields import Whole, button, row
from app.export.subject import Moment, Subject
from app.markup import quiet
from app.theme import stylesheet
from app.views import Ends
from app.widgets import FULL
from compute.export.film import Film, Key
from compute.export.scene import Scene, SceneError

MOST_KEYS = 12
KEYS_TITLE, ONE_TITLE = "From state to state", "One parameter"


@dataclass(frozen=True)
class Plan:
    """A film without what all films have: its scene, keys and steps from frame to frame."""

    scene: Scene
    keys: tuple[Key, ...] = ()
    every: int = 0

    def film(self, frames: int, rate: float, easing: str) -> Film:
        """The film; SceneError says what is wrong with it."""
        return Film(self.scene, frames, rate, self.keys, self.every, easing)


class Way(Protocol):
    """One kind of film. `panel`: its own fields."""

    panel: Any

    def plan(self, moment: Moment) -> Plan:
        """What is filmed, as the lab stands at `moment`; SceneError if that is nothing."""


@dataclass
class Time:
    """A lab that goes on by itself: from here on, or from its beginning."""

    begin: bool
    every: Any = field(init=False)
    panel: Any = field(init=False)

    def __post_init__(self) -> None:
        self.every = Whole("Steps from frame to frame", 20, 1, 10**6)
        self.panel = column(self.every.panel)

    def plan(self, moment: Moment) -> Plan:
        """From the lab's beginning everything that was done to it on the way happens again."""
        scene = replace(moment.scene, steps=0) if self.begin else moment.scene
        return Plan(scene, every=self.every.value)


class Proposed:
    """A way that the lab itself proposes."""

    panel = None

    def __init__(self, ends: Ends) -> None:
        self._ends = ends

    def plan(self, moment: Moment) -> Plan:
        """From the first values to the last."""
        return Plan(moment.scene, keys_of(moment.scene, *self._ends(moment.current.values)))


class One:
    """One parameter from a value to another."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        known = {parameter.label or name: name for name, parameter in numbers_of(subject).items()}
        self.name = pmui.Select(
            label="Parameter", options=known, value=next(iter(known.values())), size="small", **FULL
        )
        self.ends = [
            pmui.LiteralInput(label=words, value=0.0, type=(float, int), size="small", width=176, margin=(6, 8))
            for words in ("from", "to")
        ]
        self.name.param.watch(lambda event: self._fill(), "value")
        self.panel = column(self.name, row(*self.ends))
        self._fill()

    def _fill(self) -> None:
        """From the value it has now, or the lowest, to its upper bound."""
        value, (low, high) = self._subject.session.values[self.name.value], self._bounds()
        first = next(number for number in (value, low, 0.0) if number is not None)
        self.ends[0].value, self.ends[1].value = first, high if high is not None else first

    def _bounds(self) -> tuple[Any, Any]:
        return numbers_of(self._subject)[self.name.value].bounds or (None, None)

    def plan(self, moment: Moment) -> Plan:
        """A whole number stays whole."""
        name = self.name.value
        first, last = (end.value for end in self.ends)
        if first is None or last is None:
            raise SceneError(f"{name} needs two numbers, from and to")
        return Plan(moment.scene, keys_of(moment.scene, {name: first}, {name: last}))


class Keys:
    """States that were kept one by one; the film leads through all of them."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._kept: list[dict[str, Any]] = []
        self._words = pn.pane.HTML("", stylesheets=[stylesheet()], margin=(0, 8), sizing_mode="stretch_width")
        add = button("Add what is shown now", "add", self.add, filled=False)
        clear = button("Clear", "delete", self.clear, filled=False)
        self.panel = column(row(add, clear), self._words)
        self._say()

    def add(self) -> None:
        """Keep the present state as the next key."""
        if len(self._kept) < MOST_KEYS:
            self._kept.append(dict(self._subject.session.values))
        self._say()

    def clear(self) -> None:
        """Forget all of them."""
        self._kept.clear()
        self._say()

    def plan(self, moment: Moment) -> Plan:
        """Evenly from each state to the next."""
        if len(self._kept) < 2:
            raise SceneError(f"a film from state to state needs at least two of them, not {len(self._kept)}")
        return Plan(moment.scene, keys_of(moment.scene, *self._kept))

    def _say(self) -> None:
        words = "No state yet: set one, add it, set the next." if not self._kept else f"{len(self._kept)} states"
        if len(self._kept) >= 2:
            changed = sorted(changing(self._kept))
            words += f", changing {', '.join(changed)}" if changed else ", all alike"
        self._words.object = quiet(words)


def keys_of(scene: Scene, *states: Mapping[str, Any]) -> tuple[Key, ...]:
    """Keys at equal distances, with the values in which the states differ, those of the screen left out.

    SceneError if they do not differ at all.
    """
    names = changing(states) - scene.kind.sized()
    if not names:
        raise SceneError("nothing changes from the first state of the film to its last")
    last = len(states) - 1
    return tuple(Key(number / last, {name: state[name] for name in names}) for number, state in enumerate(states))


def changing(states: Any) -> set[str]:
    """Names of values that are not the same in all states."""
    first = states[0]
    return {name for state in states for name in state if state[name] != first[name]}


def numbers_of(subject: Subject) -> dict[str, Any]:
    """The parameters that a film can change evenly."""
    known: Mapping[str, Any] = subject.lab.param.objects("existing")
    screen = subject.lab.sized() | {"device_index"}
    return {name: one for name, one in known.items() if isinstance(one, param.Number) and name not in screen
            and not isinstance(one, param.Boolean)}  # fmt: skip


def ways_of(subject: Subject, proposed: Mapping[str, Ends]) -> dict[str, Callable[[], Way]]:
    """The kinds of film there are for a lab, by what they are called."""
    found: dict[str, Callable[[], Way]] = {title: partial(Proposed, ends) for title, ends in proposed.items()}
    if not subject.lab.ENDS:
        found |= {"Time, from here on": partial(Time, False), "Time, from the start": partial(Time, True)}
    if numbers_of(subject):
        found[ONE_TITLE] = partial(One, subject)
    return found | {KEYS_TITLE: partial(Keys, subject)}
