"""Numba's extensions: installed packages that add types to it, such as Awkward.

Numba imports all of them, with their own imports, when it loads or compiles its first kernel: 0.25 s of a processor for
Awkward alone. The kernels of the built-in labs accept only NumPy's arrays, so an engine delays that import until it
opens a lab from outside, with kernels for any type.
"""

from __future__ import annotations

from numba.core import entrypoints

_load = entrypoints.init_all  # no-op in further calls


def put_off() -> None:
    """Disable the extensions in this process until `load`. Must be called before its first kernel."""
    entrypoints.init_all = lambda: None


def load() -> None:
    """Load all extensions for the next kernels, if `put_off` disabled them."""
    if entrypoints.init_all is not _load:
        entrypoints.init_all = _load
        _load()
