"""The server's memory of labs: what survives a process, and what is discarded when one dies."""

from __future__ import annotations

import time

import pytest

from compute.engine.messages import (
    LOST,
    Answered,
    BlobMessage,
    CheckpointMessage,
    Event,
    Payload,
    Record,
    Refused,
    TakeCheckpoint,
    TakeSnapshot,
)
from compute.engine.process import WorkerExit
from compute.engine.registry import LabRegistry, LabState, RecordingState


@pytest.fixture
def registry() -> LabRegistry:
    return LabRegistry()


@pytest.fixture
def lab(registry: LabRegistry) -> LabState:
    return registry.add("faulty", {"level": 0.5}, print, (8, 8))


def refused(registry: LabRegistry, culprit: LabState | None = None) -> list[Refused]:
    """Return the Refused events that the end of the process causes."""
    told = registry.on_worker_exit(WorkerExit("it was killed", time.monotonic()), culprit)
    return [event for _, event in told if isinstance(event, Refused)]


def report(registry: LabRegistry, lab: LabState, *reports: object) -> list[Event | None]:
    return [registry.on_report(lab, one, [], 0.0) for one in reports]


def test_values_are_given_up_at_the_second_death_that_they_were_there_for(registry, lab):
    lab.unapplied.append((1, {"level": 0.75}))
    assert refused(registry) == []
    (only,) = refused(registry)
    assert (only.change, only.kept) == (1, {"level": 0.5})
    assert "for the second time" in only.text


def test_earlier_deaths_and_deaths_charged_to_another_lab_do_not_count(registry, lab):
    assert refused(registry) == []
    lab.questions.append(TakeSnapshot(lab.number))
    assert refused(registry) == []
    report(registry, lab, Answered(lab.number, TakeSnapshot))
    lab.unapplied.append((1, {"level": 0.75}))
    lab.questions.append(TakeCheckpoint(lab.number))
    culprit = registry.add("faulty", {}, print, (8, 8))
    assert refused(registry, culprit) == refused(registry, culprit) == []
    assert refused(registry) == []
    assert [event.change for event in refused(registry)] == [1, None]


def test_an_answer_that_lost_its_memory_is_refused_and_harms_nothing_else(registry, lab):
    lab.questions += [TakeSnapshot(lab.number), TakeCheckpoint(lab.number)]
    number, payload = lab.number, Payload(b"", ())
    assert report(registry, lab, BlobMessage(number, payload)) == [None]
    (told,) = report(registry, lab, Answered(number, TakeSnapshot))
    assert (told.request, "descriptor" in told.text) == (TakeSnapshot, True)
    assert report(registry, lab, CheckpointMessage(number, payload, {}, None, requested=True)) == [None]
    (told,) = report(registry, lab, Answered(number, TakeCheckpoint))
    assert told.request is TakeCheckpoint
    kept = CheckpointMessage(number, payload, {}, None)  # without a request
    assert report(registry, lab, kept, Answered(number, TakeSnapshot)) == [None, None]
    assert lab.checkpoint is None


def test_an_answer_that_was_lost_with_its_engine_refuses_no_later_one(registry, lab):
    lab.questions.append(TakeSnapshot(lab.number))
    report(registry, lab, BlobMessage(lab.number, Payload(b"", ())))
    assert refused(registry) == []  # it died before it reported Answered: the request is sent again
    assert report(registry, lab, Answered(lab.number, TakeSnapshot)) == [None]


@pytest.mark.parametrize(
    ("done", "begun", "offset", "expected"),
    [
        (None, False, None, None),  # the recording had not begun
        (None, True, ("film", 30), 30),
        (None, True, ("other", 30), LOST),
        (None, True, None, LOST),
        (500, False, None, 500),  # the recording was moved from another engine, and continues with its state
        (500, False, ("film", 900), 900),  # the new engine has kept a later state, and has not reported yet
        (500, True, ("film", 900), 900),
    ],
)
def test_a_recording_goes_on_at_the_step_of_the_state(tmp_path, done, begun, offset, expected):
    folder = {name: str(tmp_path / name) for name in ("film", "other")}
    state = RecordingState(Record(1, folder["film"], 50, (8, 8), 100, done), begun)
    where = (folder[offset[0]], offset[1]) if offset else None
    assert state.reopening(where).done == expected
