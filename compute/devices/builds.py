"""Detection of kernel builds, that is compilations, which block the work that needs the kernel.

Which kernel a lab launches may depend on any of its values, and a kernel is built at its first call, deep inside the
lab's work. Builds are therefore not predicted: the code that builds a kernel announces it by `building`, and the code
that times or supervises the work is notified by `watching`. Numba's kernels for the CPU are announced through Numba's
own events. The duration of each build is stored next to Numba's cache (kernel_cache.py), so that the next build of the
kernel can be announced with its expected duration.
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
    """Do nothing, for callers that only count."""


@dataclass
class Builds:
    """The builds in a `watching` block.

    count: kernels that were built; kernel: the current or last one, as "module.function", "" if unknown; seconds: the
    duration of its build.
    """

    began: Callable[[], None] = _ignore
    ended: Callable[[], None] = _ignore
    count: int = 0
    kernel: str = ""
    seconds: float = 0.0
    since: float = 0.0
    depth: int = 0  # a kernel may be built for another one; only the outer one counts

    def begin(self, kernel: str) -> None:
        """Record the start of a build."""
        self.depth += 1
        if self.depth == 1:
            self.count += 1
            self.kernel, self.since = kernel, monotonic()
            self.began()

    def end(self) -> None:
        """Record the end of a build, successful or not."""
        self.depth -= 1
        if self.depth == 0:
            self.seconds = monotonic() - self.since
            self.ended()


class NotBuilt(RuntimeError):
    """A kernel that is neither loaded nor cached was required in a block of `only_built`."""


_watching: ContextVar[tuple[Builds, ...]] = ContextVar("watching", default=())
_refusing: ContextVar[bool] = ContextVar("refusing", default=False)


@contextmanager
def watching(began: Callable[[], None] = _ignore, ended: Callable[[], None] = _ignore) -> Iterator[Builds]:
    """Watch the kernels that this thread builds in the block: call `began` before each, `ended` after it."""
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
    """Announce that the block builds the kernel "module.function"."""
    _begin(kernel)
    try:
        yield
    finally:
        _end()


@contextmanager
def only_built() -> Iterator[None]:
    """Raise NotBuilt in the block instead of building a kernel; kernels are still loaded from caches."""
    if "numba" in sys.modules:
        _hear_numba()
    watching, refusing = _watching.set(()), _refusing.set(True)
    try:
        yield
    finally:
        _watching.reset(watching)
        _refusing.reset(refusing)


def _begin(kernel: str) -> None:
    if _refusing.get():
        raise NotBuilt(f"{kernel or 'a kernel'} is not compiled")
    for builds in _watching.get():
        builds.begin(kernel)


def _end() -> None:
    for builds in _watching.get():
        builds.end()


@cache
def _hear_numba() -> None:
    from numba.core import event

    class NumbaListener(event.Listener):  # type: ignore[misc]
        """Announces the compilations of Numba."""

        def on_start(self, event: event.Event) -> None:
            """Announce the start of a compilation by Numba."""
            function = event.data["dispatcher"].py_func
            _begin(f"{function.__module__}.{function.__qualname__}")

        def on_end(self, event: object) -> None:  # noqa: ARG002 - Numba's signature
            """Announce the end of a compilation."""
            _end()

    event.register("numba:compile", NumbaListener())
