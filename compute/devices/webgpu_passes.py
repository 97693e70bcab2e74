"""The connection to a GPU of WebGPU: buffers, passes of launches, and stopwatches. The device is in webgpu.py.

Launches are collected in a compute pass until there are LAUNCHES of them, or the host waits for, reads or writes an
array; the GPU keeps their order.
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from compute.devices import wgpu_internals
from compute.devices.devices import DeviceLost, Stopwatch
from compute.measure.timing import note_span

REQUIRED = ("immediates",)  # features: numbers that are passed with a launch
TIMESTAMPS, SUBGROUP = OPTIONAL = "timestamp-query", "subgroup"
LIMITS = (
    "max-buffer-size", "max-storage-buffer-binding-size", "max-compute-workgroup-storage-size",
    "max-compute-invocations-per-workgroup", "max-compute-workgroup-size-x", "max-storage-buffers-per-shader-stage",
)  # fmt: skip
IMMEDIATE_BYTES = 128  # that Vulkan guarantees
LARGEST = 2**40  # bytes; some drivers report 2^64 - 1, which no signed number holds
WORD = 4  # bytes
VECTOR = 16  # bytes of a vec4<f32>
LOST = "device is lost"  # in the text of every error after the loss
PASSES = 64  # timed passes between two submissions
LAUNCHES = 64  # between two submissions if nothing is timed: the GPU computes while the host launches more


class WebGpuError(RuntimeError):
    """WebGPU refused an operation; the message contains its text."""


@dataclass
class Storage:
    """A buffer on a GPU, returned to `gpu` when no array uses it any more.

    nbytes: of the words of an array, which the buffer exceeds by less than a vector; number: identifies it in the
    process.
    """

    gpu: Gpu
    buffer: Any
    nbytes: int
    number: int = field(default_factory=count().__next__)

    def __del__(self) -> None:
        self.gpu.retired.append((self.number, self.buffer))


@dataclass(frozen=True, eq=False)
class WgpuArray:
    """A C-contiguous array in a buffer, from its element `offset` on. The buffer consists of whole vectors."""

    storage: Storage
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int = 0

    @property
    def gpu(self) -> Gpu:
        """The GPU of the buffer."""
        return self.storage.gpu

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * self.dtype.itemsize

    def reshape(self, shape: tuple[int, ...]) -> WgpuArray:
        """Return the same elements in another shape of the same size."""
        if math.prod(shape) != self.size:
            raise ValueError(f"shape must have {self.size} elements, not {shape}")
        return WgpuArray(self.storage, shape, self.dtype, self.offset)

    def __getitem__(self, key: int | slice | tuple[slice, slice]) -> WgpuArray:
        """Return a contiguous part: elements of the first axis, or a part of one row as (slice, slice)."""
        shape: tuple[int, ...]
        if isinstance(key, slice):
            first, last, stride = key.indices(self.shape[0])
            if stride != 1:
                raise IndexError(f"an array of WebGPU has contiguous parts only: stride must be 1, not {stride}")
            shape, start = (max(0, last - first), *self.shape[1:]), first * math.prod(self.shape[1:])
        elif isinstance(key, tuple):
            rows, columns = (part.indices(length) for part, length in zip(key, self.shape, strict=True))
            if rows[1] - rows[0] != 1 or rows[2] != 1 or columns[2] != 1:
                raise IndexError("an array of WebGPU has contiguous parts only: slices must select a part of one row")
            shape = 1, columns[1] - columns[0]
            start = rows[0] * self.shape[1] + columns[0]
        else:
            if not 0 <= key < self.shape[0]:
                raise IndexError(f"index must be from 0 to {self.shape[0] - 1}, not {key}")
            shape, start = self.shape[1:], key * math.prod(self.shape[1:])
        return WgpuArray(self.storage, shape, self.dtype, self.offset + start)


class Gpu:
    """The connection to one GPU that all devices of a process with the same number share.

    Opens passes and submits them. kernels: compiled pipelines by program and name; groups: bind groups by layout and
    the numbers of their buffers; retired: numbers and buffers without an array, which are destroyed after the launches
    that may use them. subgroup: the threads of every subgroup, 0 if their number may differ between kernels. lost: why
    the device is unusable, "" if it works.
    """

    def __init__(self, adapter: Any) -> None:
        import wgpu

        self.adapter, self.lock, self.lost = adapter, threading.RLock(), ""
        self._refusal = wgpu.GPUError
        self.usage = wgpu.BufferUsage
        features = [*REQUIRED, *(name for name in OPTIONAL if name in adapter.features)]
        limits = {name: min(adapter.limits[name], LARGEST) for name in LIMITS}
        immediates = min(adapter.limits["max-immediate-size"], IMMEDIATE_BYTES)
        self.device = adapter.request_device_sync(
            required_features=features, required_limits=limits | {"max-immediate-size": immediates}
        )
        self.largest = min(limits["max-buffer-size"], limits["max-storage-buffer-binding-size"])
        self.kernels: dict[Any, Any] = {}
        self.groups: dict[tuple[int, ...], Any] = {}
        self.retired: list[tuple[int, Any]] = []
        self._padding: dict[int, Storage] = {}
        self._encoder: Any = None
        self._pass: Any = None
        self._set: tuple[Any, bytes] = None, b""  # pipeline and numbers of the open pass: each call takes microseconds
        self._queries: Any = None
        self._timed = 0  # passes of the open encoder with timestamps
        self._launches = 0  # since the last submission
        self.stamps: list[Any] | None = None  # buffers of timestamps while a stopwatch runs
        self.landings: defaultdict[int, list[Any]] = defaultdict(list)  # unused mappable buffers, by their bytes
        self.tick = wgpu_internals.timestamp_period(self.device) if TIMESTAMPS in features else None
        self.subgroup = 0

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise errors of wgpu in the block as DeviceLost, MemoryError or WebGpuError, with their text in one line."""
        try:
            yield
        except self._refusal as error:
            text = " ".join(str(error).replace("Validation Error", "").replace("Caused by:", "").split())
            if LOST in text:
                self.lost = text
                raise DeviceLost(f"the GPU {self.adapter.info['device']} was lost: {text}") from error
            kind = MemoryError if isinstance(error, MemoryError) else WebGpuError
            raise kind(f"WebGPU refused an operation: {text}") from error

    # -- buffers

    def buffer(self, nbytes: int, usage: int) -> Any:
        """Return a new buffer; raise MemoryError if the GPU has no room for it."""
        if nbytes > self.largest:
            raise MemoryError(
                f"{nbytes / 2**20:.0f} MiB in one array; WebGPU allows at most {self.largest / 2**20:.0f} MiB here"
            )
        if self.retired:
            self.submit()
        with self.errors():
            return self.device.create_buffer(size=nbytes, usage=usage)

    def storage(self, nbytes: int) -> Storage:
        """Return storage of at least `nbytes` bytes for an array, which kernels may read in vectors."""
        vectors = max(1, -(-nbytes // VECTOR))
        usage = self.usage.STORAGE | self.usage.COPY_SRC | self.usage.COPY_DST
        return Storage(self, self.buffer(VECTOR * vectors, usage), WORD * max(1, -(-nbytes // WORD)))

    def padding(self, binding: int) -> Storage:
        """Return the storage for a binding that a kernel does not use."""
        if binding not in self._padding:
            self._padding[binding] = self.storage(WORD)
        return self._padding[binding]

    # -- launches

    def launch(
        self,
        pipeline: Any,
        layout: Any,
        grid: Sequence[int],
        arrays: Sequence[Storage],
        numbers: bytes,
        vectors: Collection[int],
    ) -> None:
        """Add a launch to the open pass. vectors: the bindings that a kernel reads in vectors."""
        with self.lock, self.errors():
            if self._pass is None:
                self._begin_pass()
                self._set = None, b""
            if self._set[0] is not pipeline:
                self._pass.set_pipeline(pipeline)
                self._set = pipeline, b""
            self._pass.set_bind_group(0, self._group(layout, arrays, vectors))
            if numbers != self._set[1]:
                self._pass.set_immediates(0, numbers, 0, len(numbers))
                self._set = pipeline, numbers
            self._pass.dispatch_workgroups(*grid)
            self._launches += 1
            if self._launches >= LAUNCHES and self.stamps is None:
                self.submit()

    def _group(self, layout: Any, arrays: Sequence[Storage], vectors: Collection[int]) -> Any:
        """Return the bind group of these arrays, created at the first use: whole buffers where `vectors` are read."""
        key = (id(layout), *(each.number for each in arrays))
        found = self.groups.get(key)
        if found is None:
            entries = [
                {"binding": k, "resource": {"buffer": each.buffer} | ({} if k in vectors else {"size": each.nbytes})}
                for k, each in enumerate(arrays)
            ]
            found = self.groups[key] = self.device.create_bind_group(layout=layout, entries=entries)
        return found

    def copy(self, source: WgpuArray, target: Any, start: int = 0) -> None:
        """Queue a copy of the words of `source` to byte `start` of the buffer `target`."""
        with self.lock, self.errors():
            self._end_pass()
            if self._encoder is None:
                self._encoder = self.device.create_command_encoder()
            first = source.offset * source.dtype.itemsize
            nbytes = -(-source.nbytes // WORD) * WORD
            self._encoder.copy_buffer_to_buffer(source.storage.buffer, first, target, start, nbytes)

    def _begin_pass(self) -> None:
        if self._timed == PASSES:
            self.submit()
        if self._encoder is None:
            self._encoder = self.device.create_command_encoder()
        if self.stamps is None:
            self._pass = self._encoder.begin_compute_pass()
            return
        if self._queries is None:
            self._queries = self.device.create_query_set(type="timestamp", count=2 * PASSES)
        first = 2 * self._timed
        stamps = {
            "query_set": self._queries,
            "beginning_of_pass_write_index": first,
            "end_of_pass_write_index": first + 1,
        }
        self._pass = self._encoder.begin_compute_pass(timestamp_writes=stamps)
        self._timed += 1

    def _end_pass(self) -> None:
        if self._pass is not None:
            self._pass.end()
            self._pass = None

    def submit(self) -> None:
        """Submit what was launched, and destroy the buffers that no array uses any more."""
        with self.lock, self.errors():
            retired, self.retired = self.retired, []
            self._launches = 0
            self._end_pass()
            if self._timed and self.stamps is not None:
                queries = 2 * self._timed
                stamps = self.device.create_buffer(
                    size=8 * queries, usage=self.usage.QUERY_RESOLVE | self.usage.COPY_SRC
                )
                self._encoder.resolve_query_set(self._queries, 0, queries, stamps, 0)
                self.stamps.append(stamps)
            self._timed = 0
            if self._encoder is not None:
                encoder, self._encoder = self._encoder, None
                self.device.queue.submit([encoder.finish()])
            if retired:
                gone = {number for number, _ in retired}
                self.groups = {key: group for key, group in self.groups.items() if gone.isdisjoint(key[1:])}
            for _, buffer in retired:
                buffer.destroy()

    def wait(self) -> None:
        """Wait until everything that was launched has finished: read a word that is copied after it."""
        with self.lock, self.errors():
            self.submit()
            self.device.queue.read_buffer(self.padding(0).buffer, 0, WORD)

    def timestamps(self, buffers: Sequence[Any]) -> NDArray[np.uint64]:
        """Return the timestamps (passes, 2) in ticks, begin and end; waits for the passes."""
        with self.lock, self.errors():
            read = [np.frombuffer(self.device.queue.read_buffer(each), np.uint64) for each in buffers]
        return np.concatenate(read).reshape(-1, 2)


class TimestampStopwatch(Stopwatch):
    """Device time from the start of the first pass in the block to the end of the last one."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._seconds: float | None = None

    def __enter__(self) -> Self:
        self._gpu.lock.acquire()
        if self._gpu.stamps is not None:
            self._gpu.lock.release()
            raise RuntimeError("a stopwatch of this WebGPU device already runs")
        self._gpu.submit()
        self._entered = time.perf_counter()
        self._gpu.stamps = []
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._gpu.submit()
        finally:
            self._stamps, self._gpu.stamps = self._gpu.stamps or [], None
            self._gpu.lock.release()
        left = time.perf_counter()
        self.launch = left - self._entered
        note_span(left, self.launch, "launch")

    def seconds(self) -> float:
        """Return the seconds between the timestamps, 0 if nothing was launched; waits for the passes."""
        if self._seconds is None:
            ticks = self._gpu.timestamps(self._stamps) if self._stamps else np.zeros((1, 2), np.uint64)
            self._seconds = 1e-9 * float(self._gpu.tick or 0.0) * float(ticks[-1, 1] - ticks[0, 0])
            note_span(time.perf_counter(), self._seconds)
        return self._seconds


class WallStopwatch(Stopwatch):
    """Host time from entering until the device has finished, for GPUs without usable timestamps."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def __enter__(self) -> Self:
        self._gpu.wait()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self._gpu.submit()
        self.launch = time.perf_counter() - self._start
        self._gpu.wait()
        self._stop = time.perf_counter()
        note_span(self._stop, self._stop - self._start)

    def seconds(self) -> float:
        """Return the seconds between entering and the end of the work."""
        return self._stop - self._start
