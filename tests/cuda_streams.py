"""Stand-in for the streams, events, graphs and copies of `cupy.cuda` on a machine without a GPU.

Work on a stream does not run immediately: a stream queues it until a call synchronises. Then the head of a randomly
chosen stream that need not wait runs, then the next: any order that the events allow can occur. A GPU does not report a
missing event; here it shows in the results.
"""

from __future__ import annotations

import ctypes
import random
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.cuda_on_cpu import DeviceArray, FakeGpu

GPUS = 3
PERSEVERANCE = 0.7  # probability that the favourite stream runs next: it gets far ahead of the others


class Queue:
    """The queued work of a stream: ("do", function), ("mark", event, number) or ("wait", event, number)."""

    def __init__(self) -> None:
        self.works: deque[tuple[Any, ...]] = deque()


class Cuda:
    """The used part of `cupy.cuda`."""

    def __init__(self, seed: int, gpus: int, peers: bool = True) -> None:  # noqa: C901 - a class for each of CuPy's
        self.random, self.queues, self.current, self.device = random.Random(seed), [], [], 0
        self.capturing: Capture | None = None
        cuda = self

        class Device(nullcontext):  # type: ignore[type-arg]
            def __init__(self, number: int) -> None:
                assert 0 <= number < gpus
                super().__init__()
                self.id = number
                self.before: list[int] = []

            def __enter__(self) -> None:
                self.before.append(cuda.device)
                cuda.device = self.id

            def __exit__(self, *exc: object) -> None:
                cuda.device = self.before.pop()

        class Stream:
            null: Any

            def __init__(self, non_blocking: bool = True, priority: int = 0) -> None:
                self.device_id, self.own = cuda.device, cuda.queue()
                self.ptr = id(self)
                cuda.by_pointer[self.ptr] = self

            @property
            def queue(self) -> Queue:
                return cuda.capturing.queue(self.own) if cuda.capturing and self.own in cuda.capturing else self.own

            def __enter__(self) -> Stream:
                assert self.device_id == cuda.device, "a stream is used on another GPU"
                cuda.current.append(self)
                return self

            def __exit__(self, *exc: object) -> None:
                cuda.current.pop()

            def wait_event(self, event: Event) -> None:
                if cuda.capturing and event in cuda.capturing.events:
                    cuda.capturing.join(self.own)
                self.queue.works.append(("wait", event, event.number))

            def begin_capture(self) -> None:
                cuda.capturing = Capture(self.own)

            def end_capture(self) -> Graph:
                captured, cuda.capturing = cuda.capturing, None
                return Graph(captured)

            def synchronize(self) -> None:
                cuda.finish()

        class Event:
            def __init__(self, disable_timing: bool = False) -> None:
                self.device_id, self.number, self.reached = cuda.device, 0, 0

            def synchronize(self) -> None:
                cuda.finish()

            def record(self, stream: Any = None) -> None:
                stream = stream or cuda.nulls[cuda.device]
                assert self.device_id in (stream.device_id, cuda.device), "an event is recorded on another GPU"
                self.number += 1
                if cuda.capturing and stream.own in cuda.capturing:
                    cuda.capturing.events.add(self)
                stream.queue.works.append(("mark", self, self.number))

        class Capture:
            """The streams that joined a capture, and their works."""

            def __init__(self, origin: Queue) -> None:
                self.queues, self.events = {id(origin): Queue()}, set()

            def __contains__(self, own: Queue) -> bool:
                return id(own) in self.queues

            def join(self, own: Queue) -> None:
                self.queues.setdefault(id(own), Queue())

            def queue(self, own: Queue) -> Queue:
                return self.queues[id(own)]

        class Graph:
            def __init__(self, captured: Capture) -> None:
                self.queues = [list(queue.works) for queue in captured.queues.values()]

            def launch(self, stream: Stream) -> None:
                def replayed() -> None:
                    queues = [Queue() for _ in self.queues]
                    for queue, works in zip(queues, self.queues, strict=True):
                        queue.works.extend(works)
                        for work in works:
                            if work[0] == "mark":
                                work[1].reached = 0
                    cuda.drain(queues)

                stream.queue.works.append(("do", replayed))

        self.by_pointer: dict[int, Stream] = {}
        self.Device, self.Stream, self.Event = Device, Stream, Event
        self.nulls = []
        for number in range(gpus):
            with Device(number):
                self.nulls.append(Stream())
        Stream.null = SimpleNamespace()
        self.null = Stream.null
        Stream.null = _Null(self)
        self.get_elapsed_time = lambda *_: 1.0
        self.runtime = SimpleNamespace(
            memcpyAsync=self.copy,
            memcpyPeerAsync=lambda to, _, of, __, size, stream: self.copy(to, of, size, 0, stream),
            memcpyDefault=4, memcpyDeviceToHost=2, memcpyHostToDevice=1,
            deviceCanAccessPeer=lambda *_: peers, deviceEnablePeerAccess=lambda _: None, CUDARuntimeError=OSError,
        )  # fmt: skip

    def queue(self) -> Queue:
        self.queues.append(Queue())
        return self.queues[-1]

    def alloc_pinned_memory(self, size: int) -> Any:
        block = np.full(size, 255, np.uint8)
        return SimpleNamespace(ptr=block.ctypes.data, block=block)

    def copy(self, target: int, source: int, size: int, _kind: int, stream: int) -> None:
        self.put(lambda: ctypes.memmove(target, source, size), self.by_pointer[stream])

    def put(self, work: Callable[[], object], stream: Any = None) -> None:
        """Queue work on a stream, by default the current stream of the current GPU."""
        chosen = stream or (self.current[-1] if self.current else self.nulls[self.device])
        chosen.queue.works.append(("do", work))

    def finish(self) -> None:
        """Run all queued work."""
        self.drain(self.queues)

    def drain(self, queues: list[Queue]) -> None:
        favourites = self.random.sample(range(len(queues)), len(queues))
        while any(queue.works for queue in queues):
            ready = [queues[i] for i in favourites if queues[i].works and self.may(queues[i].works[0])]
            assert ready, "every stream waits for another one"
            chosen = ready[0] if self.random.random() < PERSEVERANCE else self.random.choice(ready)
            kind, *rest = chosen.works.popleft()
            if kind == "do":
                rest[0]()
            elif kind == "mark":
                rest[0].reached = max(rest[0].reached, rest[1])

    def may(self, work: tuple[Any, ...]) -> bool:
        return work[0] != "wait" or work[1].reached >= work[2]


class _Null:
    """The default stream of the current GPU."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cuda.nulls[self._cuda.device], name)


class SlabGpu(FakeGpu):
    """The GPU with a given number: arrays are in host memory, writes and downloads synchronise."""

    cuda: Cuda

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.index, self.name, self.kind = number, f"cuda:{number}", "gpu"

    @staticmethod
    def count() -> int:
        return GPUS

    def allocate(self, shape: Any, dtype: Any) -> Any:
        array = np.full(shape, 7 if np.dtype(dtype).kind == "u" else np.nan, dtype).view(SlabPart)
        array.device = self.cuda.Device(self.index)
        return array

    def write(self, host: Any, array: Any) -> None:
        self.cuda.finish()
        array[...] = host

    def download(self, array: Any) -> Any:
        self.cuda.finish()
        return np.array(array)


class SlabPart(DeviceArray):
    """An array with an address like CuPy's."""

    device: Any = None

    def __array_finalize__(self, parent: Any) -> None:
        self.device = getattr(parent, "device", None)

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)
