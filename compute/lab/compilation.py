"""Types for kernels that are generated from a lab's values, such as a typed text, and compiled in a child process.

Compiling takes seconds and would block the other labs of an engine. An engine therefore only loads generated kernels
from the cache. A job compiles missing kernels (compute/engine/compiling.py), and another backend computes the lab until
the job ends. A backend may have a kernel that compiles quickly: it is compiled first and computes while a faster one
compiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Compilation:
    """Kernels to compile. key: identifies the kernels; task: ChildTask that fills the cache.

    variant: a kernel of the chosen backend that is loaded and computes meanwhile; "" for none.
    """

    key: str
    task: Callable[..., Any]
    variant: str = ""


@dataclass(frozen=True)
class Interim:
    """A backend, or a slower kernel, that computes in place of the chosen one.

    words: reason for users; lasts: no job is running; variant: the kernel of the chosen backend, "" for the reference
    backend.
    """

    words: str
    lasts: bool = False
    variant: str = ""
