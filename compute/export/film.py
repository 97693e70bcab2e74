"""A planned film: a scene, what changes on the way, and at which pace. Each frame is a scene of its own.

`frame` and `frame_after` make one; film_renderer.py makes the film.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from typing import Any

from msgspec import Struct, structs

from compute.documents import typed
from compute.export.render import Replay, current_pixels, pixels, png
from compute.export.render_pool import MadePart, MakePart
from compute.export.scene import Scene, SceneError, contents, known_values, scene_of

SCHEMA = "fieldlab-film/1"
MOST_FRAMES = 100_000
RATES = (1.0, 240.0)  # frames a second
EASINGS = ("smooth", "even")


class Key(Struct, frozen=True, forbid_unknown_fields=True):
    """What holds at one moment: part of the film from 0 to 1, and values of the lab by name."""

    at: float
    values: Mapping[str, Any]


class Film(Struct, frozen=True, forbid_unknown_fields=True):
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
        scene = structs.replace(self.scene, steps=self.scene.steps + index * self.every)
        if not self.keys:
            return scene
        moment = eased(index / max(1, self.frames - 1), self.easing)
        before, after = next(pair for pair in pairwise(self.keys) if moment <= pair[1].at)
        part = (moment - before.at) / (after.at - before.at)
        return structs.replace(scene, values={**scene.values, **self._between(before, after, part)})

    def _between(self, before: Key, after: Key, part: float) -> dict[str, Any]:
        """Defaults that matter for the way, as the zoom of a pan, are those of the scene."""
        first, last = ({**self.scene.values, **key.values} for key in (before, after))
        mixed = self.scene.kind.between(first, last, part)
        return {name: mixed[name] for name in before.values}

    def check(self) -> None:
        """Raise ValueError, naming what is wrong, unless all scenes at the keys, and the last one, can be shown."""
        if self.every and self.scene.kind.ENDS:
            raise SceneError(f"every is for a lab that never ends; {self.scene.lab} does")
        for key in self.keys or (Key(0, {}),):
            structs.replace(self.scene, values={**self.scene.values, **key.values}).check()
        self.at(self.frames - 1)

    def plain(self) -> dict[str, Any]:
        """Return the film as values for JSON; `film_of` reads them."""
        keys = [{"at": float(key.at), "values": dict(key.values)} for key in self.keys]  # 0 and 0.0 are two texts
        rest = {"frames": self.frames, "rate": self.rate, "every": self.every, "easing": self.easing}
        return {"schema": SCHEMA, "scene": self.scene.plain(), "keys": keys, **rest}


def eased(moment: float, easing: str) -> float:
    """Where the way is at `moment` of the time, both from 0 to 1."""
    return moment if easing == "even" else moment * moment * (3 - 2 * moment)


def film_of(document: Mapping[str, Any]) -> Film:
    """The film that `plain` wrote; SceneError says which entry is wrong. "made", where and when, is not read."""
    entries = {"frames": 1, **contents(document, SCHEMA)}
    scene = scene_of(entries.get("scene"))
    film = typed({**entries, "scene": scene}, Film, "a film", SceneError)
    return structs.replace(film, keys=tuple(Key(key.at, known_values(scene.kind, key.values)) for key in film.keys))


# -- its frames


def frame(plain: Mapping[str, Any], number: int) -> MadePart:
    """Make one frame of the film `plain` from nothing."""
    return number, png(pixels(film_of(plain).at(number)))


_running: dict[str, Any] = {}  # of a sequential film: its plan, and the replay that has come so far


def frame_after(plain: Mapping[str, Any], number: int) -> MadePart:
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
