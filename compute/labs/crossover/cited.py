"""Figures that others gave. They are drawn apart from measured ones and enter no median."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TUTORIAL = "a tutorial on GPUs from Python"
UNNAMED = ("a CPU", "a GPU")  # machines that a source does not name


@dataclass(frozen=True)
class Cited:
    """seconds that `what` took for n elements on `machine`, as `source` says; dtype: "" where it does not say."""

    what: str
    n: int
    dtype: str
    seconds: float
    machine: str
    source: str = TUTORIAL

    @property
    def name(self) -> str:
        """What stands beside its mark."""
        return self.what if self.machine in UNNAMED else f"{self.what}, {self.machine}"


def fitting(figures: Iterable[Cited], dtype: str, sizes: tuple[int, int]) -> list[Cited]:
    """Those of `dtype`, or that do not say theirs, with n from sizes[0] to sizes[1]."""
    return [figure for figure in figures if figure.dtype in ("", dtype) and sizes[0] <= figure.n <= sizes[1]]
