"""How long a film will take, and how large it will be: guessed from a few of its frames that are really made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numba
import numpy as np

from compute import scratch
from compute.devices import cpu_count
from compute.export import writers
from compute.export.film import Film
from compute.export.history import Run, begun
from compute.export.paint import Pixels, png, shown

BUDGET = 10.0  # seconds that a guess may take, roughly
PLACES = 3  # of a film that are looked at: its beginning, its middle, its end
STARTING = 2.0  # seconds until the first worker makes its first frame
REHEARSED = 0.2  # part of the budget: a first frame that took longer is not made twice to leave compiling out


@dataclass(frozen=True)
class Estimate:
    """seconds: until the file is there; bytes: of it; kept: bytes of the frames beside it until then; frames_measured:
    what it was guessed from.
    """

    seconds: float
    bytes: int
    frames_measured: int
    kept: int = 0

    @property
    def words(self) -> str:
        """It in a sentence."""
        made = f"{self.frames_measured} frame{'s' * (self.frames_measured != 1)}"
        return f"about {_long(self.seconds)} and {self.bytes / 1e6:.3g} MB, guessed from {made}"


@dataclass(frozen=True)
class _Shot:
    number: int
    seconds: float
    picture: Pixels


Pairs = list[tuple[_Shot, ...]]


class _Enough(Exception):
    """A frame takes too long to be made as a whole."""


def estimate(film: Film, path: Path, workers: int = 1, budget: float = BUDGET) -> Estimate:
    """What Shoot needs for `film` with so many workers, whose cores are shared out as in the pool.

    A frame that takes long is made in part, and its time guessed from that. SceneError for a name that is no film's.
    """
    ending = writers.ending(path)
    film.check()
    with _sharing(1 if film.sequential else workers):
        before, pairs = _followed(film, budget) if film.sequential else (0.0, _looked_at(film, budget))
    shots = {shot.number: shot for pair in pairs for shot in pair}
    numbers = sorted(shots)
    each = np.interp(np.arange(film.frames), numbers, [shots[number].seconds for number in numbers])
    abreast = 1 if film.sequential else min(workers, film.frames)
    size, encoding = _encoded(film, ending, pairs)
    kept = film.frames * float(np.mean([len(png(shot.picture)) for shot in shots.values()]))
    seconds = STARTING + before + float(each.sum()) / abreast + encoding * film.frames
    return Estimate(seconds, round(size), len(shots), round(kept))


def _looked_at(film: Film, budget: float) -> Pairs:
    """Two neighbours, or one frame alone, at a few places of a film whose frames are made one by one."""
    first = _shot(film, 0, budget)
    if first.seconds < REHEARSED * budget:
        first = _shot(film, 0, budget)
    share = budget / (2 * PLACES)
    pairs: Pairs = []
    for begin in _places(film.frames):
        one = first if begin == 0 else _shot(film, begin, share)
        pairs.append((one, _shot(film, begin + 1, share)) if begin + 1 < film.frames else (one,))
    return pairs


def _places(frames: int) -> list[int]:
    return sorted({round(part * max(0, frames - 2)) for part in np.linspace(0, 1, PLACES)})


def _shot(film: Film, number: int, longest: float) -> _Shot:
    scene, start = film.at(number), perf_counter()
    with closing(begun(scene)) as run:
        part = _part(run, scene.steps, longest)
        took = (perf_counter() - start) / part
        start = perf_counter()
        picture = shown(run.lab, scene)
        png(picture)
        return _Shot(number, took + perf_counter() - start, picture)


def _part(run: Run, steps: int, longest: float) -> float:
    """Let it run for `longest` seconds at most; which part it has done."""
    start, done = perf_counter(), 1.0

    def watch(part: float) -> None:
        nonlocal done
        if perf_counter() - start > longest and 0 < part < 1:
            done = part
            raise _Enough

    with suppress(_Enough):
        run.to(steps, watch)
    return done


def _followed(film: Film, budget: float) -> tuple[float, Pairs]:
    """Seconds to the first frame of a film whose frames follow from one another, and neighbours as far as it goes."""
    pairs: Pairs = []
    with closing(begun(film.at(0))) as run:
        start = perf_counter()
        part = _part(run, film.scene.steps, budget / 2)
        before, end = (perf_counter() - start) / part, perf_counter() + budget / 2
        for begin in _places(film.frames) if part == 1 else [0]:
            if pairs and perf_counter() + pairs[-1][-1].seconds * (begin - pairs[-1][-1].number) > end:
                break
            pairs.append(tuple(_next(film, run, number) for number in range(begin, min(begin + 2, film.frames))))
    return before, pairs


def _next(film: Film, run: Run, number: int) -> _Shot:
    """Frame `number`; the one after the state that there is where the first frame is too far away."""
    cut = run.steps < film.scene.steps
    before, start = run.steps, perf_counter()
    run.to(before + film.every if cut else film.at(number).steps)
    each = (perf_counter() - start) / max(1, run.steps - before) * film.every
    start = perf_counter()
    picture = shown(run.lab, film.at(number))
    png(picture)
    return _Shot(number, each + perf_counter() - start, picture)


def _encoded(film: Film, ending: str, pairs: Pairs) -> tuple[float, float]:
    """(bytes of the film, seconds for a frame): a frame alone costs more than one that follows another."""
    plan = json.dumps(film.plain(), ensure_ascii=False)
    alone, after, seconds = [], [], []
    with scratch.lent("estimate") as folder:
        path = folder / f"a{ending}"
        for pair in pairs:
            sizes = []
            for count in range(1, len(pair) + 1):
                start = perf_counter()
                writers.WRITERS[ending](path, iter([shot.picture for shot in pair[:count]]), film.rate, plan)
                seconds.append((perf_counter() - start) / count)
                sizes.append(path.stat().st_size)
            alone.append(sizes[0])
            after.append(max(0, sizes[-1] - sizes[0]))
    return float(np.mean(alone) + (film.frames - 1) * np.mean(after)), min(seconds)


@contextmanager
def _sharing(workers: int) -> Iterator[None]:
    """With the threads that each of so many workers has."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(before, max(1, cpu_count() // workers)))
    try:
        yield
    finally:
        numba.set_num_threads(before)


def _long(seconds: float) -> str:
    """A time in the unit that fits."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
