"""PageFeed reads a page only while it has viewers, and encodes each picture once for all viewers."""

from __future__ import annotations

import asyncio
import io
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from app.features.audience import feed as feeds
from app.features.audience.broadcast import Counts
from app.features.audience.feed import DRAWING, MOST_SIDE, PageFeed, Picture, coloured_image
from compute.export.scene import APART, Style, coloured
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from tests.app.features.audience.test_broadcast import Onlooker
from tests.app.features.audience.test_handlers import PATIENCE, until


@pytest.fixture(scope="module")
def frames():
    """Yield two frames of a small lab, one step apart."""
    lab = Diffusion(backend="cpu_numpy", ny=32, nx=48)
    before = lab.frame()
    lab.advance(steps=1)
    yield before, lab.frame()
    lab.close()


class Shown:
    """Page that shows one frame and one text; `looks` counts the calls of `picture`."""

    def __init__(self, frame):
        self.frame, self.looks, self.said = frame, 0, {"lab": "Diffusion"}

    def picture(self):
        self.looks += 1
        return Picture.of(Diffusion, self.frame, Style())

    def words(self):
        return self.said

    def notes(self):
        return {"next": None}


class Painter(Onlooker):
    """Viewer that confirms each message in the next iteration of the event loop."""

    def __init__(self, viewers):
        super().__init__()
        self.viewers = viewers

    def deliver(self, message):
        super().deliver(message)
        asyncio.get_running_loop().call_soon(self.paint, self.viewers)


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs a coroutine function without pauses, cancelled after PATIENCE seconds."""
    monkeypatch.setattr(feeds, "INTERVAL", 0.001)

    async def bounded(test):
        await asyncio.wait_for(test(), PATIENCE)

    return lambda test: asyncio.run(bounded(test))


def test_a_picture_is_encoded_once_for_all_who_look(frames, run):
    page = Shown(frames[0])

    async def test():
        feed = PageFeed(page, Counts())
        crowd = [Painter(feed.followers) for _ in range(20)]
        window = Painter(feed.windows)
        for one in crowd:
            feed.followers.join(one)
            feed.wake()
        feed.windows.join(window)
        await until(lambda: all(any(one.pictures) for one in [*crowd, window]))
        looks = page.looks
        await until(lambda: page.looks > looks + 5)  # an unchanged picture is not encoded again
        assert feed.encoded == 1
        page.frame = frames[1]
        await until(lambda: feed.encoded == 2 and all(len(list(filter(None, one.pictures))) == 2 for one in crowd))
        assert feed.followers.counts.sent == 40
        assert [head["state"] for head in window.heads if "state" in head][-1] == {"lab": "Diffusion", "next": None}
        assert [head["state"] for head in crowd[0].heads if "state" in head] == [{"lab": "Diffusion"}]
        feed.followers.end(4410, "over")
        feed.windows.end(4410, "over")

    run(test)


def test_nobody_looks_at_a_page_that_nobody_views(frames, run):
    page = Shown(frames[0])

    async def test():
        feed = PageFeed(page, Counts())
        idle = len(asyncio.all_tasks())
        one = Painter(feed.followers)
        for _ in range(2):
            feed.followers.join(one)
            feed.wake()
            feed.wake()
            await until(lambda looks=page.looks: page.looks > looks)
            feed.followers.leave(one)
            await until(lambda: len(asyncio.all_tasks()) == idle)

    run(test)


def test_nothing_is_encoded_while_nobody_can_take_it(frames, run):
    page = Shown(frames[0])

    async def test():
        feed = PageFeed(page, Counts())
        slow = Onlooker()
        feed.followers.join(slow)
        feed.wake()
        await until(lambda: slow.heads)
        page.frame = frames[1]
        looks = page.looks
        await until(lambda: page.looks > looks + 5)
        assert feed.encoded <= 1
        slow.paint(feed.followers)
        await until(lambda: any(slow.pictures))
        feed.followers.leave(slow)

    run(test)


def test_a_page_that_cannot_be_looked_at_is_logged_once(frames, run, caplog):
    page = Shown(None)  # whose picture raises AttributeError

    async def test():
        feed = PageFeed(page, Counts())
        one = Painter(feed.followers)
        feed.followers.join(one)
        feed.wake()
        await until(lambda: page.looks > 3)
        feed.followers.leave(one)

    run(test)
    assert len([record for record in caplog.records if "cannot be sent" in record.message]) == 1
    caplog.clear()


def test_words_that_change_at_every_look_cost_no_picture(frames, run, monkeypatch):
    """A viewer that has the text of every look would miss every picture if the text were sent first."""
    monkeypatch.setattr(feeds, "WORDS_INTERVAL", 0.0)
    page = Shown(frames[0])

    def picture():
        page.looks += 1
        return Picture.of(Diffusion, frames[page.looks % 2], Style())

    page.picture, page.words = picture, lambda: {"lab": str(page.looks)}

    async def test():
        feed = PageFeed(page, Counts())
        one = Painter(feed.followers)
        feed.followers.join(one)
        feed.wake()
        await until(lambda: feed.encoded >= 5)
        feed.followers.leave(one)

    run(test)


@pytest.mark.parametrize("style", [Style(), Style("Inferno", reverse=True), Style("Cool–warm", offset=0.3)])
def test_colours_are_those_of_files(style):
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    image = coloured_image(levels, style, APART)
    np.testing.assert_array_equal(np.asarray(image.convert("RGB")), coloured(levels, style))


def test_a_picture_is_the_main_raster_exact_where_that_is_small_and_bounded(frames):
    picture = Picture.of(Diffusion, frames[0], Style())
    assert picture.part == next(iter(frames[0].rasters))
    data, rest = picture.encode()
    image = Image.open(io.BytesIO(data))
    levels = frames[0].rasters[picture.part].levels
    assert (image.format, image.size) == ("PNG", levels.shape[::-1])
    np.testing.assert_array_equal(np.asarray(image.convert("RGB")), coloured(levels, Style()))
    assert rest > 0
    noise = np.random.default_rng(1).integers(0, 256, (400, 500), np.uint8)
    noisy = SimpleNamespace(rasters={"a": SimpleNamespace(levels=noise, waiting=False)})
    data, _ = Picture.of(Diffusion, noisy, Style()).encode()
    image = Image.open(io.BytesIO(data))
    assert (image.format, image.size) == ("WEBP", (500, 400))
    assert len(data) < noise.size  # PNG could not be smaller than the noise itself
    wide = SimpleNamespace(rasters={"a": SimpleNamespace(levels=np.zeros((100, 4000), np.uint8), waiting=False)})
    data, _ = Picture.of(Diffusion, wide, Style()).encode()
    assert Image.open(io.BytesIO(data)).size == (MOST_SIDE, 20)


def test_lines_are_drawn():
    lab = LCurve(backend="cpu_numpy", problem="shaw", n=32)
    lab.solve()
    data, _ = Picture.of(LCurve, lab.frame(), Style()).encode()
    lab.close()
    image = Image.open(io.BytesIO(data))
    assert (image.format, image.size) == ("WEBP", DRAWING[::-1])
    assert len(np.unique(np.asarray(image.convert("L")))) > 10  # the drawing is not blank


def test_equal_frames_in_other_colours_are_other_pictures(frames):
    assert Picture.of(Diffusion, frames[0], Style()) == Picture.of(Diffusion, frames[0], Style())
    assert Picture.of(Diffusion, frames[0], Style()) != Picture.of(Diffusion, frames[0], Style("Grey"))
    assert Picture.of(Diffusion, frames[0], Style()) != Picture.of(Diffusion, frames[1], Style())
