"""Provenance of every record of timings: machine, versions and conditions."""

from __future__ import annotations

import ast
import json
from argparse import Namespace
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from math import nan

import pytest

from app.load import __main__ as load
from app.load import soak, visits
from app.load.run import Load
from app.load.server import Use
from compute.cli import race_command
from compute.export import benchmark as export
from compute.labs.diffusion import benchmark as diffusion
from compute.machine import machine
from compute.measure import conditions
from compute.measure.case import BenchPlan
from compute.measure.conditions import Watch
from compute.measure.live_record import ShownTimings
from compute.measure.report import as_record
from compute.measure.statistics import Spread
from compute.measure.timing import Timing
from tests.sources import ROOT

pytestmark = pytest.mark.extended

SPREAD = Spread.of([1.0, 2.0, 3.0])


def bench():
    plan = BenchPlan("diffusion", (diffusion.GridCase(24, "float32", "zero-flux"),), ("cpu_numpy",), 0.05)
    results = diffusion.BENCHMARK.run(plan)
    return as_record(results, plan, "bench", diffusion.BENCHMARK), sum(row.measurement.step.n for row in results.rows)


def live():
    timings = tuple(Timing("cpu_numpy", "", 1, 9, compute=1.0, first_call=first) for first in (True, False, False))
    return ShownTimings("diffusion", {}, "host", diffusion.RATE, None, timings).record(), 2


def films():
    encoders, watch = [export.Encoder(".png", SPREAD, 1.0)] * 2, Watch()
    watch.end()
    return export._record(encoders, [export.Pool("light", 1, SPREAD, ())], "cpu_numpy", "export", watch), 9


def tabs():
    found = [Load(1, 1.0, SPREAD, *[nan] * 8)]
    return load._record(found, {}, {}, "load", Watch()), 3


def soaked():
    return soak.record_of([soak.Held(float(minute), 0, Use(1.0, 1.0, 2**30, 40)) for minute in range(6)], 2), 6


def visited():
    readings = [visits.MemoryReading(n, float(n), 1e8, 1e8, 1e8, 1e6, 1e8, 0.0) for n in range(6)]
    return visits.record_of(readings, Counter(), "visits"), 6


def raced():
    chosen = {"set": ["ny=20", "nx=24"], "work": "", "steps": 3, "backends": "cpu_numpy,cpu_numba", "json": True}
    finish = {"time": None, "tolerance": None}  # only `steps` ends the race
    with redirect_stdout(StringIO()) as said:
        race_command.run_command(Namespace(lab="diffusion", **chosen, **finish), "race")
    record = json.loads(said.getvalue())
    return record, sum(lane["step"]["n"] for lane in record["lanes"])


WRITERS = {
    "report.py": bench, "live_record.py": live, "benchmark.py": films, "__main__.py": tabs, "soak.py": soaked,
    "visits.py": visited, "race_command.py": raced,
}  # fmt: skip


@pytest.mark.parametrize("writer", WRITERS.values())
def test_every_record_says_where_it_was_made_and_under_which_conditions(writer):
    record, samples = writer()
    assert record["machine"] == machine.machine()
    assert record["versions"]["numpy"]
    assert record["commit"] == machine.commit()
    assert record["command"]
    conditions = record["conditions"]
    assert conditions["samples"] == samples
    assert conditions["changed"] in (True, False, None)
    for moment in (conditions["before"], conditions["after"]):
        assert moment["load"] is None or moment["load"] >= 0
        assert {"cpu_clock", "cpu_temperature", "gpus"} <= moment.keys()
    assert json.dumps(conditions)


def calls(path, name):
    """Return whether a module calls a function of that name."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    made = [node.func for node in nodes if isinstance(node, ast.Call)]
    return any(name in (getattr(f, "id", None), getattr(f, "attr", None)) for f in made)


def test_all_writers_are_tested_here_and_nobody_else_asks_for_the_commit():
    """In addition, only `fieldlab info` and the description of a film, which has no timings, read the commit."""
    sources = [path for part in ("app", "compute") for path in (ROOT / part).rglob("*.py")]
    own = {path.name for path in sources if calls(path, "provenance")}
    assert own == set(WRITERS)
    assert {path.name for path in sources if calls(path, "commit")} == {"conditions.py", "info.py", "formats.py"}


@pytest.mark.parametrize(("commit", "changed"), [("abc", False), ("abc+changes", True), (None, None)])
def test_a_source_that_was_changed_is_told(monkeypatch, commit, changed):
    known = {"commit": commit, "machine": {}, "versions": {}}
    monkeypatch.setattr(conditions, "software", lambda: known)
    assert conditions.provenance("", 0, Watch())["conditions"]["changed"] is changed
