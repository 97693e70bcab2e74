"""Figures that others gave. They are drawn apart from measured ones and enter no median."""

from __future__ import annotations

from dataclasses import dataclass

TUTORIAL = "a tutorial on GPUs from Python"


@dataclass(frozen=True)
class Cited:
    """seconds that `what` took for n elements on `machine`, as `source` says; dtype: "" where it does not say."""

    what: str
    n: int
    dtype: str
    seconds: float
    machine: str
    source: str = TUTORIAL
