"""A sweep with its provenance, as plain values for JSON and as lines for CSV; times in seconds."""

from __future__ import annotations

import math
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numba

from compute import machine
from compute.labs.crossover.point import Point
from compute.labs.crossover.sweep import Sweep
from compute.timings import Spread

SCHEMA = "fieldlab-curves/1"
PACKAGES = ("torch", "triton", "jax", "jaxlib", "awkward")  # besides those that every record names
INCLUDED = {
    "device": "A time is that of a call, when many follow each other, on data that lie on the device: between two CUDA "
    "events on a GPU, wall time on the host and for JAX. Arrays that a way makes for itself are included.",
    "host": "A time is wall time from data in main memory to results in main memory. Pinned memory is got before.",
}
WARM = "Caches are as the call before left them."
EVICTED = "Each sample is one call, on caches that another array has just filled."


def as_record(sweep: Sweep, command: str) -> dict[str, Any]:
    """What was measured and where. Numbers that are not there are None; a way that disagrees has no time.

    command: how to repeat it, for example a line of Python.
    """
    plan = sweep.plan
    return {
        "schema": SCHEMA,
        "lab": "crossover",
        "workload": plan.workload.name,
        "date": machine.now(),
        "command": command,
        "commit": machine.commit(),
        "machine": machine.machine(),
        "versions": machine.versions() | _installed(),
        "parameters": {
            "dtype": plan.dtype,
            **plan.case(plan.sizes[0]).settings,
            "seed": plan.seed,
            "budget_s": plan.budget,
            "evict": plan.evict,
            "numba_threads": numba.get_num_threads(),
            "included": f"{INCLUDED[plan.workload.folder.ON]} {EVICTED if plan.evict else WARM}",
        },
        "points": [entry(sweep, point) for point in sweep.points.values()],
    }


def entry(sweep: Sweep, point: Point) -> dict[str, Any]:
    """One way at one n: what it is, whether it is right, its quartiles and the parts of its time."""
    case = sweep.plan.case(point.n)
    out: dict[str, Any] = {
        "way": point.way.name, "n": point.n, "status": point.status, "reason": point.reason,
        "difference": _finite(point.difference), "tolerance": case.tolerance,
    }  # fmt: skip
    measured = point.measurement
    if measured is None:
        return out
    work = case.work(point.way)
    return out | {
        **_spread("seconds", measured.step),
        "samples": measured.step.n,
        "calls_per_sample": point.timings[-1].steps,
        "noisy": measured.noisy,
        "first_call": _finite(measured.first_call),
        "launch": _finite(point.launch.median),
        "transfer": _finite(point.transfer.median),
        "bytes_per_second": work.moved / measured.step.median,
        "flops_per_second": work.flops / measured.step.median,
    }


def _spread(name: str, spread: Spread) -> dict[str, float]:
    return {name: spread.median, f"{name}_q1": spread.q1, f"{name}_q3": spread.q3}


def _installed() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
