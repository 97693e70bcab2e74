"""Bokeh 3.10 handles messages in threads of a pool; the page is written for one thread, the event loop's, as in 3.9."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bokeh.server import contexts, session, tornado

Result = TypeVar("Result")


class LoopExecutor:
    """Takes the place of Bokeh's pool of threads, and calls each function in the event loop's thread."""

    async def run(self, func: Callable[..., Result], *args: Any, cancel_safe: bool = False) -> Result:
        """Return what `func` returns."""
        return func(*args)

    def shutdown(self, wait: bool = True) -> None:
        """Do nothing: there is no thread to wait for."""


async def run_in_loop(func: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """Take the place of Bokeh's `_run_in_executor`."""
    return func(*args, **kwargs)


def install() -> None:
    """Let servers that are created from now on call everything in the event loop's thread; 3.9 does so by itself."""
    if hasattr(tornado, "_ServerExecutor"):
        tornado._ServerExecutor = LoopExecutor  # noqa: SLF001 - Bokeh has no setting for it
    for module in (session, contexts):
        if hasattr(module, "_run_in_executor"):
            module._run_in_executor = run_in_loop  # noqa: SLF001 - as above
