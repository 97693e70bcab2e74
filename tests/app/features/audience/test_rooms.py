"""Unguessable codes and tokens, and the limits on rooms, followers, windows and guesses."""

from __future__ import annotations

import re

import pytest

from app.features.audience.broadcast import BUSY, ENDED, FULL, UNKNOWN, Broadcast
from app.features.audience.rooms import (
    ALL_GUESSES,
    GUESSES,
    INSIDE_GUESSES,
    LENGTH,
    LETTERS,
    MOST_ADDRESSES,
    MOST_ROOMS,
    MOST_WINDOWS,
    GuessBudgets,
    RoomError,
    Rooms,
    ViewerRefused,
    network,
    new_code,
)
from compute.votes import Vote, VoteQuestion
from tests.app.features.audience.test_broadcast import Onlooker


class Fed:
    """Feed of a page that shows nothing."""

    def __init__(self) -> None:
        self.followers, self.windows = Broadcast(), Broadcast()
        self.woken, self.acts = 0, []
        self.poll = Vote(VoteQuestion("Which is faster?", ("NumPy", "GPU")), 1)

    def wake(self) -> None:
        self.woken += 1

    def act(self, name: str) -> None:
        self.acts.append(name)

    def vote(self, number: int, token: str, choice: int) -> str:
        return self.poll.cast(token, choice)


def refusal(call, *arguments):
    """Return the code with which the viewer is refused."""
    with pytest.raises(ViewerRefused) as refused:
        call(*arguments)
    assert len(refused.value.why.encode()) <= 120  # a WebSocket's close frame holds at most 123 bytes of reason
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
    assert refusal(rooms.follow, rooms.window(feed), Onlooker()) == UNKNOWN  # a window's token is no code


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
    with pytest.raises(RoomError, match="setting followers is 0"):
        Rooms(most=0).open(Fed())


class Hall:
    """Rooms with a manual clock, with one room open and no follower in it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rooms = Rooms(most=10_000, clock=lambda: self.now)
        self.code = self.rooms.open(Fed())

    def tries(self, address: str, code: str = "XXXXXX") -> int | None:
        """Follow a room from an address; return the code of the refusal, None if the viewer is admitted."""
        try:
            self.rooms.follow(code, Onlooker(), address)
        except ViewerRefused as refused:
            return refused.code
        return None


STUDENT, OTHER = "10.0.0.7", "10.0.0.8"


def test_who_tries_codes_has_newcomers_of_his_address_wait_and_nobody_else():
    """Regression test: one student's wrong codes locked out the whole hall and the lecturer's window."""
    hall = Hall()
    token = hall.rooms.window(Fed())
    assert {refusal(hall.rooms.look_on, "x" * 32, Onlooker()) for _ in range(2 * ALL_GUESSES[0])} == {UNKNOWN}
    assert {hall.tries(STUDENT) for _ in range(GUESSES[0])} == {UNKNOWN}
    assert hall.tries(STUDENT) == BUSY
    assert hall.tries(STUDENT, hall.code) == BUSY  # otherwise a correct guess would cost nothing
    assert hall.tries(OTHER, hall.code) is None
    hall.rooms.look_on(token, Onlooker())
    hall.now += 1.0
    assert hall.tries(STUDENT, hall.code) is None


def test_a_hall_with_one_address_comes_in_beside_a_student_who_tries_codes():
    """After wrong guesses, an address with a follower in a room can still use that room's code, but not another's."""
    hall = Hall()
    foreign = hall.rooms.open(Fed())
    assert hall.tries(STUDENT, hall.code) is None
    while hall.tries(STUDENT) != BUSY:
        pass
    for _ in range(200):
        assert hall.tries(STUDENT, hall.code) is None
    assert hall.tries(STUDENT, foreign) == BUSY
    while hall.tries(STUDENT, hall.code) is None:
        assert hall.tries(STUDENT) == BUSY  # these attempts are counted, too
    assert hall.tries(STUDENT, hall.code) == BUSY
    hall.now += 2 / INSIDE_GUESSES[1]
    assert hall.tries(STUDENT, hall.code) is None
    assert hall.tries(STUDENT, foreign) == BUSY
    hall.rooms.end(hall.code)
    assert hall.tries(STUDENT, hall.code) == BUSY  # an ended room belongs to no address


def test_all_addresses_together_try_only_so_many_codes():
    hall = Hall()
    assert hall.tries(OTHER, hall.code) is None
    found = [hall.tries(f"10.1.{number % 250}.1") for number in range(2 * ALL_GUESSES[0])]
    assert found.count(UNKNOWN) == ALL_GUESSES[0]
    assert hall.tries("10.0.0.9", hall.code) == BUSY
    assert hall.tries(OTHER, hall.code) is None  # a follower from this address is in the room
    hall.now += 1.0
    assert [hall.tries(f"10.2.{number}.1") for number in range(50)].count(UNKNOWN) == ALL_GUESSES[1]


def test_an_ipv6_network_counts_as_one_address():
    assert network("2001:db8:1:2:3:4:5:6") == network("2001:db8:1:2::1") == "2001:db8:1:2::/64"
    assert network("::ffff:10.0.0.7") == network("10.0.0.7") == "10.0.0.7"
    assert network("/run/fieldlab.sock") == "/run/fieldlab.sock"


def test_addresses_that_tried_codes_are_forgotten():
    now = [0.0]
    budgets = GuessBudgets(2, 1.0, lambda: now[0])
    for number in range(MOST_ADDRESSES + 5):
        budgets.spend(str(number))
    assert len(budgets) == MOST_ADDRESSES  # the oldest addresses were dropped
    now[0] += 1.0
    for _ in range(2):
        budgets.spend("again")
    assert len(budgets) == 1
    assert not budgets.left("again")
    assert budgets.left("another")


def test_each_page_has_its_own_long_token():
    rooms, feeds, window = Rooms(), (Fed(), Fed()), Onlooker()
    tokens = [rooms.window(feed) for feed in feeds]
    assert len(set(tokens)) == 2
    assert all(len(token) >= 32 for token in tokens)
    assert rooms.look_on(tokens[1], window) is feeds[1]
    rooms.end_window(tokens[1])
    assert window.dismissed[0] == ENDED
    assert refusal(rooms.look_on, tokens[1], Onlooker()) == UNKNOWN
    assert rooms.look_on(tokens[0], Onlooker()) is feeds[0]
