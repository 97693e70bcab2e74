"""Turns plain functions into Numba-CUDA kernels on first use; numba.cuda is not imported before."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from compute.devices.builds import building


@cache
def kernel(function: Callable[..., None]) -> Any:
    """Return `function` as a kernel, compiled for each set of argument types.

    Its file declares `cuda: Any = None`; this function binds that name to numba.cuda, and the simulator uses it too.
    """
    return generated(_bound(function).jit(function), f"{function.__module__}.{function.__qualname__}")


def generated(dispatcher: Any, name: str) -> Any:
    """Return a kernel that its own text has decorated. name: of the kernel, for `building`."""
    if not import_module("numba").config.ENABLE_CUDASIM:
        # A lab may be one cell wide: Numba would warn at every launch of a small grid.
        import_module("numba.cuda.dispatcher").config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
    return _announced(dispatcher, name)


def _announced(dispatcher: Any, name: str = "") -> Any:
    """Make the kernel `name` announce its compilations for further types; the simulator does not compile."""
    compiled = getattr(dispatcher, "compile", None)
    if compiled:

        def announce(*signature: Any) -> Any:
            """Compile for these types, and announce the build."""
            with building(name):
                return compiled(*signature)

        dispatcher.compile = announce
    return dispatcher


@cache
def device_function(function: Callable[..., Any]) -> Any:
    """Return `function` as a device function for kernels; its file may declare `cuda: Any = None` too."""
    return _bound(function).jit(device=True)(function)


def _bound(function: Callable[..., Any]) -> Any:
    """Bind `cuda` in the function's file to numba.cuda, and return it."""
    from numba import cuda

    function.__globals__["cuda"] = cuda
    return cuda
