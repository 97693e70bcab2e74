"""The threads of a block in Numba's CUDA simulator: greenlets that run one after the other, from barrier to barrier.

Imported only in the process that simulates: other processes do not need greenlet.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet


class CudaThread(greenlet):
    """The simulator's BlockThread as seen by a kernel; a barrier switches to the block's loop."""

    def __init__(self, manager: Any, block: Any, thread: Any, arguments: tuple[Any, ...]) -> None:
        super().__init__(lambda: manager._f(*arguments))
        x, y, _ = manager._block_dim
        self.blockIdx, self.threadIdx, self._state = block, thread, manager.block_state
        self.thread_id = thread.x + x * (thread.y + y * thread.z)

    def syncthreads(self) -> None:
        """Wait until every other thread of the block has reached a barrier or its end."""
        self.parent.switch()

    def syncthreads_count(self, value: Any) -> int:
        """Return the number of threads of the block with a true `value`."""
        self._state[tuple(self.threadIdx)] = value
        self.syncthreads()
        count = int(np.count_nonzero(self._state))
        self.syncthreads()
        return count

    def syncthreads_and(self, value: Any) -> int:
        """Return 1 if `value` is true for every thread of the block, else 0."""
        return int(self.syncthreads_count(value) == self._state.size)

    def syncthreads_or(self, value: Any) -> int:
        """Return 1 if `value` is true for any thread of the block, else 0."""
        return int(self.syncthreads_count(value) > 0)


def install() -> None:
    """Make this process's simulator run the threads of a block in turn; a kernel's error is raised unchanged."""
    from numba.cuda.simulator import kernel, kernelapi

    def run(self: Any, grid_point: tuple[int, ...], *arguments: Any) -> None:
        """Run one block: every thread up to its first barrier, then up to the next, until all have ended."""
        block, points = kernel.Dim3(*grid_point), np.ndindex(*self._block_dim)
        threads = [CudaThread(self, block, kernel.Dim3(*point), arguments) for point in points]
        while threads:
            for thread in threads:
                thread.switch()
            threads = [thread for thread in threads if not thread.dead]

    kernel.BlockManager.run = run
    kernelapi.threading = SimpleNamespace(current_thread=getcurrent)
