"""Restoring scenes: play state, shared computation of states, bounds of their time and memory, absent backends."""

from __future__ import annotations

import base64
import gc
import json
import weakref
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest

from app.tab import restore
from app.tab.publisher import Publisher
from compute.cli import settings
from compute.devices import backends
from compute.export.jobs import JOBS, Job
from compute.export.render import Replay
from compute.export.scene import Scene, SceneError
from compute.export.shared_jobs import SharedJobs
from compute.files import images
from compute.files.images import LoadedPicture
from compute.labs.diffusion import Diffusion
from tests.hostile_files import photograph

VALUES = {"ny": 20, "nx": 30}
STROKE = {"step": 0, "do": "paint", "with": {"points": [[3, 4]], "radius": 2, "value": 1}}


@pytest.fixture(autouse=True)
def states(monkeypatch):
    """Start without states requested by other tests."""
    most = restore.STATES._most
    monkeypatch.setattr(restore, "STATES", SharedJobs(restore.snapshot_bytes, restore.KEPT, most=most))
    return restore.STATES


class FakeJob:
    """A job that the test ends. size: bytes of its snapshot; cancelled: whether it was cancelled before its end."""

    over, part, state, text, cancelled = False, 0.0, "running", "no luck", False

    def __init__(self, task, lane, client, deadline, keeps=False):
        self.lane, self.deadline = lane.name, deadline
        self.result = VALUES, {"field": np.zeros(8, np.uint8)}

    def start(self):
        pass

    def cancel(self):
        self.cancelled |= not self.over

    def end(self, state="done", snapshot=None):
        self.over, self.state = True, state
        if snapshot is not None:
            self.result = VALUES, snapshot


@pytest.fixture
def jobs(monkeypatch):
    """The jobs that restorers start, in this order."""
    made = []
    monkeypatch.setattr(restore, "Job", lambda *args, **options: made.append(FakeJob(*args, **options)) or made[-1])
    return made


class Page:
    """A page with a diffusion lab. told: the notices; done: the snapshots that the lab has restored."""

    def __init__(self, told=None, awaits_scene=False):
        self.told, self.done, self.forgotten = [] if told is None else told, [], []
        self.session = SimpleNamespace(
            lab=Diffusion, playing=False, phase="paused", values=VALUES, confirmed=VALUES, value_changes=Publisher(),
            change=lambda **values: None, later=lambda callback: None, restore=self.done.append, play=self.play,
        )  # fmt: skip
        address = SimpleNamespace(forget=lambda: self.forgotten.append(True))
        self.tab = SimpleNamespace(
            session=self.session, parts=SimpleNamespace(plays=True), awaits_scene=awaits_scene, address=address,
            expect_no_scene=lambda: None,
        )  # fmt: skip
        self.restorer = restore.Restorer(self.tab, lambda kind, words, about="": self.told.append((kind, words)))

    def play(self, playing):
        self.session.playing = playing

    def restore(self, **scene):
        self.restorer.restore(Scene("diffusion", **{"values": VALUES, **scene}))

    @property
    def job(self):
        return self.restorer._state.job


@pytest.mark.parametrize(
    ("waits", "asked", "pressed", "runs"),
    [(True, False, False, False), (True, True, False, True), (True, False, True, True), (False, False, True, False)],
    ids=["a link", "a link that runs", "Run while a link is restored", "a file on a lab that runs"],
)
def test_a_restored_lab_runs_if_the_link_or_the_user_says_so(jobs, waits, asked, pressed, runs):
    page = Page(awaits_scene=waits)
    page.restorer.restore(Scene("diffusion", VALUES), asked)
    assert page.forgotten == [True]  # otherwise Forward right after Back would match a link that the tab has left
    page.restorer.tick()
    page.play(pressed)
    jobs[0].end(snapshot="the snapshot")
    page.restorer.tick()
    assert page.done == ["the snapshot"]
    assert page.session.playing is runs
    assert not page.restorer.busy


@pytest.mark.parametrize(("pace", "told"), [("7", []), ("", []), ("fast", ["left as before: it must be a number"])])
@pytest.mark.parametrize("name", ["pace", "display"])
def test_the_speed_and_the_display_settings_of_a_link_are_applied_after_its_values(jobs, pace, told, name):
    page, applied = Page(), []

    def apply(text):
        applied.append((text, page.session.values))
        if text == "fast":
            raise ValueError("it must be a number")

    page.tab.controls = SimpleNamespace(**{f"apply_{one}": apply for one in ("pace", "display")})
    page.restorer.restore(Scene("diffusion", VALUES), False, **{name: pace})
    page.restorer.tick()
    assert applied == []
    jobs[0].end()
    page.restorer.tick()
    assert applied == ([(pace, VALUES)] if pace else [])
    assert [kind for kind, _ in page.told] == ["warning"] * len(told) + ["success"]
    assert all(words in page.told[0][1] for words in told)


@pytest.mark.parametrize("accepts", [True, False])
def test_a_state_is_restored_only_if_the_engine_accepts_its_size(jobs, accepts):
    """The engine may refuse the size, for example after another process has allocated the memory."""
    page = Page()
    small = {**VALUES, "ny": 8}
    page.session.confirmed = small
    page.restorer.restore(Scene("diffusion", VALUES), True)
    jobs[0].end()
    for _ in range(3):
        page.restorer.tick()
    assert (page.restorer.busy, page.told, page.done) == (True, [], [])
    page.session.confirmed = page.session.values = VALUES if accepts else small
    page.restorer.tick()
    assert (page.restorer.busy, page.session.playing, len(page.done)) == (False, accepts, accepts)
    refusal = "error", "The state cannot be shown: the lab did not accept its size."
    assert page.told == [("success", "Restored, at step 0.") if accepts else refusal]


# -- absent backends


@pytest.fixture
def no_cupy(monkeypatch):
    monkeypatch.setattr(backends, "_why_missing", lambda one, *_: "it is not here" if one.name == "gpu_cupy" else None)


def changed(step, **values):
    return {"step": step, "set": values}


def replayed(scene):
    """Return the values and the field after all steps of a scene."""
    with closing(Replay.of(scene)) as replay:
        replay.to(scene.steps)
        return replay.lab.values(), replay.lab.field()


def test_a_history_of_an_absent_backend_is_replayed_with_the_default_one(no_cupy, jobs):
    stroke = STROKE | {"step": 12}
    history = (
        changed(5, backend="gpu_cupy", device_index=3, variant="tiled", r=0.1), stroke, changed(14, device_index=1),
        changed(15, variant="naive"), changed(18, backend="cpu_numba", variant="one-step"),
        changed(21, edges="zero-flux"),
    )  # fmt: skip
    values = VALUES | {"backend": "cpu_numba", "variant": "one-step", "r": 0.2}
    page = Page()
    page.restore(values=values, steps=30, history=history)
    assert page.told == [("info", "Made with gpu_cupy, which this machine lacks: shown with cpu_numba.")]
    scene, _ = page.restorer.fitting(Scene("diffusion", values, steps=30, history=history))
    assert scene.history == (
        changed(5, r=0.1, variant=""), stroke, changed(18, variant="one-step"), changed(21, edges="zero-flux"),
    )  # fmt: skip
    same = Scene("diffusion", values, steps=30, history=(changed(5, r=0.1), stroke, changed(21, edges="zero-flux")))
    (shown, field), (expected, expected_field) = replayed(scene), replayed(same)
    assert shown == expected
    assert (field == expected_field).all()


def test_only_absent_backends_and_numbers_of_devices_are_replaced(no_cupy):
    """The number belongs to the machine that wrote the history."""
    values = VALUES | {"backend": "gpu_cupy", "variant": "tiled"}
    scene = Scene("diffusion", values, steps=9, history=(changed(4, backend="cpu_numpy", variant="", r=0.1),))
    fitted, absent = Page().restorer.fitting(scene)
    assert (absent, fitted.values) == ("gpu_cupy", VALUES | {"backend": "cpu_numba", "variant": ""})
    assert fitted.history == (changed(4, backend="cpu_numpy", r=0.1),)

    history = (changed(4, backend="gpu_numba", device_index=1), changed(6, device_index=0), changed(8, variant="naive"))
    scene = Scene("diffusion", VALUES | {"backend": "cpu_numpy"}, steps=9, history=history)
    fitted, absent = Page().restorer.fitting(scene)
    assert (absent, fitted.values) == ("", scene.values)
    assert fitted.history == (changed(4, backend="gpu_numba"), changed(8, variant="naive"))


# -- states shared by pages


def test_a_state_that_many_request_is_computed_once(jobs):
    """A whole hall opens the same link."""
    pages = [Page() for _ in range(40)]
    for page in pages:
        page.restore(steps=100)
    (job,) = jobs
    job.end()
    late = Page()
    late.restore(steps=100)
    for page in (*pages, late):
        page.restorer.tick()
        assert page.told == [("success", "Restored, at step 100.")]
        assert len(page.done) == 1
    Page().restore(steps=101)
    assert len(jobs) == 2


def test_a_state_is_cancelled_when_the_last_page_that_waits_for_it_leaves(jobs):
    first, second = Page(), Page()
    first.restore()
    second.restore()
    first.restorer.close()
    assert not jobs[0].cancelled
    second.restore(steps=1)  # as after another file was dropped
    assert jobs[0].cancelled
    first.restore()
    assert len(jobs) == 3


def test_a_failed_state_is_reported_to_all_and_computed_again_on_request(jobs):
    first, second = Page(), Page()
    first.restore()
    second.restore()
    jobs[0].end("failed")
    for page in (first, second):
        page.restorer.tick()
        assert page.told == [("error", "The state cannot be shown: no luck")]
    first.restore()
    assert len(jobs) == 2


def test_a_cached_state_keeps_no_closed_page_alive(monkeypatch):
    monkeypatch.setattr(Job, "start", lambda job: None)
    page = Page()
    page.restore()
    job = page.job
    job.state, job.result = "done", (VALUES, {})
    page.restorer.close()
    gone = weakref.ref(page.restorer)
    del page
    gc.collect()
    assert gone() is None
    late = Page()
    late.restore()
    assert late.job is job


# -- memory of states


def with_picture(lab, number=0):
    """Return the lab's state with a picture of a million bytes that no history can contain."""
    lab.load_image(LoadedPicture(np.full((1000, 1000), number, np.uint8), 1, 1000, 1000, f"{number:016x}"))
    return lab.snapshot()


@pytest.fixture
def lab():
    with closing(Diffusion(backend="cpu_numpy", **VALUES)) as lab:
        yield lab


def test_the_size_of_a_state_includes_its_picture_once(lab):
    plain = restore.snapshot_bytes((lab.values(), lab.snapshot()))
    pictured = restore.snapshot_bytes((lab.values(), with_picture(lab)))
    assert 10**6 < pictured - plain < 10**6 + 5000
    lab.checkpoint()
    assert restore.snapshot_bytes((lab.values(), lab.snapshot())) < pictured + 20_000


def test_cached_states_are_bounded_and_the_latest_are_kept(jobs, states, lab):
    states.kept = 5 * 10**6 // 2  # two of a picture of a million bytes
    page = Page()
    for steps in (0, 1, 2, 3, 2, 3, 1):
        before = len(jobs)
        page.restore(steps=steps)
        if len(jobs) > before:
            jobs[-1].end(snapshot=with_picture(lab, steps))
        page.restorer.tick()
        assert not page.restorer.busy
        assert states.held <= states.kept
    assert len(jobs) == 5


def test_states_being_computed_have_a_bound_over_all_pages(jobs, limited):
    limited(memory=256)
    first, second, third = Page(), Page(), Page()
    grid = {"ny": 3300, "nx": 3300}  # 87 MB at 8 bytes a cell, plus the memory for a picture
    first.restore(values=grid)
    second.restore(values=grid, steps=1)
    words = r"its state cannot be computed now: .* 256 MiB are allowed on this server \(its setting memory\)"
    with pytest.raises(SceneError, match=words):
        third.restore(values=grid, steps=2)
    assert not third.restorer.busy
    third.restore(values=grid, steps=1)  # a state that exists already
    first.restorer.close()
    third.restore(values=grid, steps=2)
    assert len(jobs) == 3


# -- time of states


def test_short_work_has_a_lane_of_its_own_and_all_work_the_server_s_deadline(jobs, limited):
    page, small = Page(), {"ny": 64, "nx": 64}
    for seconds in (600, 20):
        limited(state_seconds=seconds)
        page.restorer.restore(Scene("l_curve", {"problem": "shaw", "n": 20}))
        page.restore(values={"ny": 512, "nx": 512}, steps=3000)
        page.restore(values=small, steps=900_000)
        page.restore(values=small, history=(STROKE,) * 100)
    assert [(job.lane, job.deadline) for job in jobs] == [
        ("brief state", 30.0), ("brief state", 30.0), ("state", 600.0), ("state", 600.0),
        ("brief state", 20.0), ("brief state", 20.0), ("state", 20.0), ("state", 20.0),
    ]  # fmt: skip


@pytest.mark.parametrize("values", [{}, {"ny": 1024}, {"nx": 1024}])
def test_a_link_with_too_much_work_is_refused_also_for_the_default_grid(jobs, values):
    with pytest.raises(SceneError, match=r"would take about [\d,]{5,6} s, and 600 s are allowed .* state_seconds"):
        Page().restore(values=values, steps=10**7)
    assert jobs == []
    Page().restorer.restore(Scene("l_curve", {}, steps=10**7))  # a lab without a grid has no such work


@pytest.mark.parametrize("preset", ["laptop", "classroom", "public"])
def test_a_shared_server_refuses_nine_million_steps_and_allows_a_story_s(preset, monkeypatch, jobs):
    monkeypatch.setenv(settings.VARIABLE, "")
    settings.hand_on(settings.PRESETS[preset])
    many = {"values": {"ny": 16, "nx": 16}, "steps": 9_000_000}
    if preset == "laptop":
        Page().restore(**many)
    else:
        with pytest.raises(SceneError, match=r"9,000,000 steps .* \(its setting state_seconds\)"):
            Page().restore(**many)
        Page().restore(values={"ny": 512, "nx": 512}, steps=68_017)
    assert len(jobs) == 1


def test_a_picture_in_a_link_is_decoded_by_a_child_process_only(monkeypatch):
    monkeypatch.setattr(images, "_decoded", lambda found: pytest.fail("a picture was decoded here"))
    load = {"step": 0, "do": "load_image", "with": {"data": base64.b64encode(photograph(64)).decode()}}
    page = Page()
    page.restorer.restore(restore.scene_in(json.dumps(Scene("diffusion", VALUES, history=(load,), steps=3).plain())))
    assert page.job.join(300)
    page.restorer.tick()
    (snapshot,) = page.done
    with closing(Diffusion(**VALUES, backend="cpu_numpy")) as lab:
        lab.restore(snapshot)
        for act in ("reset", "undo"):
            lab.act(act)
        assert lab.frame().notes["kept"] == "64 64 0 11 64 54"
    JOBS.end_idle()


def test_the_beginning_of_a_long_scene_has_its_last_values():
    history = ({"step": 10, "set": {"r": 0.1}}, {"step": 20, "set": {"edges": "periodic"}})
    long = Scene("diffusion", {"r": 0.2, "ny": 512, "nx": 512}, steps=68_017, history=history, view=(0, 0, 9, 9))
    first = restore.beginning(long)
    assert (first.steps, first.history, first.view) == (0, (), long.view)
    assert first.values == {"r": 0.1, "edges": "periodic", "ny": 512, "nx": 512}
    for short in (Scene("diffusion", {"ny": 64, "nx": 64}, steps=20), Scene("mandelbrot", {})):
        assert restore.beginning(short) is short
