"""How many frames a second: of each encoder, and of as many workers as there are cores or GPUs for."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compute.export import writers
from compute.export.film import Film
from compute.export.render import Pixels, png
from compute.export.render import current_pixels as picture
from compute.export.render_pool import VISIBLE, LocalPool, Made, frame
from compute.export.scene import Scene, SceneError
from compute.timings import Spread

ENCODED = Film(Scene("diffusion", {}, (512, 512)), 60, every=20)
DEEP = {"center": ("-0.7436438870", "0.1318259042"), "zoom": "1e6", "max_iterations": 20_000, "colouring": "smooth"}
SCENES = {
    "light": Scene("mandelbrot", {"colouring": "smooth"}, (360, 640)),
    "heavy": Scene("mandelbrot", DEEP, (1080, 1920)),
}
LEAST = 3  # frames of each worker in a window, however long they take
PNG = ".png"


@dataclass(frozen=True)
class Encoder:
    """Of one format: frames a second, and bytes a frame. missing: why it was not measured, or ""."""

    ending: str
    rate: Spread
    frame_bytes: float
    missing: str = ""


@dataclass(frozen=True)
class Pool:
    """Of so many workers on one scene: frames a second while all of them were at work; devices: what they used."""

    scene: str
    workers: int
    rate: Spread
    devices: tuple[str, ...]


# -- encoders


def encoders(rounds: int) -> list[Encoder]:
    """60 frames of a field of 512 x 512 cells, by every encoder in turn, in another order each round."""
    frames, order = list(_frames(ENCODED)), [PNG, *writers.WRITERS]
    rates: dict[str, list[float]] = {ending: [] for ending in order}
    sizes, missing = dict.fromkeys(order, 0), dict.fromkeys(order, "")
    shuffle = random.Random(0).shuffle
    for number in range(rounds + 1):
        shuffle(order)
        for ending in [each for each in order if not missing[each]]:
            try:
                seconds, sizes[ending] = _encoded(ending, frames)
            except SceneError as error:
                missing[ending] = str(error)
                continue
            if number:  # the first round may still load libraries
                rates[ending].append(len(frames) / seconds)
    return [Encoder(e, Spread.of(rates[e]), sizes[e] / len(frames), missing[e]) for e in (PNG, *writers.WRITERS)]


def _frames(film: Film) -> Iterator[Pixels]:
    """Made here, one after the other."""
    from compute.export.render import Replay

    with closing(Replay.of(film.scene)) as run:
        for number in range(film.frames):
            run.to(film.at(number).steps)
            yield picture(run.lab, film.at(number))


def _encoded(ending: str, frames: Sequence[Pixels]) -> tuple[float, int]:
    """(seconds, bytes) of all frames."""
    with tempfile.TemporaryDirectory() as folder:
        path, start = Path(folder) / f"film{ending}", time.perf_counter()
        if ending == PNG:
            path.write_bytes(b"".join(png(frame) for frame in frames))
        else:
            writers.write(path, iter(frames), ENCODED.rate, "")
        return time.perf_counter() - start, path.stat().st_size


# -- workers


@dataclass(frozen=True)
class Trial:
    """The same frame again and again, each with who made it and when."""

    scene: Scene
    count: int = 100_000
    sequential: bool = False
    task: str = "compute.export.benching:timed"

    def plain(self) -> dict[str, Any]:
        """See Work."""
        return Film(self.scene, 1).plain()


def timed(plain: Mapping[str, Any], number: int) -> Made:
    """Make the frame; what is sent is who made it, with what, from when to when (seconds of the machine's clock)."""
    start = time.monotonic()
    frame(plain, 0)
    device = os.environ.get(VISIBLE, "")
    return number, json.dumps([os.getpid(), device, start, time.monotonic()]).encode()


def pools(scenes: Sequence[str], counts: Sequence[int], values: Mapping[str, Any], gpu: bool, rounds: int,
          seconds: float) -> Iterator[Pool]:  # fmt: skip
    """Frames a second by each number of workers, in another order each round.

    Counted is the time in which all workers are at work, of `seconds` at least; what they need to start is not.
    """
    shuffle = random.Random(0).shuffle
    for name in scenes:
        scene = Scene("mandelbrot", {**SCENES[name].values, **values}, SCENES[name].size)
        rates: dict[int, list[float]] = {count: [] for count in counts}
        used: dict[int, set[str]] = {count: set() for count in counts}
        for _ in range(rounds):
            order = list(counts)
            shuffle(order)
            for count in order:
                rate, devices = _steady(Trial(scene), LocalPool(count, gpu), seconds)
                rates[count].append(rate)
                used[count] |= devices
        for count in counts:
            yield Pool(name, count, Spread.of(rates[count]), tuple(sorted(used[count])))


def _steady(trial: Trial, by: LocalPool, seconds: float) -> tuple[float, set[str]]:
    """(frames a second while all workers are at work, the GPUs they used)."""
    shots: dict[int, list[tuple[float, float]]] = {}
    devices: set[str] = set()
    with closing(by.make(trial, range(trial.count))) as coming:
        for _, data in coming:
            pid, device, start, end = json.loads(data)
            shots.setdefault(pid, []).append((start, end))
            devices.add(device)
            if len(shots) == by.workers and min(map(len, shots.values())) > LEAST and _window(shots)[2] > seconds:
                break
    begin, until, length = _window(shots)
    return sum(_inside(shot, begin, until) for each in shots.values() for shot in each) / length, devices


def _window(shots: Mapping[int, list[tuple[float, float]]]) -> tuple[float, float, float]:
    """(begin, end, length) of the time in which every worker has made its first frame and not yet its last."""
    begin = max(each[0][1] for each in shots.values())
    until = min(each[-1][1] for each in shots.values())
    return begin, until, until - begin


def _inside(shot: tuple[float, float], begin: float, until: float) -> float:
    """Which part of a frame was made between the two moments."""
    start, end = shot
    return max(0.0, min(end, until) - max(start, begin)) / max(end - start, 1e-9)
