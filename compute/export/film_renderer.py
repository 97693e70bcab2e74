"""Make a film from its plan, and estimate the time this takes.

FilmRenderer stores every finished frame, so that an interrupted film can be resumed. `estimate` predicts the time
and the file size from a few frames that it makes. Film workers have low priority, so that next to a running lab a film
may take many times as long as on an idle machine: the estimate gives both times. The idle time is the processor time of
the thread that makes the frames: the thread takes part in every kernel on all cores, and on an idle machine it never
waits. The ratio of wall time to processor time shows how busy the machine is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, thread_time

import numba
import numpy as np

from compute.devices.devices import cpu_count
from compute.export.film import Film
from compute.export.formats import FilmFormat, describe, film_format
from compute.export.render import Pixels, Replay, current_pixels, png, read_png
from compute.export.render_pool import RenderPool, ResumableParts
from compute.files.files import whole_file
from compute.machine import scratch

BUDGET = 10.0  # approximate seconds for an estimate
PLACES = 3  # of a film that are sampled: start, middle and end
STARTING = 2.0  # default seconds until the first worker starts its first frame
BUSY = 1.5  # slowdown from which both times are given
REHEARSED = 0.2  # fraction of the budget: a slower first frame is not repeated to exclude compilation


@dataclass(frozen=True)
class FilmProgress:
    """Progress of a film: finished frames, their total number, and seconds since the start."""

    done: int
    frames: int
    seconds: float
    doing: str = "frames"


class FilmRenderer:
    """Makes one film. Its frames stay on disk until the film is written."""

    def __init__(self, film: Film, path: Path, command: str = "") -> None:
        film.check()
        self._format = film_format(path)
        self._format.require(film.scene.size, film.rate)
        self.film, self.path, self.command = film, path, command
        self.parts = ResumableParts(path, film, "frames", ".png")

    def run(self, pool: RenderPool, progress: Callable[[FilmProgress], None] = lambda _: None) -> None:
        """Make the missing frames, then the film with its `<name>.json`.

        After an interruption or a failure, finished frames stay in a folder for the next run. Raise SceneError if the
        folder belongs to another film or another run uses it.
        """
        start = perf_counter()

        def report(done: int, doing: str = "frames") -> None:
            """Report the finished frames and the elapsed time."""
            progress(FilmProgress(done, self.film.frames, perf_counter() - start, doing))

        with self.parts.alone():
            with self.parts.room():
                self.parts.make(pool, report)
                self._encode(start, report)
            self.parts.clear()

    def missing(self) -> list[int]:
        """Return the numbers of the frames that are not made yet."""
        return self.parts.missing()

    def _encode(self, start: float, report: Callable[[int, str], None]) -> None:
        """Write the film and its `<name>.json`; both are replaced together."""
        plain = self.film.plain()
        with whole_file(self.path) as made:
            self._format.write(made, self._frames(report), self.film.rate, json.dumps(plain, ensure_ascii=False))
            describe(plain, self.path, self.command, perf_counter() - start, made)

    def _frames(self, report: Callable[[int, str], None]) -> Iterator[Pixels]:
        for number in range(self.film.frames):
            report(number, "encoding")
            yield read_png(self.parts.read(number))


# -- estimate of the time


@dataclass(frozen=True)
class Estimate:
    """Predicted time and size of a film. seconds: until the file is written, on an idle machine; bytes: its size.

    kept: bytes of the frames on disk until then; frames_measured: number of sampled frames; slowed: factor on the
    seconds under the current load.
    """

    seconds: float
    bytes: int
    frames_measured: int
    kept: int = 0
    slowed: float = 1.0

    @property
    def busy(self) -> bool:
        """Return whether the machine is busy enough to report both times."""
        return self.slowed >= BUSY

    @property
    def words(self) -> str:
        """Return the estimate as a sentence."""
        made = f"{self.frames_measured} frame{'s' * (self.frames_measured != 1)}"
        slowed = seconds_words(self.slowed * self.seconds)
        now = f" on an idle machine, {slowed} under the present load," if self.busy else ""
        return f"about {seconds_words(self.seconds)}{now} and {self.bytes / 1e6:.3g} MB, estimated from {made}"


@dataclass(frozen=True)
class Cost:
    """Elapsed seconds, and the processor seconds of this thread in them."""

    passed: float = 0.0
    own: float = 0.0

    @staticmethod
    def since(start: Cost) -> Cost:
        """Return the cost since `start`, which was Cost.now()."""
        return Cost(perf_counter() - start.passed, thread_time() - start.own)

    @staticmethod
    def now() -> Cost:
        """Return the readings of both clocks."""
        return Cost(perf_counter(), thread_time())

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.passed + other.passed, self.own + other.own)

    def beyond(self, other: Cost) -> Cost:
        """Return the cost in excess of `other`, at least 0."""
        return Cost(max(0.0, self.passed - other.passed), max(0.0, self.own - other.own))

    def __mul__(self, factor: float) -> Cost:
        return Cost(self.passed * factor, self.own * factor)


@dataclass(frozen=True)
class _TimedFrame:
    number: int
    cost: Cost
    picture: Pixels


Pairs = list[tuple[_TimedFrame, ...]]


class _OutOfTime(Exception):
    """A frame takes too long to be made completely."""


def estimate(film: Film, path: Path, workers: int = 1, budget: float = BUDGET, starting: float = STARTING) -> Estimate:
    """Return the estimate for `film` with `workers` workers, which share the cores as in the pool.

    budget: approximate seconds for the estimate; starting: seconds until the first worker starts, on an idle machine. A
    slow frame is made in part, and its time extrapolated. Raise SceneError for a suffix of no film format.
    """
    form = film_format(path)
    film.check()
    with _sharing(1 if film.sequential else workers):
        before, pairs = _sampled_in_sequence(film, budget) if film.sequential else _sampled_frames(film, budget)
    shots = {shot.number: shot for pair in pairs for shot in pair}
    numbers = sorted(shots)
    spent = before
    for shot in shots.values():
        spent += shot.cost
    alone = (lambda cost: cost.passed) if _on_gpu(film) else (lambda cost: min(cost.own, cost.passed))
    each = np.interp(np.arange(film.frames), numbers, [alone(shots[number].cost) for number in numbers])
    abreast = 1 if film.sequential else min(workers, film.frames)
    files = {number: png(shot.picture) for number, shot in shots.items()}
    size, encoding = _encoded(film, form, [[files[shot.number] for shot in pair] for pair in pairs])
    kept = film.frames * float(np.mean([len(file) for file in files.values()]))
    seconds = starting + alone(before) + float(each.sum()) / abreast + encoding * film.frames
    slowed = max(1.0, spent.passed / max(alone(spent), 1e-9))
    return Estimate(seconds, round(size), len(shots), round(kept), slowed)


def _on_gpu(film: Film) -> bool:
    """Return whether the frames are made on a GPU, while the thread only waits."""
    name = film.scene.values.get("backend", film.scene.kind.param["backend"].default)
    return any(one.name == name and one.kind == "gpu" for one in film.scene.kind.backends())


def _sampled_frames(film: Film, budget: float) -> tuple[Cost, Pairs]:
    """Return the cost of loading the kernels, and pairs of neighbouring frames at a few places of a film.

    For films with independent frames; a film of one frame has a pair of one.
    """
    first, loading = _timed_frame(film, 0, budget), Cost()
    if first.cost.passed < REHEARSED * budget:
        again = _timed_frame(film, 0, budget)
        first, loading = again, first.cost.beyond(again.cost)
    share = budget / (2 * PLACES)
    pairs: Pairs = []
    for begin in _places(film.frames):
        one = first if begin == 0 else _timed_frame(film, begin, share)
        pairs.append((one, _timed_frame(film, begin + 1, share)) if begin + 1 < film.frames else (one,))
    return loading, pairs


def _places(frames: int) -> list[int]:
    return sorted({round(part * max(0, frames - 2)) for part in np.linspace(0, 1, PLACES)})


def _timed_frame(film: Film, number: int, longest: float) -> _TimedFrame:
    scene, start = film.at(number), Cost.now()
    with closing(Replay.of(scene)) as run:
        part = _part(run, scene.steps, longest)
        took = Cost.since(start) * (1 / part)
        start = Cost.now()
        picture = current_pixels(run.lab, scene)
        png(picture)
        return _TimedFrame(number, took + Cost.since(start), picture)


def _part(run: Replay, steps: int, longest: float) -> float:
    """Run the replay for `longest` seconds at most; return the finished fraction."""
    start, done = perf_counter(), 1.0

    def watch(part: float) -> None:
        """Stop the replay after `longest` seconds."""
        nonlocal done
        if perf_counter() - start > longest and 0 < part < 1:
            done = part
            raise _OutOfTime

    with suppress(_OutOfTime):
        run.to(steps, watch)
    return done


def _sampled_in_sequence(film: Film, budget: float) -> tuple[Cost, Pairs]:
    """Return the cost up to the first frame of a sequential film, and pairs of frames as the budget allows."""
    pairs: Pairs = []
    with closing(Replay.of(film.at(0))) as run:
        start = Cost.now()
        part = _part(run, film.scene.steps, budget / 2)
        before, end = Cost.since(start) * (1 / part), perf_counter() + budget / 2
        for begin in _places(film.frames) if part == 1 else [0]:
            if pairs and perf_counter() + pairs[-1][-1].cost.passed * (begin - pairs[-1][-1].number) > end:
                break
            pairs.append(tuple(_next(film, run, number) for number in range(begin, min(begin + 2, film.frames))))
    return before, pairs


def _next(film: Film, run: Replay, number: int) -> _TimedFrame:
    """Make frame `number`; if the first frame is too far away, the frame after the current state instead."""
    cut = run.steps < film.scene.steps
    before, start = run.steps, Cost.now()
    run.to(before + film.every if cut else film.at(number).steps)
    each = Cost.since(start) * (film.every / max(1, run.steps - before))
    start = Cost.now()
    picture = current_pixels(run.lab, film.at(number))
    png(picture)
    return _TimedFrame(number, each + Cost.since(start), picture)


def _encoded(film: Film, form: FilmFormat, pairs: Sequence[Sequence[bytes]]) -> tuple[float, float]:
    """Return (bytes of the film, seconds per frame) from PNG frames; first frames are larger than following ones.

    Encoders run in other threads, so wall time is measured; the shortest time is the least disturbed one.
    """
    plan = json.dumps(film.plain(), ensure_ascii=False)
    alone, after, seconds = [], [], []
    with scratch.lent("estimate") as folder:
        path = folder / f"a{form.ending}"
        for pair in pairs:
            sizes = []
            for count in range(1, len(pair) + 1):
                start = perf_counter()
                form.encode(path, map(read_png, pair[:count]), film.rate, plan)
                seconds.append((perf_counter() - start) / count)
                sizes.append(path.stat().st_size)
            alone.append(sizes[0])
            after.append(max(0, sizes[-1] - sizes[0]))
    return float(np.mean(alone) + (film.frames - 1) * np.mean(after)), min(seconds)


@contextmanager
def _sharing(workers: int) -> Iterator[None]:
    """Set Numba's threads to the share of one of `workers` workers in the block."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(before, max(1, cpu_count() // workers)))
    try:
        yield
    finally:
        numba.set_num_threads(before)


def seconds_words(seconds: float) -> str:
    """Return a duration as text in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
