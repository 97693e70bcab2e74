"""What was noticed while kernels ran without a GPU: accesses outside of arrays, races, and how many there were.

An `AccessWatch` collects the launches of one call, whether CUDA C ran on the CPU (cuda_on_cpu.py) or Numba's kernels in
its simulator (gpu_simulator.py), and says in which order blocks and threads run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar


class Order(IntEnum):
    """In which order the blocks run, and the threads of a block between two barriers."""

    given = 0
    backwards = 1
    random = 2


@dataclass(frozen=True)
class Access:
    """What one thread did to an element. size: of the array; verb: "read", "write" or "atomic"; array: its name, ""
    for none at all.
    """

    array: str
    size: int
    element: int
    verb: str
    block: tuple[int, ...]
    thread: tuple[int, ...]

    @property
    def who(self) -> str:
        """The thread, in words."""
        return f"thread {_place(self.thread)} of block {_place(self.block)}"

    @property
    def does(self) -> str:
        """The verb as a sentence has it."""
        return {"read": "reads", "write": "writes", "atomic": "adds to"}[self.verb]


def _place(index: tuple[int, ...]) -> str:
    """(3, 0, 0) as 3, others whole."""
    return str(index[0]) if not any(index[1:]) else str(tuple(index))


@dataclass(frozen=True)
class KernelLaunch:
    """One launch of a kernel. outside: the first access outside of an array; race: the first two accesses that nothing
    orders; stuck: a thread that waits for others that never come. Counts: accesses to the arrays passed (reads, writes,
    atomics) and to shared memory, barriers of blocks; accesses: instructions of warps, and the 32-byte sectors that
    they need.
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
        """(kind, sentence) of what is wrong with it; None if nothing is."""
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
    """The launches of what runs in a `with AccessWatch.watching(…)` block, as they came, and the streams used."""

    order: Order = Order.given
    seed: int = 0
    launches: list[KernelLaunch] = field(default_factory=list)
    streams: list[Any] = field(default_factory=list)
    _now: ClassVar[list[AccessWatch]] = []

    @classmethod
    def current(cls) -> AccessWatch:
        """The innermost one of this process; one that nobody reads outside of a block."""
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
        """Of the random order of the next launch."""
        return (self.seed * 7919 + len(self.launches)) % 2**31

    def heard(self, launch: KernelLaunch) -> None:
        """A launch has ended."""
        self.launches.append(launch)

    def used(self, stream: Any) -> None:
        """A kernel is launched on a stream that is not the default one."""
        if not any(stream is one for one in self.streams):
            self.streams.append(stream)

    @property
    def fault(self) -> tuple[str, str] | None:
        """(kind, sentence) of the first launch with a fault; None if there is none."""
        return next((launch.fault for launch in self.launches if launch.fault), None)
