"""Limits that this process sets on labs: their sizes, such as the cells of a grid, and the memory that they keep.

A lab states its sizes (Lab.SIZES) and knows no server: `compute` hands in the limits of the settings.
"""

from __future__ import annotations

from typing import Protocol


class LabLimits(Protocol):
    """The limits by name; compute/cli/settings.py implements and documents them."""

    def require(self, name: str, value: int) -> None:
        """Raise ValueError if `value` exceeds the limit `name`."""

    def limit(self, name: str) -> int:
        """Return the limit `name`, in its unit."""


MIB = 2**20  # bytes; the unit of the limits "memory" and "upload"

_limits: list[LabLimits] = []


def limit_with(limits: LabLimits) -> None:
    """Set the limits of this process."""
    _limits[:] = [limits]


def require(name: str, value: int) -> None:
    """Raise ValueError if `value` exceeds the limit `name`."""
    _limits[0].require(name, value)


def limit(name: str) -> int:
    """Return the limit `name`, in its unit."""
    return _limits[0].limit(name)
