"""The status of a lab between two calls of `advance`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LabStatus:
    """resting: advancing has no effect until a value changes, as for a complete picture.

    progress: of a lab that ends, from 0 to 1; healthy: false after NaN or inf was found in the state; why: the reason
    to pause an unhealthy lab, "" for NaN or inf; cold: the next call of `advance` may compile kernels (the very first
    call always may); longest_call: of its uninterruptible calls, in seconds; for 0 the engine estimates it from
    `predicted_bytes`, and assumes that a call hangs if it takes seconds longer; stops_after: the steps after which the
    lab pauses, 0 for never; goal: the reason for this pause.
    """

    resting: bool = False
    progress: float = 0.0
    healthy: bool = True
    why: str = ""
    cold: bool = False
    longest_call: float = 0.0
    stops_after: int = 0
    goal: str = ""
