"""Runs a program in Numba's CUDA simulator, where kernels for a GPU are Python functions, in a process of its own.

The simulator makes a thread of every CUDA thread and asks them all the while whether they wait at a barrier. Here they
run one after the other from barrier to barrier: a kernel does the same in less time, however the machine switches
between threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.sources import ROOT

BEGIN = "from tests import simulator\nsimulator.install()\n"


def simulate(program: str, *arguments: object) -> str:
    """Run it with warnings as errors; returns what it prints. Fails with what it says on its standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BEGIN + program, *map(str, arguments)], cwd=ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def install() -> None:
    """Have the simulator of this process run the threads of a block in turn."""
    from numba.cuda.simulator import kernel

    class Turns(kernel.BlockThread):
        """A CUDA thread that hands on to the next at a barrier and at its end."""

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.handed_on, self.may_go_on = threading.Semaphore(0), threading.Semaphore(0)

        def run(self) -> None:
            super().run()
            self.handed_on.release()

        def syncthreads(self) -> None:
            self.syncthreads_blocked = True
            self.handed_on.release()
            self.may_go_on.acquire()

    def run(self: Any, grid_point: tuple[int, ...], *arguments: Any) -> None:
        """One block: every thread as far as its first barrier, then as far as the next, until all have ended."""
        every = (
            Turns(lambda: self._f(*arguments), self, grid_point, block_point, self._debug)
            for block_point in np.ndindex(*self._block_dim)
        )
        waiting = [thread for thread in every if to_barrier(thread, thread.start)]
        while waiting:
            waiting = [thread for thread in waiting if to_barrier(thread, thread.may_go_on.release)]

    kernel.BlockManager.run = run


def to_barrier(thread: Any, begin: Callable[[], None]) -> bool:
    """Let a thread go on to its next barrier; False if it has come to its end. Raises what the kernel raised."""
    thread.syncthreads_blocked = False
    begin()
    thread.handed_on.acquire()
    if thread.exception:
        raise thread.exception[0].with_traceback(thread.exception[1])
    return bool(thread.syncthreads_blocked)
