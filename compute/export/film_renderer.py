"""A film from its plan to its file, and how long that will take.

FilmRenderer keeps frames as they are made, so that what was stopped goes on where it was. `estimate` guesses its time,
and the size of its file, from a few frames that are really made. What makes a film lets everything else go first, so
that beside a lab that runs it may take many times as long as alone: both times are given. Alone it takes what the
thread that makes the frames computes: it has its share in every kernel on all cores, and waits for nobody where nothing
else runs. How much more passed by the clock says how busy the machine is.
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

from compute import scratch
from compute.devices import cpu_count
from compute.export.film import Film
from compute.export.formats import FilmFormat, describe, film_format
from compute.export.render import Pixels, Replay, current_pixels, png, read_png
from compute.export.render_pool import RenderPool, ResumableParts
from compute.files import whole_file

BUDGET = 10.0  # seconds that a guess may take, roughly
PLACES = 3  # of a film that are looked at: its beginning, its middle, its end
STARTING = 2.0  # seconds until the first worker makes its first frame, by default
BUSY = 1.5  # times as long as alone: from there on both times are given
REHEARSED = 0.2  # part of the budget: a first frame that took longer is not made twice to leave compiling out


@dataclass(frozen=True)
class FilmProgress:
    """How far a film is: frames that are there, of so many, and seconds since the start."""

    done: int
    frames: int
    seconds: float
    doing: str = "frames"


class FilmRenderer:
    """The making of one film. Its frames are kept until it is there."""

    def __init__(self, film: Film, path: Path, command: str = "") -> None:
        film.check()
        self._format = film_format(path)
        self._format.require(film.scene.size, film.rate)
        self.film, self.path, self.command = film, path, command
        self.parts = ResumableParts(path, film, "frames", ".png")

    def run(self, pool: RenderPool, progress: Callable[[FilmProgress], None] = lambda _: None) -> None:
        """Make the frames that are missing, then the film and `<name>.json` beside it.

        What was made stays in a folder if this is interrupted or fails, and is used the next time. SceneError if that
        is another film's, or another run is making it.
        """
        start = perf_counter()

        def tell(done: int, doing: str = "frames") -> None:
            """Report the frames done so far, and for how long."""
            progress(FilmProgress(done, self.film.frames, perf_counter() - start, doing))

        with self.parts.alone():
            with self.parts.room():
                self.parts.make(pool, tell)
                self._encode(start, tell)
            self.parts.clear()

    def missing(self) -> list[int]:
        """Numbers of the frames that are not there yet."""
        return self.parts.missing()

    def _encode(self, start: float, tell: Callable[[int, str], None]) -> None:
        """The film, and what stands beside it: they change together."""
        plain = self.film.plain()
        with whole_file(self.path) as made:
            self._format.write(made, self._frames(tell), self.film.rate, json.dumps(plain, ensure_ascii=False))
            describe(plain, self.path, self.command, perf_counter() - start, made)

    def _frames(self, tell: Callable[[int, str], None]) -> Iterator[Pixels]:
        for number in range(self.film.frames):
            tell(number, "encoding")
            yield read_png(self.parts.read(number))


# -- how long it will take


@dataclass(frozen=True)
class Estimate:
    """seconds: until the file is there, if nothing else runs; bytes: of it; kept: bytes of the frames beside it until
    then; frames_measured: what it was guessed from; slowed: times as long as alone it takes beside what runs now.
    """

    seconds: float
    bytes: int
    frames_measured: int
    kept: int = 0
    slowed: float = 1.0

    @property
    def busy(self) -> bool:
        """Whether the machine is so busy that it makes a difference."""
        return self.slowed >= BUSY

    @property
    def words(self) -> str:
        """It in a sentence."""
        made = f"{self.frames_measured} frame{'s' * (self.frames_measured != 1)}"
        beside = seconds_words(self.slowed * self.seconds)
        now = f" if nothing else runs, {beside} beside what runs now," if self.busy else ""
        return f"about {seconds_words(self.seconds)}{now} and {self.bytes / 1e6:.3g} MB, guessed from {made}"


@dataclass(frozen=True)
class Cost:
    """Seconds that passed, and those of them in which this thread computed."""

    passed: float = 0.0
    own: float = 0.0

    @staticmethod
    def since(start: Cost) -> Cost:
        """What has been spent since `start`, which was Cost.now()."""
        return Cost(perf_counter() - start.passed, thread_time() - start.own)

    @staticmethod
    def now() -> Cost:
        """Where both clocks stand."""
        return Cost(perf_counter(), thread_time())

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.passed + other.passed, self.own + other.own)

    def beyond(self, other: Cost) -> Cost:
        """What is spent more than `other`, at least nothing."""
        return Cost(max(0.0, self.passed - other.passed), max(0.0, self.own - other.own))

    def __mul__(self, factor: float) -> Cost:
        return Cost(self.passed * factor, self.own * factor)


@dataclass(frozen=True)
class _TimedFrame:
    number: int
    cost: Cost
    picture: Pixels


Pairs = list[tuple[_TimedFrame, ...]]


class _Enough(Exception):
    """A frame takes too long to be made as a whole."""


def estimate(film: Film, path: Path, workers: int = 1, budget: float = BUDGET, starting: float = STARTING) -> Estimate:
    """Return what FilmRenderer needs for `film` with so many workers, whose cores are shared out as in the pool.

    budget: seconds that the guess may take, roughly; starting: seconds until the first worker begins, alone. A frame
    that takes long is made in part, and its time guessed from that. SceneError for a name that is no film's.
    """
    form = film_format(path)
    film.check()
    with _sharing(1 if film.sequential else workers):
        before, pairs = _followed(film, budget) if film.sequential else _looked_at(film, budget)
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
    """Whether the thread that makes the frames only waits for them."""
    name = film.scene.values.get("backend", film.scene.kind.param["backend"].default)
    return any(one.name == name and one.device != "host" for one in film.scene.kind.backends())


def _looked_at(film: Film, budget: float) -> tuple[Cost, Pairs]:
    """What loading the kernels takes, and two neighbours, or one frame alone, at a few places of a film whose frames
    are made one by one.
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
    """Let it run for `longest` seconds at most; which part it has done."""
    start, done = perf_counter(), 1.0

    def watch(part: float) -> None:
        """Stop the replay once it has taken long enough."""
        nonlocal done
        if perf_counter() - start > longest and 0 < part < 1:
            done = part
            raise _Enough

    with suppress(_Enough):
        run.to(steps, watch)
    return done


def _followed(film: Film, budget: float) -> tuple[Cost, Pairs]:
    """What leads to the first frame of a film whose frames follow from one another; neighbours as far as it goes."""
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
    """Frame `number`; the one after the state that there is where the first frame is too far away."""
    cut = run.steps < film.scene.steps
    before, start = run.steps, Cost.now()
    run.to(before + film.every if cut else film.at(number).steps)
    each = Cost.since(start) * (film.every / max(1, run.steps - before))
    start = Cost.now()
    picture = current_pixels(run.lab, film.at(number))
    png(picture)
    return _TimedFrame(number, each + Cost.since(start), picture)


def _encoded(film: Film, form: FilmFormat, pairs: Sequence[Sequence[bytes]]) -> tuple[float, float]:
    """(bytes of the film, seconds for a frame) from frames as PNG: one alone costs more than one that follows another.

    Encoders compute in threads of their own, so that the clock is read; the shortest time is the least disturbed one.
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
    """With the threads that each of so many workers has."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(before, max(1, cpu_count() // workers)))
    try:
        yield
    finally:
        numba.set_num_threads(before)


def seconds_words(seconds: float) -> str:
    """Return a time to wait in the unit that fits it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
