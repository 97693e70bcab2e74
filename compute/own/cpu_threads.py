"""Find races between the CPU threads of Numba's parallel loops, without threads.

The file runs in a process with Numba's compiler disabled (NUMBA_DISABLE_JIT), so that every kernel is plain Python and
every access to an array can be recorded. `prange` runs its iterations one after the other, and each counts as a thread:
two iterations of a loop that access the same element, one of them writing, are a race, even if the result is correct.
Two iterations that write the same value are not. A whole-array operation in place (`total += row`) on an array from
outside of the loop is a reduction, for which Numba makes a copy per thread.

In a kernel that reads its thread number, contiguous chunks of iterations count as threads, as in Numba's scheduler.
Code that does not run as plain Python is not watched, and the report says so.
"""

from __future__ import annotations

import inspect
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from types import ModuleType
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import NDArray

from compute.own.watch import Order

THREADS = 4  # returned by get_num_threads
MANY = -1  # instead of an iteration's number: several iterations
CREATORS = ("zeros", "empty", "ones", "full", "zeros_like", "empty_like", "ones_like", "full_like")


class NeedsChunks(BaseException):
    """The kernel requests its thread number while every iteration counts as a thread."""


@dataclass(frozen=True)
class ThreadRace:
    """Two iterations of a loop at `line` that access one element of an array.

    unit: "iteration", or "thread" where chunks of iterations count as threads.
    """

    array: str
    element: int
    iterations: tuple[int, int]
    verbs: tuple[str, str]
    line: int
    unit: str = "iteration"

    @property
    def text(self) -> str:
        """The race as a sentence without a full stop."""
        (one, other), (does, did) = self.iterations, self.verbs
        first = f"another {self.unit}" if one == MANY else f"{self.unit} {one}"
        return (
            f"a race between CPU threads: {first} of the prange loop in line {self.line} {does} "
            f"{self.array}[{self.element}], {self.unit} {other} {did} it, and nothing orders the two"
        )


@dataclass
class Element:
    """The accesses to one element in one loop: iteration and value of the last write, iteration of the reads."""

    writer: int | None = None
    value: Any = None
    reader: int | None = None


@dataclass
class ThreadWatch:
    """The accesses recorded during one call. loops: parallel loops that ran; race: the first one found."""

    order: Order = Order.given
    seed: int = 0
    chunked: bool = False
    loops: int = 0
    race: ThreadRace | None = None
    thread: int | None = None  # of the iteration that runs; None outside of parallel loops
    line: int = 0
    roots: list[tuple[int, int, int, str, Any]] = field(default_factory=list)  # start, end, item size, name, array
    elements: dict[int, Element] = field(default_factory=dict)
    _now: ClassVar[list[ThreadWatch]] = []

    @classmethod
    def current(cls) -> ThreadWatch | None:
        """Return the watch of the running call, None outside of one."""
        return cls._now[-1] if cls._now else None

    @contextmanager
    def watching(self) -> Iterator[ThreadWatch]:
        """Record the accesses in the block."""
        self._now.append(self)
        try:
            yield self
        finally:
            self._now.remove(self)

    def watched(self, array: NDArray[Any], name: str) -> NDArray[Any]:
        """Return a view of the array that records every access."""
        start = array.__array_interface__["data"][0]
        self.roots.append((start, start + array.nbytes, max(1, array.itemsize), name, array))
        self.roots.sort(key=lambda root: root[0])
        return array.view(LoopArray)

    def touch(self, addresses: NDArray[np.int64], write: bool, values: Any = None) -> None:
        """Record that the running iteration reads or writes the elements at `addresses`."""
        if self.thread is None or self.race is not None:
            return
        written = np.broadcast_to(values, addresses.shape).ravel().tolist() if write else None
        for place, address in enumerate(addresses.ravel().tolist()):
            root = self._root(address)
            if root is None:
                continue
            element = self.elements.setdefault(address, Element())
            if written is None:
                self._read(element, address, root)
            else:
                self._write(element, address, root, written[place])

    def _root(self, address: int) -> tuple[int, int, int, str, Any] | None:
        at = bisect_right(self.roots, address, key=lambda root: root[0]) - 1
        return self.roots[at] if at >= 0 and address < self.roots[at][1] else None

    def _read(self, element: Element, address: int, root: tuple[int, int, int, str, Any]) -> None:
        if element.writer is not None and element.writer != self.thread:
            self._found(address, root, element.writer, "writes", "reads")
        element.reader = self.thread if element.reader in (None, self.thread) else MANY

    def _write(self, element: Element, address: int, root: tuple[int, int, int, str, Any], value: Any) -> None:
        if element.reader is not None and element.reader != self.thread:
            self._found(address, root, element.reader, "reads", "writes")
        elif element.writer is not None and element.writer != self.thread and value != element.value:
            self._found(address, root, element.writer, "writes", "writes")
        element.writer, element.value = self.thread, value

    def _found(self, address: int, root: tuple[int, int, int, str, Any], other: int, does: str, did: str) -> None:
        start, _, size, name, _ = root
        now = self.thread if self.thread is not None else MANY
        unit = "thread" if self.chunked else "iteration"
        self.race = ThreadRace(name, (address - start) // size, (other, now), (does, did), self.line, unit)


def _addresses(array: NDArray[Any]) -> NDArray[np.int64]:
    """Return the address of each element."""
    found = np.array(array.__array_interface__["data"][0], np.int64)
    for axis, (count, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        shape = [1] * array.ndim
        shape[axis] = count
        found = found + (np.arange(count, dtype=np.int64) * stride).reshape(shape)
    return np.broadcast_to(found, array.shape)


def _plain(value: Any) -> Any:
    if isinstance(value, LoopArray):
        return value.view(np.ndarray)
    return type(value)(_plain(one) for one in value) if isinstance(value, (tuple, list)) else value


class LoopArray(np.ndarray):
    """An array that records its accesses while an iteration of a parallel loop runs."""

    _known: NDArray[np.int64] | None = None

    def __array_finalize__(self, _other: Any) -> None:
        self._known = None

    def _touch(self, write: bool, key: Any = ..., values: Any = None) -> None:
        watch = ThreadWatch.current()
        if watch is None or watch.thread is None:
            return
        if self._known is None:
            self._known = _addresses(self)
        watch.touch(np.asarray(self._known[_plain(key)]), write, values)

    def __getitem__(self, key: Any) -> Any:
        plain = self.view(np.ndarray)
        value = plain[_plain(key)]
        if isinstance(value, np.ndarray) and value.base is not None and np.may_share_memory(value, plain):
            return value.view(LoopArray)  # a view: its elements are not read yet
        self._touch(write=False, key=key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, LoopArray):
            value._touch(write=False)  # noqa: SLF001 - of the same class
        plain = self.view(np.ndarray)
        plain[_plain(key)] = _plain(value)
        self._touch(write=True, key=key, values=plain[_plain(key)])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        outputs = options.get("out", ())
        reduction = len(outputs) == 1 and outputs[0] is inputs[0] and self._whole(outputs[0])
        for one in inputs:
            if isinstance(one, LoopArray) and not (reduction and one is outputs[0]):
                one._touch(write=False)  # noqa: SLF001 - of the same class
        if outputs:
            options["out"] = tuple(_plain(one) for one in outputs)
        result = getattr(ufunc, method)(*(_plain(one) for one in inputs), **options)
        for one in outputs:
            if isinstance(one, LoopArray) and not reduction:
                one._touch(write=True, values=one.view(np.ndarray))  # noqa: SLF001 - of the same class
        return outputs[0] if len(outputs) == 1 else result

    @staticmethod
    def _whole(array: Any) -> bool:
        """Return True for a whole array, False for a row: Numba treats only the former as a reduction."""
        watch = ThreadWatch.current()
        return watch is not None and any(root[4].size == array.size for root in watch.roots if _same_start(root, array))

    def __array_function__(self, func: Any, _types: Any, args: Any, kwargs: Any) -> Any:
        for one in (*args, *kwargs.values()):
            for part in one if isinstance(one, (tuple, list)) else (one,):
                if isinstance(part, LoopArray):
                    part._touch(write=part is kwargs.get("out"), values=0)  # noqa: SLF001 - of the same class
        given = [_plain(one) for one in args]
        result = func(*given, **{name: _plain(one) for name, one in kwargs.items()})
        if _is_array(result) and any(np.may_share_memory(result, one) for one in given if _is_array(one)):
            return result.view(LoopArray)
        return result

    def fill(self, value: Any) -> None:
        """Set every element."""
        self[...] = value

    def copy(self, order: Any = "C") -> Any:
        """Return a copy, which belongs to the iteration that makes it."""
        self._touch(write=False)
        return self.view(np.ndarray).copy(order)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _same_start(root: tuple[int, int, int, str, Any], array: NDArray[Any]) -> bool:
    return bool(root[0] == array.__array_interface__["data"][0])


class Prange:
    """Numba's prange: a parallel loop, nested ones run in their order."""

    def __init__(self, *bounds: int) -> None:
        self._range = range(*bounds)

    def __len__(self) -> int:
        return len(self._range)

    def __iter__(self) -> Iterator[int]:
        watch = ThreadWatch.current()
        if watch is None or watch.thread is not None:
            yield from self._range
            return
        watch.loops += 1
        watch.line = sys._getframe(1).f_lineno  # noqa: SLF001 - the only way to the line of the loop
        places = list(range(len(self._range)))
        if watch.order is Order.backwards:
            places.reverse()
        elif watch.order is Order.random:
            Random(watch.seed).shuffle(places)
        try:
            for place in places:
                chunk = place * THREADS // len(places)
                watch.thread = chunk if watch.chunked else self._range[place]
                yield self._range[place]
        finally:
            watch.thread = None
            watch.elements.clear()


def _thread_id() -> int:
    watch = ThreadWatch.current()
    if watch is None or watch.thread is None:
        return 0
    if not watch.chunked:
        raise NeedsChunks
    return watch.thread


def install() -> None:
    """Replace Numba's parallel loop in this process, which must have NUMBA_DISABLE_JIT, before a file is imported."""
    names: Mapping[str, Any] = {
        "prange": Prange, "get_thread_id": _thread_id, "get_num_threads": lambda: THREADS,
        "set_num_threads": lambda _count: None,
    }  # fmt: skip
    for name, replacement in names.items():
        setattr(numba, name, replacement)
    setattr(numba, "vectorize", _vectorize)  # noqa: B010 - as above: Numba would compile it even now


def _vectorize(*signatures: Any, **_options: Any) -> Any:
    """Replace numba.vectorize by NumPy's: elements are computed one by one and cannot race."""

    def made(function: Any) -> Any:
        """Return the function for arrays."""
        return np.vectorize(function)

    return made(signatures[0]) if len(signatures) == 1 and callable(signatures[0]) else made


def reachable_source(function: Any) -> str:
    """Return the source of a function and of those of its module that it calls, decorators included."""
    module, found, waiting = sys.modules.get(function.__module__), dict[int, str](), [function]
    while waiting:
        one = waiting.pop()
        plain = inspect.unwrap(getattr(one, "py_func", None) or getattr(one, "pyfunc", None) or one)
        code = getattr(plain, "__code__", None)
        if code is None or id(code) in found:
            continue
        with suppress(OSError, TypeError):
            found[id(code)] = inspect.getsource(plain)
        waiting += [value for name in code.co_names if callable(value := getattr(module, name, None))]
    return "\n".join(found.values())


@contextmanager
def creators_watched(watch: ThreadWatch, module: ModuleType | None) -> Iterator[None]:
    """Watch arrays that NumPy makes in the block outside of parallel loops, by whatever name `module` calls it."""
    before = {name: getattr(np, name) for name in CREATORS}
    known = vars(module) if module else {}
    aliases = {name: value for name, value in known.items() if any(value is create for create in before.values())}

    def watched(create: Any) -> Any:
        """Return `create` with watched results."""

        def made(*args: Any, **kwargs: Any) -> Any:
            """Create an array, and watch it outside of parallel loops."""
            array = create(*(_plain(one) for one in args), **kwargs)
            return array if watch.thread is not None else watch.watched(array, "an array made by the function")

        return made

    replaced = {name: watched(create) for name, create in before.items()}
    try:
        for name, create in replaced.items():
            setattr(np, name, create)
        for alias, value in aliases.items():
            setattr(module, alias, replaced[value.__name__])
        yield
    finally:
        for name, create in before.items():
            setattr(np, name, create)
        for alias, value in aliases.items():
            setattr(module, alias, value)
