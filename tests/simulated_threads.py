"""The threads of a block in Numba's CUDA simulator: greenlets that run one after the other, from barrier to barrier.

For the process that simulates, alone: greenlet is not needed where nothing is.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet


class CudaThread(greenlet):
    """What the simulator's BlockThread tells a kernel about its thread; a barrier hands on to the block's loop."""

    def __init__(self, manager: Any, block: Any, thread: Any, arguments: tuple[Any, ...]) -> None:
        super().__init__(lambda: manager._f(*arguments))
        x, y, _ = manager._block_dim
        self.blockIdx, self.threadIdx, self._state = block, thread, manager.block_state
        self.thread_id = thread.x + x * (thread.y + y * thread.z)

    def syncthreads(self) -> None:
        """Wait until every other thread of the block has come here, or to its end."""
        self.parent.switch()

    def syncthreads_count(self, value: Any) -> int:
        """For how many threads of the block `value` is true."""
        self._state[tuple(self.threadIdx)] = value
        self.syncthreads()
        count = int(np.count_nonzero(self._state))
        self.syncthreads()
        return count

    def syncthreads_and(self, value: Any) -> int:
        """1 if `value` is true for every thread of the block, else 0."""
        return int(self.syncthreads_count(value) == self._state.size)

    def syncthreads_or(self, value: Any) -> int:
        """1 if `value` is true for a thread of the block, else 0."""
        return int(self.syncthreads_count(value) > 0)


def install() -> None:
    """Have the simulator of this process run the threads of a block in turn. A kernel's error is raised as it is."""
    from numba.cuda.simulator import kernel, kernelapi

    def run(self: Any, grid_point: tuple[int, ...], *arguments: Any) -> None:
        """One block: every thread as far as its first barrier, then as far as the next, until all have ended."""
        block, points = kernel.Dim3(*grid_point), np.ndindex(*self._block_dim)
        threads = [CudaThread(self, block, kernel.Dim3(*point), arguments) for point in points]
        while threads:
            for thread in threads:
                thread.switch()
            threads = [thread for thread in threads if not thread.dead]

    kernel.BlockManager.run = run
    kernelapi.threading = SimpleNamespace(current_thread=getcurrent)
