"""Recordings of running labs: a frame at exactly every k-th step, with or without viewers, and their end."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections import namedtuple
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from compute.cli import settings
from compute.engine import (
    EngineRestarted,
    Paused,
    RecordingProgress,
    Refused,
    Supervisor,
)
from compute.engine.messages import LOST, Record
from compute.engine.recording import FrameRecorder, LabRecorder
from compute.engine.recording_store import RecordedFrame, RecordingError, RecordingStore, encode_frame
from compute.lab.frames import Curve, Frame, Raster
from compute.labs.diffusion import Diffusion
from compute.measure.timing import Timing
from tests.compute.engine.faulty import Client, Faulty, QuietSender, running
from tests.waiting import until

pytestmark = pytest.mark.extended

Disk = namedtuple("Disk", "total used free")


@pytest.fixture(scope="module")
def engine() -> Iterator[Supervisor]:
    yield from running()


@pytest.fixture
def mortal() -> Iterator[Supervisor]:
    """An engine that the test may kill."""
    yield from running()


def recorded_frames(folder: Path, least: int = 0) -> list[RecordedFrame]:
    """Return the frames on the disk, once there are `least`; the latest of a running recording may be missing."""
    store = RecordingStore(folder)
    until(lambda: len(store.numbers()) >= least)
    numbers = store.numbers()
    assert numbers == list(range(len(numbers)))
    return [store.get(number) for number in numbers]


def ended(client: Client) -> RecordingProgress:
    """Return the final report of a recording."""
    until(lambda: any(news.ended for news in client.of(RecordingProgress)))
    return next(news for news in reversed(client.of(RecordingProgress)) if news.ended)


def wait_for(client: Client, steps: int) -> None:
    """Wait until a lab that is stepped manually has computed `steps` steps in total."""
    until(lambda: client.snapshot()["count"] >= steps)
    client.barrier()


def stepped(field: np.ndarray, r: float, steps: int) -> np.ndarray:
    """Return u after `steps` times u += r times the five-point Laplacian, in float64, without flux across the edges."""
    u = field.astype(np.float64)
    for _ in range(steps):
        wide = np.pad(u, 1, mode="edge")
        u = u + r * (wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:] - 4 * u)
    return u


def test_frames_are_those_of_exactly_every_kth_step_beside_another_lab_and_without_permission(engine, tmp_path):
    """k = 7, with slices of some hundred steps; the other lab is recorded at another k and shown."""
    values = {"ny": 37, "nx": 53, "r": 0.2, "edges": "zero-flux", "preset": "noise", "dtype": "float64"}
    quiet = Client(engine, "diffusion", **values)
    shown = Client(engine, "diffusion", eager=True, **{**values, "r": 0.1})
    for client, folder, every in ((quiet, "a", 7), (shown, "b", 13)):
        client.handle.pace(50)
        client.handle.record(str(tmp_path / folder), every, (64, 64), 12)
        client.handle.run()
    for client, folder, every, r in ((quiet, "a", 7, 0.2), (shown, "b", 13, 0.1)):
        last = ended(client)
        assert (last.frames, last.steps) == (12, 11 * every)
        assert "the bound of 12 frames" in last.ended
        taken = recorded_frames(tmp_path / folder)
        assert [recorded.step for recorded in taken] == [every * number for number in range(12)]
        assert [recorded.frame.facts["step"] for recorded in taken] == [recorded.step for recorded in taken]
        lab = Diffusion(backend="cpu_numpy", **{**values, "r": r})
        truth = lab.field()
        lab.close()
        for recorded in taken:
            raster = recorded.frame.rasters["field"]
            seen = raster.low + raster.levels / 254 * (raster.high - raster.low)
            np.testing.assert_allclose(seen, truth, rtol=0, atol=(raster.high - raster.low) / 254)
            truth = stepped(truth, r, every)
        assert last.bytes == sum(path.stat().st_size for path in (tmp_path / folder).glob("*.frame"))
    assert quiet.frames == []
    counts = [frame.timing.steps for frame in shown.frames[1:]]
    assert set(counts) == {50}  # the shown frames keep their own pace
    quiet.close()
    shown.close()


def test_changes_on_the_way_appear_and_a_paused_lab_records_nothing(engine, tmp_path):
    client = Client(engine)
    client.handle.record(str(tmp_path), 5, (8, 8), 1000)
    client.handle.step(12)
    wait_for(client, 12)
    client.handle.update(level=0.25)
    client.handle.act("reset")
    client.barrier()
    assert [recorded.step for recorded in recorded_frames(tmp_path, 3)] == [0, 5, 10]
    client.handle.step(9)
    wait_for(client, 9)
    client.handle.stop_recording()
    last = ended(client)
    assert last == RecordingProgress(5, last.bytes, 21, "stopped")
    taken = recorded_frames(tmp_path)
    assert [recorded.step for recorded in taken] == [0, 5, 10, 15, 20]
    assert [recorded.frame.facts["step"] for recorded in taken] == [0, 5, 10, 3, 8]  # the reset came after 12
    assert [recorded.values for recorded in taken] == [{}, {}, {}, {"level": 0.25}, {}]
    assert RecordingStore(tmp_path).about()["values"]["level"] == 0.5
    client.handle.step(20)
    wait_for(client, 29)
    assert len(recorded_frames(tmp_path)) == 5
    client.close()


def test_of_a_lab_that_ends_each_complete_picture_is_recorded(engine, tmp_path):
    client = Client(engine, "mandelbrot", ny=30, nx=40, max_iterations=50, backend="cpu_numba")
    client.handle.record(str(tmp_path), 0, (64, 64), 100)
    client.handle.run()
    for number, change in enumerate(({}, {"zoom": "10"}, {"zoom": "100", "max_iterations": 200})):
        if change:
            client.handle.update(**change)
        recorded_frames(tmp_path, number + 2)
    client.barrier()
    client.handle.stop_recording()
    assert ended(client).frames == 4  # the initial state, which is not complete
    assert [recorded.frame.facts["finished"] for recorded in recorded_frames(tmp_path)[1:]] == [1.0] * 3
    assert recorded_frames(tmp_path)[3].values["zoom"] == "100"
    client.close()


def test_a_killed_engine_goes_on_with_the_recording_from_its_last_good_state(mortal, tmp_path):
    client = Client(mortal, eager=True, cost=0.0005)
    client.handle.pace(10)
    client.handle.record(str(tmp_path), 3, (8, 8), 700)
    client.handle.run()
    client.wait_frame(lambda frame: frame.facts["step"] >= 1200)
    os.kill(mortal.pid, signal.SIGKILL)
    client.wait(EngineRestarted)
    last = ended(client)
    assert (last.frames, last.steps) == (700, 3 * 699)
    taken = recorded_frames(tmp_path)
    assert [recorded.step for recorded in taken] == list(range(0, 2100, 3))
    # no step is missing or duplicated: the state continues from the step of the recording
    assert [recorded.frame.facts["value"] for recorded in taken] == list(range(0, 2100, 3))
    assert not client.handle.recording
    folder = str(tmp_path / "again")
    client.handle.record(folder, 3, (8, 8), 10**6)
    until(lambda: (client.handle.last_checkpoint.recording_offset or ("", 0))[0] == folder)
    os.kill(mortal.pid, signal.SIGKILL)
    client.handle.stop_recording()  # handled by the next process
    until(lambda: not client.handle.recording)
    assert ended(client).ended == "stopped"
    client.close()


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"every": -1}, Refused, "every must be a whole number from 0"),
        ({"every": 0}, RecordingProgress, "every must be at least 1 step for faulty"),
        ({"most": 0}, Refused, "most must be a whole number from 1"),
        ({"pixels": (4097, 4096)}, Refused, "pixels must be"),
        ({"folder": "full"}, RecordingProgress, "is not empty"),
        ({"folder": "file/below"}, RecordingProgress, "NotADirectoryError"),
    ],
)
def test_what_cannot_be_recorded_is_said(engine, tmp_path, arguments, kind, words):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").touch()
    (tmp_path / "file").touch()
    asked = {"folder": "new", "every": 1, "pixels": (8, 8), "most": 3} | arguments
    client = Client(engine)
    client.handle.record(**{**asked, "folder": str(tmp_path / asked["folder"])})
    answer = client.wait(kind)
    assert words in (answer.text if isinstance(answer, Refused) else answer.ended)
    assert not client.handle.recording
    client.handle.record(str(tmp_path / "fine"), 1, (1200, 1000), 3)  # the first attempt leaves no trace
    client.handle.record(str(tmp_path / "other"), 1, (8, 8), 3)
    client.wait(Refused, 2 if kind is Refused else 1)
    client.handle.step(2)
    wait_for(client, 2)
    assert "the bound of 3 frames" in client.of(RecordingProgress)[-1].ended
    shapes = [one.frame.rasters["field"].levels.shape for one in recorded_frames(tmp_path / "fine")]
    assert shapes == [(1200, 1000)] * 3
    client.close()


def test_a_lab_that_fails_keeps_what_was_recorded_and_a_frame_that_fails_ends_it(engine, tmp_path):
    client = Client(engine)
    client.handle.record(str(tmp_path), 2, (8, 8), 100)
    client.handle.step(5)
    wait_for(client, 5)
    client.handle.update(trap="fail")
    client.handle.step(5)
    client.wait(Paused)
    assert client.handle.recording
    client.handle.update(trap="fail in frame")
    client.handle.step(5)
    assert ended(client).ended == "a frame could not be made: ZeroDivisionError: planted"
    client.wait(Paused, 2)
    assert [recorded.step for recorded in recorded_frames(tmp_path)] == [0, 2, 4]
    client.close()


def test_values_that_are_not_finite_pause_a_recorded_lab_nobody_looks_at(engine, tmp_path):
    client = Client(engine)
    client.handle.record(str(tmp_path), 2, (8, 8), 10**5)
    client.handle.run()
    client.handle.act("spoil")
    assert "NaN" in client.wait(Paused).reason
    client.barrier()
    assert client.frames == []
    client.close()


# -- without a process


def test_a_short_disk_or_the_limit_of_a_server_ends_the_recording(tmp_path, monkeypatch, limited):
    lab = Faulty(backend="cpu_numpy")

    def take(recorder: FrameRecorder, free: float, total: float) -> str:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(total, 0, free))
        recorder.advanced(1)
        return recorder.take(lab.frame(None, recorder.pixels), lab.values(), resting=False)

    recorder = FrameRecorder(lab, str(tmp_path / "a"), 1, (50, 40), 100)
    assert take(recorder, 2**30 + 2000, 10**15) == ""
    assert "0.98 GiB of the disk are free, and 1.00 GiB are left" in take(recorder, 2**30 - 2**24, 10**15)
    assert "are left to others" in take(recorder, 2**30 + 1999, 10**15)
    assert take(recorder, 0.05 * 10**9 + 2000, 10**9) == ""  # a small disk: 5 %
    assert "are left to others" in take(recorder, 0.05 * 10**9 + 1999, 10**9)
    assert recorder.frames == 2
    recorder.finish()
    assert [recorded.step for recorded in recorded_frames(tmp_path / "a")] == [1, 4]
    limited(disk=1)
    recorder = FrameRecorder(lab, str(tmp_path / "b"), 1, (50, 40), 100)
    recorder.bytes = settings.MIB - 1  # recorded before
    words = "1 MB are what one recording may have on this server (its setting disk)"
    assert take(recorder, 10**15, 10**15) == words
    recorder.finish()


def test_a_disk_that_refuses_a_frame_leaves_no_part_of_it_and_none_after_it(tmp_path, monkeypatch):
    lab = Faulty(backend="cpu_numpy")
    recorder = FrameRecorder(lab, str(tmp_path / "a"), 1, (50, 40), 100)
    replace, tries = Path.replace, []

    def full(path: Path, target: Path) -> Path:
        tries.append(target)
        if len(tries) == 2:
            raise OSError(28, "No space left on device")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)
    for _ in range(3):
        recorder.take(lab.frame(None, (8, 8)), {}, resting=False)
        recorder.advanced(1)
    recorder.finish()
    with pytest.raises(OSError, match="cannot be written: the disk is full"):
        recorder.check()
    assert recorder.progress("full").frames == 1
    assert recorder.bytes == (tmp_path / "a" / "000000.frame").stat().st_size
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["000000.frame", "recording.json"]


def test_a_slow_disk_makes_the_lab_wait_and_no_step_is_left_out(tmp_path, monkeypatch):
    """Two frames may be unwritten: the lab continues to the third, and waits there."""
    lab, gate, put = Faulty(backend="cpu_numpy"), threading.Event(), RecordingStore.put

    def slow(store: RecordingStore, number: int, data: bytes) -> None:
        assert gate.wait(120)
        put(store, number, data)

    monkeypatch.setattr(RecordingStore, "put", slow)
    sender = QuietSender()
    recorder = LabRecorder(1, lab, sender, lambda _: nullcontext())
    recorder.begin(Record(1, str(tmp_path), 10, (8, 8), 6, None))

    def turn() -> None:
        if steps := recorder.limited(7):
            lab.advance(steps)
            recorder.advanced(steps)
        recorder.turn(running=True)

    for _ in range(20):
        turn()
    assert lab.count == 10  # frames of 0 and 10 are not written yet
    before = time.monotonic()
    assert before < recorder.wakes_at() < time.monotonic() + 0.1
    assert not recorder.due(running=True)
    gate.set()
    until(lambda: (turn(), not recorder.on)[1])
    taken = recorded_frames(tmp_path)
    assert [recorded.step for recorded in taken] == list(range(0, 60, 10))
    assert [recorded.frame.facts["step"] for recorded in taken] == list(range(0, 60, 10))
    assert sender.said[-1].frames == 6


def test_a_folder_that_was_deleted_stays_so_and_ends_the_recording(tmp_path):
    sender = QuietSender()
    lab_recorder = LabRecorder(1, Faulty(backend="cpu_numpy"), sender, lambda _: nullcontext())
    lab_recorder.begin(Record(1, str(tmp_path / "a"), 1, (8, 8), 6, None))
    shutil.rmtree(tmp_path / "a")
    lab_recorder.turn(running=True)
    assert "the disk did not store a frame: FileNotFoundError" in sender.said[-1].ended
    store = RecordingStore(tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="is gone"):
        store.put(1, b"")
    assert not store.folder.exists()


def test_frames_lost_with_the_engine_end_the_recording(tmp_path):
    """The state to continue from is at step 25, and the frame of step 20 was not written; or it is an earlier one."""
    lab, folder = Faulty(backend="cpu_numpy"), str(tmp_path)
    recorder = FrameRecorder(lab, folder, 10, (8, 8), 100)
    for _ in range(3):
        recorder.take(lab.frame(None, (8, 8)), {}, resting=False)
        recorder.advanced(10)
    recorder.finish()
    assert FrameRecorder(lab, folder, 10, (8, 8), 100, done=25).steps_left == 5
    RecordingStore(tmp_path).path(2).unlink()
    assert FrameRecorder(lab, folder, 10, (8, 8), 100, done=19).steps_left == 1
    waiting = FrameRecorder(lab, folder, 10, (8, 8), 100, done=20)
    assert waiting.due(resting=False, running=True)
    for done, words in ((25, "were lost with the engine"), (LOST, "restarted from a state before the recording")):
        sender = QuietSender()
        LabRecorder(1, lab, sender, nullcontext).begin(Record(1, folder, 10, (8, 8), 100, done=done))
        (last,) = sender.said
        assert words in last.ended
        assert last.frames == 2  # a film is made of them; a recording of 0 frames would be discarded
        assert last.bytes == sum(path.stat().st_size for path in tmp_path.glob("*.frame"))


def test_a_frame_is_read_back_as_it_was_and_damage_is_seen(tmp_path):
    levels = np.arange(35, dtype=np.uint8).reshape(5, 7)[:, ::2]
    parts = {
        "field": Raster(levels, -1.5, float("inf"), (0.0, 1.0, 2.0, 3.0), "∇²u", "K", waiting=True),
        "line": Curve(np.array([0.0, 1.0, 2.0]), np.array([np.nan, -np.inf, 1e-300]), "sö\n"),
        "none": Curve(np.empty(0), np.empty(0)),
    }
    frame = Frame(parts, {"step": 3.0, "bad": float("nan")}, Timing("cpu_numpy", "x", 4, 35, 1e-3), 9, {"a": "b\nc"})
    store = RecordingStore(tmp_path / "new")
    store.begin({"lab": "diffusion"})
    store.put(4, encode_frame(RecordedFrame(12, frame, {"r": np.float64(0.2), "data": b"abc"})))
    again = store.get(4)
    assert (again.step, again.frame.number, again.frame.notes) == (12, 9, {"a": "b\nc"})
    assert again.values["r"] == 0.2
    assert again.values["data"].startswith("3 bytes, sha256 ba7816bf")
    np.testing.assert_equal(dict(again.frame.facts), dict(frame.facts))
    raster, line = again.frame.rasters["field"], again.frame.curves["line"]
    np.testing.assert_array_equal(raster.levels, levels)
    assert (raster.span, raster.extent, raster.label, raster.unit) == ((-1.5, np.inf), (0, 1, 2, 3), "∇²u", "K")
    np.testing.assert_array_equal([line.x, line.y], [parts["line"].x, parts["line"].y])
    assert line.label == "sö\n"
    assert again.frame.timing.steps == 4
    data = store.path(4).read_bytes()
    for damaged in (
        data[:-1], data + b"x", data[1:], b"", b"[]\n", b'{"parts": {"a": {"raster": [1, 1]}}}\n0',
        data.replace(b"[5, 4]", b"[-1, 4]"),
        data.replace(b'"curve": 3', b'"curve": -3'),
        data.replace(b'"curve": 3', b'"curve": %d' % 10**19),  # this and the next one were found by fuzzing files
        data.replace(b"[5, 4]", b"[%d, 4]" % 10**19),
    ):  # fmt: skip
        store.path(4).write_bytes(damaged)
        with pytest.raises(RecordingError, match=r"000004\.frame is damaged"):
            store.get(4)
    with pytest.raises(RecordingError, match="not empty"):
        store.begin({})
    with pytest.raises(RecordingError, match="holds no recording"):
        RecordingStore(tmp_path).about()
