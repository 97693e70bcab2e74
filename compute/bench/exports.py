"""The files that `fieldlab bench` can write beside its record: table, pyperf, timeline."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from compute.bench import pyperf, report, trace
from compute.bench.rows import Results
from compute.bench.series import of_bench
from compute.files import whole

Write = Callable[[Mapping[str, Any], Results, ModuleType, Path], None]


def write_csv(record: Mapping[str, Any], _results: Results, _work: ModuleType, path: Path) -> None:
    """The record's rows as a table."""
    report.write_csv(record, path)


def write_pyperf(record: Mapping[str, Any], results: Results, work: ModuleType, path: Path) -> None:
    """Every sample, for `python -m pyperf`."""
    made = pyperf.document(of_bench(record["lab"], results, work.RATE.step), record)
    with whole(path) as out:
        json.dump(made, out, ensure_ascii=False, allow_nan=False)


def write_trace(record: Mapping[str, Any], results: Results, work: ModuleType, path: Path) -> None:
    """Every sample and its parts, for Perfetto."""
    made = trace.document(of_bench(record["lab"], results, work.RATE.step), record)
    with whole(path) as out:
        trace.write(made, out)


WRITERS: dict[str, Write] = {"csv": write_csv, "pyperf": write_pyperf, "trace": write_trace}  # by option
