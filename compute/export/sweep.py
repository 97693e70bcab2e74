"""A parameter sweep: one lab, and one row of a table, for every combination of values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

from compute.devices.backends import BackendUnavailable
from compute.export.formats import describe, table_format
from compute.export.parameter_texts import common_names
from compute.export.render import SLICE, Replay
from compute.export.render_pool import MadePart, MakePart, RenderPool, ResumableParts
from compute.export.scene import MOST_STEPS, SceneError
from compute.files.files import whole_file
from compute.lab.frames import Frame
from compute.labs import lab_class

SCHEMA = "fieldlab-sweep/1"
MOST_ROWS = 10_000
FLAG = "measured during a sweep, while other rows may have been computed: for comparisons use fieldlab bench"
PARTS = ("launch", "compute", "levels", "transfer")
_RUN_BEFORE: set[tuple[Any, ...]] = set()  # in this process, by lab, backend and other settings that require compiling


@dataclass(frozen=True)
class ParameterSweep:
    """A grid of parameters. values: the same in all rows; axes: values to vary by name, the last varies fastest.

    steps: of a lab that never ends.
    """

    lab: str
    values: Mapping[str, Any]
    axes: Mapping[str, tuple[Any, ...]]
    steps: int = 0
    sequential: ClassVar[bool] = False

    def __post_init__(self) -> None:
        both = sorted(set(self.values) & set(self.axes))
        if both:
            raise SceneError(f"{both[0]} can be set or varied, not both")
        if not 1 <= self.count <= MOST_ROWS:
            raise SceneError(f"a sweep must have from 1 to {MOST_ROWS} combinations, not {self.count}")
        if not 0 <= self.steps <= MOST_STEPS:
            raise SceneError(f"steps must be from 0 to {MOST_STEPS}, not {self.steps}")

    @property
    def count(self) -> int:
        """Return the number of combinations, which are the rows."""
        return math.prod(len(values) for values in self.axes.values())

    @property
    def task(self) -> MakePart:
        """Return the function that makes a row."""
        return row

    def at(self, number: int) -> dict[str, Any]:
        """Return the values of row `number`, the varied ones first."""
        places = np.unravel_index(number, [len(values) for values in self.axes.values()] or [1])
        varied = {name: values[place] for (name, values), place in zip(self.axes.items(), places, strict=False)}
        return {**varied, **self.values}

    def names(self) -> dict[str, str]:
        """Return the names of numbers (Lab.named_numbers) by parameter, those that are the same in all rows."""
        kind = lab_class(self.lab)
        try:
            named = common_names(kind, map(self.at, range(self.count)))
        except ValueError:  # of a row that was refused
            return {}
        return {slot: name for name, slot in named.items() if name not in kind.param}

    def plain(self) -> dict[str, Any]:
        """Return the sweep as values for JSON."""
        axes = {name: list(values) for name, values in self.axes.items()}
        return {"schema": SCHEMA, "lab": self.lab, "values": dict(self.values), "axes": axes, "steps": self.steps}


def row(plain: Mapping[str, Any], number: int) -> MadePart:
    """Make one row of the sweep `plain`, as JSON: {"values", "facts", "timing", "status", "why"}."""
    axes = {name: tuple(values) for name, values in plain["axes"].items()}
    sweep = ParameterSweep(plain["lab"], plain["values"], axes, plain["steps"])
    values = sweep.at(number)
    found: dict[str, Any] = {"values": values, "facts": {}, "timing": {}, "status": "refused", "why": ""}
    try:
        kind = lab_class(sweep.lab)
        _warm(sweep, values)
        start = perf_counter()
        with closing(Replay(kind(**values))) as run:
            found["status"] = "failed"
            run.to(sweep.steps)
            frame = run.lab.frame()
            found |= {"facts": dict(frame.facts), "timing": _timing(frame, perf_counter() - start), "status": "made"}
    except (ValueError, BackendUnavailable, MemoryError, ArithmeticError) as error:
        found["why"] = str(error) or type(error).__name__
    return number, json.dumps(found).encode()


def _warm(sweep: ParameterSweep, values: Mapping[str, Any]) -> None:
    """Compile before timing: run a slice of steps of each length that the row uses, once per process."""
    key = (sweep.lab, *(values.get(name) for name in ("backend", "variant", "dtype", "precision")))
    if key not in _RUN_BEFORE:
        kind = lab_class(sweep.lab)
        lengths = {SLICE} if kind.ENDS else {min(SLICE, sweep.steps), sweep.steps % SLICE} - {0}
        with closing(kind(**values)) as lab:
            for length in sorted(lengths):  # some kernels compute several steps per launch
                lab.advance(length)
            lab.frame()
        _RUN_BEFORE.add(key)


def _timing(frame: Frame, seconds: float) -> dict[str, Any]:
    """Return the times of the row, in ms. wall: from opening the lab to its frame."""
    timing = {f"{part}_ms": 1e3 * getattr(frame.timing, part) for part in PARTS}
    own = {"wall_ms": 1e3 * seconds, "timed_steps": frame.timing.steps, "first_call": frame.timing.first_call}
    return {**timing, **own, "timed_during_sweep": True}


class TableMaker:
    """Makes the table of a sweep; its rows stay on disk until then. why: error of the first failed row."""

    def __init__(self, sweep: ParameterSweep, path: Path, command: str = "") -> None:
        self._format = table_format(path)
        self._format.require()
        self.sweep, self.path, self.command, self.why = sweep, path, command, ""
        self.parts = ResumableParts(path, sweep, "rows", ".json")

    def run(self, pool: RenderPool, progress: Callable[[int], None] = lambda _: None) -> dict[str, int]:
        """Make the missing rows, then the table with its `<name>.json`; return the number of rows by status.

        After an interruption or a failure, finished rows stay in a folder for the next run. Raise SceneError if the
        folder belongs to another sweep or another run uses it.
        """
        start = perf_counter()
        with self.parts.alone():
            with self.parts.room():
                self.parts.make(pool, progress)
                found = [json.loads(self.parts.read(number)) for number in range(self.sweep.count)]
                plain, names = {**self.sweep.plain(), "timings": FLAG}, self.sweep.names()
                with whole_file(self.path) as made:
                    rows = [_flat(each, names) for each in found]
                    self._format.write(made, rows, json.dumps(plain, ensure_ascii=False))
                    describe(plain, self.path, self.command, perf_counter() - start, made)
            self.parts.clear()
        statuses = [each["status"] for each in found]
        self.why = next((each["why"] for each in found if each["why"]), "")
        return {status: statuses.count(status) for status in dict.fromkeys(statuses)}


def _flat(found: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of a row; a fact with the name of a parameter is renamed. names: see ParameterSweep.names."""
    values = {names.get(name, name): value for name, value in found["values"].items()}
    facts = {f"{name} (result)" if name in values else name: value for name, value in found["facts"].items()}
    return {**values, "status": found["status"], "why": found["why"], **facts, **found["timing"]}
