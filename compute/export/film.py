"""The plan of a film: a scene, its changes over time, and the frame rate. Each frame is a scene.

`frame` and `frame_after` make one frame; film_renderer.py makes the film.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from typing import Any

from msgspec import Struct, structs

from compute.export.render import Replay, current_pixels, pixels, png
from compute.export.render_pool import MadePart, MakePart
from compute.export.scene import Scene, SceneError, contents, known_values, scene_of
from compute.files.documents import typed

SCHEMA = "fieldlab-film/1"
MOST_FRAMES = 100_000
RATES = (1.0, 240.0)  # frames per second
EASINGS = ("smooth", "even")


class Key(Struct, frozen=True, forbid_unknown_fields=True):
    """Values of the lab at one moment. at: time from 0 to 1."""

    at: float
    values: Mapping[str, Any]


class Film(Struct, frozen=True, forbid_unknown_fields=True):
    """A film of `frames` pictures at `rate` per second.

    keys: by time, the first at 0, the last at 1, all with the same names; () for a scene that evolves on its own.
    every: steps from one frame to the next of a lab that never ends. easing: "smooth" starts and stops gently, "even"
    has a constant pace.
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
            raise SceneError("a film has steps between its frames (every) or keys, not both")
        moments = [key.at for key in self.keys]
        if moments and (moments[0] != 0 or moments[-1] != 1 or any(a >= b for a, b in pairwise(moments))):
            raise SceneError(f"keys must rise from 0 to 1, not {moments}")
        if len({frozenset(key.values) for key in self.keys}) > 1:
            raise SceneError("all keys must have values for the same names")

    @property
    def seconds(self) -> float:
        """Return the duration in seconds."""
        return self.frames / self.rate

    @property
    def sequential(self) -> bool:
        """Return whether each frame continues from the one before, so that one worker must make all of them."""
        return self.every > 0

    @property
    def count(self) -> int:
        """Return the number of parts, which are its frames."""
        return self.frames

    @property
    def task(self) -> MakePart:
        """Return the function that makes a part."""
        return frame_after if self.sequential else frame

    def at(self, index: int) -> Scene:
        """Return the scene of frame `index`, counted from 0."""
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
        """Interpolate the keys' values. Others that affect the path, as the zoom of a pan, are the scene's."""
        first, last = ({**self.scene.values, **key.values} for key in (before, after))
        mixed = self.scene.kind.between(first, last, part)
        return {name: mixed[name] for name in before.values}

    def check(self) -> None:
        """Raise ValueError, naming the error, unless the scenes at all keys and the last frame can be shown."""
        if self.every and self.scene.kind.ENDS:
            raise SceneError(f"every is for a lab that never ends; {self.scene.lab} does")
        for key in self.keys or (Key(0, {}),):
            structs.replace(self.scene, values={**self.scene.values, **key.values}).check()
        self.at(self.frames - 1)

    def plain(self) -> dict[str, Any]:
        """Return the film as values for JSON; `film_of` reads them."""
        keys = [{"at": float(key.at), "values": dict(key.values)} for key in self.keys]  # as JSON, 0 and 0.0 differ
        rest = {"frames": self.frames, "rate": self.rate, "every": self.every, "easing": self.easing}
        return {"schema": SCHEMA, "scene": self.scene.plain(), "keys": keys, **rest}


def eased(moment: float, easing: str) -> float:
    """Return the position on the path at time `moment`, both from 0 to 1."""
    return moment if easing == "even" else moment * moment * (3 - 2 * moment)


def film_of(document: Mapping[str, Any]) -> Film:
    """Return the film that `plain` wrote. Raise SceneError naming the invalid entry; the entry "made" is ignored."""
    entries = {"frames": 1, **contents(document, SCHEMA)}
    scene = scene_of(entries.get("scene"))
    film = typed({**entries, "scene": scene}, Film, "a film", SceneError)
    return structs.replace(film, keys=tuple(Key(key.at, known_values(scene.kind, key.values)) for key in film.keys))


# -- its frames


def frame(plain: Mapping[str, Any], number: int) -> MadePart:
    """Make one frame of the film `plain`, independent of other frames."""
    return number, png(pixels(film_of(plain).at(number)))


_running: dict[str, Any] = {}  # of a sequential film: its plan and its current replay


def frame_after(plain: Mapping[str, Any], number: int) -> MadePart:
    """Make one frame by continuing from the last one that this process made, if that frame was earlier."""
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
