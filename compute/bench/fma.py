"""The roof of arithmetic: how many fused multiply-adds a device does a second, measured, never from a datasheet.

GPU: the kernel of fma.cu beside this file, 8 independent chains a thread; it needs CuPy. Host: `_chains` below, x b + c
eight times on each number of a row that stays in the first cache; Numba may contract it to FMA and vectorises it. A
processor without FMA is measured in multiply-and-add pairs. One instruction on one number counts as 1, not as 2 flops.
"""

from __future__ import annotations

from collections import deque
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
RUNS, LEAST, FIRST = 15, 3, 2  # runs timed, at least on a slow device, and before them not timed: compilation, clocks
LONGEST = 2.0  # seconds after which a slow device stops

numba_threads.choose_layer()


@dataclass(frozen=True)
class FmaRate:
    """Fused multiply-adds a second that `device` does on numbers of `dtype`, all its cores together."""

    device: str
    dtype: str
    rate: Spread


    @property
    def roof(self) -> float:
        """What counts: the upper quartile, as of the copy bandwidth."""
        return self.rate.q3


_known: dict[tuple[str, str], FmaRate] = {}
_rates: dict[tuple[str, str], list[float]] = {}  # every sample of this process, by device and dtype


def fma_rate(device: Device, dtype: str) -> FmaRate | None:
    """The device's rate as far as this process has measured it, more of it now if that is little; None on a GPU without
    CuPy.
    """
    key = device.name, dtype
    if key not in _known or _known[key].rate.n < LEAST:
        if not measurable(device):
            return None
        with device.lock:
            chains, start = Chains(device, dtype), perf_counter()
            for number in range(RUNS):
                if number >= LEAST and perf_counter() - start > LONGEST:
                    break
                note(device, dtype, chains.sample())
    return _known[key]


def measurable(device: Device) -> bool:
    """Whether there is a way to measure it: on a GPU CuPy is needed."""
    return device.kind != "gpu" or not backend("gpu_cupy").missing


def note(device: Device, dtype: str, rate: float) -> None:
    """Take a sample into the device's rate."""
    rates = _rates.setdefault((device.name, dtype), [])
    rates.append(rate)
    _known[device.name, dtype] = FmaRate(device.name, dtype, Spread.of(rates))


class Chains:
    """Chains of fused multiply-adds on a device, a sample at a time, in turn with what is compared with them."""

    def __init__(self, device: Device, dtype: str) -> None:
        self._device = backend("gpu_cupy").open_device(device.index) if device.kind == "gpu" else device
        self._dtype = dtype
        self._run: tuple[int, Callable[[], None]] | None = None

    def prepare(self) -> Iterator[None]:
        """Make the arrays and run FIRST times uncounted: compilation and clocks. Yields often."""
        self._run = _gpu_run(self._device, self._dtype) if self._device.kind == "gpu" else _host_run(self._dtype)
        for _ in range(FIRST):
            self._run[1]()
            self._device.synchronise()
            yield

    def sample(self) -> float:
        """Fused multiply-adds a second."""
        if self._run is None:
            deque(self.prepare(), maxlen=0)
        assert self._run is not None  # noqa: S101 made by `prepare`
        count, run = self._run
        stopwatch = self._device.stopwatch()
        with self._device.lock, stopwatch:
            run()
        return count / stopwatch.seconds()

    def close(self) -> None:
        """Give the arrays back."""
        self._run = None


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
