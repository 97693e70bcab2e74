"""What a workload asks of a machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """moved: bytes that have to cross the memory bus at least; flops: floating-point operations; held: bytes of memory.

    held counts inputs, results and the temporaries of the greediest way.
    """

    moved: float
    flops: float
    held: float

    @property
    def intensity(self) -> float:
        """Operations a byte: the abscissa of a roofline plot."""
        return self.flops / self.moved
