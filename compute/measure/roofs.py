"""The roofs that rates are compared with: a device's copy bandwidth and its multiply-adds a second.

Both are measured, never copied from a datasheet. A roof measured while another process used the device is too low, and
rates may then reach 170 % of it. So a roof is measured as carefully as the rates: in the same process, on the same
threads, in turn with the ways (`RoofMeter`, one sample at a time); the roof is the upper quartile of all samples.

Arithmetic: on a GPU the kernel of fma.cu in this folder, 8 independent chains a thread; it needs CuPy. On the host
`_chains` below, x b + c eight times on each number of a row that stays in the first-level cache; Numba may contract it
to FMA and vectorise it. A processor without FMA is measured in multiply-and-add pairs. One instruction on one number
counts as 1, not as 2 flops.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numba import njit, prange

from compute.devices import numba_threads, webgpu_probe
from compute.devices.cuda_source import compile_cuda
from compute.devices.devices import Array, Device, cpu_count
from compute.devices.webgpu import WebGpu
from compute.measure.rates import RoofKind, host_caches
from compute.measure.statistics import Spread

RUNS, LEAST, FIRST = 15, 3, 2  # samples of a roof, minimum on a slow device, warm-ups: compilation, first touch
LONGEST = 2.0  # seconds after which a slow device stops
ARRAY_BYTES = {"cpu": 256 * 2**20, "gpu": 1024 * 2**20}  # much larger than the caches of their kind (H200: 50 MB)
LIVE_BYTES = {"cpu": 64 * 2**20, "gpu": 512 * 2**20}  # while a live picture runs
LIVE_PIECES = {"cpu": 8, "gpu": 1}  # of a host's arrays: a sample next to a live picture then takes some 5 ms
CACHES = 4  # least size of an array over that of all last-level caches of the CPUs together, as in STREAM
SHARE = 0.2  # largest fraction of the free memory for the two arrays
DTYPES = ("float32", "float64")
FMA_SOURCE = Path(__file__).with_name("fma.cu")
REAL = {"float32": "float", "float64": "double"}
CHAINS, UNROLLED = 8, 16  # of fma.cu: its FMAs a round
THREADS, BLOCKS = 256, 8  # threads a block, blocks a multiprocessor: 64 warps, the capacity of a multiprocessor
WEBGPU_ROUNDS = 64  # a few milliseconds on an integrated GPU
GPU_ROUNDS = 2048  # a few milliseconds on a large GPU
ROW = 512  # numbers of a host thread: 4 KiB in float64
CHAIN = 8  # multiply-adds between load and store, enough to hide the latency
HOST_ROUNDS = 40_000  # some 10 ms: long compared with waking the threads

numba_threads.choose_layer()


@dataclass(frozen=True)
class MeasuredRoof:
    """A measured rate: bytes read and written a second while copying, or fused multiply-adds a second.

    Copies are of arrays of `array_bytes`; multiply-adds of numbers of `dtype`, by all cores of `device` together.
    """

    device: str
    kind: RoofKind
    dtype: str  # "" for copying
    rate: Spread
    array_bytes: int = 0

    @property
    def roof(self) -> float:
        """The upper quartile, since any disturbance can only have made samples slower."""
        return self.rate.q3


_known: dict[tuple[str, RoofKind, str], MeasuredRoof] = {}
_rates: dict[tuple[str, RoofKind, str], list[float]] = {}  # every sample of this process


def record_rate(device: str, kind: RoofKind, dtype: str, rate: float, array_bytes: int = 0) -> None:
    """Add a sample to the device's roof."""
    key = device, kind, dtype
    rates = _rates.setdefault(key, [])
    rates.append(rate)
    _known[key] = MeasuredRoof(device, kind, dtype, Spread.of(rates), array_bytes)


def copy_bandwidth(device: Device) -> MeasuredRoof:
    """Return the device's copy bandwidth from all samples of this process; with fewer than LEAST, measure now."""
    return _enough(device, "copy", "", lambda: Copies(device))


def fma_rate(device: Device, dtype: str) -> MeasuredRoof | None:
    """Return the device's rate of multiply-adds, likewise; None where `fma_measurable` is false."""
    if (device.name, "fma", dtype) not in _known and not fma_measurable(device, dtype):
        return None
    return _enough(device, "fma", dtype, lambda: MultiplyAdds(device, dtype))


def fma_measurable(device: Device, dtype: str) -> bool:
    """Whether multiply-adds can be measured: WebGPU has those of float32, another GPU needs CuPy."""
    return dtype in device.best_view().fma_dtypes


def _enough(device: Device, kind: RoofKind, dtype: str, make: Callable[[], RoofProbe]) -> MeasuredRoof:
    key = device.name, kind, dtype
    if key not in _known or _known[key].rate.n < LEAST:
        with device.lock, closing(make()) as probe:
            start = perf_counter()
            for number in range(RUNS):
                if number >= LEAST and perf_counter() - start > LONGEST:
                    break
                probe.record()
    return _known[key]


class RoofProbe(ABC):
    """Measures a roof of a device one sample at a time, in turn with the ways.

    `prepare`, or the first sample, allocates its arrays.
    """

    kind: ClassVar[RoofKind]
    array_bytes = 0

    def __init__(self, device: Device, dtype: str) -> None:
        self._name, self._dtype = device.name, dtype

    @abstractmethod
    def prepare(self) -> Iterator[None]:
        """Allocate the arrays and run a few warm-ups: compilation, first touch, clocks. Yields often."""

    @abstractmethod
    def sample(self) -> float:
        """Return one sample of the rate, a second."""

    @abstractmethod
    def close(self) -> None:
        """Free the arrays; a later sample allocates them again."""

    def record(self) -> None:
        """Add a sample to the device's roof."""
        record_rate(self._name, self.kind, self._dtype, self.sample(), self.array_bytes)


class Copies(RoofProbe):
    """Copies of one array to another on a device.

    pieces: parts of the arrays, of which each sample copies one, in rotation; live: use arrays as small as the caches
    allow.
    """

    kind = "copy"

    def __init__(self, device: Device, pieces: int = 1, live: bool = False) -> None:
        super().__init__(device, "")
        self._device = device.best_view()
        self.array_bytes = _array_bytes(self._device, live) // pieces * pieces
        self._pieces, self._next = pieces, 0
        self._arrays: tuple[Array, Array] | None = None

    def prepare(self) -> Iterator[None]:
        """Allocate the arrays and copy every piece FIRST times as a warm-up."""
        size = self.array_bytes // 4
        arrays = [self._device.allocate((size,), np.float32) for _ in range(2)]
        self._arrays = arrays[0], arrays[1]
        for _ in range(FIRST * self._pieces):
            self.sample()
            yield

    def sample(self) -> float:
        """Return the bytes read and written a second while copying one piece by the device's fastest method."""
        if self._arrays is None:
            deque(self.prepare(), maxlen=0)
        source, target = self._piece()
        seconds = []
        for copy in self._device.copiers() or (_host_copy,):
            stopwatch = self._device.stopwatch()
            with self._device.lock, stopwatch:
                copy(source, target)
            seconds.append(stopwatch.seconds())
        return 2 * self.array_bytes / self._pieces / min(seconds)

    def close(self) -> None:
        """Free the arrays."""
        self._arrays = None

    def _piece(self) -> tuple[Array, Array]:
        assert self._arrays is not None  # noqa: S101 made by `prepare`
        length = self.array_bytes // 4 // self._pieces
        first = self._next * length
        self._next = (self._next + 1) % self._pieces
        source, target = (array[first : first + length] for array in self._arrays)
        return source, target


@njit(cache=True, nogil=True, parallel=True)
def _host_copy(source: Any, target: Any) -> None:
    for i in prange(source.size):
        target[i] = source[i]


def _array_bytes(device: Device, live: bool) -> int:
    size = (LIVE_BYTES if live else ARRAY_BYTES)[device.kind]
    if device.kind == "cpu":
        size = max(size, CACHES * _last_cache_bytes())
    return int(min(size, SHARE * device.free_bytes() / 2, device.largest_array)) // 4096 * 4096


def _last_cache_bytes() -> int:
    """Return the bytes of the largest cache level, summed over all CPUs; 0 if the system does not report it.

    A processor may have many such caches: each of the 24 groups of cores of two EPYC 9654 has 32 MiB, and copies are
    split among them.
    """
    return max((level.size for level in host_caches()), default=0)


class MultiplyAdds(RoofProbe):
    """Chains of fused multiply-adds on a device, on numbers of `dtype`."""

    kind = "fma"

    def __init__(self, device: Device, dtype: str) -> None:
        super().__init__(device, dtype)
        self._device = device.best_view()
        self._run: tuple[int, Callable[[], object]] | None = None

    def prepare(self) -> Iterator[None]:
        """Allocate the arrays and run FIRST warm-ups."""
        self._run = _run_on(self._device, self._dtype)
        for _ in range(FIRST):
            self._run[1]()
            self._device.synchronise()
            yield

    def sample(self) -> float:
        """Return fused multiply-adds a second."""
        if self._run is None:
            deque(self.prepare(), maxlen=0)
        assert self._run is not None  # noqa: S101 made by `prepare`
        count, run = self._run
        stopwatch = self._device.stopwatch()
        with self._device.lock, stopwatch:
            run()
        return count / stopwatch.seconds()

    def close(self) -> None:
        """Free the arrays."""
        self._run = None


def _run_on(device: Device, dtype: str) -> tuple[int, Callable[[], object]]:
    """Return (FMAs of a run, the run) for the kind of device."""
    if isinstance(device, WebGpu):
        return _webgpu_run(device)
    return _gpu_run(device, dtype) if device.kind == "gpu" else _host_run(dtype)


def _webgpu_run(device: WebGpu) -> tuple[int, Callable[[], object]]:
    """Return (FMAs of a launch, the launch)."""
    out = device.allocate((webgpu_probe.GROUPS * webgpu_probe.THREADS,), np.float32)
    return webgpu_probe.count(WEBGPU_ROUNDS), partial(webgpu_probe.multiply_adds, out, WEBGPU_ROUNDS)


def _gpu_run(device: Device, dtype: str) -> tuple[int, Callable[[], None]]:
    """Return (FMAs of a launch, the launch)."""
    blocks = BLOCKS * int(device.describe()["multiprocessors"])
    out = device.allocate((blocks * THREADS,), dtype)
    b, c = np.dtype(dtype).type(0.5), np.dtype(dtype).type(0.25)
    with out.device:
        kernel = compile_cuda(FMA_SOURCE, defines={"REAL": REAL[dtype]}).get_function("fma_chains")

    def run() -> None:
        """Launch the chains."""
        with out.device:
            kernel((blocks,), (THREADS,), (out, b, c, np.int32(GPU_ROUNDS)))

    return out.size * GPU_ROUNDS * CHAINS * UNROLLED, run


def _host_run(dtype: str) -> tuple[int, Callable[[], None]]:
    """Return (FMAs of a run, the run): four rows a core, so that the cores share them evenly."""
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


# -- roofs in turn with the ways


class RoofMeter:
    """Samples each of `kinds` on each device, one at a time; the samples count in copy_bandwidth and fma_rate.

    The first sample allocates the arrays; `close` frees them, and a later sample allocates them again. live: a picture
    runs on the device, so the arrays are as small as the caches allow.
    """

    def __init__(self, devices: Iterable[Device], kinds: Collection[RoofKind], dtype: str, live: bool = False) -> None:
        devices = list(devices)
        copies = [Copies(device, live=live) for device in devices if "copy" in kinds]
        chains = [MultiplyAdds(device, dtype) for device in devices if "fma" in kinds and fma_measurable(device, dtype)]
        self._probes: list[RoofProbe] = [*copies, *chains]

    def sample(self) -> None:
        """Take one sample of each kind; some 50 ms a device."""
        for probe in self._probes:
            probe.record()

    def close(self) -> None:
        """Free all memory."""
        for probe in self._probes:
            probe.close()


def sampled_live(device: Device, kind: RoofKind, dtype: str, count: int) -> Generator[None, None, tuple[float, ...]]:
    """Take `count` samples of a roof while a live picture runs, in short slices; () if it cannot be measured.

    Each sample follows an uncounted one, since the threads sleep after a pause.
    """
    if kind == "fma" and not fma_measurable(device, dtype):
        return ()
    pieces = LIVE_PIECES[device.kind]
    rates = []
    probe = Copies(device, pieces, live=True) if kind == "copy" else MultiplyAdds(device, dtype)
    with closing(probe):
        for _ in probe.prepare():
            yield
        for _ in range(count):
            probe.sample()
            rates.append(probe.sample())
            yield
    return tuple(rates)
