"""Empty the caches of the host before a run."""

from __future__ import annotations

from compute.devices.devices import Array


def evict(scratch: Array) -> None:
    """Read and write `scratch`, an array much larger than the caches, to evict all other data."""
    scratch += 1
