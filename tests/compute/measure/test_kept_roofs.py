"""Stored roofs: valid for this machine and for a limited time, otherwise measured again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from compute.measure import kept_roofs, machine_roofs
from compute.measure.kept_roofs import HOUR, WEEK, KeptRoofs
from compute.process.tasks import Result, TaskProcess

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


def test_what_was_measured_is_found_again(monkeypatch):
    times(monkeypatch, busy=0.0, idle=4.0)
    made = kept_roofs.measured(lambda: RATES)
    assert made.rates == RATES
    found = kept_roofs.read()
    assert found.rates == RATES
    assert found.others == 0.0
    assert abs(found.date - datetime.now(UTC)) < timedelta(minutes=5)


def test_it_holds_a_week_and_an_hour_if_others_were_at_work():
    then = datetime(2026, 1, 1, tzinfo=UTC)
    calm, beside, unknown = (KeptRoofs(RATES, then, others) for others in (0.02, 0.5, float("nan")))
    crowded = KeptRoofs(RATES, then, 0.51)
    assert calm.holds(then + WEEK)
    assert not calm.holds(then + WEEK + timedelta(seconds=1))
    assert beside.holds(then + HOUR)
    assert not beside.holds(then + HOUR + timedelta(seconds=1))
    assert not crowded.holds(then)
    assert not unknown.holds(then)
    assert not calm.holds(then - timedelta(seconds=1))


def test_what_others_had_of_the_processors_is_noted(monkeypatch):
    times(monkeypatch, busy=1.0, idle=3.0)
    assert kept_roofs.measured(lambda: RATES).others == 0.25
    assert kept_roofs.read().others == 0.25


def test_what_was_measured_beside_others_is_not_kept(monkeypatch):
    times(monkeypatch, busy=3.0, idle=1.0)
    assert kept_roofs.measured(lambda: RATES).others == 0.75
    assert not kept_roofs.path().exists()


def test_another_machine_measures_anew(monkeypatch):
    times(monkeypatch, busy=0.0, idle=4.0)
    kept_roofs.measured(lambda: RATES)
    monkeypatch.setattr(kept_roofs, "identity", lambda: {"machine": "another one"})
    assert kept_roofs.read() is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"of": {"machine": "this one"}}', json.dumps({"rates": 3})])
def test_a_damaged_file_is_as_none(folder, text):
    (folder / kept_roofs.FILE).write_text(text, encoding="utf-8")
    assert kept_roofs.read() is None


def test_a_folder_that_cannot_be_written_is_told_and_does_no_harm(monkeypatch, caplog):
    times(monkeypatch, busy=0.0, idle=4.0)

    def refuse(path):
        raise OSError("read-only")

    monkeypatch.setattr(kept_roofs, "whole", refuse)
    assert kept_roofs.measured(lambda: RATES).rates == RATES
    assert "are not kept: read-only" in caplog.text


def test_a_server_measures_only_what_is_not_kept(monkeypatch):
    asked = []

    def run(process, task, limits):
        asked.append(task)
        return Result(RATES)

    monkeypatch.setattr(TaskProcess, "run", run)
    first = machine_roofs.MachineRoofs()
    first._measure()
    assert len(asked) == 1
    assert (first.rate("host"), first.kept) == (2e10, "")
    times(monkeypatch, busy=0.0, idle=4.0)
    day = kept_roofs.measured(lambda: RATES).date
    second = machine_roofs.MachineRoofs()
    second._measure()
    assert len(asked) == 1
    assert (second.rate("host"), second.kept) == (2e10, f"{day:%Y-%m-%d}")


def test_identity_names_machine_libraries_and_the_way_of_measuring(monkeypatch):
    monkeypatch.undo()
    found = kept_roofs.identity()
    assert found["machine"]["threads"] >= 1
    assert "numba" in found["versions"]
    assert len(found["measured_by"]) == 16
    assert json.loads(json.dumps(found)) == found  # it is compared with the stored value
