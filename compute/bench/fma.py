"""The roof of arithmetic: how many fused multiply-adds a device does a second, measured, never from a datasheet.

GPU: the kernel of fma.cu beside this file, 8 independent chains a thread; it needs CuPy. Host: `_chains` below, x b + c
eight times on each number of a row that stays in the first cache; Numba may contract it to FMA and vectorises it. A
processor without FMA is measured in multiply-and-add pairs. One instruction on one number counts as 1, not as 2 flops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numba import njit, prange

from compute import numba_threads
from compute.backends import backend
from compute.cuda_source import compile_cuda
from compute.devices import Device, cpu_count
from compute.timings import Spread

DTYPES = ("float32", "float64")
SOURCE = Path(__file__).with_suffix(".cu")
REAL = {"float32": "float", "float64": "double"}
CHAINS, UNROLLED = 8, 16  # of fma.cu: its FMAs a round
THREADS, BLOCKS = 256, 8  # threads a block, blocks a multiprocessor: 64 warps, all that one holds
GPU_ROUNDS = 2048  # a few milliseconds on a large GPU
ROW = 512  # numbers of a host thread: 4 KiB in float64
CHAIN = 8  # multiply-adds between load and store, as many as cover the latency
HOST_ROUNDS = 40_000  # some 10 ms: long against waking the threads
RUNS, FIRST = 15, 2  # runs timed, and runs before them that are not: compilation, clocks
LONGEST = 2.0  # seconds after which a slow device stops

numba_threads.choose_layer()


@dataclass(frozen=True)
class FmaRate:
    """Fused multiply-adds a second that `device` does on numbers of `dtype`, all its cores together."""

    device: str
    dtype: str
    rate: Spread


_known: dict[tuple[str, str], FmaRate] = {}


def fma_rate(device: Device, dtype: str) -> FmaRate | None:
    """The device's rate, measured on the first call of this process; None on a GPU without CuPy."""
    key = device.name, dtype
    if key not in _known:
        if device.kind == "gpu" and backend("gpu_cupy").missing:
            return None
        with device.lock:
            _known[key] = measure(device, dtype)
    return _known[key]


def measure(device: Device, dtype: str) -> FmaRate:
    """Run the chains on the device and time them there."""
    if device.kind == "gpu":
        device = backend("gpu_cupy").open_device(device.index)
        count, run = _gpu_run(device, dtype)
    else:
        count, run = _host_run(dtype)
    return FmaRate(device.name, dtype, Spread.of([count / seconds for seconds in _seconds(device, run)][FIRST:]))


def _seconds(device: Device, run: Callable[[], None]) -> Iterator[float]:
    start = perf_counter()
    for number in range(FIRST + RUNS):
        if number >= FIRST + 3 and perf_counter() - start > LONGEST:
            return
        stopwatch = device.stopwatch()
        with stopwatch:
            run()
        yield stopwatch.seconds()


def _gpu_run(device: Device, dtype: str) -> tuple[int, Callable[[], None]]:
    """(FMAs of a launch, the launch)."""
    blocks = BLOCKS * int(device.describe()["multiprocessors"])
    out = device.allocate((blocks * THREADS,), dtype)
    b, c = np.dtype(dtype).type(0.5), np.dtype(dtype).type(0.25)
    with out.device:
        kernel = compile_cuda(SOURCE, defines={"REAL": REAL[dtype]}).get_function("fma_chains")

    def run() -> None:
        with out.device:
            kernel((blocks,), (THREADS,), (out, b, c, np.int32(GPU_ROUNDS)))

    return out.size * GPU_ROUNDS * CHAINS * UNROLLED, run


def _host_run(dtype: str) -> tuple[int, Callable[[], None]]:
    """(FMAs of a run, the run): four rows a core, so that the cores share them evenly."""
    values = np.ones((4 * cpu_count(), ROW), dtype)
    b, c = np.dtype(dtype).type(0.5), np.dtype(dtype).type(0.25)
    return values.size * HOST_ROUNDS * CHAIN, lambda: _chains(values, b, c, HOST_ROUNDS)


@njit(cache=True, nogil=True, parallel=True, fastmath={"contract"})
def _chains(values: Any, b: Any, c: Any, rounds: int) -> None:
    for row in prange(values.shape[0]):
        numbers = values[row]
        for _ in range(rounds):
            for i in range(numbers.size):
                x = numbers[i]
                for _ in range(CHAIN):
                    x = x * b + c
                numbers[i] = x
