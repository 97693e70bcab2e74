"""Films computed from parameters: kinds, length and size; their cost can be estimated before a job makes them.

A film shows the evolution over time, a range of one parameter, a path between states, or a film that the lab proposes.
Each is a FilmKind with additional fields; FilmSection has the fields common to all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import panel as pn
import panel_material_ui as pmui
import param
from msgspec import structs

from app.features.export.exports import Exports, waiting_for_turn
from app.features.export.fields import (
    ExportSection,
    IntegerField,
    PartSelect,
    button,
    choose,
    file_name,
    film_formats,
    heights,
    row,
)
from app.features.export.source import ExportSource, Moment, bounds_of, parameters_of
from app.page.markup import quiet
from app.page.theme import html_pane
from app.page.widgets import FULL
from app.tab.controls import column
from app.tab.lab_view import FilmEnds
from compute.export import tasks
from compute.export.film import EASINGS, MOST_FRAMES, RATES, Film, Key
from compute.export.jobs import QUICK, Job
from compute.export.scene import Scene, SceneError, without

MOST_KEYS = 12
TRYING = "trying a few frames …"
KEYS_TITLE, ONE_TITLE = "From state to state", "One parameter"


class FilmSection(ExportSection):
    """The fields for a film of one lab. proposed: films that the lab proposes, by title."""

    TITLE = "Film"

    def __init__(self, source: ExportSource, exports: Exports, proposed: dict[str, FilmEnds]) -> None:
        self._source, self._exports = source, exports
        self._makers = film_kinds(source, proposed)
        self._kinds: dict[str, FilmKind] = {}
        self._guess: tuple[Film, Job] | None = None
        self.of = pmui.Select(label="Film of", options=list(self._makers), size="small", **FULL)
        self.of.param.watch(lambda event: self._offer(), "value")
        self.what = PartSelect(source)
        self.frames = IntegerField("Frames", 150, 1, MOST_FRAMES)
        self.rate = IntegerField("Frames a second", 30, int(RATES[0]), int(RATES[1]))
        self.height, self.form = heights(720, source.lab), film_formats()
        self.easing = pmui.Select(label="Pace", options=list(EASINGS), value=EASINGS[0], size="small", **FULL)
        self.estimate = button("Estimate", "timer", self._estimate, filled=False)
        self.make = button("Make the film", "movie", self._make)
        self._own = pn.Column(margin=0, sizing_mode="stretch_width")
        self._words = html_pane("", margin=(0, 8))
        numbers, shape = row(self.frames.panel, self.rate.panel), row(self.height, self.form)
        lines = (numbers, shape, row(self.what.field, self.easing), row(self.estimate, self.make))
        self.panel = column(self.of, self._own, *lines, self._words)
        self._follow(self.panel)
        self._offer()

    def tick(self) -> None:
        """Update the choices and show the result of an estimate."""
        self.make.disabled = self.estimate.disabled = not self.what.tick()
        self._kind.tick()
        self._read()

    def close(self) -> None:
        """Cancel the estimate; called when the lab is closed."""
        self._forget()

    # -- internal

    @property
    def _kind(self) -> FilmKind:
        return self._kinds.setdefault(self.of.value, self._makers[self.of.value]())

    def _offer(self) -> None:
        new, panel = self.of.value not in self._kinds, self._kind.panel
        self._own.objects = [] if panel is None else [panel]
        if new and panel is not None:
            self._follow(panel)

    def _follow(self, panel: Any) -> None:
        """Discard the estimate whenever a field within `panel` is edited."""
        for widget in panel.select(lambda part: "value" in part.param and "clicks" not in part.param):
            widget.param.watch(self._edited, "value")

    def _edited(self, event: Any) -> None:
        self._forget()
        self._say("")

    def _film(self, moment: Moment) -> Film:
        """Return the film selected by the fields; SceneError for invalid fields. The job checks parameter values."""
        if moment.scene.missing:
            raise SceneError(f"a film is made from parameters alone, and {moment.scene.missing}: record it instead")
        plan = self._kind.plan(moment)
        size = self.what.size(self.height.value)
        plan = replace(plan, scene=structs.replace(plan.scene, size=size, axes=self.what.axes))
        return plan.film(self.frames.value, float(self.rate.value), self.easing.value)

    def _make(self) -> None:
        export = self._exports.add(self._name())

        def job(moment: Moment) -> Job:
            """Return the job that makes the film from the lab's state at `moment`."""
            return Job(partial(tasks.film, self._film(moment), export.path))

        export.order(self._source, self.what.part, job)

    def _name(self) -> str:
        return file_name(self._source.lab, "film", self.form.value)

    def _estimate(self) -> None:
        self._forget()
        self._say(TRYING)
        self._source.ask(self.what.part, self._guessed, self._say)

    def _guessed(self, moment: Moment) -> None:
        self._forget()
        try:
            film = self._film(moment)
        except ValueError as error:
            self._say(str(error))
            return
        job = Job(partial(tasks.guess, film, Path(self._name())), QUICK, client=self._exports)
        self._guess = film, job  # in a new process: its start is part of the estimated time
        self._guess[1].start()

    def _forget(self) -> None:
        """Cancel and discard the estimate."""
        if self._guess is not None:
            self._guess[1].cancel()
            self._guess = None

    def _read(self) -> None:
        if self._guess is None:
            return
        film, guess = self._guess
        if not guess.over:
            self._say(waiting_for_turn(guess) if guess.state == "waiting" else TRYING)
            return
        self._guess = None
        if guess.state == "failed":
            self._say(guess.text)
        elif guess.state == "done":
            later = "" if guess.result.busy else "; longer while a lab runs, which comes first"
            self._say(f"{film.seconds:.3g} s of film: {guess.result.words}{later}")

    def _say(self, words: str) -> None:
        self._words.object = quiet(words)


# -- kinds of film


@dataclass(frozen=True)
class FilmPlan:
    """The part of a film that its kind defines: scene, keys and steps per frame."""

    scene: Scene
    keys: tuple[Key, ...] = ()
    every: int = 0

    def film(self, frames: int, rate: float, easing: str) -> Film:
        """Return the film; raise SceneError for invalid values."""
        return Film(self.scene, frames, rate, self.keys, self.every, easing)


class FilmKind(Protocol):
    """One kind of film. `panel`: its additional fields, or None."""

    panel: Any

    def tick(self) -> None:
        """Update the choices; called a few times a second while the card is open."""
        return

    def plan(self, moment: Moment) -> FilmPlan:
        """Return the plan for the lab's state at `moment`; raise SceneError if no film is possible."""


@dataclass
class TimeFilm(FilmKind):
    """Film of a lab's evolution, from its current state or from the start."""

    begin: bool
    every: Any = field(init=False)
    panel: Any = field(init=False)

    def __post_init__(self) -> None:
        self.every = IntegerField("Steps from frame to frame", 20, 1, 10**6)
        self.panel = column(self.every.panel)

    def plan(self, moment: Moment) -> FilmPlan:
        """Continue from `moment`, or replay the lab's history from the start."""
        scene = structs.replace(moment.scene, steps=0) if self.begin else moment.scene
        return FilmPlan(scene, every=self.every.value)


class ProposedFilm(FilmKind):
    """Film between two states that the lab proposes."""

    panel = None

    def __init__(self, ends: FilmEnds) -> None:
        self._ends = ends

    def plan(self, moment: Moment) -> FilmPlan:
        """Interpolate from the first values to the last."""
        return keyed(moment.scene, *self._ends(moment.current.values))


class ParameterFilm(FilmKind):
    """Film over a range of one parameter."""

    def __init__(self, source: ExportSource) -> None:
        self._source = source
        known = numbers_of(source)
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
        """Set the range from the current value, or the lower bound, to the upper bound."""
        value, (low, high) = self._source.session.values[self.name.value], bounds_of(self._source, self.name.value)
        first = next(number for number in (value, low, 0.0) if number is not None)
        self.ends[0].value, self.ends[1].value = first, high if high is not None else first

    def tick(self) -> None:
        """Update the choices."""
        choose(self.name, numbers_of(self._source))

    def plan(self, moment: Moment) -> FilmPlan:
        """Interpolate between the two numbers; integers stay integers."""
        name = self.name.value
        first, last = (end.value for end in self.ends)
        if first is None or last is None:
            raise SceneError(f"{name} needs two numbers, from and to")
        return keyed(moment.scene, {name: first}, {name: last})


class KeyStatesFilm(FilmKind):
    """Film through a list of stored states."""

    def __init__(self, source: ExportSource) -> None:
        self._source = source
        self._kept: list[dict[str, Any]] = []
        self._words = html_pane("", margin=(0, 8))
        add = button("Add the current state", "add", self.add, filled=False)
        clear = button("Clear", "delete", self.clear, filled=False)
        self.panel = column(row(add, clear), self._words)
        self._say()

    def add(self) -> None:
        """Store the current state as the next key."""
        if len(self._kept) < MOST_KEYS:
            self._kept.append(dict(self._source.session.values))
        self._say()

    def clear(self) -> None:
        """Remove all stored states."""
        self._kept.clear()
        self._say()

    def plan(self, moment: Moment) -> FilmPlan:
        """Interpolate between consecutive states, with equal time for each pair."""
        if len(self._kept) < 2:
            raise SceneError(f"a film from state to state needs at least two of them, not {len(self._kept)}")
        return keyed(moment.scene, *self._kept)

    def _say(self) -> None:
        words = "No state yet: set one, add it, set the next." if not self._kept else f"{len(self._kept)} states"
        if len(self._kept) >= 2:
            changed = sorted(changing(self._kept))
            words += f", changing {', '.join(changed)}" if changed else ", all alike"
        self._words.object = quiet(words)


def keyed(scene: Scene, *states: Mapping[str, Any]) -> FilmPlan:
    """Return the plan of a film from state to state; history entries for parameters that the keys set are removed."""
    keys = keys_of(scene, *states)
    history = tuple(without(scene.history, keys[0].values.keys()))
    return FilmPlan(structs.replace(scene, history=history), keys)


def keys_of(scene: Scene, *states: Mapping[str, Any]) -> tuple[Key, ...]:
    """Return keys at equal distances with the values in which the states differ, except for those of the screen.

    Raise SceneError if the states do not differ.
    """
    names = changing(states) - set(scene.kind.PICTURE_SIZE)
    if not names:
        raise SceneError("nothing changes from the first state of the film to its last")
    last = len(states) - 1
    return tuple(Key(number / last, {name: state[name] for name in names}) for number, state in enumerate(states))


def changing(states: Any) -> set[str]:
    """Return the names of values that differ between the states."""
    first = states[0]
    return {name for state in states for name in state if state[name] != first[name]}


def numbers_of(source: ExportSource) -> dict[str, str]:
    """Return the names of the parameters that a film can interpolate, by label."""
    numbers = parameters_of(source, param.Number)
    no = {*source.lab.PICTURE_SIZE, *parameters_of(source, param.Boolean).values()}
    return {label: name for label, name in numbers.items() if name not in no}


def film_kinds(source: ExportSource, proposed: Mapping[str, FilmEnds]) -> dict[str, Callable[[], FilmKind]]:
    """Return the kinds of film of a lab by title."""
    found: dict[str, Callable[[], FilmKind]] = {title: partial(ProposedFilm, ends) for title, ends in proposed.items()}
    if not source.lab.ENDS:
        found |= {"Time, from here on": partial(TimeFilm, False), "Time, from the start": partial(TimeFilm, True)}
    if numbers_of(source):
        found[ONE_TITLE] = partial(ParameterFilm, source)
    return found | {KEYS_TITLE: partial(KeyStatesFilm, source)}
