"""Timings on disk: the records of `fieldlab bench --save`, drawn hollow in the readout.

A record is JSON of one schema; a file may come from anywhere, so it is checked before use. A recorded or cited figure
never enters a measured median: it has a separate type.

Each result stores the revision of its kernel, "kernel": a whole number that is raised when a change makes the kernel
faster or slower by more than the noise of a measurement. A result without it is of revision 1. A figure of an older
revision belongs to a kernel that no longer exists, so it is never compared.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compute.devices.backends import BACKENDS, kind_of
from compute.files.documents import read
from compute.files.files import whole
from compute.machine.machine import ROOT
from compute.measure.reasons import RoofShare
from compute.measure.statistics import Spread

FIRST_REVISION = 1  # of a kernel, and of results without "kernel"
BEFORE = "recorded before this kernel"
SCHEMA = "fieldlab-timings/2"
OLDER = "fieldlab-timings/1"  # still read: diffusion only, every result with "edges"
SEVERAL_STEPS = "T-step"  # the kernels of OLDER that compute several steps in one pass through memory
LARGEST_FILE = 4 * 2**20  # bytes; a run of every case is some 100 kB
LONGEST_TEXT = 500
MOST_RESULTS = 5000
_TOP: dict[str, type | tuple[type, ...]] = {
    "schema": str, "lab": str, "date": str, "command": str, "commit": (str, type(None)), "machine": dict,
    "versions": dict, "parameters": dict, "copy_bandwidth": dict, "results": list,
}  # fmt: skip
_RESULT: dict[str, type | tuple[type, ...]] = {
    "backend": str, "variant": str, "status": str, "device": str, "dtype": str,
}  # fmt: skip
_ON_GRID: dict[str, type | tuple[type, ...]] = {"ny": int, "nx": int}  # of a result without a workload
_OF_CURVE: dict[str, type | tuple[type, ...]] = {"workload": str, "way": str, "size": int, "settings": str}
_REVISED: dict[str, type | tuple[type, ...]] = {"kernel": int}  # optional entries of a result
_MOST = {"size": 10**12}  # largest whole numbers; 2**20 for the others
_RATE: dict[str, type | tuple[type, ...]] = {"unit": str, "work": str, "step": str, "roof": str, "counted": str}
_GRID = {"unit": "Gcell/s", "work": "cells", "step": "step", "roof": "copy", "counted": "bytes"}  # of OLDER


class RecordError(ValueError):
    """An invalid record; the text names the file, the entry and the error."""


@dataclass(frozen=True)
class Recorded:
    """One figure of an earlier run, or of a publication (`cited` names it), never mixed with new measurements.

    case: further settings that identify the case in its lab (edges, scene); step: median seconds a step; rate: cells or
    iterations a second; q1, q3: quartiles of step (nan for a cited figure); percent: of that device's own roof (nan if
    unknown); n: samples; low, high: confidence interval of step (nan if unknown); cache: bytes of that device's
    last-level cache (nan if unknown); kernel: revision of its kernel.
    """

    lab: str
    machine: str
    date: str
    backend: str
    variant: str
    ny: int
    nx: int
    dtype: str
    case: str
    step: float
    rate: float
    q1: float = math.nan
    q3: float = math.nan
    percent: float = math.nan
    cited: str = ""
    kernel: int = FIRST_REVISION
    n: int = 0
    low: float = math.nan
    high: float = math.nan
    cache: float = math.nan

    @property
    def kind(self) -> str:
        """The kind of device it ran on."""
        return kind_of(self.backend)

    @property
    def times(self) -> Spread:
        """The seconds a step; without a confidence interval if the record has none."""
        return Spread(self.step, self.q1, self.q3, self.n, self.low, self.high)

    @property
    def share(self) -> RoofShare:
        """The share of its device's roof."""
        return RoofShare(self.percent, self.cache)


def spread_of(result: Mapping[str, Any]) -> Spread:
    """Return the times of a checked result; without a confidence interval in records of older versions."""
    ends = (math.nan if result.get(name) is None else float(result[name]) for name in ("median_low", "median_high"))
    return Spread(result["median"], result["q1"], result["q3"], result["n"], *ends)


def timings_folder() -> Path:
    """Return the path of assets/timings in the checkout or in the installed app."""
    checkout = ROOT / "assets"
    return (checkout if checkout.is_dir() else ROOT / "app" / "_assets") / "timings"


def save(record: Mapping[str, Any], path: Path) -> Path:
    """Check `record` and write it to `path` atomically; return the path."""
    check(record, str(path))
    with whole(path) as out:
        json.dump(record, out, indent=1, allow_nan=False, ensure_ascii=False)
        out.write("\n")
    return path


def load(path: Path) -> dict[str, Any]:
    """Read and check one record; RecordError names the error."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise RecordError(f"{path}: larger than {LARGEST_FILE} bytes")
        text = path.read_text(encoding="utf-8", errors="surrogateescape")  # text that is not UTF-8 is not JSON either
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror})") from error
    record = read(text, LARGEST_FILE, str(path), RecordError)
    check(record, str(path))
    return record


def check(record: Any, where: str) -> None:
    """Raise RecordError unless `record` is a complete record of SCHEMA with valid values."""
    _entries(record, _TOP, where)
    if record["schema"] not in (SCHEMA, OLDER):
        raise RecordError(f"{where}: schema is {record['schema'][:40]!r}, this version reads {SCHEMA!r} and {OLDER!r}")
    if record["schema"] != OLDER:
        _entries(record.get("rate"), _RATE, f"{where}: rate")
    _texts(record, where)
    if len(record["results"]) > MOST_RESULTS:
        raise RecordError(f"{where}: results has more than {MOST_RESULTS} entries")
    for number, result in enumerate(record["results"]):
        place = f"{where}: results[{number}]"
        _entries(result, _RESULT, place)
        _entries(result, _OF_CURVE if "workload" in result else _ON_GRID, place)
        if "kernel" in result:
            _entries(result, _REVISED, place)
        if result["status"] in ("measured", "wrong"):
            _timed(result, record.get("rate", _GRID), place)


def recorded(record: Mapping[str, Any]) -> list[Recorded]:
    """Return the figures of a checked record that may be shown with measured ones: right results on grids, on one GPU.

    Results of curves over n belong to the crossover lab (labs.crossover.recorded), those of other libraries to no lab.
    """
    backends = {each.name for each in BACKENDS}
    machine, date = machine_name(record["machine"]), str(record["date"])[:10]
    rate, caches = record.get("rate", _GRID), record.get("caches") or {}
    return [
        Recorded(
            record["lab"], machine, date, result["backend"], result["variant"], result["ny"], result["nx"],
            result["dtype"], str(result.get("scene") or result.get("edges") or ""), result["median"],
            result[f"{rate['work']}_per_second"], result["q1"], result["q3"], _percent(record, result, rate["roof"]),
            kernel=result.get("kernel", FIRST_REVISION),
            n=result["n"], low=spread_of(result).low, high=spread_of(result).high,
            cache=float(caches.get(result["device"]) or math.nan),
        )
        for result in record["results"]
        if result["status"] == "measured" and "workload" not in result and result.get("gpus", 1) == 1
        and result["backend"] in backends
    ]  # fmt: skip


def _percent(record: Mapping[str, Any], result: Mapping[str, Any], roof: str) -> float:
    """Return the share of the roof in percent; nan if unknown.

    OLDER counts each step of a pass with several steps as a separate pass: such shares are several times too large.
    """
    value = result[f"percent_of_{roof}"]
    miscounted = record["schema"] == OLDER and result["variant"] == SEVERAL_STEPS
    return math.nan if value is None or miscounted else float(value)


def library(folder: Path | None = None) -> tuple[list[Recorded], list[str]]:
    """Return every recorded figure in a folder (default assets/timings), and the errors of invalid files."""
    figures: list[Recorded] = []
    problems: list[str] = []
    for path in sorted((folder or timings_folder()).glob("*.json")):
        try:
            figures += recorded(load(path))
        except RecordError as error:
            problems.append(str(error))
    return figures, problems


def chip_names(figures: Iterable[Recorded]) -> dict[str, str]:
    """Return the machines with a recorded GPU: key, as in "nvidia-h200" -> name."""
    names = sorted({figure.machine for figure in figures if figure.kind == "gpu" and not figure.cited})
    return {chip_key(name): name for name in names}


def chip_key(machine: str) -> str:
    """Return the key of a machine's name: its letters and digits in lower case, joined by hyphens."""
    return "-".join(re.findall("[a-z0-9]+", machine.lower()))


def nearest(figures: Iterable[Recorded], lab: str, ny: int, nx: int, dtype: str) -> Recorded | None:
    """Return a GPU's fastest figure of that lab and dtype, on the grid nearest in cells; None if none."""
    fitting = [f for f in figures if (f.lab, f.dtype, f.kind, f.cited) == (lab, dtype, "gpu", "")]
    if not fitting:
        return None
    distance = {f: abs(math.log(f.ny * f.nx / (ny * nx))) for f in fitting}
    return min(fitting, key=lambda f: (distance[f], f.step))


@dataclass(frozen=True)
class RecordedPair:
    """The fastest recorded way of a GPU and of the CPU of its machine, for the same work and method.

    words: the work, "512 × 512 cells, float32, zero-flux"; same: whether the live lab does the same work; held: bytes
    that it reads repeatedly, nan if unknown; method: of the GPU's way, "" if the lab has only one; unpaired: why `cpu`
    is None, "" if that CPU has no record.
    """

    gpu: Recorded
    cpu: Recorded | None
    words: str
    same: bool
    held: float = math.nan
    method: str = ""
    unpaired: str = ""


Revisions = Mapping[tuple[str, str], int]  # current revisions of kernels, by backend and variant; absent: the first


def _one_method(_figure: Recorded) -> str:
    return ""


def paired(
    figures: Iterable[Recorded], words: str, same: bool, held: float = math.nan,
    method: Callable[[Recorded], str] = _one_method, revisions: Revisions | None = None,
) -> RecordedPair | None:  # fmt: skip
    """Return the pair of the fastest GPU among `figures`, which are all of the same work; None without a GPU's.

    If `same` is False, a GPU with a CPU to compare it with comes first.
    method: returns the method of a figure, such as one step a pass, or several; only equal methods are compared.
    revisions: current revisions of the kernels; figures of older ones are not compared.
    """
    known = [figure for figure in figures if not figure.cited]
    gpus = (f for f in known if f.kind == "gpu" and not outdated(f, revisions))
    pairs = [
        _with_cpu(RecordedPair(gpu, None, words, same, held, method(gpu)), known, method, revisions)
        for gpu in sorted(gpus, key=lambda f: f.step)
    ]
    whole = [pair for pair in pairs if pair.cpu]
    return next(iter(pairs if same else (*whole, *pairs)), None)


def _with_cpu(
    pair: RecordedPair, known: Iterable[Recorded], method: Callable[[Recorded], str], revisions: Revisions | None
) -> RecordedPair:
    """Return the pair with the CPU of the GPU's machine, or with the reason for its absence.

    If one of the CPU's kernels has a newer revision than its figure, no figure is used for the CPU, since the new
    kernel may be the fastest.
    """
    gpu = pair.gpu
    cpus = [f for f in known if f.kind == "cpu" and (f.machine, f.date) == (gpu.machine, gpu.date)]
    alike = [f for f in cpus if method(f) == method(gpu)]
    if any(outdated(f, revisions) for f in alike):
        return replace(pair, unpaired=f"its CPU was {BEFORE}")
    if alike or not cpus:
        return replace(pair, cpu=min(alike, key=lambda f: f.step, default=None))
    return replace(pair, unpaired=f"its CPU was recorded with {method(cpus[0])} only, the GPU with {method(gpu)}")


def outdated(figure: Recorded, revisions: Revisions | None) -> bool:
    """Whether the figure is of an older revision of its kernel."""
    return figure.kernel < (revisions or {}).get((figure.backend, figure.variant), FIRST_REVISION)


def machine_name(facts: Mapping[str, Any]) -> str:
    """Return a machine's display name: its GPU, or its CPU without a GPU."""
    gpus = facts.get("gpus")
    if isinstance(gpus, list) and gpus and isinstance(gpus[0], dict) and gpus[0].get("name"):
        return str(gpus[0]["name"])
    return str(facts.get("cpu", "unknown machine"))


def _entries(value: Any, required: Mapping[str, type | tuple[type, ...]], where: str) -> None:
    if not isinstance(value, dict):
        raise RecordError(f"{where}: is {type(value).__name__}, not an object")
    for key, kind in required.items():
        if key not in value:
            raise RecordError(f"{where}: {key} is missing")
        if not isinstance(value[key], kind) or isinstance(value[key], bool):
            raise RecordError(f"{where}: {key} is {type(value[key]).__name__}")
        most = _MOST.get(key, 2**20)
        if kind is int and not 1 <= value[key] <= most:
            raise RecordError(f"{where}: {key} must be from 1 to {most}, not {value[key]}")


def _timed(result: Mapping[str, Any], rate: Mapping[str, str], where: str) -> None:
    may_lack = f"{rate['counted']}_per_second", f"percent_of_{rate['roof']}"
    for key in ("median", "q1", "q3", f"{rate['work']}_per_second", *may_lack):
        value = result.get(key)
        if key in may_lack and key in result and value is None:  # the roof was not measured, or counts other work
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise RecordError(f"{where}: {key} must be a positive number, not {str(value)[:40]!r}")
    if not result["q1"] <= result["median"] <= result["q3"]:
        raise RecordError(f"{where}: the median lies outside the quartiles")
    for key in ("median_low", "median_high"):
        value = result.get(key)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf
        ):
            raise RecordError(f"{where}: {key} must be a positive number, not {str(value)[:40]!r}")
    if not isinstance(result.get("n"), int) or result["n"] < 1:
        raise RecordError(f"{where}: n must be 1 or more, not {str(result.get('n'))[:40]!r}")


def _texts(value: Any, where: str) -> None:
    """Raise RecordError for a text longer than LONGEST_TEXT, at any depth: the texts of records are displayed."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise RecordError(f"{where}: a text is longer than {LONGEST_TEXT} characters")
    if isinstance(value, dict):
        for key, item in value.items():
            _texts(key, where)
            _texts(item, where)
    elif isinstance(value, list):
        for item in value:
            _texts(item, where)
