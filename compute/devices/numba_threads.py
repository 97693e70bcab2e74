"""Numba's threads: the threading layer, and the number of threads for a kernel.

The layer `workqueue` aborts the process when two threads run parallel kernels simultaneously; OpenMP and TBB do not. If
neither is installed, workqueue is still safe under the device's lock, which every lab acquires.

OpenMP's idle threads spin while they wait. With a browser and a server on the same cores, that starves the thread they
wait for: a picture of 1.5 ms took 56 ms. Without spinning each step costs 40 us of wake-up time. A short spin avoids
both (two cores, 512 x 512: 57 us a step).

`shared` runs small kernels on one thread. Waking the threads takes 5 to 150 us, depending on the load of the machine,
for every parallel region: the L-curve of a 200 x 200 matrix took 88 ms on two threads and 9 ms on one. The wake-up time
is measured every LASTS seconds; each kernel measures its own single-threaded rate once per process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numba
import numpy as np
from numba import njit, prange
from numba.np.ufunc import parallel

from compute.devices.devices import cpu_count
from compute.devices.kernel_cache import allow_uncached, take_turns
from compute.devices.parallel_regions import note

THREADS = "NUMBA_NUM_THREADS"
SPINS = "3000"  # iterations of libgomp's waiting loop before a thread sleeps, a few tens of microseconds
LOOPS, FIRST = 20, 3  # empty parallel loops that are timed, and warm-up loops
REST = 1e-4  # seconds between two loops, longer than the threads spin
LASTS = 10.0  # seconds until the wake-up time is measured again, which takes 3 ms
LONG = 10  # wake-up times; the overhead of threads is at most a tenth of longer calls
TRIES = 5  # timings of a call; the shortest counts
ENOUGH = 0.02  # seconds after which a slow call is not timed again


def choose_layer() -> None:
    """Prefer OpenMP, then TBB, then workqueue. Has no effect once a parallel kernel has run.

    Every module with kernels calls it before they are compiled, so it also starts the sharing of the kernel cache
    between processes.
    """
    take_turns()
    _limit_threads()
    numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read when the layer is loaded, at the first parallel kernel


def _limit_threads() -> None:
    """Limit the threads to the number of processors, which a container may restrict; NUMBA_NUM_THREADS has precedence.

    Numba reads the environment again whenever it compiles, and refuses another number once its threads run.
    """
    most = cpu_count()
    if THREADS not in os.environ and most < numba.config.NUMBA_NUM_THREADS and not parallel._is_initialized:  # noqa: SLF001
        os.environ[THREADS] = str(most)
        numba.config.reload_config()
        parallel.NUM_THREADS = most  # read from the environment when Numba was imported


def launch() -> None:
    """Start Numba's threads if they do not run, before loading a kernel that is not parallel, but calls a parallel one.

    Numba starts them when it loads a parallel kernel. If it compiles a caller while the callee is in the cache, the
    caller's cache entry does not record that it needs the threads, too; when another process loads the caller first, it
    would call address 0.
    """
    choose_layer()
    numba.get_num_threads()


def leave_a_core(leave: bool) -> None:
    """Let the parallel kernels of this thread use all of Numba's threads but one (at least one), or all again."""
    choose_layer()  # the call below starts the threads if they do not run
    numba.set_num_threads(max(1, numba.config.NUMBA_NUM_THREADS - leave))


# -- the number of threads


@dataclass
class _Known:
    """The last measurement in this process: seconds to wake `threads` threads, and its perf_counter time."""

    threads: int = 0
    waking: float = 0.0
    at: float = -LASTS


_known = _Known()
allow_uncached()  # before the loop below is defined


@njit(cache=True, nogil=True, parallel=True)
def empty_loop(seen: Any) -> None:
    """Run an empty parallel loop over `seen`."""
    for i in prange(seen.size):
        seen[i] = i


def waking() -> float:
    """Return the seconds that waking this thread's Numba threads takes: the median of LOOPS empty parallel loops.

    The result is cached for LASTS seconds.
    """
    threads, now = numba.get_num_threads(), perf_counter()
    if threads == 1:
        return 0.0
    if _known.threads != threads or now - _known.at > LASTS:
        _known.threads, _known.waking, _known.at = threads, float(np.median(_empty_loops(threads))), now
    return _known.waking


def _empty_loops(threads: int) -> list[float]:
    seen, seconds = np.zeros(threads), []
    for number in range(FIRST + LOOPS):
        until = perf_counter() + REST
        while perf_counter() < until:
            pass
        start = perf_counter()
        empty_loop(seen)
        if number >= FIRST:
            seconds.append(perf_counter() - start)
    return seconds


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Set the number of threads for the parallel kernels of the block."""
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        yield
    finally:
        numba.set_num_threads(before)


@contextmanager
def shared(seconds: float, regions: int = 1) -> Iterator[int]:
    """Run the block's parallel kernels on one thread if waking the others costs more time than they save.

    seconds: single-threaded time of one parallel region; regions: number of regions in the block. Yields the number of
    threads.
    """
    most = numba.get_num_threads()
    threads = most if seconds * (1 - 1 / most) > waking() else 1
    note(regions if threads > 1 else 0)
    with limited(threads):
        yield threads


def quicker(work: Callable[[], object]) -> int:
    """Return the faster number of threads for `work`: one, or all.

    Long calls are timed once and use all threads. `work` must be compiled.
    """
    most = numba.get_num_threads()
    if most == 1:
        return 1
    start = perf_counter()
    work()
    if perf_counter() - start > LONG * waking():
        return most
    together = _shortest(work)
    with limited(1):
        return 1 if _shortest(work) < together else most


def seconds_alone(work: Callable[[], object]) -> float:
    """Return the seconds that `work` takes on one thread."""
    with limited(1):
        return _shortest(work)


def _shortest(work: Callable[[], object]) -> float:
    """Return the shortest of at most TRIES timings in seconds, after one warm-up call."""
    work()
    times: list[float] = []
    while len(times) < TRIES and sum(times) < ENOUGH:
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)
