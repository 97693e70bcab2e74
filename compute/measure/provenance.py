"""Where a figure was taken, with what, and under which conditions: what the records of all timings have in common.

Every record is made with `provenance`; tests/measure/test_provenance.py goes over those who write one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from compute import machine
from compute.measure.conditions import Watch, plain_reading, sampler


@cache
def software() -> dict[str, Any]:
    """Commit, machine and versions, as they were when first asked: that asks other programs, which may take seconds."""
    return {"commit": machine.commit(), "machine": machine.machine(), "versions": machine.versions()}


def provenance(command: str, samples: int, watch: Watch | None = None) -> dict[str, Any]:
    """Return {date, command, commit, machine, versions, conditions} of a record that is made now.

    samples: how many timings are in it; watch: what was read before and meanwhile. Without one the newest reading of
    the page's sampler is taken, or one is made now.

    conditions: changed (whether the source differs from the commit; None if there is no commit), samples, and the
    machine before and after: load, clocks, temperatures, power and its cap.
    """
    known = software()
    history = sampler().history() if watch is None else ()
    if history:
        state: dict[str, Any] = {"before": plain_reading(history[0]), "after": plain_reading(history[-1]), "cases": []}
    else:
        state = (watch or Watch()).as_record()
    commit = known["commit"]
    changed = commit.endswith(machine.CHANGED) if commit else None
    return {
        "date": machine.now(),
        "command": command,
        **known,
        "conditions": {"changed": changed, "samples": samples, **state},
    }
