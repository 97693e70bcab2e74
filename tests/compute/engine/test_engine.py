"""A live engine: permitted frames, latest values, fairness, refusals, measurements, closing."""

from __future__ import annotations

import gc
import multiprocessing
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from compute.engine import (
    EnginePool,
    EngineRestarted,
    Event,
    FrameReady,
    HistoryTold,
    LabClosed,
    Paused,
    RecordingProgress,
    Refused,
    Sampled,
    SnapshotTaken,
    Solved,
    Supervisor,
)
from compute.labs.diffusion import Diffusion
from tests.compute.engine.faulty import LABS, Client, at_work, has_extensions, running
from tests.waiting import until


@pytest.fixture(scope="module")
def engine() -> Iterator[Supervisor]:
    yield from running()


@pytest.fixture
def client(engine) -> Iterator[Client]:
    client = Client(engine)
    client.barrier()
    yield client
    client.close()


def test_values_are_one_object_until_one_of_them_changes(client):
    client.handle.update(level=0.5)
    client.barrier()
    before, confirmed = client.handle.values, client.handle.confirmed
    assert client.handle.values is before
    client.handle.update(level=0.625)
    after = client.handle.values
    assert (before["level"], confirmed["level"], after["level"]) == (0.5, 0.5, 0.625)
    assert client.handle.values is after
    client.barrier()
    assert client.handle.confirmed is not confirmed
    assert client.handle.confirmed == client.handle.values == after


class TestPermissions:
    def test_only_permitted_frames_come_however_often_that_is_said(self, client):
        client.handle.run()
        client.barrier()
        assert client.frames == []
        client.credit(3)
        client.wait(FrameReady, 3)
        client.barrier()
        assert [frame.number for frame in client.frames] == [1, 2, 3]
        client.handle.frames_through(3)  # the same again
        client.barrier()
        assert len(client.frames) == 3
        assert [frame.facts["step"] for frame in client.frames] == [0, 1, 2]  # the first shows the start

    def test_a_limit_does_not_overtake_what_was_asked_for_before_it(self, engine, client, monkeypatch):
        """A computing worker sees a number in shared memory before it reads the requests."""
        asked, written = list[object](), list[int]()
        requests = SimpleNamespace(idle=False, put=lambda item: asked.append(item.request) or True)
        with engine.lock, monkeypatch.context() as patch:
            patch.setattr(client.handle._lab.ring, "permit", lambda number: written.append(number) or True)
            patch.setattr(engine, "_requests", requests)
            client.handle.frames_through(3)
            requests.idle = True
            client.handle.frames_through(4)
            patch.setattr(client.handle._lab, "opened", False)
            client.handle.frames_through(5)
        assert [request.number for request in asked] == [3, 5]
        assert written == [4]

    def test_a_client_that_stops_reading_stops_the_work_as_fast_as_it_goes(self, client):
        client.handle.pace(None)
        client.handle.run()
        client.credit(1)
        client.wait(FrameReady)
        before, now = -1, client.snapshot()["count"]
        while before != now or not now:  # the lab continues for its second of grace
            time.sleep(0.3)
            before, now = now, client.snapshot()["count"]
        assert len(client.frames) == 1


class TestPausedAndRunning:
    def test_a_change_of_a_paused_lab_yields_one_frame_and_no_step(self, client):
        client.credit(6)
        client.wait(FrameReady)
        changes = [
            lambda: client.handle.update(level=0.25),
            lambda: client.handle.set_view((0.0, 0.0, 2.0, 2.0), (16, 32)),
            lambda: client.handle.act("reset"),
        ]
        for n, change in enumerate(changes, start=2):
            change()
            client.wait(FrameReady, n)
            client.barrier()
            assert len(client.frames) == n
        assert {frame.facts["step"] for frame in client.frames} == {0.0}
        assert [frame.facts["level"] for frame in client.frames] == [0.5, 0.25, 0.25, 0.25]
        assert client.frames[-1].rasters["field"].levels.shape == (16, 32)
        assert client.frames[-1].rasters["field"].extent == (0.0, 0.0, 2.0, 2.0)
        assert client.frames[-1].timing.steps == 0

    def test_a_long_frame_lets_orders_in(self, client):
        client.handle.update(cost=0.002)
        client.handle.pace(10**6)
        client.handle.run()
        client.credit(2)
        client.wait(FrameReady)
        while client.snapshot()["count"] < 10:
            pass
        client.handle.pause()
        frame = client.wait_frame(lambda frame: frame.facts["step"] > 0)
        assert 10 <= frame.facts["step"] < 10**5
        assert client.snapshot()["count"] == frame.facts["step"]

    def test_the_newest_value_wins(self, client):
        client.credit(1)
        client.wait(FrameReady)
        for i in range(2001):
            client.handle.update(level=i / 2000)
        client.barrier()
        client.credit(3)
        assert client.wait(FrameReady, 2).frame.facts["level"] == 1.0
        client.barrier()
        assert len(client.frames) == 2
        assert client.of(Refused) == []

    def test_values_are_in_order_with_actions(self, client):
        client.handle.update(cost=0.01)
        client.handle.step(3)
        client.handle.update(level=0.1)
        client.handle.act("reset")
        client.handle.update(level=0.9)
        client.barrier()
        client.credit()
        frame = client.wait(FrameReady).frame
        assert frame.facts["level"] == 0.9


def test_what_one_visitor_asks_for_again_and_again_costs_the_others_no_more_than_its_share(engine):
    """A held-down key on a lab whose reset takes long: 60 acts, 3 s in total."""
    asking, (looking,) = Client(engine, eager=True), at_work(engine)
    before = len(looking.frames)
    for _ in range(60):
        asking.handle.act("dawdle", seconds=0.05)
    asking.handle.snapshot()
    asking.wait(SnapshotTaken)  # answered after the acts
    seen = len(looking.frames) - before
    for client in (asking, looking):
        client.close()
    assert seen >= 20


class TestRefusals:
    @pytest.mark.parametrize(
        ("ask", "words"),
        [
            (lambda h: h.update(level=7.0), "level"),
            (lambda h: h.update(level="x" * 5_000_000), "level"),
            (lambda h: h.update(nonsense=1), "nonsense"),
            (lambda h: h.update(backend="gpu_cupy"), "'gpu_cupy' runs on another device than the engine 'host'"),
            (lambda h: h.update(level=lambda: 0), "cannot be sent"),
            (lambda h: h.act("__class__"), "action must be one of"),
            (lambda h: h.act("reset", extra=1), "extra"),
            (lambda h: h.pace(0), "steps per frame must be a whole number from 1"),
            (lambda h: h.step(True), "steps"),
            (lambda h: h.frames_through(10**9), "frames_through"),
            (lambda h: h.set_view((0, 0, 0, 5), (8, 8)), "view"),
            (lambda h: h.set_view(None, (10**6, 10**6)), "pixels"),
            (lambda h: h.sample(10, 10**9), "repeat"),
            (lambda h: h.solve(10, -1), "seed"),
        ],
    )
    def test_what_is_wrong_is_refused_in_words_and_changes_nothing(self, client, ask, words):
        ask(client.handle)
        text = client.wait(Refused).text
        assert words in text
        assert len(text) < 500
        assert "Traceback" not in text
        client.credit(1)
        frame = client.wait(FrameReady).frame
        assert (frame.facts["level"], frame.facts["step"]) == (0.5, 0.0)

    @pytest.mark.parametrize(
        ("kind", "values", "words"),
        [
            ("no such lab", {}, "no such lab"),
            ("faulty", {"level": 9.0}, "level"),
            ("faulty", {"backend": "no such backend"}, "backend must be one of"),
            ("faulty", {"text": "huge"}, "GiB"),
        ],
    )
    def test_a_lab_that_cannot_be_opened_is_refused_and_closed(self, engine, kind, values, words):
        client = Client(engine, kind, **values)
        client.wait(LabClosed)
        assert words in client.wait(Refused).text

    def test_a_view_outside_the_grid_is_refused_or_after_a_resize_becomes_the_whole(self, client):
        client.handle.set_view((2.0, 0.0, 4.0, 2.0), (8, 8))
        client.handle.run()
        client.credit(60)
        client.wait(FrameReady)
        client.handle.set_view((5.0, 0.0, 7.0, 2.0), (8, 8))
        assert "overlap" in client.wait(Refused).text
        last = client.wait(FrameReady, len(client.frames) + 5).frame
        assert last.rasters["field"].extent == (2.0, 0.0, 4.0, 2.0)
        client.handle.update(size=2)
        client.wait_frame(lambda frame: frame.rasters["field"].extent == (0.0, 0.0, 2.0, 2.0))
        assert client.of(Paused) == []
        assert len(client.of(Refused)) == 1

    def test_an_error_while_running_pauses_this_lab_alone(self, engine, client):
        other = Client(engine, eager=True)
        other.handle.run()
        client.credit(5)
        client.handle.run()
        client.handle.update(trap="fail")
        assert client.wait(Paused).reason == "ZeroDivisionError: planted"
        client.barrier()
        assert len(client.of(Paused)) == 1
        client.handle.update(trap="fail in frame")
        client.wait(Paused, 2)
        client.handle.act("fail")
        assert client.wait(Refused).text == "ZeroDivisionError: planted"
        client.handle.update(trap="")
        client.handle.run()
        client.wait(FrameReady, len(client.frames) + 1)
        other.wait(FrameReady, len(other.frames) + 5)
        other.close()
        assert client.of(EngineRestarted) == []

    def test_a_client_that_fails_to_take_an_event_harms_nobody(self, engine, caplog):
        class Failing(Client):
            def hear(self, event: Event) -> None:
                super().hear(event)
                raise RuntimeError("planted in the client")

        client = Failing(engine, eager=True)
        client.wait(FrameReady)
        client.close()
        assert "a client failed to take FrameReady" in caplog.text


def test_nan_pauses_the_lab_once_and_a_reset_cures_it(client):
    client.credit(20)
    client.handle.run()
    client.handle.act("spoil")
    assert "NaN" in client.wait(Paused).reason
    client.barrier()
    shown = len(client.frames)
    client.barrier()
    assert len(client.frames) == shown
    client.handle.act("reset")
    client.handle.run()
    client.wait_frame(lambda frame: frame.facts["value"] >= 2 and frame.number > shown)
    assert len(client.of(Paused)) == 1


class TestMeasuring:
    def test_samples_come_from_a_twin(self, client):
        client.handle.update(cost=0.001)
        client.handle.step(2)
        client.handle.sample(30, 3)
        first, *timings = client.wait(Sampled).timings
        assert first.first_call
        assert [timing.steps for timing in timings] == [30, 30, 30]
        assert not any(timing.first_call for timing in timings)
        assert all(timing.compute >= 0.03 for timing in timings)
        assert client.snapshot()["count"] == 2

    def test_measuring_leaves_live_labs_their_frames(self, engine, client):
        (live,) = at_work(engine)
        live.credit(10)  # so that a late permission does not count as a rest of the lab
        before = len(live.frames)
        client.handle.update(cost=0.005)
        client.barrier()
        start = time.monotonic()
        client.handle.sample(20, 2)
        client.wait(Sampled)
        assert time.monotonic() - start >= 3 * 40 * 0.005  # measuring gets a quarter of the device at most
        during = len(live.frames) - before
        live.close()
        assert during >= 10  # there are about 10 slices of measuring, with a rest after each

    def test_closing_a_lab_ends_its_measurement(self, engine):
        client = Client(engine, cost=0.01)
        client.handle.sample(1000, 1000)
        client.barrier()
        client.close()
        other = Client(engine)
        other.handle.sample(1, 1)
        other.wait(Sampled)
        other.close()

    def test_solutions_of_two_backends_agree_and_are_those_of_a_lab(self, engine):
        values = {"ny": 37, "nx": 53, "r": 0.2, "edges": "periodic", "dtype": "float64"}
        fields = []
        with closing(Diffusion(backend="cpu_numba", **values)) as lab:
            for steps in (1, 20):  # compile here: after a slice that compiles, an engine rests three times as long
                lab.advance(steps)
        for backend in ("cpu_numpy", "cpu_numba"):
            client = Client(engine, "diffusion", backend=backend, **values)
            client.handle.solve(20, seed=5)
            fields.append(client.wait(Solved).field)
            client.close()
        lab = Diffusion(backend="cpu_numpy", **values)
        lab.load(np.random.default_rng(5).random((37, 53)))
        lab.advance(20)
        np.testing.assert_array_equal(fields[0], lab.field())
        np.testing.assert_allclose(fields[0], fields[1], rtol=1e-12)


def test_diffusion_runs_and_its_snapshot_is_its_own(engine):
    client = Client(engine, "diffusion", eager=True, ny=40, nx=30, preset="noise")
    client.handle.run()
    frame = client.wait(FrameReady, 12).frame
    assert {"field", "laplacian"} <= set(frame.rasters)
    client.handle.pause()
    taken = client.snapshot()
    kept = np.array(taken["field"])
    client.handle.request_history()
    origin = client.wait(HistoryTold).origin
    assert set(origin) == {"steps", "history"}
    assert (origin["steps"], origin["history"].start["preset"]) == (taken["steps"], "noise")
    client.handle.step(50)
    client.wait_frame(lambda frame: frame.facts["step"] == taken["steps"] + 50)
    np.testing.assert_array_equal(taken["field"], kept)
    lab = Diffusion(backend="cpu_numpy", ny=40, nx=30, preset="noise")
    lab.advance(taken["steps"])
    np.testing.assert_allclose(taken["field"], lab.field(), atol=1e-5)
    assert not has_extensions(engine)  # Numba's extensions, which these kernels do not need
    client.close()


def test_closed_labs_leave_nothing(engine):
    def cycle() -> None:
        clients = [Client(engine, eager=True, size=512) for _ in range(5)]
        for client in clients:
            client.handle.run()
            client.handle.sample(5, 5)
            client.wait(FrameReady, 3)
            client.handle.close()
        for client in clients:
            client.wait(LabClosed)

    def named_memory() -> set[Path]:
        """Return the named shared memory, except the semaphores with which other tests start their processes."""
        return {path for path in Path("/dev/shm").iterdir() if not path.name.startswith("sem.")}

    cycle()
    gc.collect()
    me, worker = psutil.Process(), psutil.Process(engine.pid)
    shared, files, resident = named_memory(), me.num_fds() + worker.num_fds(), worker.memory_info().rss
    for _ in range(6):
        cycle()
    gc.collect()
    until(lambda: me.num_fds() + worker.num_fds() <= files)  # a busy machine closes them a little later
    assert worker.memory_info().rss < resident + 30 * 2**20
    assert named_memory() <= shared
    assert engine.open_labs == 0


def test_orders_to_a_closed_lab_do_nothing(engine):
    client = Client(engine)
    client.close()
    client.handle.update(level=0.1)
    client.credit()
    client.handle.close()
    time.sleep(0.1)
    assert isinstance(client.events[-1], LabClosed)
    assert len(client.of(LabClosed)) == 1


def test_the_pool_starts_engines_when_asked_and_closes_them_all():
    before = set(threading.enumerate())
    pool = EnginePool(labs=LABS)
    engines = pool.get("host"), pool.get("host:reference")
    assert pool.get("host") is engines[0]
    clients = [Client(one) for one in engines]
    for client in clients:
        client.barrier()
    pids = [engine.pid for engine in engines]
    assert set(pool.list()) == {"host", "host:reference"}
    pool.close()
    for client in clients:
        client.wait(LabClosed)
    assert not any(psutil.pid_exists(pid) for pid in pids if pid)
    assert set(threading.enumerate()) <= before
    assert multiprocessing.active_children() == []
    with pytest.raises(RuntimeError, match="closed"):
        pool.get("host")


def test_a_lab_that_was_to_run_runs_after_steps_that_waited_for_its_engine():
    for engine in running():  # its start takes most of a second
        client = Client(engine, eager=True)
        client.handle.step(2)
        client.handle.run()
        client.wait_frame(lambda frame: frame.facts["step"] > 10)


def test_a_lab_pauses_when_it_has_had_what_the_server_allows_and_the_others_go_on(limited, tmp_path):
    limited(device_seconds=1)
    words = "used the 1 s of the device that a lab may compute on this server (its setting device_seconds)"
    for engine in running():
        greedy, modest = (Client(engine, eager=True, cost=cost) for cost in (0.02, 0.0))
        greedy.handle.run()
        assert words in greedy.wait(Paused).reason
        modest.handle.run()
        modest.wait_frame(lambda frame: frame.facts["step"] > 3)
        for again in (greedy.handle.run, greedy.handle.step):
            n = len(greedy.of(Paused))
            again()
            assert words in greedy.wait(Paused, n + 1).reason
        assert not greedy.handle._lab.running
        greedy.handle.record(str(tmp_path / "film"), 1, (8, 8), 9)
        assert words in greedy.wait(RecordingProgress).ended
        assert not greedy.handle.recording
        stood = greedy.snapshot()["count"]
        greedy.handle.update(level=0.25)
        greedy.wait_frame(lambda frame: frame.facts["level"] == 0.25)  # the paused lab still shows its state
        assert greedy.snapshot()["count"] == stood
