"""Numba's threading layer, chosen before the first parallel kernel runs.

The layer `workqueue` aborts the process when two threads run parallel kernels at once; OpenMP and TBB do not. Where
neither is there, workqueue is safe all the same as long as a device's lock is held, which every lab does.

OpenMP's idle threads spin while they wait. Beside a browser and a server on the same cores that starves the thread
they wait for: a picture of 1.5 ms took 56 ms. Not spinning at all costs each step 40 us of waking up. A short spin has
neither fault (two cores, 512 x 512: 57 us a step).
"""

from __future__ import annotations

import os

import numba
from numba.np.ufunc import parallel

from compute.devices import cpu_count
from compute.kernel_cache import take_turns

THREADS = "NUMBA_NUM_THREADS"
SPINS = "3000"  # iterations of libgomp's waiting loop before a thread sleeps, a few tens of microseconds


def choose_layer() -> None:
    """Prefer OpenMP, then TBB, then workqueue. Has no effect once a parallel kernel has run.

    Every module with kernels calls it before they are compiled; so this is where processes begin to share their cache.
    """
    take_turns()
    _limit_threads()
    numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read when the layer is loaded, at the first parallel kernel


def _limit_threads() -> None:
    """Have no more threads than processors, which a container may limit; NUMBA_NUM_THREADS of the user counts first.

    Numba reads the environment again whenever it compiles, and refuses another number once its threads run.
    """
    most = cpu_count()
    if THREADS not in os.environ and most < numba.config.NUMBA_NUM_THREADS and not parallel._is_initialized:  # noqa: SLF001
        os.environ[THREADS] = str(most)
        numba.config.reload_config()
        parallel.NUM_THREADS = most  # read from the environment when Numba was imported


def launch() -> None:
    """Start Numba's threads, if nothing has yet: before a kernel is loaded that itself is not parallel, but calls one.

    Numba starts them when it loads a parallel kernel. Where it compiles a caller and finds what that calls in its
    cache, it does not note there that the caller needs them, too; loaded first in another process, it would call
    address 0.
    """
    choose_layer()
    numba.get_num_threads()


def leave_a_core(leave: bool) -> None:
    """Have the parallel kernels of this thread use all of Numba's threads but one, if there are two, or all again."""
    choose_layer()  # the call starts the threads, if nothing has yet
    numba.set_num_threads(max(1, numba.config.NUMBA_NUM_THREADS - leave))
