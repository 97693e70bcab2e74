"""Broadcast: the latest message wins, one message is in flight per viewer, and slow viewers do not delay others."""

from __future__ import annotations

import json
from typing import Any

from app.features.audience.broadcast import ENDED, Broadcast, Counts


class Onlooker:
    """Viewer that records every message that it receives."""

    def __init__(self) -> None:
        self.heads: list[dict[str, Any]] = []
        self.pictures: list[bytes] = []
        self.dismissed: tuple[int, str] | None = None

    def deliver(self, message: bytes) -> None:
        length = int.from_bytes(message[:4], "little")
        self.heads.append(json.loads(message[4 : 4 + length]))
        self.pictures.append(message[4 + length :])

    def dismiss(self, code: int, why: str) -> None:
        self.dismissed = (code, why)

    def paint(self, viewers: Broadcast) -> bool:
        """Confirm the last message received."""
        return viewers.confirm(self, self.heads[-1]["number"])


def test_a_slow_viewer_misses_pictures_and_a_quick_one_gets_all():
    counts = Counts()
    viewers, slow, quick = Broadcast(counts), Onlooker(), Onlooker()
    viewers.join(slow)
    viewers.join(quick)
    for number in range(5):
        viewers.show_picture(b"%d" % number, 10.0 + number)
        assert quick.paint(viewers)
    assert quick.pictures == [b"0", b"1", b"2", b"3", b"4"]
    assert slow.pictures == [b"0"]
    assert slow.paint(viewers)
    assert slow.pictures == [b"0", b"4"]  # the three pictures in between were dropped, not queued
    assert slow.heads[-1]["at"] == 14.0
    assert (counts.sent, counts.dropped) == (7, 3)


def test_words_travel_once_and_with_the_picture():
    viewers, one = Broadcast(), Onlooker()
    viewers.join(one)
    viewers.show_state({"lab": "Diffusion"})
    viewers.show_state({"lab": "Diffusion"})
    viewers.show_picture(b"a", 1.0)
    one.paint(viewers)
    viewers.show_state({"lab": "Mandelbrot"})
    one.paint(viewers)
    assert [head.get("state") for head in one.heads] == [{"lab": "Diffusion"}, None, {"lab": "Mandelbrot"}]
    assert one.pictures == [b"", b"a", b""]


def test_who_comes_later_begins_with_what_is_shown():
    viewers, late = Broadcast(Counts()), Onlooker()
    viewers.show_state({"lab": "Diffusion"})
    viewers.show_picture(b"a", 1.0)
    viewers.show_picture(b"b", 2.0)
    viewers.join(late)
    assert (late.pictures, late.heads[0]["state"]) == ([b"b"], {"lab": "Diffusion"})
    assert viewers.counts.dropped == 0


def test_a_number_that_is_not_under_way_confirms_nothing():
    viewers, one = Broadcast(), Onlooker()
    assert not viewers.confirm(one, 1)
    viewers.join(one)
    assert not viewers.confirm(one, 0)
    viewers.show_picture(b"a", 1.0)
    assert not viewers.confirm(one, 2)
    assert one.paint(viewers)
    assert not one.paint(viewers)


def test_who_has_left_gets_nothing_and_an_end_dismisses_the_rest():
    viewers, gone, there = Broadcast(), Onlooker(), Onlooker()
    viewers.join(gone)
    viewers.join(there)
    viewers.leave(gone)
    viewers.leave(gone)
    viewers.show_picture(b"a", 1.0)
    viewers.end(ENDED, "over")
    viewers.show_picture(b"b", 2.0)
    assert gone.pictures == []
    assert gone.dismissed is None
    assert (there.pictures, there.dismissed) == ([b"a"], (ENDED, "over"))
    assert not len(viewers)
