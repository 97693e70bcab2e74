"""What a lab counts its work in, the roof that its rate is compared with, and why a rate may lie above that roof.

A rate above the roof of memory means that the data stay in a cache: which one and how large it is, where known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

RoofKind = Literal["copy", "fma"]
CPUS = Path("/sys/devices/system/cpu")
CACHE_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
FULL = 100.5  # percent that is no longer written as 100
DISTURBED = "above the roof as it was measured: that was disturbed, or work is saved that is counted"


@dataclass(frozen=True)
class Rate:
    """How the speed of a lab is said.

    unit: of 1e9 of its work a second, for the screen; work: what that is, in the plural ("cells", "iterations"); step:
    what one time is the time of ("step", "picture"); roof: "copy" (bytes/s while copying) or "fma" (fused
    multiply-adds/s); counted: what the roof counts, in the plural; need(dtype): how many of these one cell or iteration
    takes at least; saves: in words, how a way may do with less than that, and so exceed the roof; share(backend,
    variant, dtype, steps): the part of `need` that this kernel really takes in samples of so many steps.
    """

    unit: str
    work: str
    step: str
    roof: RoofKind
    counted: str
    need: Callable[[str], float]
    saves: str = ""
    share: Callable[[str, str, str, int], float] = field(default=lambda *_: 1.0)

    @property
    def spelled(self) -> str:
        """The unit in words: "billion cells/s"."""
        return f"billion {self.work}/s"

    def counted_per_second(self, rate: float, dtype: str) -> float:
        """What the roof counts, a second, at `rate` cells or iterations a second, for a kernel that takes all of it."""
        return self.need(dtype) * rate

    def percent(self, rate: float, dtype: str, roof: float) -> float:
        """The rate in percent of `roof`; nan if that is nan. Above 100 where work is saved that `need` counts."""
        return 100.0 * self.counted_per_second(rate, dtype) / roof


@dataclass(frozen=True)
class Cache:
    """One level. size: bytes, of all its parts that this process may use together."""

    level: str
    size: int


@cache
def host_caches(cpus: Path = CPUS) -> tuple[Cache, ...]:
    """The CPU's, smallest first: of each level the sum over the cores that this process may use; () if not told."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    parts: dict[str, dict[str, int]] = {}
    for core in sorted(allowed):
        for index in sorted((cpus / f"cpu{core}" / "cache").glob("index*")):
            try:
                kind, level, shared, size = (
                    (index / name).read_text(encoding="ascii").strip()
                    for name in ("type", "level", "shared_cpu_list", "size")
                )
            except OSError:  # a virtual machine may leave some of it out
                continue
            if kind != "Instruction" and size[-1:] in CACHE_UNITS and size[:-1].isdigit():
                parts.setdefault(f"L{level}", {})[shared] = int(size[:-1]) * CACHE_UNITS[size[-1]]
    found = [Cache(level, sum(sizes.values())) for level, sizes in parts.items()]
    return tuple(sorted(found, key=lambda one: one.size))


def gpu_caches(l2_bytes: float) -> tuple[Cache, ...]:
    """A GPU's, as its driver tells: the L2; () if it does not (nan or 0)."""
    return (Cache("L2", int(l2_bytes)),) if l2_bytes > 0 else ()


def why_above_roof(percent: float, moved: float, caches: Iterable[Cache], saves: str = "") -> str:
    """Why a rate is more than 100 % of a roof; empty where it is not, and where `percent` is nan.

    moved: bytes that one step or call moves; nan where the roof is not one of memory. saves: what the way may do less
    than is counted, in words.
    """
    if not percent >= FULL:
        return ""
    for one in sorted(caches, key=lambda one: one.size):
        if moved <= one.size:
            return f"in cache: {bytes_in_words(moved)} fit the {one.level} of {bytes_in_words(one.size)}"
    return saves or DISTURBED


def spaced(number: float, form: str = ",.0f", between: str = "\N{NARROW NO-BREAK SPACE}") -> str:
    """A number with its thousands apart: "22 200". form: a format that parts them by commas; between: what does so."""
    return f"{number:{form}}".replace(",", between)


def bytes_in_words(count: float) -> str:
    """Bytes in words, to two figures or three: "2.1 MB"."""
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= least:
            return f"{float(f'{count / least:.2g}' if count < 100 * least else f'{count / least:.3g}'):g} {unit}"
    return f"{count:.0f} bytes"
