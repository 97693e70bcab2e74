"""When a kernel is built, that is compiled, while everything waits for it.

Which kernel a lab launches may depend on any of its values, and a kernel is built at its first call, deep inside the
lab's work. So nobody predicts it: who builds a kernel says so, by `building`, and who times or supervises the work
hears of it, by `watching`. Numba's kernels for the CPU say so through Numba's own events. How long each took is kept
beside Numba's cache (kernel_cache.py), so that the next time it can be said beforehand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from time import monotonic


def _ignore() -> None:
    """For those who only count."""


@dataclass
class Builds:
    """What happened in a `watching` block. count: kernels that were built; kernel: the one that is being built, or was
    last, as "module.function", "" if that is not known; seconds: how long it took.
    """

    began: Callable[[], None] = _ignore
    ended: Callable[[], None] = _ignore
    count: int = 0
    kernel: str = ""
    seconds: float = 0.0
    since: float = 0.0
    depth: int = 0  # a kernel may be built for another one; only the outer one counts

    def begin(self, kernel: str) -> None:
        """A kernel is about to be built."""
        self.depth += 1
        if self.depth == 1:
            self.count += 1
            self.kernel, self.since = kernel, monotonic()
            self.began()

    def end(self) -> None:
        """It has been built, or could not be."""
        self.depth -= 1
        if self.depth == 0:
            self.seconds = monotonic() - self.since
            self.ended()


_watching: ContextVar[tuple[Builds, ...]] = ContextVar("watching", default=())


@contextmanager
def watching(began: Callable[[], None] = _ignore, ended: Callable[[], None] = _ignore) -> Iterator[Builds]:
    """Hear of every kernel that this thread builds in the block: `began` is called before each, `ended` after it."""
    if "numba" in sys.modules:
        _hear_numba()
    builds = Builds(began, ended)
    token = _watching.set((*_watching.get(), builds))
    try:
        yield builds
    finally:
        _watching.reset(token)


@contextmanager
def building(kernel: str = "") -> Iterator[None]:
    """A kernel is built in the block: "module.function"."""
    _begin(kernel)
    try:
        yield
    finally:
        _end()


def _begin(kernel: str) -> None:
    for builds in _watching.get():
        builds.begin(kernel)


def _end() -> None:
    for builds in _watching.get():
        builds.end()


@cache
def _hear_numba() -> None:
    from numba.core import event

    class NumbaListener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: event.Event) -> None:
            """Numba begins to compile."""
            function = event.data["dispatcher"].py_func
            _begin(f"{function.__module__}.{function.__qualname__}")

        def on_end(self, event: object) -> None:  # noqa: ARG002 - Numba's signature
            """Numba has compiled."""
            _end()

    event.register("numba:compile", NumbaListener())
