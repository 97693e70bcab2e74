"""Codes and tokens nobody guesses, and bounds for rooms, followers, windows and guesses."""

from __future__ import annotations

import re

import pytest

from app.audience.broadcast import BUSY, ENDED, FULL, UNKNOWN, Broadcast
from app.audience.rooms import (
    GUESSES,
    LENGTH,
    LETTERS,
    MOST_ROOMS,
    MOST_WINDOWS,
    RoomError,
    Rooms,
    ViewerRefused,
    new_code,
)
from tests.app.audience.test_broadcast import Onlooker


class Fed:
    """A page's feed that shows nothing."""

    def __init__(self) -> None:
        self.followers, self.windows = Broadcast(), Broadcast()
        self.woken, self.acts = 0, []

    def wake(self) -> None:
        self.woken += 1

    def act(self, name: str) -> None:
        self.acts.append(name)


def refusal(call, *arguments):
    """The code with which a viewer is not let in."""
    with pytest.raises(ViewerRefused) as refused:
        call(*arguments)
    assert len(refused.value.why.encode()) <= 120  # a WebSocket's closing frame has no room for more
    return refused.value.code


def test_codes_are_letters_that_cannot_be_mistaken():
    codes = {new_code() for _ in range(200)}
    assert len(codes) > 190
    assert all(re.fullmatch(rf"[{LETTERS}]{{{LENGTH}}}", code) for code in codes)
    assert not set("AEIOUL01") & set(LETTERS)


def test_a_follower_comes_in_by_the_code_and_no_other():
    rooms, feed = Rooms(), Fed()
    code = rooms.open(feed)
    assert rooms.follow(code, Onlooker()) is feed
    assert (len(feed.followers), rooms.followers, rooms.open_rooms, feed.woken) == (1, 1, 1, 1)
    assert refusal(rooms.follow, "XXXXXX", Onlooker()) == UNKNOWN
    assert refusal(rooms.follow, "", Onlooker()) == UNKNOWN
    assert refusal(rooms.follow, rooms.window(feed), Onlooker()) == UNKNOWN  # a token is no code


def test_an_ended_room_says_so_to_those_in_it_and_is_unknown_to_others():
    rooms, feed, inside = Rooms(), Fed(), Onlooker()
    code = rooms.open(feed)
    rooms.follow(code, inside)
    rooms.end(code)
    rooms.end(code)
    assert inside.dismissed[0] == ENDED
    assert len(inside.dismissed[1].encode()) <= 120
    assert refusal(rooms.follow, code, Onlooker()) == UNKNOWN
    assert (rooms.followers, rooms.open_rooms) == (0, 0)


def test_rooms_followers_and_windows_are_bounded():
    rooms, feed = Rooms(most=2), Fed()
    code = rooms.open(feed)
    for _ in range(MOST_ROOMS - 1):
        rooms.open(Fed())
    with pytest.raises(RoomError, match=str(MOST_ROOMS)):
        rooms.open(Fed())
    for _ in range(2):
        rooms.follow(code, Onlooker())
    assert refusal(rooms.follow, code, Onlooker()) == FULL
    token = rooms.window(feed)
    for _ in range(MOST_WINDOWS):
        rooms.look_on(token, Onlooker())
    assert refusal(rooms.look_on, token, Onlooker()) == FULL


def test_who_tries_codes_has_everybody_new_wait_and_nobody_else():
    now = [0.0]
    rooms, feed, inside = Rooms(clock=lambda: now[0]), Fed(), Onlooker()
    code = rooms.open(feed)
    rooms.follow(code, inside)
    assert {refusal(rooms.follow, "XXXXXX", Onlooker()) for _ in range(GUESSES)} == {UNKNOWN}
    assert refusal(rooms.follow, "XXXXXX", Onlooker()) == BUSY
    assert refusal(rooms.follow, code, Onlooker()) == BUSY  # else a right guess would cost nothing
    assert refusal(rooms.look_on, "x", Onlooker()) == BUSY
    assert inside.dismissed is None
    now[0] += 1.0
    assert rooms.follow(code, Onlooker()) is feed


def test_a_token_is_long_and_each_page_has_its_own():
    rooms, feeds = Rooms(), (Fed(), Fed())
    tokens = [rooms.window(feed) for feed in feeds]
    assert len(set(tokens)) == 2
    assert all(len(token) >= 32 for token in tokens)
    window = Onlooker()
    assert rooms.look_on(tokens[1], window) is feeds[1]
    rooms.end_window(tokens[1])
    assert window.dismissed[0] == ENDED
    assert refusal(rooms.look_on, tokens[1], Onlooker()) == UNKNOWN
    assert rooms.look_on(tokens[0], Onlooker()) is feeds[0]


def test_a_server_that_allows_no_followers_opens_no_room():
    with pytest.raises(RoomError, match="setting followers is 0"):
        Rooms(most=0).open(Fed())
