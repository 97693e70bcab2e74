"""Files made of recordings, read by other libraries and compared with the recorded frames."""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import pytest
import zarr
from PIL import Image, ImageSequence

from compute.engine.recording import FrameRecorder
from compute.engine.recording_store import SCHEMA, RecordingStore
from compute.export import recordings
from compute.export.scene import SceneError, Style, coloured
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve

LOOK = Style("Cool–warm", reverse=True)


def record(lab, folder: Path, every: int, frames: int, pixels=(60, 80), changes=()):
    """Record frames like the engine; `changes` maps a frame's number to values set before it."""
    recorder = FrameRecorder(lab, str(folder), every, pixels, frames)
    taken = []
    for number in range(frames):
        if number:
            lab.advance(every)
            recorder.advanced(every)
        lab.update(**dict(changes).get(number, {}))
        taken.append(lab.frame(None, pixels))
        recorder.take(taken[-1], lab.values(), resting=lab.status.resting)
    recorder.finish()
    return taken


@pytest.fixture(scope="module")
def heat(tmp_path_factory):
    """Return seven frames of a field of 37 x 53 cells, with a change of r before the fourth."""
    folder = tmp_path_factory.mktemp("store") / "heat"
    lab = Diffusion(backend="cpu_numpy", ny=37, nx=53, preset="noise", dtype="float64")
    taken = record(lab, folder, 11, 7, changes={3: {"r": 0.05}}.items())
    lab.close()
    return folder, taken


def test_a_recording_that_goes_on_keeps_the_frames_up_to_the_step_of_the_state(tmp_path):
    lab = Diffusion(backend="cpu_numpy", ny=8, nx=8)
    record(lab, tmp_path / "heat", 5, 4)
    store = RecordingStore(tmp_path / "heat")
    for step, kept in ((10, [0, 5, 10]), (7, [0, 5])):
        recorder = FrameRecorder(lab, str(store.folder), 5, (8, 8), 100, step)
        assert recorder.frames == len(kept)
        assert [store.head(number).step for number in store.numbers()] == kept
        recorder.finish()


def frames_of(path: Path):
    with Image.open(path) as film:
        return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(film)]


def test_a_film_has_the_colours_of_the_frames_and_says_what_it_is(heat, tmp_path):
    folder, taken = heat
    path, told = tmp_path / "heat.gif", []
    recordings.write(folder, path, LOOK, "laplacian", rate=25, progress=lambda *done: told.append(done), command="me")
    for one, frame in zip(frames_of(path), taken, strict=True):
        np.testing.assert_array_equal(one, coloured(frame.rasters["laplacian"].levels, LOOK))
    assert told == [(number, 7) for number in range(1, 8)]
    beside = json.loads((tmp_path / "heat.gif.json").read_text(encoding="utf-8"))
    assert (beside["schema"], beside["lab"], beside["part"]) == ("fieldlab-recording/1", "diffusion", "laplacian")
    assert (beside["every"], beside["first_step"], beside["last_step"], beside["frames"]) == (11, 0, 66, 7)
    assert beside["look"] == {"palette": "Cool–warm", "reverse": True, "offset": 0.0}
    assert beside["values"]["preset"] == "noise"
    assert beside["changes"] == [{"frame": 3, "step": 33, "values": {"r": 0.05}}]
    assert beside["rate"] == 25
    assert beside["made"]["command"] == "me"
    with Image.open(path) as film:
        inside = json.loads(film.info["comment"])
    assert inside == {**{name: beside[name] for name in inside}, "changes": 1}


def test_a_video_of_odd_size_repeats_its_last_row_and_column_and_says_so(heat, tmp_path):
    folder, taken = heat
    for size, shape in ((None, (38, 54)), ((74, 106), (74, 106))):
        path = tmp_path / "heat.mp4"
        recordings.write(folder, path, LOOK, size=size)
        with av.open(str(path)) as video:
            got = [picture.to_ndarray(format="rgb24") for picture in video.decode(video=0)]
            plan = json.loads(video.metadata["comment"])
        assert len(got) == 7
        assert got[0].shape == (*shape, 3)
        truth = coloured(taken[6].rasters["field"].levels, LOOK)
        truth = truth.repeat(2, 0).repeat(2, 1) if size else np.pad(truth, ((0, 1), (0, 1), (0, 0)), mode="edge")
        assert np.abs(got[6].astype(int) - truth).mean() < 8  # noise, with the colours of every second pixel
        assert ("padded" in plan) is (size is None)


def test_a_small_field_is_shown_larger_by_a_whole_factor_within_what_was_asked_for(tmp_path):
    lab = Diffusion(backend="cpu_numpy", ny=8, nx=10)
    taken = record(lab, tmp_path / "store", 1, 2, pixels=(35, 200))
    lab.close()
    recordings.write(tmp_path / "store", tmp_path / "a.gif")
    truth = coloured(taken[1].rasters["field"].levels, Style()).repeat(4, 0).repeat(4, 1)
    np.testing.assert_array_equal(frames_of(tmp_path / "a.gif")[1], truth)


def test_frames_of_another_size_are_fitted_to_the_first(tmp_path):
    lab = Diffusion(backend="cpu_numpy", ny=20, nx=30)
    taken = record(lab, tmp_path / "store", 1, 4, (40, 60), {2: {"ny": 10, "nx": 15}}.items())
    lab.close()
    recordings.write(tmp_path / "store", tmp_path / "a.gif", size=(20, 30))
    got = frames_of(tmp_path / "a.gif")
    assert [picture.shape for picture in got] == [(20, 30, 3)] * 4
    truth = coloured(taken[3].rasters["field"].levels, Style()).repeat(2, 0).repeat(2, 1)
    np.testing.assert_array_equal(got[3], truth)
    with pytest.raises(SceneError, match=r"field of frame 2 has the shape \[10, 15\], that of the first \[20, 30\]"):
        recordings.write(tmp_path / "store", tmp_path / "a.npz")


def test_the_last_picture_alone(heat, tmp_path):
    folder, taken = heat
    recordings.write(folder, tmp_path / "last.png", LOOK, "field")
    with Image.open(tmp_path / "last.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture), coloured(taken[6].rasters["field"].levels, LOOK))
        assert json.loads(picture.text["fieldlab"])["last_step"] == 66


@pytest.mark.parametrize("ending", ["npz", "zarr"])
def test_raw_levels_are_those_that_were_recorded(heat, tmp_path, ending):
    folder, taken = heat
    path = tmp_path / f"heat.{ending}"
    for _ in range(2):  # an older file is replaced
        recordings.write(folder, path)
    found = np.load(path) if ending == "npz" else zarr.open_group(str(path), mode="r")
    for name in ("field", "laplacian"):
        assert found[name].dtype == np.uint8
        np.testing.assert_array_equal(found[name][:], [frame.rasters[name].levels for frame in taken])
        np.testing.assert_array_equal(found[f"{name}.low"][:], [frame.rasters[name].low for frame in taken])
        np.testing.assert_array_equal(found[f"{name}.high"][:], [frame.rasters[name].high for frame in taken])
    np.testing.assert_array_equal(found["step"][:], range(0, 77, 11))
    np.testing.assert_array_equal(found["fact.heat"][:], [frame.facts["heat"] for frame in taken])
    about = json.loads(str(found["fieldlab"])) if ending == "npz" else found.attrs["fieldlab"]
    assert "8-bit levels" in about["levels"]
    assert about["every"] == 11
    assert (tmp_path / "heat.npz.json").is_file() is (ending == "npz")


def test_lines_are_drawn_and_so_are_axes(heat, tmp_path, monkeypatch):
    lab = LCurve(backend="cpu_numpy", problem="shaw", n=24)
    record(lab, tmp_path / "store", 4, 3)
    lab.close()
    found = recordings.recorded(tmp_path / "store")
    assert not found.parts
    recordings.write(tmp_path / "store", tmp_path / "curve.webp", part=found.panels[0], size=(180, 240))
    first, *_, last = frames_of(tmp_path / "curve.webp")
    assert first.shape == (180, 240, 3)
    assert (first != last).any()
    assert np.median(last) > 240  # white background
    monkeypatch.setattr(recordings, "cpu_count", lambda: 4)
    monkeypatch.setattr(recordings, "FEW", 1)
    recordings.write(tmp_path / "store", tmp_path / "by two.webp", part=found.panels[0], size=(180, 240))
    assert (tmp_path / "by two.webp").read_bytes() == (tmp_path / "curve.webp").read_bytes()
    with pytest.raises(SceneError, match="l_curve has no pictures"):
        recordings.write(tmp_path / "store", tmp_path / "a.npz")
    recordings.write(heat[0], tmp_path / "axes.png", LOOK, "field", (240, 320), axes=True)
    with Image.open(tmp_path / "axes.png") as picture:
        assert picture.size == (320, 240)
        assert picture.getpixel((1, 1)) == (255, 255, 255)


def test_what_cannot_be_written_is_refused_and_leaves_nothing(heat, tmp_path):
    folder, _ = heat
    empty, broken = tmp_path / "empty", tmp_path / "broken"
    RecordingStore(empty).begin({"lab": "diffusion"})
    lab = Diffusion(backend="cpu_numpy", ny=8, nx=10)
    record(lab, broken, 1, 3)
    lab.close()
    damaged = RecordingStore(broken).path(1)
    damaged.write_bytes(damaged.read_bytes()[:-5])
    out = tmp_path / "out"
    for words, source, name, more in (
        ("holds no recording", tmp_path, "a.gif", {}),
        ("there is no frame", empty, "a.gif", {}),
        ("000001.frame is damaged", broken, "a.gif", {}),
        ("000001.frame is damaged", broken, "a.npz", {}),
        ("part must be one of field, laplacian", folder, "a.gif", {"part": "sheep"}),
        ("must end in one of", folder, "a.xyz", {}),
        ("rate must be from 1 to 240", folder, "a.gif", {"rate": 0.1}),
        ("rate must be at most 50", folder, "a.gif", {"rate": 60}),
        ("size must be 1 to", folder, "a.gif", {"size": (0, 5)}),
    ):
        with pytest.raises(SceneError, match=words):
            recordings.write(source, out / name, **more)
    for about, words in (
        ({}, "lab must be one of"),
        ({"lab": ["diffusion"]}, "lab must be one of"),
        ({"lab": "diffusion", "pixels": ["1", 2]}, "pixels of a recording must be two whole numbers, not"),
    ):
        (broken / "recording.json").write_text(json.dumps({"schema": SCHEMA, **about}))
        with pytest.raises(SceneError, match=words):
            recordings.recorded(broken)
    assert not out.exists() or not list(out.iterdir())
