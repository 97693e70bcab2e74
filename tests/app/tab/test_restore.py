"""A restored scene is shown paused, or running if the link requests it or Run was pressed during the computation."""

from __future__ import annotations

import base64
import gc
import json
import subprocess
import sys
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


@pytest.fixture(autouse=True)
def states(monkeypatch):
    """Start without states requested by other tests."""
    most = restore.STATES._most
    monkeypatch.setattr(restore, "STATES", SharedJobs(restore.snapshot_bytes, restore.KEPT, most=most))
    return restore.STATES


class Session(SimpleNamespace):
    """A session of a diffusion lab that records its calls."""

    def play(self, playing):
        self.playing = playing

    def restore(self, snapshot):
        self.done.append(snapshot)


class FakeJob(SimpleNamespace):
    """A job with a state set by the test; `cancelled` is True after a cancel before its end."""

    cancelled = False

    def start(self):
        pass

    def cancel(self):
        self.cancelled |= not self.over


def tab(waits):
    nothing = lambda *anything, **more: None  # noqa: E731
    session = Session(
        lab=Scene("diffusion", VALUES).kind, playing=False, done=[], phase="paused", values=VALUES, confirmed=VALUES,
        change=nothing, value_changes=Publisher(), later=nothing,
    )  # fmt: skip
    parts = SimpleNamespace(plays=True)
    forgotten = []
    address = SimpleNamespace(forget=lambda: forgotten.append(True), forgotten=forgotten)
    return SimpleNamespace(
        session=session, parts=parts, awaits_scene=waits, controls=None, expect_no_scene=nothing, address=address
    )


@pytest.mark.parametrize(
    ("waits", "asked", "pressed", "runs"),
    [(True, False, False, False), (True, True, False, True), (True, False, True, True), (False, False, True, False)],
    ids=["a link", "a link that runs", "Run while a link comes", "a file on a lab that runs"],
)
def test_whether_the_lab_runs_then(monkeypatch, waits, asked, pressed, runs):
    job = FakeJob(over=False, part=0.0, state="done", result=(VALUES, "the snapshot"))
    monkeypatch.setattr(restore, "Job", lambda *given, **options: job)
    shown = tab(waits)
    restorer = restore.Restorer(shown, lambda kind, words, about="": None)
    restorer.restore(Scene("diffusion", VALUES), asked)
    assert shown.address.forgotten == [True]  # else Forward right after Back would match a link that the tab has left
    restorer.tick()
    shown.session.play(pressed)
    job.over = True
    restorer.tick()
    assert shown.session.done == ["the snapshot"]
    assert shown.session.playing is runs
    assert not restorer.busy


def test_nothing_is_said_to_be_restored_before_the_engine_has_taken_its_size(monkeypatch):
    """The engine may refuse the size, for example after another process has allocated the memory."""
    told, finished = [], FakeJob(over=True, part=1.0, state="done", result=(VALUES, "s"))
    monkeypatch.setattr(restore, "Job", lambda *given, **options: finished)
    shown = tab(waits=False)
    small = {**shown.session.values, "ny": 8}
    restorer = restore.Restorer(shown, lambda kind, words, about="": told.append((kind, words)))
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
    restorer = restore.Restorer(tab(waits=False), lambda kind, words, about="": None)
    with pytest.raises(SceneError, match=r"would take about [\d,]{5,6} s, and 600 s are allowed .* state_seconds"):
        restorer.restore(Scene("diffusion", values, steps=10**7))


def test_a_lab_without_a_grid_has_no_such_work(monkeypatch):
    job = FakeJob()
    monkeypatch.setattr(restore, "Job", lambda *given, **options: job)
    restore.Restorer(tab(waits=False), lambda kind, words, about="": None).restore(Scene("l_curve", {}, steps=10**7))


@pytest.fixture
def no_cupy(monkeypatch):
    monkeypatch.setattr(backends, "_why_missing", lambda one, *_: "it is not here" if one.name == "gpu_cupy" else None)


def changed(step, **values):
    return {"step": step, "set": values}


def gone_through(scene):
    with closing(Replay.of(scene)) as replay:
        replay.to(scene.steps)
        return replay.lab.values(), replay.lab.field()


def test_a_history_of_backends_that_are_not_here_is_gone_through_with_those_that_are(no_cupy, monkeypatch):
    told, job = [], FakeJob(over=False)
    monkeypatch.setattr(restore, "_begun", lambda scene, client: job)
    stroke = {"step": 12, "do": "paint", "with": {"points": [[3, 4]], "radius": 2, "value": 1}}
    history = (
        changed(5, backend="gpu_cupy", device_index=3, variant="tiled", r=0.1), stroke, changed(14, device_index=1),
        changed(15, variant="naive"), changed(18, backend="cpu_numba", variant="one-step"),
        changed(21, edges="zero-flux"),
    )  # fmt: skip
    values = VALUES | {"backend": "cpu_numba", "variant": "one-step", "r": 0.2}
    restorer = restore.Restorer(tab(waits=False), lambda kind, words, about="": told.append(words))
    restorer.restore(Scene("diffusion", values, steps=30, history=history))
    scene = restorer._scene
    assert scene.history == (
        changed(5, r=0.1, variant=""), stroke, changed(18, variant="one-step"), changed(21, edges="zero-flux"),
    )  # fmt: skip
    assert told == ["Made with gpu_cupy, which this machine lacks: shown with cpu_numba."]
    same = Scene("diffusion", values, steps=30, history=(changed(5, r=0.1), stroke, changed(21, edges="zero-flux")))
    (shown, field), (expected, wanted) = gone_through(scene), gone_through(same)
    assert shown == expected
    assert (field == wanted).all()


def test_a_scene_that_began_on_a_backend_that_is_not_here_goes_on_as_it_says(no_cupy):
    values = VALUES | {"backend": "gpu_cupy", "variant": "tiled"}
    scene = Scene("diffusion", values, steps=9, history=(changed(4, backend="cpu_numpy", variant="", r=0.1),))
    fitted, wanted = restore.Restorer(tab(waits=False), lambda kind, words, about="": None).fitting(scene)
    assert wanted == "gpu_cupy"
    assert fitted.values == VALUES | {"backend": "cpu_numba", "variant": ""}
    assert fitted.history == (changed(4, backend="cpu_numpy", r=0.1),)


def test_a_history_of_backends_that_are_here_stays_but_for_the_device_s_number(no_cupy):
    """The number belongs to the machine that wrote the history, as in the values."""
    history = (changed(4, backend="gpu_numba", device_index=1), changed(6, device_index=0), changed(8, variant="naive"))
    scene = Scene("diffusion", VALUES | {"backend": "cpu_numpy"}, steps=9, history=history)
    fitted, wanted = restore.Restorer(tab(waits=False), lambda kind, words, about="": None).fitting(scene)
    assert (wanted, fitted.values) == ("", scene.values)
    assert fitted.history == (changed(4, backend="gpu_numba"), changed(8, variant="naive"))


class Snapshots:
    """Makes jobs that the test finishes, each with a snapshot of `size` bytes."""

    def __init__(self, size=8):
        self.size, self.made = size, []

    def __call__(self, *given, **options):
        result = (VALUES, {"field": np.zeros(self.size, np.uint8)})
        self.made.append(FakeJob(over=False, part=0.0, state="running", result=result, text="no luck"))
        return self.made[-1]


@pytest.fixture
def jobs(monkeypatch):
    made = Snapshots()
    monkeypatch.setattr(restore, "Job", made)
    return made


def restorers(count, told=None):
    told = [] if told is None else told
    return [restore.Restorer(tab(waits=False), lambda kind, words, about="": told.append(kind)) for _ in range(count)]


def test_a_state_that_many_ask_for_is_computed_once(jobs):
    """A whole hall opens the same link."""
    told = []
    many = restorers(40, told)
    for one in many:
        one.restore(Scene("diffusion", VALUES, steps=100))
    assert len(jobs.made) == 1
    jobs.made[0].over, jobs.made[0].state = True, "done"
    late, other = restorers(2, told)
    late.restore(Scene("diffusion", VALUES, steps=100))
    for one in (*many, late):
        one.tick()
        assert [len(done) for done in one._tab.session.done] == [1]
    assert told == ["success"] * 41
    other.restore(Scene("diffusion", VALUES, steps=101))
    assert len(jobs.made) == 2


def test_a_state_is_given_up_when_the_last_who_waits_for_it_leaves(jobs):
    first, second = restorers(2)
    scene = Scene("diffusion", VALUES)
    first.restore(scene)
    second.restore(scene)
    first.close()
    assert not jobs.made[0].cancelled
    second.restore(Scene("diffusion", VALUES, steps=1))  # as after another file was dropped
    assert jobs.made[0].cancelled
    first.restore(scene)
    assert len(jobs.made) == 3


def test_what_could_not_be_computed_is_tried_again(jobs):
    told = []
    first, second = restorers(2, told)
    scene = Scene("diffusion", VALUES)
    first.restore(scene)
    second.restore(scene)
    jobs.made[0].over, jobs.made[0].state = True, "failed"
    first.tick()
    second.tick()
    assert told == ["error"] * 2
    first.restore(scene)
    assert len(jobs.made) == 2


def test_states_that_nobody_waits_for_are_kept_up_to_a_bound(jobs, states):
    jobs.size = 2**20  # compared with which the array's overhead is negligible
    states.kept = 5 * 2**19
    (one,) = restorers(1)
    for steps in (0, 1, 2, 3, 2, 3):  # each has a megabyte: the last two are kept
        one.restore(Scene("diffusion", VALUES, steps=steps))
        jobs.made[-1].over, jobs.made[-1].state = True, "done"
        one.tick()
        assert not one.busy
        assert states.held <= states.kept
    assert len(jobs.made) == 4
    one.restore(Scene("diffusion", VALUES, steps=1))
    assert len(jobs.made) == 5


def test_a_state_that_is_kept_holds_no_page_that_is_gone(monkeypatch):
    monkeypatch.setattr(Job, "start", lambda job: None)
    (one,) = restorers(1)
    one.restore(Scene("diffusion", VALUES))
    job = one._state.job
    job.state, job.result = "done", (VALUES, {})
    one.close()
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None
    (late,) = restorers(1)
    late.restore(Scene("diffusion", VALUES))
    assert late._state.job is job


# -- memory of a state


def loaded(lab, number=0):
    """Return the lab's state with a picture of a million bytes that no history can contain."""
    lab.load_image(LoadedPicture(np.full((1000, 1000), number, np.uint8), 1, 1000, 1000, f"{number:016x}"))
    return lab.snapshot()


def test_every_byte_of_a_state_counts():
    """Regression test: of a picture of 50 million pixels, 16 kB were counted, the field made from it."""
    lab = Diffusion(ny=20, nx=30, backend="cpu_numpy")
    plain = restore.snapshot_bytes((lab.values(), lab.snapshot()))
    pictured = restore.snapshot_bytes((lab.values(), loaded(lab)))
    assert 10**6 < pictured - plain < 10**6 + 5000
    lab.checkpoint()
    assert restore.snapshot_bytes((lab.values(), lab.snapshot())) < pictured + 20_000  # the picture counts once
    lab.close()


def test_states_that_nobody_shows_keep_no_more_than_the_bound(jobs, states):
    lab = Diffusion(ny=20, nx=30, backend="cpu_numpy")
    states.kept = 3 * 10**6
    (one,) = restorers(1)
    for number in range(9):
        one.restore(Scene("diffusion", VALUES, steps=number))
        jobs.made[-1].result = (VALUES, loaded(lab, number))
        jobs.made[-1].over, jobs.made[-1].state = True, "done"
        one.tick()
        assert states.held <= states.kept
    assert len(states._jobs) == 2
    lab.close()


def test_states_on_their_way_have_a_bound_of_all_pages_and_room_comes_back(jobs, limited):
    limited(memory=256)
    pages = restorers(3)
    grid = {"ny": 3300, "nx": 3300}  # 87 MB at 8 bytes a cell, plus the memory for a picture
    for number, page in enumerate(pages[:2]):
        page.restore(Scene("diffusion", grid, steps=number))
    words = r"its state cannot be computed now: .* 256 MiB are allowed on this server \(its setting memory\)"
    with pytest.raises(SceneError, match=words):
        pages[2].restore(Scene("diffusion", grid, steps=2))
    assert not pages[2].busy
    pages[2].restore(Scene("diffusion", grid, steps=1))  # a state that exists already
    pages[0].close()
    pages[2].restore(Scene("diffusion", grid, steps=2))
    assert len(jobs.made) == 3


def test_a_server_is_as_large_as_before_when_links_with_pictures_are_closed(tmp_path):
    """Eight of them used to leave 400 MB. Runs in a separate process, with real jobs."""
    script = """
import sys, time
import psutil
from app.tab import restore
from compute.export.jobs import JOBS
from compute.export.scene import Scene
from compute.machine.freed_memory import give_back
from tests.hostile_files import black
import base64
def memory():
    give_back()
    return psutil.Process().memory_info().rss
def show(number):
    data = black()[:-12] + b"\\0\\0\\0\\1tEXt" + bytes([number]) + b"\\0\\0\\0\\0" + black()[-12:]
    load = {"step": 0, "do": "load_image", "with": {"data": base64.b64encode(data).decode()}}
    shared = restore.state_of(Scene("diffusion", {"ny": 64, "nx": 64}, history=(load,)), asking)
    while not shared.job.over:
        time.sleep(0.01)
    assert shared.job.state == "done", shared.job.text
    assert shared.size is None
    restore.STATES.leave(shared, asking)
class Asking: pass
asking = Asking()
show(0)
before = memory()
for number in range(1, 9):
    show(number)
print(memory() - before)
JOBS.end_idle()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) < restore.KEPT + 40 * 2**20


# -- time limits of a state


@pytest.fixture
def limited(monkeypatch):
    """Return a function that applies settings to this process."""
    monkeypatch.setenv(settings.VARIABLE, "")
    return lambda **values: settings.hand_on(settings.Settings(**values))


class Asked:
    """Records the lane and the deadline of each job."""

    def __init__(self):
        self.lanes = []

    def __call__(self, task, lane, client, deadline, **options):
        self.lanes.append((lane.name, deadline))
        return FakeJob(over=False, part=0.0, state="running")


def test_short_work_has_a_lane_of_its_own_and_a_server_says_how_long_any_may_take(monkeypatch, limited):
    asked = Asked()
    monkeypatch.setattr(restore, "Job", asked)
    (one,) = restorers(1)
    curve = Scene("l_curve", {"problem": "shaw", "n": 20})
    small = {"ny": 64, "nx": 64}
    stroke = {"step": 0, "do": "paint", "with": {"points": [[3, 4]], "radius": 2, "value": 1}}
    for seconds in (600, 20):
        limited(state_seconds=seconds)
        for scene in (curve, Scene("diffusion", {"ny": 512, "nx": 512}, steps=3000)):
            one.restore(scene)
        for scene in (Scene("diffusion", small, steps=900_000), Scene("diffusion", small, history=(stroke,) * 100)):
            one.restore(scene)
    assert asked.lanes == [
        ("brief state", 30.0), ("brief state", 30.0), ("state", 600.0), ("state", 600.0),
        ("brief state", 20.0), ("brief state", 20.0), ("state", 20.0), ("state", 20.0),
    ]  # fmt: skip


@pytest.mark.parametrize("preset", ["laptop", "classroom", "public"])
def test_nine_million_steps_are_too_many_for_strangers(preset, monkeypatch, jobs):
    """Two such links occupied the lane of restored states for more than 101 s."""
    monkeypatch.setenv(settings.VARIABLE, "")
    settings.hand_on(settings.PRESETS[preset])
    (one,) = restorers(1)
    scene = Scene("diffusion", {"ny": 16, "nx": 16}, steps=9_000_000)
    if preset == "laptop":
        one.restore(scene)
        assert len(jobs.made) == 1
        return
    with pytest.raises(SceneError, match=r"9,000,000 steps .* \(its setting state_seconds\)"):
        one.restore(scene)
    one.restore(Scene("diffusion", {"ny": 512, "nx": 512}, steps=68_017))  # a step of a story


def test_nothing_of_a_link_is_decoded_in_this_process(monkeypatch):
    """A child process decodes the picture once, and returns a state with the decoded picture."""
    monkeypatch.setattr(images, "_decoded", lambda found: pytest.fail("a picture was decoded here"))
    load = {"step": 0, "do": "load_image", "with": {"data": base64.b64encode(photograph(64)).decode()}}
    text = json.dumps(Scene("diffusion", VALUES, history=(load,), steps=3).plain())
    (page,) = restorers(1)
    page.restore(restore.scene_in(text))
    job = page._state.job
    assert job.join(300)
    page.tick()
    (snapshot,) = page._tab.session.done
    lab = Diffusion(**VALUES, backend="cpu_numpy")
    lab.restore(snapshot)
    for act in ("reset", "undo"):
        lab.act(act)
    assert lab.frame().notes["kept"] == "64 64 0 11 64 54"
    lab.close()
    JOBS.end_idle()


def test_a_state_that_takes_a_while_becomes_the_beginning_with_its_last_values():
    history = ({"step": 10, "set": {"r": 0.1}}, {"step": 20, "set": {"edges": "periodic"}})
    long = Scene("diffusion", {"r": 0.2, "ny": 512, "nx": 512}, steps=68_017, history=history, view=(0, 0, 9, 9))
    first = restore.beginning(long)
    assert (first.steps, first.history) == (0, ())
    assert first.values == {"r": 0.1, "edges": "periodic", "ny": 512, "nx": 512}
    assert first.view == long.view
    for short in (Scene("diffusion", {"ny": 64, "nx": 64}, steps=20), Scene("mandelbrot", {})):
        assert restore.beginning(short) is short
