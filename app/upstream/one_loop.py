"""Make Bokeh 3.10 handle messages in the event loop's thread, as 3.9 does, instead of a thread pool.

The page's code assumes that all callbacks run in one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bokeh.server import contexts, session, tornado

Result = TypeVar("Result")


class LoopExecutor:
    """Replacement of Bokeh's thread pool that calls each function in the event loop's thread."""

    async def run(self, func: Callable[..., Result], *args: Any, cancel_safe: bool = False) -> Result:
        """Call `func` and return its result."""
        return func(*args)

    def shutdown(self, wait: bool = True) -> None:
        """Do nothing: there is no thread to wait for."""


async def run_in_loop(func: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """Replace Bokeh's `_run_in_executor`: call `func` immediately and return its result."""
    return func(*args, **kwargs)


def install() -> None:
    """Make servers created from now on call all functions in the event loop's thread; no effect on Bokeh 3.9."""
    if hasattr(tornado, "_ServerExecutor"):
        tornado._ServerExecutor = LoopExecutor  # noqa: SLF001 - Bokeh has no setting for it
    for module in (session, contexts):
        if hasattr(module, "_run_in_executor"):
            module._run_in_executor = run_in_loop  # noqa: SLF001 - as above
