"""Audience mode of a page: the room's card, the link and its QR code, what followers receive, and how it ends."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from bokeh.document import Document

from app.features.audience import mode as modes
from app.features.audience.mode import AudienceMode, is_base, line, network_address, paragraphs
from app.features.audience.rooms import MOST_ROOMS, Rooms
from app.page.qr_code import qr
from compute.export.link import link_in_query, packed, unpacked
from compute.export.scene import Scene
from compute.votes import Vote, VoteQuestion, VoteRefused
from tests.app.features.audience.test_broadcast import Onlooker
from tests.app.features.audience.test_rooms import Fed

BASE = "http://192.168.1.20:5006/follow/"


@pytest.fixture
def rooms(monkeypatch):
    rooms = Rooms()
    monkeypatch.setattr(modes, "rooms", lambda: rooms)
    return rooms


class FakeBar:
    """Presenter mode, as far as viewers depend on it."""

    frozen, room = False, ""

    def watch_frozen(self, changed):
        self.changed = changed

    def freeze(self):
        self.frozen = not self.frozen
        self.changed(self.frozen)

    def release(self):
        """Another lab is shown."""
        if self.frozen:
            self.freeze()

    def show_room(self, words):
        self.room = words


class Stories:
    """The stories, as far as viewers depend on them."""

    open, story, number, step, vote = False, None, 0, None, None

    def go(self, number):
        self.number = number

    def turn_vote(self):
        self.vote.open = not self.vote.open

    def close_vote(self):
        if self.vote is not None:
            self.vote.close()


@pytest.fixture
def audience(rooms, monkeypatch):
    """Return the audience mode of an empty page; no event loop runs, so the feed sends nothing."""
    page = SimpleNamespace(document=Document(), current=None, visible=True, presenting=True)
    page.stories = Stories()
    page.bar = FakeBar()
    page.features = [page.stories, page.bar]
    audience = AudienceMode(page)
    audience.ready()
    monkeypatch.setattr(audience._feed, "wake", lambda: None)
    return audience


def test_it_is_off_until_a_room_is_asked_for(audience, rooms):
    audience.toggle()
    assert (audience.card.content, rooms.open_rooms) == ({"open": True, "code": ""}, 0)
    audience.receive({"do": "begin"})
    audience.receive({"do": "begin"})
    assert rooms.open_rooms == 1
    assert len(audience.code) == 6
    assert audience.card.content["followers"] == 0
    rooms.follow(audience.code, Onlooker())
    (tick,) = audience.page.document.session_callbacks
    tick.callback()
    assert audience.card.content["followers"] == 1
    assert audience.page.bar.room == f"{audience.code} · 1"
    audience.receive({"do": "end"})
    assert (audience.card.content["code"], audience.page.bar.room, rooms.open_rooms) == ("", "", 0)
    assert not audience.page.document.session_callbacks


def test_a_story_that_was_closed_is_not_led_on_by_the_lecturer_s_window(audience):
    """The window shows its buttons until it receives the new state, and a busy document runs the act later."""
    document, teller, gone = audience.page.document, audience.page.stories, []
    teller.go, teller.number = gone.append, 3
    for teller.open, wanted in ((True, [2, 4]), (False, [])):
        for name in ("next", "previous"):
            audience.acts()[name]()
        for callback in list(document.session_callbacks):
            callback.callback()
        assert sorted(gone) == wanted
        gone.clear()


def test_phones_vote_on_the_open_story_alone_and_the_end_of_the_room_deletes_their_tokens(audience):
    teller = audience.page.stories
    teller.vote = Vote(VoteQuestion("Why?", ("a", "<b>b</b>")), 3)
    for number in (3, 4):  # no story is open
        with pytest.raises(VoteRefused, match="over"):
            audience.vote(number, "token", 1)
    teller.open = True
    with pytest.raises(VoteRefused, match="over"):
        audience.vote(2, "token", 1)
    audience.begin()
    assert "counted" in audience.vote(3, "token", 2)
    assert audience.notes()["votes"] == [0, 1]
    audience.receive({"do": "end"})
    assert not teller.vote.open
    assert (teller.vote.tokens, teller.vote.counts) == (0, [0, 1])


def test_phones_vote_on_while_the_lecturer_s_page_is_disconnected(audience):
    vote = audience.page.stories.vote = Vote(VoteQuestion("Why?", ("a", "b")), 1)
    audience.page.stories.open = True
    audience.begin()
    code = audience.code
    audience.vote(1, "one", 1)
    audience.connected(False)
    assert "changed" in audience.vote(1, "one", 2)
    assert "counted" in audience.vote(1, "two", 1)
    audience.connected(True)
    assert (audience.code, vote.open, audience.notes()["votes"]) == (code, True, [1, 1])
    assert "changed" in audience.vote(1, "two", 2)
    assert audience.notes()["votes"] == [0, 2]


def test_the_lecturer_s_window_turns_the_vote_of_an_open_story(audience):
    teller = audience.page.stories
    teller.vote = Vote(VoteQuestion("Why?", ("a", "b")), 1)
    for teller.open, still in ((False, True), (True, False)):
        audience.acts()["vote"]()
        for callback in list(audience.page.document.session_callbacks):
            callback.callback()
        assert teller.vote.open is still
        audience.page.document._session_callbacks = set()


def test_the_link_is_the_page_s_own_address_and_localhost_has_no_qr_code(audience):
    audience.begin()
    audience.receive({"base": BASE})
    content = audience.card.content
    assert content["link"] == BASE + audience.code
    assert not content["local"]
    assert content["qr"] == qr(content["link"])
    for host in ("localhost", "127.0.0.1", "[::1]"):
        audience.receive({"base": f"http://{host}:5006/follow/"})
        assert audience.card.content["local"]
        assert "qr" not in audience.card.content
        assert audience.card.content["network"] == network_address()


@pytest.mark.parametrize(
    ("route", "said"), [("192.168.7.9", "192.168.7.9"), ("127.0.1.1", ""), ("0.0.0.0", ""), (OSError("no route"), "")]
)
def test_the_address_that_phones_need_is_that_of_this_computer(monkeypatch, route, said):
    probe = MagicMock()
    probe.__enter__.return_value = probe
    probe.getsockname.side_effect = [route if isinstance(route, OSError) else (route, 40_000)]
    monkeypatch.setattr(modes.socket, "socket", lambda *kind: probe)
    assert network_address() == said


@pytest.mark.parametrize("path", ["", "fieldlab/", "user/a%40b/proxy/5006/", "user/a@b.example/proxy/5006/"])
def test_rooms_lie_under_any_path_of_a_proxy(path):
    for host in ("lab.example", "192.168.1.7:5006", "[::1]:5006"):
        assert is_base(f"https://{host}/{path}follow/")


@pytest.mark.parametrize(
    "text", ["", "javascript:alert(1)//follow/", "http:///follow/", "http://a/b", "ftp://a/follow/", "http://[/follow/",
             "http://a/?x=/follow/", "http://a\n/follow/",
             "http://a/<img src=x onerror=f()>/follow/",
             'http://a/"x/follow/', "http://a/'x/follow/",
             "http://a/&lt;b/follow/", "http://<b>/follow/", "http://a:b/follow/", "http://a:70000/follow/",
             "http://user@a/follow/", "http://a//follow/", "HTTP://a/follow/",
             "http://" + "a" * 300 + "/follow/", 7, None]
)  # fmt: skip
def test_what_is_no_address_of_rooms_is_not_linked(audience, text):
    audience.begin()
    audience.receive({"base": text})
    assert "link" not in audience.card.content
    assert not isinstance(text, str) or not is_base(text)


def test_a_closed_page_takes_its_room_and_windows_along(audience, rooms):
    follower, window = Onlooker(), Onlooker()
    audience.begin()
    audience.receive({"do": "window"})
    assert audience.card.content["windows"] == 1
    token = audience.card.content["window"].removeprefix("lecturer/")
    rooms.follow(audience.code, follower)
    rooms.look_on(token, window)
    audience.ended()
    audience.ended()
    assert follower.dismissed
    assert window.dismissed
    assert rooms.open_rooms == 0


def test_a_room_too_many_is_reported_until_one_is_opened(audience, rooms):
    codes = [rooms.open(Fed()) for _ in range(MOST_ROOMS)]
    audience.begin()
    assert f"{MOST_ROOMS} rooms" in audience.card.content["problem"]
    rooms.end(codes[0])
    audience.begin()
    assert audience.card.content["code"] == audience.code != ""
    assert "problem" not in audience.card.content


def frame(number):
    return SimpleNamespace(rasters={"u": number})


def show(audience, frame, lab=object):
    """Let the page show a frame of a lab."""
    controls = SimpleNamespace(style=lambda part: None, dials=list, acts=list)
    session = SimpleNamespace(latest=frame, lab=lab)
    audience.page.current = SimpleNamespace(session=session, controls=controls, readout=None)


def test_frozen_pictures_stand_still_for_followers_too(audience):
    """The picture shown at the freeze, not the last one read by a viewer, which may belong to another lab."""
    diffusion, mandelbrot, later = frame("diffusion"), frame("mandelbrot"), frame("later")
    assert audience.picture() is None
    show(audience, diffusion)
    assert audience.picture().frame is diffusion
    show(audience, mandelbrot, lab=str)
    audience.page.bar.freeze()  # without any viewer
    show(audience, later, lab=str)
    picture = audience.picture()
    assert (picture.frame, picture.lab) == (mandelbrot, str)
    audience.page.bar.freeze()
    assert audience.picture().frame is later


def test_another_lab_s_picture_is_not_kept(audience):
    """A newly opened tab shows no picture at first, whether pictures are frozen or not."""
    show(audience, frame("diffusion"))
    audience.page.bar.freeze()
    assert audience.picture().frame.rasters == {"u": "diffusion"}
    show(audience, None, lab=str)
    audience.page.bar.release()
    assert audience.picture() is None
    audience.page.bar.freeze()
    assert audience.picture() is None
    first = frame("mandelbrot")
    show(audience, first, lab=str)
    assert audience.picture().frame is first
    show(audience, frame("later"), lab=str)
    assert audience.picture().frame is first


def test_a_page_without_stories_and_presenter_mode_has_an_audience(audience):
    audience.page.features = []
    show(audience, frame("diffusion"))
    assert audience.picture().frame.rasters == {"u": "diffusion"}
    audience.acts()["freeze"]()
    audience.acts()["next"]()
    audience.begin()
    assert audience.notes()["next"] is None
    assert audience.card.content["code"]


def test_metrics_name_rooms_and_followers(audience, rooms):
    audience.begin()
    rooms.follow(audience.code, Onlooker())
    found = {family.name: family.samples[0].value for family in modes.room_metrics()}
    assert found == {
        "fieldlab_rooms_open": 1, "fieldlab_followers": 1,
        "fieldlab_follower_frames_sent": 0, "fieldlab_follower_frames_dropped": 0,
    }  # fmt: skip


def test_html_of_ours_leaves_as_text():
    html = "<h3>It <i>never</i> fades</h3><p>Every&nbsp;step &lt;b&gt;\n turns</p><ul><li>a</li><li>b</li></ul>end"
    assert paragraphs(html) == [
        ["h", "It never fades"], ["p", "Every\N{NO-BREAK SPACE}step <b> turns"], ["li", "a"], ["li", "b"], ["p", "end"],
    ]  # fmt: skip
    assert line("<b>29×</b><span class='x'>as fast</span>") == "29× as fast"
    number = "<div class='headline'><b>2×<small> slower</small></b><span>Numba</span></div>"
    assert line(f"{number}<p class='reason'>too small</p>") == "2× slower Numba: too small"
    assert paragraphs("") == []


def test_followers_open_no_long_run_and_nothing_where_that_is_switched_off(audience):
    long = packed(Scene("diffusion", {"r": 0.1}, steps=68_017))
    short = packed(Scene("diffusion", {"r": 0.1}, steps=4))
    assert audience._try("") == ""
    assert audience._try(f"scene={short}&run=1") == f"scene={short}&run=1"
    for rest, plays in (("&run=1", True), ("", False)):
        text, runs = link_in_query(audience._try(f"scene={long}{rest}"))
        assert unpacked(text) == Scene("diffusion", {"r": 0.1})
        assert runs is plays
    audience.begin()
    assert audience.card.content["tries"] is True
    audience.receive({"tries": "no"})  # "no" is not a value that our page sends
    assert audience.tries
    audience.receive({"tries": False})
    assert audience.card.content["tries"] is False
    assert audience._try(f"scene={short}") == ""
