"""Stored roofs: valid for this machine and for a limited time, otherwise measured again."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta

import pytest

from compute.measure import kept_roofs, machine_roofs
from compute.measure.kept_roofs import HOUR, WEEK, KeptRoofs
from compute.process.tasks import Result, TaskProcess
from tests.waiting import until

RATES = {"host": {"copy": 2e10, "fma float32": 5e10, "waking": 1e-5}}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kept_roofs, "identity", lambda: {"machine": "this one"})
    return tmp_path


def times(monkeypatch, busy, idle):
    """Simulate machine times: `busy` and `idle` seconds pass, none of them in this process."""
    found = iter([(1.0, 1.0), (1.0 + busy, 1.0 + idle)])

    class Times(tuple):
        idle = property(lambda self: self[1])

    monkeypatch.setattr(kept_roofs.psutil, "cpu_times", lambda: Times(next(found)))
    monkeypatch.setattr(kept_roofs, "_own", lambda: 0.0)


@pytest.mark.parametrize(("busy", "others", "kept"), [(0.0, 0.0, True), (1.0, 0.25, True), (3.0, 0.75, False)])
def test_roofs_are_stored_with_the_share_of_others_unless_that_was_large(monkeypatch, busy, others, kept):
    times(monkeypatch, busy, idle=4.0 - busy)
    made = kept_roofs.measured(lambda: RATES)
    assert (made.rates, made.others) == (RATES, others)
    found = kept_roofs.read()
    assert (found is not None) is kept_roofs.path().exists() is kept
    if kept:
        assert (found.rates, found.others) == (RATES, others)
        assert abs(found.date - datetime.now(UTC)) < timedelta(minutes=5)


@pytest.mark.parametrize(("others", "lifetime"), [(0.02, WEEK), (0.5, HOUR), (0.51, None), (float("nan"), None)])
def test_roofs_hold_a_week_and_an_hour_if_others_used_the_processors(others, lifetime):
    then = datetime(2026, 1, 1, tzinfo=UTC)
    kept = KeptRoofs(RATES, then, others)
    assert kept.holds(then) is (lifetime is not None)
    assert not kept.holds(then - timedelta(seconds=1))
    if lifetime:
        assert kept.holds(then + lifetime)
        assert not kept.holds(then + lifetime + timedelta(seconds=1))


def test_another_machine_measures_again(monkeypatch):
    times(monkeypatch, busy=0.0, idle=4.0)
    kept_roofs.measured(lambda: RATES)
    monkeypatch.setattr(kept_roofs, "identity", lambda: {"machine": "another one"})
    assert kept_roofs.read() is None


@pytest.mark.parametrize("text", ["", "[]", '{"of": {"machine": "this one"}}', json.dumps({"rates": 3})])
def test_a_damaged_file_is_ignored(folder, text):
    (folder / kept_roofs.FILE).write_text(text, encoding="utf-8")
    assert kept_roofs.read() is None


def test_a_folder_that_cannot_be_written_is_logged_and_does_no_harm(monkeypatch, caplog):
    times(monkeypatch, busy=0.0, idle=4.0)

    def refuse(path):
        raise OSError("read-only")

    monkeypatch.setattr(kept_roofs, "whole", refuse)
    assert kept_roofs.measured(lambda: RATES).rates == RATES
    assert "are not kept: read-only" in caplog.text


def test_a_server_measures_only_what_is_not_stored(monkeypatch):
    runs = []
    monkeypatch.setattr(TaskProcess, "run", lambda process, task, limits: runs.append(task) or Result(RATES))

    def started():
        roofs = machine_roofs.MachineRoofs()
        assert math.isnan(roofs.rate("host"))
        roofs.start()
        until(lambda: roofs.rate("host") == 2e10)
        return roofs

    first = started()
    assert (first.rate("host", "fma", "float32"), first.kept) == (5e10, "")
    assert math.isnan(first.rate("host", "fma", "float64"))
    assert math.isnan(first.rate("cuda:0", "fma", "float32"))
    times(monkeypatch, busy=0.0, idle=4.0)
    day = kept_roofs.measured(lambda: RATES).date
    assert started().kept == f"{day:%Y-%m-%d}"
    assert len(runs) == 1


def test_identity_names_machine_libraries_and_measuring_code(monkeypatch):
    monkeypatch.undo()
    found = kept_roofs.identity()
    assert found["machine"]["threads"] >= 1
    assert "numba" in found["versions"]
    assert len(found["measured_by"]) == 16
    assert json.loads(json.dumps(found)) == found  # it is compared with the stored value
