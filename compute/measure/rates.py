"""The unit of a lab's work, the roof that its rate is compared with, and reasons why a rate may exceed that roof.

A rate above the memory roof means that the data stay in a cache; its level and size are stated if known.
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
FULL = 100.5  # smallest percentage that is not rounded to 100
DISTURBED = "above the roof as it was measured: that was disturbed, or work is saved that is counted"


@dataclass(frozen=True)
class Rate:
    """How the speed of a lab is expressed.

    unit: of 1e9 of its work a second, for the screen; work: the items of work, in the plural ("cells", "iterations");
    step: the unit of work of one time ("step", "picture"); roof: "copy" (bytes/s while copying) or "fma" (fused
    multiply-adds/s); counted: the items that the roof counts, in the plural; need(dtype): the least number of these for
    one cell or iteration; saves: how a way may need less than that, and so exceed the roof, as text; share(backend,
    variant, dtype, steps): the fraction of `need` that this kernel actually uses in samples of `steps` steps.
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
        """The unit spelled out: "billion cells/s"."""
        return f"billion {self.work}/s"

    def counted_per_second(self, rate: float, dtype: str) -> float:
        """Return counted items a second at `rate` cells or iterations a second, for a kernel that uses all of them."""
        return self.need(dtype) * rate

    def percent(self, rate: float, dtype: str, roof: float) -> float:
        """Return the rate in percent of `roof`; nan if `roof` is nan. Above 100 if a way needs less than `need`."""
        return 100.0 * self.counted_per_second(rate, dtype) / roof


@dataclass(frozen=True)
class Cache:
    """One cache level. size: bytes, summed over all parts that this process may use."""

    level: str
    size: int


@cache
def host_caches(cpus: Path = CPUS) -> tuple[Cache, ...]:
    """Return the CPU's caches, smallest first, each level summed over the allowed cores; () if not reported."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    parts: dict[str, dict[str, int]] = {}
    for core in sorted(allowed):
        for index in sorted((cpus / f"cpu{core}" / "cache").glob("index*")):
            try:
                kind, level, shared, size = (
                    (index / name).read_text(encoding="ascii").strip()
                    for name in ("type", "level", "shared_cpu_list", "size")
                )
            except OSError:  # a virtual machine may omit some of the files
                continue
            if kind != "Instruction" and size[-1:] in CACHE_UNITS and size[:-1].isdigit():
                parts.setdefault(f"L{level}", {})[shared] = int(size[:-1]) * CACHE_UNITS[size[-1]]
    found = [Cache(level, sum(sizes.values())) for level, sizes in parts.items()]
    return tuple(sorted(found, key=lambda one: one.size))


def gpu_caches(l2_bytes: float) -> tuple[Cache, ...]:
    """Return the L2 cache of a GPU; () if its driver reports no size (nan or 0)."""
    return (Cache("L2", int(l2_bytes)),) if l2_bytes > 0 else ()


def why_above_roof(percent: float, moved: float, caches: Iterable[Cache], saves: str = "") -> str:
    """Return why a rate exceeds 100 % of a roof; "" if it does not, or if `percent` is nan.

    moved: bytes that one step or call moves; nan if the roof is not a memory roof. saves: how the way may need less
    than the roof counts, as text.
    """
    if not percent >= FULL:
        return ""
    for one in sorted(caches, key=lambda one: one.size):
        if moved <= one.size:
            return f"in cache: {bytes_in_words(moved)} fit the {one.level} of {bytes_in_words(one.size)}"
    return saves or DISTURBED


def spaced(number: float, form: str = ",.0f", between: str = "\N{NARROW NO-BREAK SPACE}") -> str:
    """Format a number with grouped digits: "22 200". form: a format that inserts commas; between: their substitute."""
    return f"{number:{form}}".replace(",", between)


def bytes_in_words(count: float) -> str:
    """Format a number of bytes with two or three figures: "2.1 MB"."""
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= least:
            return f"{float(f'{count / least:.2g}' if count < 100 * least else f'{count / least:.3g}'):g} {unit}"
    return f"{count:.0f} bytes"
