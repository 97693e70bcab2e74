"""What the export card does when something that was asked for cannot be made."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from bokeh.document import Document

from app.export.courier import Courier
from app.export.jobs import Jobs
from app.export.subject import Subject
from compute.engine.messages import SnapshotTaken


class Notes(list):
    def tell(self, kind, words):
        self.append((kind, words))


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def jobs(notes):
    jobs = Jobs(Document(), Courier(), lambda: notes)
    yield jobs
    jobs.close()


class AtOnce:
    """A subject that answers at once."""

    def ask(self, part, then):
        then(part)


def broken(moment):
    raise AttributeError("no such thing")


def refused(moment):
    raise ValueError("Frames must be from 1 to 9, not 0")


def test_what_is_refused_is_told_in_its_own_words(jobs, notes):
    job = jobs.add("film.mp4")
    job.order(AtOnce(), "field", refused)
    job.show()
    assert (job.state, notes) == ("failed", [("error", "film.mp4 was not made: Frames must be from 1 to 9, not 0")])


def test_an_error_of_ours_ends_the_job_and_is_logged(jobs, notes):
    job = jobs.add("film.mp4")
    with pytest.raises(AttributeError):  # Bokeh logs it
        job.order(AtOnce(), "field", broken)
    job.show()
    assert job.state == "failed"
    assert notes == [("error", "film.mp4 was not made: AttributeError: no such thing (this is an error of Fieldlab)")]


def test_a_file_that_cannot_be_written_ends_its_job(jobs, notes):
    def full(moment):
        raise OSError("no space left")

    job = jobs.add("plan.json")
    with pytest.raises(OSError, match="no space"):
        job.ask(AtOnce(), "field", full)
    assert job.state == "failed"


def test_one_that_fails_takes_no_other_with_it():
    asked = []
    lab = SimpleNamespace(
        LAB="diffusion", sized=dict,
        told=lambda values, snapshot: SimpleNamespace(values=values, steps=3, history=(), missing=""),
    )  # fmt: skip
    session = SimpleNamespace(values={}, view=None, latest=None, lab=lab, ask=asked.append)
    subject = Subject(SimpleNamespace(session=session, controls=SimpleNamespace(look=lambda part: {})))
    heard = []
    subject.ask("field", heard.append)
    subject.ask("field", broken)
    subject.ask("field", heard.append)
    assert asked == ["snapshot"]
    with pytest.raises(AttributeError):
        subject.hear(SnapshotTaken({}))
    assert [moment.scene.steps for moment in heard] == [3, 3]
