"""A watched version of Numba's CUDA simulator: an AccessWatch sets the order of threads, and accesses are recorded.

For a process started with NUMBA_ENABLE_CUDASIM=1; `install` changes the simulator of the whole process. Each CUDA
thread is a thread of the operating system, and only one runs at a time, from barrier to barrier: a kernel behaves the
same each time it runs in the same order.
"""

from __future__ import annotations

import inspect
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, wraps
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.own.watch import Access, AccessWatch, KernelLaunch, Order

WARP, SECTOR = 32, 32  # threads; bytes
VISIBLE = {"threadfence", "threadfence_block", "threadfence_system"}
GridIndex = tuple[int, int, int]


class OutsideArray(Exception):
    """A thread accessed an element outside of an array; ends the launch."""


class Abandoned(BaseException):
    """Ends the waiting threads when the launch is over."""


@dataclass
class Region:
    """Memory that threads share. name: of the array, "" for shared memory; array: on the host."""

    name: str
    array: NDArray[Any]

    def __post_init__(self) -> None:
        root = self.array
        while isinstance(root.base, np.ndarray):
            root = root.base
        begin = int(root.ctypes.data)
        self.ends = begin, begin + root.nbytes  # addresses of the first byte and of the one behind the last


@dataclass
class Touch:
    """An access to an element, with the number of barriers that its block had passed."""

    block: int
    thread: int
    epoch: int
    atomic: bool
    access: Access


@dataclass
class Running:
    """The running launch: its counts and the last accesses to each element."""

    kernel: str
    grid: GridIndex
    block_size: GridIndex
    regions: list[Region]
    outside: Access | None = None
    race: tuple[Access, Access] | None = None
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("reads", "writes", "atomics", "shared"), 0))
    barriers: int = 0
    epoch: int = 0
    fenced: bool = False
    atomic: bool = False
    current: CudaThread = field(default=None)  # type: ignore[assignment]  # set before anything runs
    written: dict[int, Touch] = field(default_factory=dict)
    read: dict[int, list[Touch]] = field(default_factory=dict)
    sectors: dict[tuple[int, int, int], set[int]] = field(default_factory=dict)
    shared_arrays: dict[Any, WatchedArray] = field(default_factory=dict)

    def heard(self, array: NDArray[Any], address: int, verb: str, changes: Callable[[], bool]) -> None:
        """Record an access at `address` of `array`. changes: returns whether a write changes the value."""
        region = next((r for r in self.regions if r.ends[0] <= address < r.ends[1]), None)
        verb = "atomic" if self.atomic else verb
        if region is None or not region.name:
            self.counts["shared"] += 1
            access = self._access("shared memory", 0, 0, verb)
        else:
            self.counts[{"read": "reads", "write": "writes", "atomic": "atomics"}[verb]] += 1
            element = (address - region.ends[0]) // array.itemsize
            access = self._access(region.name, (region.ends[1] - region.ends[0]) // array.itemsize, element, verb)
            me = self.current
            key = me.block_number, me.thread_id // WARP, me.accesses
            me.accesses += 1
            self.sectors.setdefault(key, set()).add((address - region.ends[0]) // SECTOR + (id(region) << 40))
        self._look_for_race(address, access, region is not None and bool(region.name), changes)

    def _look_for_race(self, address: int, access: Access, global_: bool, changes: Callable[[], bool]) -> None:
        me = self.current
        mark = Touch(me.block_number, me.thread_id, self.epoch, access.verb == "atomic", access)
        before = self.written.get(address)
        if before and self._unordered(before, mark, global_) and (access.verb != "write" or before.atomic or changes()):
            self.race = self.race or (before.access, access)
        if access.verb == "read":
            kept = [one for one in self.read.get(address, []) if (one.block, one.thread) != (mark.block, mark.thread)]
            self.read[address] = [*kept[-1:], mark]
            return
        for one in self.read.get(address, []):
            if self._unordered(one, mark, global_):
                self.race = self.race or (one.access, access)
        self.written[address] = mark

    def _unordered(self, one: Touch, other: Touch, global_: bool) -> bool:
        if one.atomic and other.atomic:
            return False
        if one.block != other.block:
            return global_ and not self.fenced
        return one.thread != other.thread and one.epoch == other.epoch

    def _access(self, name: str, size: int, element: int, verb: str) -> Access:
        me = self.current
        return Access(name, size, element, verb, tuple(me.blockIdx), tuple(me.threadIdx))

    def left(self, array: NDArray[Any], index: Any, verb: str) -> None:
        """Record an access outside of `array` and end the launch."""
        region = next((r for r in self.regions if r.name and np.shares_memory(r.array, array)), None)
        plain = isinstance(index, (int, np.integer)) and region is not None
        name = f"{region.name if region else 'shared memory'}" + ("" if plain else f", shape {array.shape}, at {index}")
        self.outside = self._access(name, array.size if plain else 0, int(index) if plain else 0, verb)
        raise OutsideArray

    def launch(self) -> KernelLaunch:
        """Return the record of this launch."""
        return KernelLaunch(
            self.kernel, self.outside, None if self.outside else self.race, None, self.counts["reads"],
            self.counts["writes"], self.counts["atomics"], self.counts["shared"], self.barriers,
            sum(map(len, self.sectors.values())), len(self.sectors),
        )  # fmt: skip


_running: list[Running] = []


class WatchedArray:
    """An array as a kernel sees it, instead of the simulator's own wrapper."""

    def __init__(self, item: Any) -> None:
        self.__dict__["ary"] = array = getattr(item, "_ary", item)
        self.__dict__["address"] = array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__dict__["ary"], name)
        return WatchedArray(found) if isinstance(found, np.ndarray) else found

    def __len__(self) -> int:
        return len(self.ary)

    def __getitem__(self, index: Any) -> Any:
        array: NDArray[Any] = self.ary
        try:
            found = array[index]
        except IndexError:
            _running[-1].left(array, index, "read")
        if isinstance(found, np.ndarray):
            return WatchedArray(found)
        _running[-1].heard(array, _address(self, index), "read", lambda: False)
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        array: NDArray[Any] = self.ary
        try:
            old = array[index]
        except IndexError:
            _running[-1].left(array, index, "write")
        value = getattr(value, "ary", value)
        if not isinstance(old, np.ndarray):
            new = array.dtype.type(value) if array.dtype.names is None else value
            _running[-1].heard(array, _address(self, index), "write", lambda: bool(new != old))
        array[index] = value

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*(getattr(a, "ary", a) for a in args), **kwargs)


def _address(watched: WatchedArray, index: Any) -> int:
    array = watched.ary
    place = index if isinstance(index, tuple) else (index,)
    offset = sum(
        (int(i) % size if size else 0) * stride
        for i, size, stride in zip(place, array.shape, array.strides, strict=False)
    )
    return int(watched.address) + offset


# -- threads


class CudaThread:
    """The running thread, as the simulator uses it: its indices and barriers."""

    def __init__(self, block: GridIndex, thread: GridIndex, running: Running) -> None:
        from numba.cuda.simulator.kernelapi import Dim3

        (gx, gy, _), (bx, by, _) = running.grid, running.block_size
        self.blockIdx, self.threadIdx = Dim3(*block), Dim3(*thread)
        self.thread_id = thread[0] + bx * (thread[1] + by * thread[2])
        self.block_number = block[0] + gx * (block[1] + gy * block[2])
        self.accesses, self.value = 0, False
        self._running = running
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.over, self.abandoned = False, False
        self.error: BaseException | None = None
        self.others: list[CudaThread] = []

    def syncthreads(self) -> None:
        """Wait until every other thread of the block has reached a barrier or its end."""
        self._stopped.release()
        self._go.acquire()
        if self.abandoned:
            raise Abandoned

    def syncthreads_count(self, value: Any) -> int:
        """Return the number of threads of the block with a true `value`."""
        self.value = bool(value)
        self.syncthreads()
        count = sum(other.value for other in self.others)
        self.syncthreads()
        return count

    def syncthreads_and(self, value: Any) -> int:
        """Return 1 if `value` is true for every thread of the block, else 0."""
        return int(self.syncthreads_count(not value) == 0)

    def syncthreads_or(self, value: Any) -> int:
        """Return 1 if `value` is true for any thread of the block, else 0."""
        return int(self.syncthreads_count(value) > 0)

    def resume(self) -> None:
        """Run the thread until its next barrier or its end."""
        self._go.release()
        self._stopped.acquire()

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Run the kernel as this CUDA thread; called on a thread of the pool."""
        self._go.acquire()
        error: BaseException | None = None
        try:
            if not self.abandoned:
                function(*arguments)
        except BaseException as raised:  # noqa: BLE001 - raised again by the thread that waits for the launch
            error = raised
        self.over = True
        self.error = None if isinstance(error, Abandoned) else error
        self._stopped.release()


class SimulatorThreads:
    """A pool of operating system threads, reused for the next block."""

    def __init__(self) -> None:
        self._free: list[_Worker] = []

    def start(self, task: Callable[[], None]) -> None:
        """Run `task` on a thread of the pool."""
        worker = self._free.pop() if self._free else _Worker(self._free)
        worker.give(task)


class _Worker:
    def __init__(self, free: list[_Worker]) -> None:
        self._free, self._given = free, threading.Semaphore(0)
        self._task: Callable[[], None] | None = None
        threading.Thread(target=self._work, daemon=True).start()

    def give(self, task: Callable[[], None]) -> None:
        """Run `task`, then return to the pool."""
        self._task = task
        self._given.release()

    def _work(self) -> None:
        while True:
            self._given.acquire()
            assert self._task is not None  # noqa: S101 - `give` comes first
            self._task()
            self._free.append(self)


_pool = SimulatorThreads()


def run_launch(kernel: Any, grid: GridIndex, block_size: GridIndex, arguments: tuple[Any, ...]) -> None:
    """Run a launch in the order set by the AccessWatch of this process, and report it to the watch."""
    watch = AccessWatch.current()
    names = list(inspect.signature(kernel).parameters)
    arrays = [(n, a) for n, a in zip(names, arguments, strict=False) if isinstance(a, WatchedArray)]
    running = Running(kernel.__name__, grid, block_size, [Region(name, array.ary) for name, array in arrays])
    _running.append(running)
    shuffle = random.Random(watch.next_seed())
    try:
        for block in _turns(grid, watch.order, shuffle):
            running.epoch = 0
            running.shared_arrays.clear()
            running.regions[len(arrays) :] = []
            _run_block(running, kernel, block, _turns(block_size, watch.order, shuffle), arguments)
    except OutsideArray:
        pass
    finally:
        _running.pop()
    watch.heard(running.launch())


def _turns(size: GridIndex, order: Order, shuffle: random.Random) -> list[GridIndex]:
    x, y, _ = size
    found = [(i % x, i // x % y, i // x // y) for i in range(prod(size))]
    if order is Order.backwards:
        found.reverse()
    elif order is Order.random:
        shuffle.shuffle(found)
    return found


def _run_block(
    running: Running, kernel: Callable[..., Any], block: GridIndex, turns: list[GridIndex], arguments: tuple[Any, ...]
) -> None:
    threads = [CudaThread(block, place, running) for place in turns]
    if not _has_barriers(kernel):
        for thread in threads:
            running.current = thread
            kernel(*arguments)
        return
    for thread in threads:
        thread.others = threads
        _pool.start(lambda thread=thread: thread.run(kernel, arguments))  # type: ignore[misc]
    try:
        while living := [thread for thread in threads if not thread.over]:
            for thread in living:
                running.current = thread
                thread.resume()
                if thread.error:
                    raise thread.error
            running.epoch += 1
            running.barriers += any(not thread.over for thread in threads)
    finally:
        for thread in threads:
            if not thread.over:
                thread.abandoned = True
                thread.resume()


@cache
def _has_barriers(kernel: Callable[..., Any]) -> bool:
    """Return whether a kernel, or a function that it names, may wait for other threads."""
    seen: set[int] = set()
    todo: list[Any] = [kernel]
    while todo:
        function = todo.pop()
        function = getattr(function, "fn", function)
        code = getattr(function, "__code__", None)
        if code is None or id(function) in seen:
            continue
        seen.add(id(function))
        if any(name.startswith("sync") for name in code.co_names):
            return True
        todo += [function.__globals__[name] for name in code.co_names if name in function.__globals__]
        todo += [cell.cell_contents for cell in function.__closure__ or ()]
    return False


class Blocks:
    """Replace the simulator's BlockManager: running the first block runs the whole launch."""

    def __init__(self, function: Any, grid: GridIndex, block_size: GridIndex, _debug: bool) -> None:
        self._launch = function, grid, block_size

    def run(self, grid_point: GridIndex, *arguments: Any) -> None:
        """Run all blocks when called for the first, none otherwise."""
        if tuple(grid_point) == (0, 0, 0):
            function, grid, block_size = self._launch
            run_launch(function, grid, block_size, arguments)


def _shared_array(_self: Any, shape: Any, dtype: Any) -> WatchedArray:
    """Return shared memory of the running block: one array per place in the source that allocates one."""
    from numba.core import types
    from numba.np import numpy_support

    dtype = np.dtype(numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype)
    frame, running = sys._getframe(1), _running[-1]  # noqa: SLF001 - as in Numba's own simulator
    key = "dynamic" if shape == 0 else (frame.f_code, frame.f_lasti)
    if key not in running.shared_arrays:
        size = _self._dynshared_size // dtype.itemsize if shape == 0 else shape  # noqa: SLF001
        made = np.full(size, np.nan if dtype.kind == "f" else -1 if dtype.kind == "i" else 255, dtype)
        running.shared_arrays[key] = WatchedArray(made)
    return running.shared_arrays[key]


def _as_atomic(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an atomic operation: its read and write are recorded as one atomic access."""

    @wraps(method)
    def operate(self: Any, *arguments: Any) -> Any:
        """Run the operation, recorded as atomic."""
        running = _running[-1]
        running.atomic = True
        try:
            return method(self, *_once(arguments))
        finally:
            running.atomic = False

    return operate


def _once(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Record one access and return the arguments with the plain array instead of the watched one."""
    array, *rest = arguments
    if not isinstance(array, WatchedArray):
        return arguments
    index = rest[0] if len(rest) > 1 else (0,) * array.ary.ndim
    try:
        array.ary[index]
    except IndexError:
        _running[-1].left(array.ary, index, "atomic")
    _running[-1].heard(array.ary, _address(array, index), "write", lambda: True)
    return array.ary, *rest


def _noting_the_stream(configure: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `kernel[grid, block, stream]` to record the stream."""

    def configured(self: Any, configuration: tuple[Any, ...]) -> Any:
        """Record the stream and configure the kernel."""
        if len(configuration) > 2 and configuration[2]:
            AccessWatch.current().used(configuration[2])
        return configure(self, configuration)

    return configured


def _fence(_self: Any) -> None:
    _running[-1].fenced = True


def install() -> None:
    """Replace parts of the simulator in this process."""
    from numba.cuda.simulator import kernel, kernelapi

    kernel.BlockManager = Blocks
    kernel.FakeWithinKernelCUDAArray = WatchedArray
    kernelapi.FakeCUDAShared.array = _shared_array
    for name, method in list(vars(kernelapi.FakeCUDAAtomic).items()):
        if not name.startswith("__"):
            setattr(kernelapi.FakeCUDAAtomic, name, _as_atomic(method))
    kernel.FakeCUDAKernel.__getitem__ = _noting_the_stream(kernel.FakeCUDAKernel.__getitem__)
    for name in VISIBLE:
        setattr(kernelapi.FakeCUDAModule, name, _fence)
    kernelapi.threading = SimpleNamespace(current_thread=lambda: _running[-1].current)
