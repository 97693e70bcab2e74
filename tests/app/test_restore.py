"""A scene that has come is shown: paused, running if that was asked for, also by a press of Run while it came."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from app.export import restore
from compute.export.scene import Scene

VALUES = {"ny": 20, "nx": 30}


class Session(SimpleNamespace):
    """A session of a diffusion lab: notes what it is asked to do."""

    def play(self, playing):
        self.playing = playing

    def restore(self, snapshot):
        self.done.append(snapshot)


def tab(waits):
    nothing = lambda *anything, **more: None  # noqa: E731
    session = Session(
        lab=Scene("diffusion", VALUES).kind, playing=False, done=[], phase="paused",
        change=nothing, on_values=nothing, later=nothing,
    )  # fmt: skip
    parts = SimpleNamespace(plays=True)
    forgotten = []
    address = SimpleNamespace(forget=lambda: forgotten.append(True), forgotten=forgotten)
    return SimpleNamespace(
        session=session, parts=parts, awaits_scene=waits, controls=None, wait_no_longer=nothing, address=address
    )


@pytest.mark.parametrize(
    ("waits", "asked", "pressed", "runs"),
    [(True, False, False, False), (True, True, False, True), (True, False, True, True), (False, False, True, False)],
    ids=["a link", "a link that runs", "Run while a link comes", "a file on a lab that runs"],
)
def test_whether_the_lab_runs_then(monkeypatch, waits, asked, pressed, runs):
    job = SimpleNamespace(over=False, part=0.0, state="done", result=(VALUES, "the snapshot"), start=lambda: None)
    monkeypatch.setattr(restore, "Job", lambda *given, **options: job)
    shown = tab(waits)
    restorer = restore.Restorer(shown, lambda kind, words: None)
    restorer.restore(Scene("diffusion", VALUES), asked)
    assert shown.address.forgotten == [True]  # Forward right after Back would find its link at a tab that has left it
    restorer.tick()
    shown.session.play(pressed)
    job.over = True
    restorer.tick()
    assert shown.session.done == ["the snapshot"]
    assert shown.session.playing is runs
    assert not restorer.busy
