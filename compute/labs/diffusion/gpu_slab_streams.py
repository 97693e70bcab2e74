"""Puts a plan of slabs.py on the streams of several GPUs, and records it as a CUDA graph.

Each GPU has two streams: one for most of its slab, and one that is served first for its edge strips and for the copies
of what they made. A work waits for what must be before it by events, across GPUs too; the host waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from compute.devices import Array
from compute.labs.diffusion.slabs import Copy, Launch, SlabWork

SlabRows = Sequence[Sequence[Array]]  # the array of each slab, of either grid
Launcher = Callable[[Launch], None]
SERVED_FIRST = -1  # CUDA's higher priorities are lower numbers
ALREADY_ENABLED = 704  # cudaErrorPeerAccessAlreadyEnabled
DIRECT, STAGED = "peer access", "the host's memory"


class SlabStreams:
    """The streams of the slabs on GPUs `numbers`. way: how rows travel, DIRECT or STAGED.

    unrecorded: why CUDA records no graph of them, as far as it was tried.
    """

    def __init__(self, numbers: Sequence[int], staged: bool = False) -> None:
        import cupy

        self._cuda = cupy.cuda
        self._gpus = [self._cuda.Device(number) for number in numbers]
        self._most, self._first, self._landing = [], [], []
        for gpu in self._gpus:
            with gpu:
                self._most.append(self._cuda.Stream(non_blocking=True))
                self._first.append(self._cuda.Stream(non_blocking=True, priority=SERVED_FIRST))
                self._landing.append(self._cuda.Stream(non_blocking=True, priority=SERVED_FIRST))
        self.way = STAGED if staged or not self._see_each_other() else DIRECT
        self.unrecorded = ""
        self._marks: list[list[Any]] = [[] for _ in numbers]  # events of each GPU
        self._used = [0 for _ in numbers]
        self._pinned: dict[tuple[int, int, int, int], Any] = {}  # where rows wait on the host

    def run(self, works: Sequence[SlabWork], arrays: SlabRows, launch: Launcher) -> None:
        """Put a plan on the streams: after all that the GPUs' default streams were given, and before what they will be.

        arrays: the two grids; launch(work) launches a kernel on the current stream.
        """
        self._enter()
        self._fork()
        self._put(works, arrays, launch)
        self._join()
        self._leave()

    def record(self, works: Sequence[SlabWork], arrays: SlabRows, launch: Launcher) -> Any:
        """The same as a graph for `replay`; every kernel must have run before."""
        self._used = [0 for _ in self._used]
        with self._gpus[0]:
            self._most[0].begin_capture()
            try:
                self._fork()
                self._put(works, arrays, launch)
                self._join()
            except BaseException:
                with suppress(RuntimeError):  # it says only that the capture has failed
                    self._most[0].end_capture()
                raise
            return self._most[0].end_capture()

    def replay(self, graphs: Sequence[Any]) -> None:
        """Do what was recorded, one graph after the other."""
        self._enter()
        with self._gpus[0]:
            for graph in graphs:
                graph.launch(self._most[0])
        self._leave()

    def bring(self, source: int, start: int, target: int, end: int, size: int) -> None:
        """Copy `size` bytes on default streams, from address `start` on a slab's GPU to address `end` on another's."""
        with self._gpus[source]:
            ready = self._mark(source, self._cuda.Stream.null)
        here, there = self._gpus[source].id, self._gpus[target].id
        with self._gpus[target]:
            null = self._cuda.Stream.null
            null.wait_event(ready)
            self._cuda.runtime.memcpyPeerAsync(end, there, start, here, size, null.ptr)

    # -- before and after

    def _enter(self) -> None:
        """The first stream waits for what the default streams were given."""
        self._used = [0 for _ in self._used]
        for number, gpu in enumerate(self._gpus):
            with gpu:
                self._most[0].wait_event(self._mark(number, self._cuda.Stream.null))

    def _leave(self) -> None:
        """The default streams wait for the first one."""
        with self._gpus[0]:
            done = self._mark(0, self._most[0])
        for gpu in self._gpus:
            with gpu:
                self._cuda.Stream.null.wait_event(done)

    def _fork(self) -> None:
        """Every stream waits for the first one."""
        with self._gpus[0]:
            begun = self._mark(0, self._most[0])
        for number, gpu in enumerate(self._gpus):
            with gpu:
                for stream in (self._first[number], self._landing[number], *self._most[max(number, 1) : number + 1]):
                    stream.wait_event(begun)

    def _join(self) -> None:
        """The first stream waits for every other one."""
        for number, gpu in enumerate(self._gpus):
            with gpu:
                for stream in (self._first[number], self._landing[number], *self._most[max(number, 1) : number + 1]):
                    self._most[0].wait_event(self._mark(number, stream))

    def _mark(self, number: int, stream: Any) -> Any:
        """An event of GPU `number`, which must be current, recorded on its stream."""
        if self._used[number] == len(self._marks[number]):
            self._marks[number].append(self._cuda.Event(disable_timing=True))
        event = self._marks[number][self._used[number]]
        self._used[number] += 1
        event.record(stream)
        return event

    # -- works

    def _put(self, works: Sequence[SlabWork], arrays: SlabRows, launch: Launcher) -> None:
        begins, ends = [self._begin(work) for work in works], [self._end(work) for work in works]
        awaited = {
            before for number, work in enumerate(works) for before in work.after if ends[before] is not begins[number]
        }
        marks: dict[int, Any] = {}
        fetched: dict[tuple[int, int, int], Any] = {}  # when rows on the host were fetched last
        for number, work in enumerate(works):
            stream = begins[number]
            with self._gpus[work.slab], stream:
                for before in work.after:
                    if ends[before] is not stream:
                        stream.wait_event(marks[before])
                if isinstance(work, Launch):
                    launch(work)
                elif self.way == DIRECT:
                    self._send(work, arrays, stream)
                else:
                    self._send_staged(work, arrays, stream, fetched)
            if number in awaited:
                at = work.to if isinstance(work, Copy) and self.way == STAGED else work.slab
                with self._gpus[at]:
                    marks[number] = self._mark(at, ends[number])

    def _begin(self, work: SlabWork) -> Any:
        """The stream on which a work begins."""
        first = isinstance(work, Copy) or work.strip
        return (self._first if first else self._most)[work.slab]

    def _end(self, work: SlabWork) -> Any:
        """The stream on which a work ends."""
        landing = isinstance(work, Copy) and self.way == STAGED
        return self._landing[work.to] if isinstance(work, Copy) and landing else self._begin(work)

    def _send(self, copy: Copy, arrays: SlabRows, stream: Any) -> None:
        """Rows from one GPU's memory to another's; of the two calls for it this is the one that graphs can hold."""
        source, target, size = _ends(copy, arrays)
        runtime = self._cuda.runtime
        runtime.memcpyAsync(target, source, size, runtime.memcpyDefault, stream.ptr)

    def _send_staged(self, copy: Copy, arrays: SlabRows, stream: Any, fetched: dict[tuple[int, int, int], Any]) -> None:
        """Rows by way of the host's memory, which the GPU that gets them fetches them from."""
        source, target, size = _ends(copy, arrays)
        runtime, key = self._cuda.runtime, (copy.slab, copy.to, copy.target)
        if (*key, size) not in self._pinned:
            self._pinned[*key, size] = self._cuda.alloc_pinned_memory(size)
        host = self._pinned[*key, size].ptr
        if key in fetched:
            stream.wait_event(fetched[key])
        runtime.memcpyAsync(host, source, size, runtime.memcpyDeviceToHost, stream.ptr)
        sent = self._mark(copy.slab, stream)
        landing = self._landing[copy.to]
        with self._gpus[copy.to]:
            landing.wait_event(sent)
            runtime.memcpyAsync(target, host, size, runtime.memcpyHostToDevice, landing.ptr)
            fetched[key] = self._mark(copy.to, landing)

    def _see_each_other(self) -> bool:
        """Whether each GPU can use every other's memory; lets it do so."""
        runtime = self._cuda.runtime
        numbers = sorted({gpu.id for gpu in self._gpus})
        pairs = [(one, other) for one in numbers for other in numbers if one != other]
        if not all(runtime.deviceCanAccessPeer(one, other) for one, other in pairs):
            return False
        for one, other in pairs:
            with self._cuda.Device(one):
                try:
                    runtime.deviceEnablePeerAccess(other)
                except runtime.CUDARuntimeError as error:
                    if error.status != ALREADY_ENABLED:
                        raise
        return True


def _ends(copy: Copy, arrays: SlabRows) -> tuple[int, int, int]:
    """Where a copy reads and writes (addresses), and its bytes."""
    source, target = arrays[copy.array][copy.slab], arrays[copy.array][copy.to]
    line = source.shape[1] * source.itemsize
    return source.data.ptr + copy.start * line, target.data.ptr + copy.target * line, copy.rows * line
