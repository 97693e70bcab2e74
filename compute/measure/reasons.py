"""Why one device is faster than another: the only place where a sentence may say "because".

A reason is stated only where the roofs support it:

* memory, where the data exceed the last-level caches of both devices and the GPU reaches MEMORY_SHARE of its own copy
  bandwidth or more;
* arithmetic, where both devices reach ARITHMETIC_SHARE of their own fused multiply-add rates or more: otherwise the
  ratio of the times reflects how well two programs use the units, not the units themselves.

All other cases state the known shares without a conclusion. A share above FULL percent supports no reason: the data
fit a cache, or the measurement of the roof was disturbed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, isnan, nan

from compute.measure.rates import FULL, RoofKind, bytes_in_words

MEMORY_SHARE = 50.0  # percent of the copy bandwidth
ARITHMETIC_SHARE = 50.0  # percent of the fused multiply-adds a second
UNKNOWN_CACHE = 2.0**30  # bytes assumed where the size of a cache is not known: more than any GPU had until 2026
ROOFS: dict[RoofKind, str] = {"copy": "copy bandwidth", "fma": "multiply-add rate"}


@dataclass(frozen=True)
class RoofShare:
    """The share of its device's roof that a way reaches.

    percent: of the device's own roof, nan where unknown; cache: bytes of its last-level cache, nan where unknown.
    """

    percent: float = nan
    cache: float = nan

    @property
    def known(self) -> bool:
        """Whether the share is finite and at most FULL percent."""
        return isfinite(self.percent) and self.percent <= FULL


UNKNOWN = RoofShare()


def why_faster(roof: RoofKind, gpu: RoofShare, cpu: RoofShare, held: float) -> str:
    """Return why a GPU is faster than a CPU, as the end of a sentence with its comma or semicolon; "" if unknown.

    held: bytes that the work reads repeatedly, nan if unknown.
    """
    if roof == "copy":
        return _by_memory(gpu, cpu, held)
    if gpu.known and cpu.known and min(gpu.percent, cpu.percent) >= ARITHMETIC_SHARE:
        return f", because it has the higher {ROOFS['fma']}, of which {shares('fma', gpu, cpu)}"
    return _without_reason("fma", gpu, cpu)


def _by_memory(gpu: RoofShare, cpu: RoofShare, held: float) -> str:
    if held <= gpu.cache:
        return f"; the {bytes_in_words(held)} that it reads and writes fit its cache, so its memory is not the reason"
    caches = [UNKNOWN_CACHE if isnan(one.cache) else one.cache for one in (gpu, cpu)]
    if gpu.known and gpu.percent >= MEMORY_SHARE and held > max(caches):
        return f", because its memory is faster: {shares('copy', gpu, cpu)}"
    return _without_reason("copy", gpu, cpu)


def _without_reason(roof: RoofKind, gpu: RoofShare, cpu: RoofShare) -> str:
    return f"; {shares(roof, gpu, cpu)}" if gpu.known else ""


def shares(roof: RoofKind, gpu: RoofShare, cpu: RoofShare) -> str:
    """Format both shares: "the GPU reaches 57 % of its multiply-add rate, the CPU 3.3 % of its own"."""
    said = f"the GPU reaches {percent(gpu.percent)} of its {ROOFS[roof]}"
    return f"{said}, the CPU {percent(cpu.percent)} of its own" if cpu.known else said


def percent(value: float) -> str:
    """Format a percentage, with two figures below 10."""
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"
