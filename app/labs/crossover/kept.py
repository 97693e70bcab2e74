"""A finished sweep as files: the same that `fieldlab bench crossover` writes, every sample included."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from app.saving import Format, Saves
from app.session import Session
from compute import machine
from compute.bench import pyperf, report, trace
from compute.bench.rows import Results
from compute.bench.series import Series, of_bench
from compute.engine.messages import SnapshotTaken
from compute.labs.crossover.results import record_of, results_of

COMMAND = "fieldlab, live in the page"


@dataclass(frozen=True)
class Kept:
    """One sweep. snapshot: of the lab that measured it."""

    snapshot: Mapping[str, Any]
    lab: str = "crossover"
    date: str = field(default_factory=machine.now)

    @cached_property
    def record(self) -> dict[str, Any]:
        """In the schema of `fieldlab bench --save`."""
        return record_of(self.snapshot, COMMAND) | {"date": self.date}

    @cached_property
    def series(self) -> list[Series]:
        """Every sample of every way."""
        found: Results = results_of(self.snapshot)
        return list(of_bench(self.lab, found, "call"))


def as_csv(kept: Kept) -> str:
    """A line for each way at each n."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        report.write_csv(kept.record, path)
        return path.read_text(encoding="utf-8")


def as_json(kept: Kept) -> str:
    """The record."""
    return json.dumps(kept.record, indent=1, ensure_ascii=False, allow_nan=False)


def as_pyperf(kept: Kept) -> str:
    """For `python -m pyperf`."""
    return json.dumps(pyperf.document(kept.series, kept.record), ensure_ascii=False, allow_nan=False)


def as_trace(kept: Kept) -> str:
    """For Perfetto."""
    out = io.StringIO()
    trace.write(trace.document(kept.series, kept.record), out)
    return out.getvalue()


FORMATS = (
    Format("CSV", ".csv", "table", as_csv),
    Format("JSON", ".json", "a record", as_json),
    Format("pyperf", ".pyperf.json", "every sample", as_pyperf),
    Format("Trace", ".trace.json", "ui.perfetto.dev", as_trace),
)


class Keeper:
    """Asks the engine once for what a finished sweep has found, and offers it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: Kept | None = None
        self._asked = False
        self.saves = Saves(FORMATS, lambda: self._kept)

    def tick(self) -> None:
        """A few times a second: a sweep may have come to its end, or another one begun."""
        frame = self._session.latest
        finished = frame is not None and self._session.answered and frame.facts.get("finished") == 1
        if finished and not self._asked:
            self._asked = True
            self._session.ask_snapshot()
        elif not finished:
            self._asked, self._kept = False, None
        self.saves.allow(self._kept is not None)

    def event(self, event: Any) -> None:
        """The engine's answer, if it is one."""
        if isinstance(event, SnapshotTaken) and self._asked:
            self._kept = Kept(event.snapshot)
