"""Film files, read by other libraries: the frames, their colours and their times."""

from __future__ import annotations

import struct
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image, ImageSequence

from compute.export.formats import film_format, render_format
from compute.export.scene import SceneError, Style, coloured

COMMENT = '{"palette": "Cool–warm"}' + " " * 300

INFERNO = Style("Inferno")


def smooth(count=12, size=(46, 70), look=INFERNO):
    """Return frames of moving waves, in a palette's colours, with some NaN pixels."""
    y, x = np.mgrid[: size[0], : size[1]] / 50
    frames = []
    for number in range(count):
        levels = np.rint(127 + 127 * np.sin(3 * x + number / 5) * np.cos(2 * y)).astype(np.uint8)
        levels[:8, :8] = 255
        frames.append(coloured(levels, look))
    return frames


def seen(path: Path):
    """Return frames (RGB), their times in ms and the number of repetitions, as read by Pillow."""
    frames, times = [], []
    with Image.open(path) as film:
        for frame in ImageSequence.Iterator(film):
            frame.load()
            times.append(frame.info["duration"])
            frames.append(np.asarray(frame.convert("RGB")))
        return frames, times, film.info.get("loop")


@pytest.mark.parametrize("size", [(46, 70), (37, 53), (1, 1), (3, 300)])
def test_a_gif_has_exactly_the_colours_of_its_frames(size, tmp_path):
    """Includes equal frames, which some writers merge, and more than 256 colours in total."""
    frames = smooth(5, size) + smooth(1, size) * 3 + smooth(2, size, Style("Cool–warm")) + smooth(1, size)
    film_format(tmp_path / "a.gif").write(tmp_path / "a.gif", frames, 30, COMMENT)
    got, times, loop = seen(tmp_path / "a.gif")
    assert len(got) == 11
    for one, truth in zip(got, frames, strict=True):
        np.testing.assert_array_equal(one, truth)
    assert times == [30, 40, 30] * 3 + [30, 40]  # hundredths of a second, with errors below half of one
    assert loop == 0
    with Image.open(tmp_path / "a.gif") as film:
        assert film.info["comment"].decode() == COMMENT


def test_the_frames_of_one_palette_share_one_table_from_the_second_on(tmp_path):
    every = coloured(np.arange(256, dtype=np.uint8)[None], Style())
    film_format(tmp_path / "a.gif").write(tmp_path / "a.gif", [every] * 4, 10, "")
    film_format(tmp_path / "b.gif").write(tmp_path / "b.gif", [every] * 5, 10, "")
    assert (tmp_path / "b.gif").stat().st_size - (tmp_path / "a.gif").stat().st_size < 768


def test_a_frame_of_more_colours_is_brought_to_256_of_its_own(tmp_path):
    y, x = np.mgrid[:60, :80].astype(np.uint8)
    rich = np.stack([4 * y, 3 * x, 100 + 0 * x], axis=2)
    plain = smooth(1, (60, 80))[0]
    film_format(tmp_path / "a.gif").write(tmp_path / "a.gif", [plain, rich, plain], 10, "")
    got, _, _ = seen(tmp_path / "a.gif")
    np.testing.assert_array_equal(got[0], plain)
    np.testing.assert_array_equal(got[2], plain)
    assert np.abs(got[1].astype(int) - rich).mean() < 6
    assert len(np.unique(got[1].reshape(-1, 3), axis=0)) > 200


@pytest.mark.parametrize("size", [(46, 70), (37, 53)])
def test_a_webp_has_its_frames_and_its_time(size, tmp_path):
    frames = smooth(12, size)
    frames[3] = frames[2]
    film_format(tmp_path / "a.webp").write(tmp_path / "a.webp", frames, 30, COMMENT)
    got, times, loop = seen(tmp_path / "a.webp")
    assert len(got) == 12
    assert times == [33, 34, 33] * 4
    assert loop == 0
    assert max(np.abs(one.astype(int) - truth).mean() for one, truth in zip(got, frames, strict=True)) < 4
    with Image.open(tmp_path / "a.webp") as film:
        text = film.getexif()[0x010E]
    assert "Cool\\u2013warm" in text  # JSON's way of writing it in ASCII
    data = (tmp_path / "a.webp").read_bytes()
    assert struct.unpack("<I", data[4:8])[0] == len(data) - 8


@pytest.mark.parametrize("ending", ["mp4", "webm"])
def test_a_video_has_its_colours_its_frames_and_its_time(ending, tmp_path):
    path, frames = tmp_path / f"a.{ending}", smooth(25)
    film_format(path).write(path, frames, 12.5, COMMENT)
    with av.open(str(path)) as video:
        stream = video.streams.video[0]
        context = stream.codec_context
        got = [
            picture.reformat(format="rgb24", src_colorspace="ITU709", src_color_range="MPEG").to_ndarray()
            for picture in video.decode(stream)
        ]
        assert (context.colorspace, context.color_primaries, context.color_trc, context.color_range) == (1, 1, 1, 1)
        assert video.duration / av.time_base == pytest.approx(2.0, abs=1e-3)
        assert float(stream.average_rate) == 12.5
        assert next(text for name, text in video.metadata.items() if name.lower() == "comment") == COMMENT
    assert len(got) == 25
    for one, truth in zip(got, frames, strict=True):
        off = np.abs(one.astype(int) - truth)[:-12]  # without the sharp corner of NaN pixels
        assert off.mean() < 3
        assert np.percentile(off, 99) < 16
        assert np.abs((one.astype(float) - truth)[:-12].mean(axis=(0, 1))).max() < 2.5  # no shift: the right matrix


def test_what_a_format_does_not_have_is_said(tmp_path):
    for ending in ("mp4", "webm"):
        for size in ((45, 70), (46, 71)):
            with pytest.raises(SceneError, match="must be even"):
                film_format(tmp_path / f"a.{ending}").require(size)
    for ending in ("gif", "webp"):
        film_format(tmp_path / f"a.{ending}").require((45, 71))
    with pytest.raises(SceneError, match="at most 16383 pixels a side, not 16384 x 8"):
        film_format(tmp_path / "a.webp").require((8, 16384))
    for refuse in (
        lambda: film_format(tmp_path / "a.gif").require((8, 8), 60),
        lambda: film_format(tmp_path / "a.gif").write(tmp_path / "a.gif", smooth(2), 60, ""),
    ):
        with pytest.raises(SceneError, match=r"rate must be at most 50 frames a second for \.gif, not 60"):
            refuse()
    assert not list(tmp_path.iterdir())


def test_each_name_finds_its_format():
    for ending in (".png", ".npz", ".zarr", ".svg", ".pdf", ".mp4", ".webm", ".gif", ".webp"):
        assert render_format(Path(f"a{ending.upper()}"), axes=False).ending == ending
    assert render_format(Path("a.png"), axes=True).name == "PNG with axes"
    with pytest.raises(SceneError, match=r"must end in one of \.png, .*\.webp, not 'a\.zarr\.zip'"):
        render_format(Path("a.zarr.zip"), axes=False)
