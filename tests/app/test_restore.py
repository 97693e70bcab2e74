"""A scene that has come is shown: paused, running if that was asked for, also by a press of Run while it came."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from app.export import restore
from compute.export.scene import Scene, SceneError

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
        lab=Scene("diffusion", VALUES).kind, playing=False, done=[], phase="paused", values=VALUES, confirmed=VALUES,
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


def test_nothing_is_said_to_be_restored_before_the_engine_has_taken_its_size(monkeypatch):
    """It may refuse: another process has taken the memory meanwhile, say."""
    told, finished = [], SimpleNamespace(over=True, part=1.0, state="done", result=(VALUES, "s"), start=lambda: None)
    monkeypatch.setattr(restore, "Job", lambda *given, **options: finished)
    shown = tab(waits=False)
    small = {**shown.session.values, "ny": 8}
    restorer = restore.Restorer(shown, lambda kind, words: told.append((kind, words)))
    for refused in (True, False):
        shown.session.confirmed = small
        shown.session.values = dict(VALUES)
        restorer.restore(Scene("diffusion", VALUES), True)
        for _ in range(3):
            restorer.tick()
        assert restorer.busy
        assert told == []
        assert shown.session.done == []
        if refused:
            shown.session.values = small
            restorer.tick()
            assert told == [("error", "The state cannot be shown: the lab did not take its size.")]
            assert shown.session.done == []
            assert not shown.session.playing
            told.clear()
        else:
            shown.session.confirmed = dict(VALUES)
            restorer.tick()
            assert [kind for kind, _ in told] == ["success"]
            assert shown.session.done == ["s"]
            assert shown.session.playing
        assert not restorer.busy


@pytest.mark.parametrize("values", [{}, {"ny": 1024}, {"nx": 1024}])
def test_more_work_than_a_link_may_ask_for_is_refused_with_the_usual_grid_too(monkeypatch, values):
    monkeypatch.setattr(restore, "Job", lambda *given, **options: pytest.fail("it was begun"))
    restorer = restore.Restorer(tab(waits=False), lambda kind, words: None)
    with pytest.raises(SceneError, match=r"it would take \d.\de\+12 steps times cells"):
        restorer.restore(Scene("diffusion", values, steps=10**7))


def test_a_lab_without_a_grid_has_no_such_work(monkeypatch):
    job = SimpleNamespace(start=lambda: None)
    monkeypatch.setattr(restore, "Job", lambda *given, **options: job)
    restore.Restorer(tab(waits=False), lambda kind, words: None).restore(Scene("l_curve", {}, steps=10**7))
