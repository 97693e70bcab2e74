"""A planned film: a scene, what changes on the way, and at which pace. Each frame is a scene of its own.

`frame` and `frame_after` make one; film_renderer.py makes the film.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from compute.export.render import Replay, current_pixels, pixels, png
from compute.export.render_pool import MakePart, Part
from compute.export.scene import Scene, SceneError, scene_of

SCHEMA = "fieldlab-film/1"
MOST_FRAMES = 100_000
RATES = (1.0, 240.0)  # frames a second
EASINGS = ("smooth", "even")


@dataclass(frozen=True)
class Key:
    """What holds at one moment: part of the film from 0 to 1, and values of the lab by name."""

    at: float
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", float(self.at))  # 0 and 0.0 are two texts in JSON


@dataclass(frozen=True)
class Film:
    """`frames` pictures at `rate` a second. keys: in order of time, the first at 0, the last at 1, all with the same
    names; () for a scene that changes by itself. every: steps from one frame to the next of a lab that never ends.
    easing: "smooth" begins and ends gently, "even" does not.
    """

    scene: Scene
    frames: int
    rate: float = 30.0
    keys: tuple[Key, ...] = ()
    every: int = 0
    easing: str = "smooth"

    def __post_init__(self) -> None:
        if not 1 <= self.frames <= MOST_FRAMES:
            raise SceneError(f"frames must be from 1 to {MOST_FRAMES}, not {self.frames}")
        if not RATES[0] <= self.rate <= RATES[1]:
            raise SceneError(f"rate must be from {RATES[0]:g} to {RATES[1]:g} frames a second, not {self.rate}")
        if self.easing not in EASINGS:
            raise SceneError(f"easing must be one of {', '.join(EASINGS)}, not {self.easing!r}")
        if self.every < 0:
            raise SceneError(f"every must be 0 or more steps, not {self.every}")
        if self.every and self.keys:
            raise SceneError("a film goes on by itself (every) or follows its keys, not both")
        moments = [key.at for key in self.keys]
        if moments and (moments[0] != 0 or moments[-1] != 1 or any(a >= b for a, b in pairwise(moments))):
            raise SceneError(f"keys must rise from 0 to 1, not {moments}")
        if len({frozenset(key.values) for key in self.keys}) > 1:
            raise SceneError("all keys must have values for the same names")

    @property
    def seconds(self) -> float:
        """How long the film is."""
        return self.frames / self.rate

    @property
    def sequential(self) -> bool:
        """Whether a frame follows from the one before it, so that one worker must make all of them."""
        return self.every > 0

    @property
    def count(self) -> int:
        """Parts that it is made of: its frames."""
        return self.frames

    @property
    def task(self) -> MakePart:
        """The function that makes a part."""
        return frame_after if self.sequential else frame

    def at(self, index: int) -> Scene:
        """The scene of frame `index`, from 0 on."""
        if not 0 <= index < self.frames:
            raise IndexError(f"frame must be from 0 to {self.frames - 1}, not {index}")
        scene = replace(self.scene, steps=self.scene.steps + index * self.every)
        if not self.keys:
            return scene
        moment = eased(index / max(1, self.frames - 1), self.easing)
        before, after = next(pair for pair in pairwise(self.keys) if moment <= pair[1].at)
        part = (moment - before.at) / (after.at - before.at)
        return replace(scene, values={**scene.values, **self._between(before, after, part)})

    def _between(self, before: Key, after: Key, part: float) -> dict[str, Any]:
        """Defaults that matter for the way, as the zoom of a pan, are those of the scene."""
        first, last = ({**self.scene.values, **key.values} for key in (before, after))
        mixed = self.scene.kind.between(first, last, part)
        return {name: mixed[name] for name in before.values}

    def check(self) -> None:
        """Raise ValueError, naming what is wrong, unless all scenes at the keys can be shown."""
        if self.every and self.scene.kind.ENDS:
            raise SceneError(f"every is for a lab that never ends; {self.scene.lab} does")
        for key in self.keys or (Key(0, {}),):
            replace(self.scene, values={**self.scene.values, **key.values}).check()

    def plain(self) -> dict[str, Any]:
        """Return the film as values for JSON; `film_of` reads them."""
        keys = [{"at": key.at, "values": dict(key.values)} for key in self.keys]
        rest = {"frames": self.frames, "rate": self.rate, "every": self.every, "easing": self.easing}
        return {"schema": SCHEMA, "scene": self.scene.plain(), "keys": keys, **rest}


def eased(moment: float, easing: str) -> float:
    """Where the way is at `moment` of the time, both from 0 to 1."""
    return moment if easing == "even" else moment * moment * (3 - 2 * moment)


def film_of(document: Mapping[str, Any]) -> Film:
    """The film that `plain` wrote; SceneError says which entry is wrong. "made", where and when, is not read."""
    if document.get("schema") != SCHEMA:
        raise SceneError(f"schema must be {SCHEMA!r}, not {str(document.get('schema'))[:60]!r}")
    unknown = set(document) - {"schema", "scene", "keys", "frames", "rate", "every", "easing", "made"}
    if unknown:
        raise SceneError(f"a film has no entry {min(unknown)!r}")
    scene, keys = document.get("scene"), document.get("keys", [])
    if not isinstance(scene, dict) or not isinstance(keys, list):
        raise SceneError("scene must be an object, and keys a list")
    numbers = {
        name: _number(document, name, default) for name, default in (("frames", 1), ("rate", 30.0), ("every", 0))
    }
    base = scene_of(scene)
    return Film(
        base,
        int(numbers["frames"]),
        float(numbers["rate"]),
        tuple(_key(base, key) for key in keys),
        int(numbers["every"]),
        str(document.get("easing", "smooth")),
    )


def _number(document: Mapping[str, Any], name: str, default: float) -> float:
    value = document.get(name, default)
    whole = isinstance(default, int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise SceneError(f"{name} must be a {'whole ' if whole else ''}number, not {str(value)[:60]!r}")
    return value


def _key(scene: Scene, document: object) -> Key:
    if not isinstance(document, dict) or set(document) != {"at", "values"} or not isinstance(document["values"], dict):
        raise SceneError('a key must be an object {"at": part of the film, "values": {…}}')
    values = scene_of({**scene.plain(), "values": document["values"]}).values
    return Key(float(_number(document, "at", 0.0)), values)


# -- its frames


def frame(plain: Mapping[str, Any], number: int) -> Part:
    """Make one frame of the film `plain` from nothing."""
    return number, png(pixels(film_of(plain).at(number)))


_running: dict[str, Any] = {}  # of a sequential film: its plan, and the replay that has come so far


def frame_after(plain: Mapping[str, Any], number: int) -> Part:
    """Make one frame by going on from the last one that this process made, if that was earlier."""
    scene = film_of(plain).at(number)
    if _running.get("plain") != plain or _running["replay"].steps > scene.steps:
        _close()
        _running.update(plain=plain, replay=Replay.of(scene))
    _running["replay"].to(scene.steps)
    return number, png(current_pixels(_running["replay"].lab, scene))


def _close() -> None:
    if replay := _running.pop("replay", None):
        with closing(replay):
            _running.clear()
