"""Numba's extensions: installed packages that teach it types of their own, as Awkward does.

Numba imports all of them when it loads or compiles its first kernel, with what they import in turn: 0.25 s of a
processor for Awkward alone. The kernels of the built-in labs take nothing but NumPy's arrays, so an engine puts that
off until there is a lab from outside, whose kernels may take anything.
"""

from __future__ import annotations

from numba.core import entrypoints

_load = entrypoints.init_all  # does nothing the second time


def put_off() -> None:
    """Have this process do without until `load`. To be called before its first kernel."""
    entrypoints.init_all = lambda: None


def load() -> None:
    """Have all of them from the next kernel on, if they were put off."""
    if entrypoints.init_all is not _load:
        entrypoints.init_all = _load
        _load()
