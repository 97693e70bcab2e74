"""Types for kernels that are generated from a lab's values, such as a typed text, and compiled in a child process.

Compiling takes seconds and would block the other labs of an engine. An engine therefore only loads generated kernels
from the cache. A job compiles missing kernels (compute/engine/compiling.py), and another backend computes the lab until
the job ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Compilation:
    """Kernels to compile. key: identifies the kernels; task: ChildTask that fills the cache."""

    key: str
    task: Callable[..., Any]


@dataclass(frozen=True)
class Interim:
    """A backend that computes in place of the chosen one. words: reason for users; lasts: no job is running."""

    words: str
    lasts: bool = False
