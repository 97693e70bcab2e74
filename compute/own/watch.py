"""Records of kernels that run without a GPU: accesses outside of arrays, races, and counts of accesses.

An `AccessWatch` collects the launches of one call, either of CUDA C on the CPU (cuda_on_cpu.py) or of Numba's kernels
in its simulator (gpu_simulator.py), and sets the order of blocks and threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar


class Order(IntEnum):
    """The order of the blocks, and of the threads of a block between two barriers."""

    given = 0
    backwards = 1
    random = 2


@dataclass(frozen=True)
class Access:
    """An access of one thread to an element. size: elements of the array; verb: "read", "write" or "atomic".

    array: the array's name, "" for an address outside of all arrays.
    """

    array: str
    size: int
    element: int
    verb: str
    block: tuple[int, ...]
    thread: tuple[int, ...]

    @property
    def who(self) -> str:
        """Return the thread and its block as text."""
        return f"thread {_place(self.thread)} of block {_place(self.block)}"

    @property
    def does(self) -> str:
        """Return the verb in the third person."""
        return {"read": "reads", "write": "writes", "atomic": "adds to"}[self.verb]


def _place(index: tuple[int, ...]) -> str:
    """Return (3, 0, 0) as "3", other indices as a tuple."""
    return str(index[0]) if not any(index[1:]) else str(tuple(index))


@dataclass(frozen=True)
class KernelLaunch:
    """One launch of a kernel. outside: the first access outside of an array; race: the first two unordered accesses.

    stuck: a thread at a barrier that other threads never reach. Counts: accesses to the arrays passed (reads, writes,
    atomics) and to shared memory, barriers of blocks; accesses: memory instructions of warps; sectors: the 32-byte
    sectors that these touch.
    """

    kernel: str
    outside: Access | None = None
    race: tuple[Access, Access] | None = None
    stuck: Access | None = None
    reads: int = 0
    writes: int = 0
    atomics: int = 0
    shared: int = 0
    barriers: int = 0
    sectors: int = 0
    accesses: int = 0

    @property
    def fault(self) -> tuple[str, str] | None:
        """Return (kind, sentence) of the first fault, None for a correct launch."""
        if one := self.outside:
            if not one.size:
                return "outside", f"{self.kernel}: {one.who} {one.does} outside of {one.array}"
            where = f"{one.array}[{one.element}]"
            return "outside", f"{self.kernel}: {one.who} {one.does} {where}, but {one.array} has {one.size} elements"
        if self.race:
            one, other = self.race
            what = f"{one.array}[{one.element}]" if one.size else one.array
            return "race", (
                f"{self.kernel}: a race: {one.who} {one.does} {what}, {other.who} {other.does} it, "
                f"and nothing says which comes first"
            )
        if self.stuck:
            return "stuck", f"{self.kernel}: {self.stuck.who} waits at a barrier that other threads never reach"
        return None


@dataclass
class AccessWatch:
    """The launches in a `with AccessWatch.watching(…)` block, in order, and the streams they use."""

    order: Order = Order.given
    seed: int = 0
    launches: list[KernelLaunch] = field(default_factory=list)
    streams: list[Any] = field(default_factory=list)
    _now: ClassVar[list[AccessWatch]] = []

    @classmethod
    def current(cls) -> AccessWatch:
        """Return the innermost watch of this process; outside of all blocks, a new watch that is discarded."""
        return cls._now[-1] if cls._now else cls()

    @classmethod
    @contextmanager
    def watching(cls, order: Order = Order.given, seed: int = 0) -> Iterator[AccessWatch]:
        """Collect the launches of the block."""
        watch = cls(order, seed)
        cls._now.append(watch)
        try:
            yield watch
        finally:
            cls._now.remove(watch)

    def next_seed(self) -> int:
        """Return the seed for the random order of the next launch."""
        return (self.seed * 7919 + len(self.launches)) % 2**31

    def heard(self, launch: KernelLaunch) -> None:
        """Append a launch that ended."""
        self.launches.append(launch)

    def used(self, stream: Any) -> None:
        """Record the use of a stream other than the default one."""
        if not any(stream is one for one in self.streams):
            self.streams.append(stream)

    @property
    def fault(self) -> tuple[str, str] | None:
        """Return (kind, sentence) of the first launch with a fault, None if all are correct."""
        return next((launch.fault for launch in self.launches if launch.fault), None)
