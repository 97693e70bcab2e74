"""Turns plain functions into Numba-CUDA kernels when they are first wanted: nothing imports numba.cuda before."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from compute.builds import building


@cache
def kernel(function: Callable[..., None]) -> Any:
    """`function` as a kernel, compiled for each set of types it is launched with.

    Its file declares `cuda: Any = None`; that name is bound to numba.cuda here, where the simulator looks for it too.
    """
    cuda = _bound(function)
    if not import_module("numba").config.ENABLE_CUDASIM:
        # A lab may be one cell wide: Numba would warn at every launch of a small grid.
        import_module("numba.cuda.dispatcher").config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
    return _announced(cuda.jit(function), f"{function.__module__}.{function.__qualname__}")


def _announced(dispatcher: Any, name: str = "") -> Any:
    """The kernel `name`, which says when it is compiled for further types; the simulator compiles nothing."""
    compiled = getattr(dispatcher, "compile", None)
    if compiled:

        def announce(*signature: Any) -> Any:
            """Compile for these types, and say so meanwhile."""
            with building(name):
                return compiled(*signature)

        dispatcher.compile = announce
    return dispatcher


@cache
def device_function(function: Callable[..., Any]) -> Any:
    """`function` for kernels to call; its file may declare `cuda: Any = None` too."""
    return _bound(function).jit(device=True)(function)


def _bound(function: Callable[..., Any]) -> Any:
    """numba.cuda, which the function's file is given as `cuda`."""
    from numba import cuda

    function.__globals__["cuda"] = cuda
    return cuda
