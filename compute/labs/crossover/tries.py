"""Both programs of a trap, run where the lab lives; what they saw as JSON, for a frame's notes."""

from __future__ import annotations

import json
from typing import Any

from compute.labs.crossover.trap import Side, Trap


def both(trap: Trap) -> str:
    """{"name", "wrong", "right"}: each side's numbers by the keys of `trap.seen`, or a sentence why it cannot run."""
    return json.dumps({"name": trap.name, "wrong": _side(trap.wrong), "right": _side(trap.right)})


def _side(side: Side) -> Any:
    if side.missing:
        help_ = side.backend.install
        return f"{side.missing}; {help_}" if help_ else side.missing
    try:
        return {key: float(value) for key, value in side.run().items()}
    except Exception as error:  # noqa: BLE001 the other side is to be seen all the same
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
