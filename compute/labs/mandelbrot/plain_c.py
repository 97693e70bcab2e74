"""Compare the CPU kernel with plain C++ in `fieldlab bench mandelbrot`.

g++ compiles plain.cpp into a temporary folder; only this benchmark uses it. Both programs compute the same rows of each
scene. Their counts must be equal in every pixel before either is timed. Timings alternate between the programs, first
on one thread, then on all threads.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import CDLL, c_double, c_float, c_int, c_int64, c_void_p
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numba
import numpy as np

from compute.labs.mandelbrot import cpu_numba
from compute.labs.mandelbrot.scenes import SCREEN, BenchScene
from compute.labs.mandelbrot.state import FRESH, LINE, MARGIN, SLOTS, LaunchPart, PixelArrays
from compute.labs.mandelbrot.views import VIEWS
from compute.measure.case import OutsideCheck, OutsideTimes
from compute.measure.run import BenchProgress, silent
from compute.measure.statistics import Spread

SOURCE = Path(__file__).with_name("plain.cpp")
COMPILER = "g++"
FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-std=c++17", "-pthread", "-shared", "-fPIC")
TITLE = "cpu_numba and plain C++ in turn"
WORK = "32 pixels together, smooth counts; counts equal in every pixel"
# A view with many iterations; not a scene of the bench.
LONG = BenchScene("seahorse valley", replace(VIEWS["seahorse valley"], max_iterations=5000), SCREEN)
PAIRS = 7  # timings of each program per scene and thread count
LATE = 3.0  # LATE x `seconds` is the time after which no further scene is started
LEAST_ROWS = 16  # rows of the picture that estimates the time of a row
LONGEST, SHORTEST = 0.2, 0.01  # bounds of the seconds per picture

PictureProgram = Callable[[PixelArrays, LaunchPart], None]


def check(scenes: Sequence[BenchScene], seconds: float, progress: BenchProgress = silent) -> OutsideCheck:
    """Compare and time every scene, plus LONG in each dtype, in about `seconds` without compilation.

    With compilation, scenes are left out from LATE x `seconds` on, and `absent` says so.
    """
    scenes = [*scenes, *(replace(LONG, dtype=dtype) for dtype in dict.fromkeys(scene.dtype for scene in scenes))]
    most = numba.get_num_threads()
    threads = tuple(dict.fromkeys((1, most)))
    until = perf_counter() + LATE * seconds
    try:
        with compiled() as library:
            each = seconds / max(1, len(scenes) * len(threads) * 2 * PAIRS)
            rows = []
            for scene in scenes:
                if rows and perf_counter() > until:
                    return OutsideCheck(TITLE, program(), tuple(rows), f"the budget ended before {scene.title}")
                for count in threads:
                    progress(f"{scene.title}: plain C++ and cpu_numba, threads: {count}")
                    rows.append(_timed(scene, count, library, min(LONGEST, max(SHORTEST, each))))
            return OutsideCheck(TITLE, program(), tuple(rows))
    except (FileNotFoundError, RuntimeError) as error:
        return OutsideCheck(TITLE, "", (), str(error))
    finally:
        numba.set_num_threads(most)


@contextmanager
def compiled() -> Iterator[CDLL]:
    """Compile and load plain.cpp; the library is valid inside the block.

    Raises FileNotFoundError without a compiler, RuntimeError with the compiler's message if it fails.
    """
    found = shutil.which(COMPILER)
    if found is None:
        raise FileNotFoundError(f"{COMPILER} is not installed, so the kernel was not compared with plain C++")
    with TemporaryDirectory(prefix="fieldlab-", ignore_cleanup_errors=True) as folder:
        target = Path(folder) / "plain.so"
        done = subprocess.run(
            [found, *FLAGS, str(SOURCE), "-o", str(target)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{COMPILER} cannot compile {SOURCE.name}: {' '.join(done.stderr.split())[:300]}")
        try:
            library = CDLL(str(target))
        except OSError as error:
            raise RuntimeError(f"the compiled {SOURCE.name} cannot be loaded: {error}") from error
        yield library


def program() -> str:
    """Return the compiler's version and flags, and a description of the program."""
    output = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=False).stdout
    version = (output.splitlines() or [""])[0]
    return f"plain.cpp by {version}, {' '.join(FLAGS[:3])}: {WORK}"


def paint(library: CDLL, threads: int, state: PixelArrays, part: LaunchPart) -> None:
    """Compute a fresh picture in C++, all rows, as cpu_numba.direct does."""
    dtype = state.z.dtype.name
    real = {"float32": c_float, "float64": c_double}[dtype]
    picture = library[f"picture_{dtype}"]
    picture.restype = c_int64
    ny, nx = state.count.shape
    re, im, count, smooth = (c_void_p(a.ctypes.data) for a in (state.re, state.im, state.count, state.smooth))
    numbers = c_int(ny), c_int(nx), c_int(part.max_iterations), c_int(part.shortcuts), real(MARGIN[dtype])
    state.totals[0] += picture(re, im, *numbers, count, smooth, c_int(threads))


def fresh(scene: BenchScene, rows: int) -> PixelArrays:
    """Return arrays for `rows` rows, evenly spaced over the scene's."""
    re, im = (axis.astype(scene.dtype) for axis in scene.place.axes())
    chosen = np.ascontiguousarray(im[np.linspace(0, im.size - 1, rows).round().astype(int)])
    shape = rows, re.size
    z, place = np.zeros((2, *shape), scene.dtype), np.zeros((2, 1, 1), np.int32)
    count, smooth = np.full(shape, FRESH, np.int32), np.full(shape, np.nan, np.float32)
    return PixelArrays(re, chosen, z, place, count, smooth, np.zeros(SLOTS * LINE, np.int64))


def part_of(scene: BenchScene, rows: int) -> LaunchPart:
    """Return the launch of the whole picture of `rows` rows."""
    top = scene.view.max_iterations
    return LaunchPart(0, rows, 1, top, top, top, scene.shortcuts, fresh=True)


def _timed(scene: BenchScene, threads: int, library: CDLL, seconds: float) -> OutsideTimes:
    """Compare the counts of one scene, then time both programs in turn."""
    numba.set_num_threads(threads)
    ways: tuple[PictureProgram, PictureProgram] = cpu_numba.direct, partial(paint, library, threads)
    least = min(LEAST_ROWS, scene.shape[0])
    _seconds(ways[0], scene, fresh(scene, least))  # may compile
    pace = _seconds(ways[0], scene, fresh(scene, least)) / least
    rows = max(least, min(scene.shape[0], int(seconds / max(pace, 1e-9))))
    states = [fresh(scene, rows) for _ in ways]
    times: tuple[list[float], list[float]] = [], []
    for way, state in zip(ways, states, strict=True):
        _seconds(way, scene, state)
    differ = int(np.count_nonzero(states[0].count != states[1].count))
    out = OutsideTimes(scene.name, scene.dtype, threads, differ)
    if differ:
        return out
    iterations = int(states[0].totals[0])
    for pair in range(PAIRS):
        for which in (0, 1) if pair % 2 else (1, 0):
            times[which].append(_seconds(ways[which], scene, states[which]))
    ours, theirs = (iterations / np.array(spent) for spent in times)
    ratio = Spread.of([float(mine / other) for mine, other in zip(ours, theirs, strict=True)])
    return replace(out, ours=float(np.median(ours)), theirs=float(np.median(theirs)), ratio=ratio)


def _seconds(way: PictureProgram, scene: BenchScene, state: PixelArrays) -> float:
    """Compute the picture from fresh pixels; wall seconds."""
    rows = state.count.shape[0]
    state.count[...] = FRESH
    state.totals[...] = 0
    start = perf_counter()
    way(state, part_of(scene, rows))
    return perf_counter() - start
