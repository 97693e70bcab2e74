"""Samples in the format of pyperf, so that `python -m pyperf stats`, `hist` and `compare_to` read them.

The format is that of pyperf 1.0 and later: https://pyperf.readthedocs.io. A way at a case is a benchmark of one run; a
value is the seconds of a step; first calls are warm-ups. Of two benchmarks with different numbers of values pyperf 2.10
gives the ratio, but says that it cannot tell whether it is significant; `fieldlab bench --compare` looks at quartiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import isfinite
from time import perf_counter, time
from typing import Any

from compute.bench.series import Series

VERSION = "1.0"
LONGEST = 300  # characters of a text


def document(series: Iterable[Series], record: Mapping[str, Any]) -> dict[str, Any]:
    """The series with what `record` says of machine, versions, date and command. ValueError if there is nothing."""
    benchmarks = [_benchmark(entry) for entry in series if _values(entry)]
    if not benchmarks:
        raise ValueError("nothing was timed, so there is nothing to save for pyperf")
    return {"version": VERSION, "benchmarks": benchmarks, "metadata": _metadata(record)}


def _benchmark(series: Series) -> dict[str, Any]:
    warmups = [
        [max(1, sample.timing.steps), sample.timing.step_seconds]
        for sample in series.cold if isfinite(sample.timing.step_seconds)
    ]  # fmt: skip
    run: dict[str, Any] = {"values": _values(series), "metadata": _run(series)}
    if warmups:
        run["warmups"] = warmups
    about = {"name": series.name, "device": series.device, "timed": f"one {series.what}", **series.facts}
    return {"metadata": _texts(about), "runs": [run]}


def _values(series: Series) -> list[float]:
    """Seconds a step; a live frame in which nothing was left to compute took 0, which pyperf does not take."""
    return [seconds for seconds in series.seconds if seconds > 0]


def _run(series: Series) -> dict[str, Any]:
    """Date and duration of the samples, and the steps in one if they are the same in all."""
    began, ended = min(s.began for s in series.samples), max(s.ended for s in series.samples)
    out: dict[str, Any] = {}
    if isfinite(began) and isfinite(ended):
        date = datetime.fromtimestamp(time() - perf_counter() + began, UTC)
        out = {"date": f"{date:%Y-%m-%d %H:%M:%S.%f}", "duration": ended - began}
    steps = {sample.timing.steps for sample in series.warm}
    return out | ({"loops": steps.pop()} if len(steps) == 1 else {})


def _metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    """What is common to all: the names that pyperf itself uses where it has one."""
    machine, versions = record["machine"], dict(record["versions"])
    gpus = ", ".join(gpu["name"] for gpu in machine.get("gpus", ()))
    python = versions.pop("python", "")
    about = {
        "unit": "second", "tool": "fieldlab", "cpu_model_name": machine["cpu"], "platform": machine["system"],
        "python_version": python, "gpu": gpus, "driver": machine["driver"], "commit": record["commit"],
        "command": record["command"], "recorded": record["date"], "included": record["parameters"].get("included", ""),
    }  # fmt: skip
    return _texts(about | {f"{name}_version": text for name, text in versions.items()}) | {
        "cpu_count": int(machine["threads"])
    }


def _texts(about: Mapping[str, Any]) -> dict[str, Any]:
    """As metadata may be: texts of one line, none empty."""
    lines = {name: " ".join(str(value).split())[:LONGEST] for name, value in about.items() if value is not None}
    return {name: line for name, line in lines.items() if line}
