"""`fieldlab bench export`: frames per second of each encoder, and of one worker compared with several."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from compute.cli.arguments import counts
from compute.devices.backends import BACKENDS, backend
from compute.devices.devices import cpu_count
from compute.export.film import Film, frame
from compute.export.formats import FILMS, PNG, film_format
from compute.export.render import Pixels, Replay, current_pixels, png
from compute.export.render_pool import VISIBLE, LocalPool, MadePart, MakePart, gpus_here
from compute.export.scene import Scene, SceneError
from compute.files.documents import as_json, measured
from compute.files.files import require_writable, whole
from compute.measure.conditions import Watch, provenance
from compute.measure.statistics import Spread

NAME = "export"
SCHEMA = "fieldlab-export-bench/1"
ENCODED = Film(Scene("diffusion", {}, (512, 512)), 60, every=20)
DEEP = {"center": ("-0.7436438870", "0.1318259042"), "zoom": "1e6", "max_iterations": 20_000, "colouring": "smooth"}
SCENES = {
    "light": Scene("mandelbrot", {"colouring": "smooth"}, (360, 640)),
    "heavy": Scene("mandelbrot", DEEP, (1080, 1920)),
}
ENDINGS = (PNG.ending, *(one.ending for one in FILMS))
LEAST = 3  # frames of each worker in a window, even if they take longer


@dataclass(frozen=True)
class Encoder:
    """One format: frames per second and bytes per frame. missing: why it was not measured, or ""."""

    ending: str
    rate: Spread
    frame_bytes: float
    missing: str = ""


@dataclass(frozen=True)
class Pool:
    """Frames per second of `workers` workers on one scene while all of them work; devices: GPUs used."""

    scene: str
    workers: int
    rate: Spread
    devices: tuple[str, ...]


# -- encoders


def encoders(rounds: int) -> list[Encoder]:
    """Time 60 frames of a field of 512 x 512 cells with every encoder in turn, in a new order each round."""
    frames, order = list(_frames(ENCODED)), list(ENDINGS)
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
            if number:  # the first round may load libraries
                rates[ending].append(len(frames) / seconds)
    return [Encoder(e, Spread.of(rates[e]), sizes[e] / len(frames), missing[e]) for e in ENDINGS]


def _frames(film: Film) -> Iterator[Pixels]:
    """Yield the frames of a film, made in this process."""
    with closing(Replay.of(film.scene)) as run:
        for number in range(film.frames):
            run.to(film.at(number).steps)
            yield current_pixels(run.lab, film.at(number))


def _encoded(ending: str, frames: Sequence[Pixels]) -> tuple[float, int]:
    """Return (seconds, bytes) of all frames."""
    with tempfile.TemporaryDirectory() as folder:
        path, start = Path(folder) / f"film{ending}", time.perf_counter()
        if ending == PNG.ending:
            path.write_bytes(b"".join(png(frame) for frame in frames))
        else:
            film_format(path).write(path, iter(frames), ENCODED.rate, "")
        return time.perf_counter() - start, path.stat().st_size


# -- workers


@dataclass(frozen=True)
class Trial:
    """Repeat the same frame; each part reports its worker and its times."""

    scene: Scene
    count: int = 100_000
    sequential: bool = False

    @property
    def task(self) -> MakePart:
        """Return the function that makes the frame and reports worker and times."""
        return timed

    def plain(self) -> dict[str, Any]:
        """Return the plan of a film of one frame."""
        return Film(self.scene, 1).plain()


def timed(plain: Mapping[str, Any], number: int) -> MadePart:
    """Make the frame; return process id, device, start and end (s of the machine's clock) as JSON."""
    start = time.monotonic()
    frame(plain, 0)
    device = os.environ.get(VISIBLE, "")
    return number, json.dumps([os.getpid(), device, start, time.monotonic()]).encode()


def pools(scenes: Sequence[str], counts: Sequence[int], values: Mapping[str, Any], gpu: bool, rounds: int,
          seconds: float) -> Iterator[Pool]:  # fmt: skip
    """Yield frames per second for each number of workers, in a new order each round.

    Only the time during which all workers work counts, at least `seconds`; their start is excluded.
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
    """Return (frames per second while all workers work, the GPUs used)."""
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
    """Return (begin, end, length) of the time between the last first frame and the first last frame of a worker."""
    begin = max(each[0][1] for each in shots.values())
    until = min(each[-1][1] for each in shots.values())
    return begin, until, until - begin


def _inside(shot: tuple[float, float], begin: float, until: float) -> float:
    """Return the fraction of a frame's time between the two moments."""
    start, end = shot
    return max(0.0, min(end, until) - max(start, begin)) / max(end - start, 1e-9)


# -- the command


def add(commands: Any) -> None:
    """Add the command to the command line, next to the benches of the labs."""
    parser = commands.add_parser("bench", help="time the encoders, and one worker against several")
    parser.add_argument("what", choices=[NAME])
    parser.add_argument("--backend", choices=[b.name for b in BACKENDS], help="of the workers (default: the fastest)")
    parser.add_argument(
        "--workers",
        type=lambda text: counts(text, "workers"),
        help="how many, for example 1,2 (default: 1 to the number of GPUs)",
    )
    parser.add_argument("--scenes", type=_names, default=tuple(SCENES), help=", ".join(SCENES))
    parser.add_argument("--rounds", type=int, default=5, help="samples of each (default 5)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each sample of workers (default 5)")
    parser.add_argument("--json", action="store_true", help="print the record as JSON instead of tables")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the record")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace, command: str) -> int:
    """Measure, print or save the record, and return 0."""
    if chosen.rounds < 1 or not 0 < chosen.seconds < inf:
        raise ValueError(f"rounds and seconds must be above 0 and finite, not {chosen.rounds} and {chosen.seconds}")
    name = chosen.backend or next(b.name for b in reversed(BACKENDS) if b.ready)
    backend(name).require()
    if chosen.save:
        require_writable(chosen.save)
    gpu = backend(name).kind == "gpu"
    most = len(gpus_here()) if gpu else min(2, cpu_count())
    counts = chosen.workers or tuple(range(1, max(most, 1) + 1))
    watch = Watch()
    by_format = encoders(chosen.rounds)
    by_count = list(pools(chosen.scenes, counts, {"backend": name}, gpu, chosen.rounds, chosen.seconds))
    watch.end()
    document = _record(by_format, by_count, name, command, watch)
    if chosen.save:
        with whole(chosen.save) as out:
            json.dump(document, out, indent=1, ensure_ascii=False)
    if chosen.json:
        Console(soft_wrap=True).print(as_json(document, sys.stdout), markup=False, highlight=False)
    else:
        _show(by_format, by_count, name)
    return 0


def _record(
    by_format: Sequence[Encoder], by_count: Sequence[Pool], name: str, command: str, watch: Watch
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        **provenance(command, sum(one.rate.n for one in by_format) + sum(one.rate.n for one in by_count), watch),
        "encoders": [measured(asdict(each)) for each in by_format],
        "backend": name,
        "workers": [measured({**asdict(each), "times": _times(each, by_count)}) for each in by_count],
    }


def _show(by_format: Sequence[Encoder], by_count: Sequence[Pool], name: str) -> None:
    film = ENCODED
    table = Table(title=f"{film.frames} frames of 512 x 512 pixels, diffusion, already computed", title_justify="left")
    for column in ("format", "frames/s", "quartiles", "ms a frame", "kB a frame"):
        table.add_column(column, justify="right")
    for each in by_format:
        rate = each.rate
        figures = (f"{rate.median:.0f}", _quartiles(each), f"{1e3 / rate.median:.1f}", f"{each.frame_bytes / 1e3:.1f}")
        table.add_row(each.ending, *((each.missing, "", "", "") if each.missing else figures))
    Console().print(table)
    table = Table(title=f"frames made, all workers at work ({name})", title_justify="left")
    for column in ("scene", "workers", "frames/s", "quartiles", "times one", "GPUs"):
        table.add_column(column, justify="right")
    for pool in by_count:
        row = f"{pool.rate.median:.3g}", _quartiles(pool), f"{_times(pool, by_count):.2f}", " ".join(pool.devices)
        table.add_row(pool.scene, str(pool.workers), *row)
    Console().print(table)


def _quartiles(each: Encoder | Pool) -> str:
    return f"{each.rate.q1:.3g} … {each.rate.q3:.3g}{' noisy' if each.rate.noisy else ''}"


def _times(pool: Pool, pools: Sequence[Pool]) -> float:
    """Return the rate relative to the fewest workers on the same scene."""
    fewest = min((each for each in pools if each.scene == pool.scene), key=lambda each: each.workers)
    return pool.rate.median / fewest.rate.median


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not set(names) <= set(SCENES):
        raise argparse.ArgumentTypeError(f"scenes must be of {', '.join(SCENES)}, not {text!r}")
    return names
