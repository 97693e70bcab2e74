"""Provenance of every record of timings: machine, versions and conditions."""

from __future__ import annotations

import json
import re

import pytest

from compute.machine import machine
from compute.measure import conditions
from compute.measure.conditions import Watch, provenance
from tests.sources import ROOT

WRITERS = {
    "compute/measure/report.py", "compute/measure/live_record.py", "compute/export/benchmark.py",
    "compute/cli/race_command.py", "app/load/__main__.py", "app/load/soak.py", "app/load/visits.py",
}  # fmt: skip


def callers(function):
    """Return the modules that call a function of that name."""
    call = re.compile(rf"(?<!def )\b{function}\(")
    sources = [path for part in ("app", "compute") for path in (ROOT / part).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix() for path in sources if call.search(path.read_text(encoding="utf-8"))}


def test_a_record_states_where_and_under_which_conditions_it_was_made():
    watch = Watch()
    watch.end()
    for record in (provenance("a command", 7, watch), provenance("a command", 7)):
        assert record["machine"] == machine.machine()
        assert record["versions"]["numpy"]
        assert record["commit"] == machine.commit()
        assert record["command"] == "a command"
        found = record["conditions"]
        assert found["samples"] == 7
        assert found["changed"] in (True, False, None)
        for moment in (found["before"], found["after"]):
            assert moment["load"] is None or moment["load"] >= 0
            assert {"cpu_clock", "cpu_temperature", "gpus"} <= moment.keys()
        assert json.dumps(found)


def test_every_writer_of_a_record_states_its_provenance_and_no_other_module_reads_the_commit():
    """In addition, only `fieldlab info` and the description of a film, which has no timings, read the commit."""
    assert callers("provenance") == WRITERS
    assert callers(r"machine\.commit") == {
        "compute/measure/conditions.py", "compute/machine/info.py", "compute/export/formats.py",
    }  # fmt: skip


@pytest.mark.parametrize(("commit", "changed"), [("abc", False), ("abc+changes", True), (None, None)])
def test_a_record_states_whether_the_source_was_changed(monkeypatch, commit, changed):
    monkeypatch.setattr(conditions, "software", lambda: {"commit": commit, "machine": {}, "versions": {}})
    assert provenance("", 0, Watch())["conditions"]["changed"] is changed
