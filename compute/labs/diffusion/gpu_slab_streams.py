"""Execute a plan of slabs.py on the streams of several GPUs, or record it as a CUDA graph.

Each GPU has one stream for most of its slab, and prioritised streams for its edge strips, with the copies of their
rows, and for rows that arrive by way of the host. Works wait for their predecessors by events, also across GPUs; the
host never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from compute.devices.devices import Array
from compute.labs.diffusion.slabs import Copy, Launch, SlabWork

SlabRows = Sequence[Sequence[Array]]  # the array of each slab, for both grids
Launcher = Callable[[Launch], None]
SERVED_FIRST = -1  # lower numbers are higher priorities in CUDA
ALREADY_ENABLED = 704  # cudaErrorPeerAccessAlreadyEnabled
DIRECT, STAGED = "peer access", "the host's memory"


class SlabStreams:
    """The streams of the slabs on GPUs `numbers`. way: how rows are copied, DIRECT or STAGED.

    unrecorded: why CUDA cannot record a graph of them; "" unless an attempt failed.
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
        self._pinned: dict[tuple[int, int, int, int], Any] = {}  # buffers of rows on the host

    def run(self, works: Sequence[SlabWork], arrays: SlabRows, launch: Launcher) -> None:
        """Run a plan after all work queued on the GPUs' default streams, and before work that is queued there later.

        arrays: the two grids; launch(work) launches a kernel on the current stream.
        """
        self._enter()
        self._fork()
        self._put(works, arrays, launch)
        self._join()
        self._leave()

    def record(self, works: Sequence[SlabWork], arrays: SlabRows, launch: Launcher) -> Any:
        """Record a plan as a graph for `replay`; every kernel must have run before."""
        self._used = [0 for _ in self._used]
        with self._gpus[0]:
            self._most[0].begin_capture()
            try:
                self._fork()
                self._put(works, arrays, launch)
                self._join()
            except BaseException:
                with suppress(RuntimeError):  # reports only that the capture has failed
                    self._most[0].end_capture()
                raise
            return self._most[0].end_capture()

    def replay(self, graphs: Sequence[Any]) -> None:
        """Run the recorded graphs one after the other."""
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
        """Let the first stream wait for the work on the default streams."""
        self._used = [0 for _ in self._used]
        for number, gpu in enumerate(self._gpus):
            with gpu:
                self._most[0].wait_event(self._mark(number, self._cuda.Stream.null))

    def _leave(self) -> None:
        """Let the default streams wait for the first stream."""
        with self._gpus[0]:
            done = self._mark(0, self._most[0])
        for gpu in self._gpus:
            with gpu:
                self._cuda.Stream.null.wait_event(done)

    def _fork(self) -> None:
        """Let every stream wait for the first one."""
        with self._gpus[0]:
            begun = self._mark(0, self._most[0])
        for number, gpu in enumerate(self._gpus):
            with gpu:
                for stream in (self._first[number], self._landing[number], *self._most[max(number, 1) : number + 1]):
                    stream.wait_event(begun)

    def _join(self) -> None:
        """Let the first stream wait for every other one."""
        for number, gpu in enumerate(self._gpus):
            with gpu:
                for stream in (self._first[number], self._landing[number], *self._most[max(number, 1) : number + 1]):
                    self._most[0].wait_event(self._mark(number, stream))

    def _mark(self, number: int, stream: Any) -> Any:
        """Return an event of GPU `number`, which must be current, recorded on `stream`."""
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
        fetched: dict[tuple[int, int, int], Any] = {}  # events of the latest reads of the host buffers
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
        """Return the stream on which a work begins."""
        first = isinstance(work, Copy) or work.strip
        return (self._first if first else self._most)[work.slab]

    def _end(self, work: SlabWork) -> Any:
        """Return the stream on which a work ends."""
        landing = isinstance(work, Copy) and self.way == STAGED
        return self._landing[work.to] if isinstance(work, Copy) and landing else self._begin(work)

    def _send(self, copy: Copy, arrays: SlabRows, stream: Any) -> None:
        """Copy rows from GPU to GPU, with the one of CUDA's two calls for this that graphs can contain."""
        source, target, size = _ends(copy, arrays)
        runtime = self._cuda.runtime
        runtime.memcpyAsync(target, source, size, runtime.memcpyDefault, stream.ptr)

    def _send_staged(self, copy: Copy, arrays: SlabRows, stream: Any, fetched: dict[tuple[int, int, int], Any]) -> None:
        """Copy rows through a host buffer, from which the receiving GPU reads them."""
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
        """Return whether each GPU can access every other's memory, and enable the access."""
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
    """Return the source and target addresses of a copy, and its bytes."""
    source, target = arrays[copy.array][copy.slab], arrays[copy.array][copy.to]
    line = source.shape[1] * source.itemsize
    return source.data.ptr + copy.start * line, target.data.ptr + copy.target * line, copy.rows * line
