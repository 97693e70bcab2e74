"""A story's effect on the lab: values set by a step, restarts of the field, and the conditions a step waits for."""

from __future__ import annotations

from types import SimpleNamespace

import panel_material_ui as pmui
import pytest
from bokeh.document import Document

from app.features.stories.stories import StoryTeller
from app.tab.controls import accordion, column
from app.tab.publisher import Publisher
from app.tab.restore import Restorer
from compute.devices.backends import preferred
from compute.export.link import packed
from compute.export.scene import Scene
from compute.labs.diffusion import Diffusion
from compute.labs.mandelbrot import Mandelbrot
from compute.stories import VARIABLE

ASK = "ask: Which is faster? NumPy | <b>GPU</b>"
FIRST = Scene("diffusion", {"r": 0.125, "preset": "noise"})
CHANGED = Scene("diffusion", {"r": 0.2}, steps=40, history=({"step": 20, "set": {"r": 0.1}},))
STEPS = (
    f'{ASK}\n\n[state](?scene={packed(FIRST)} "r")',
    f'Two. [state](?scene={packed(Scene("diffusion", {"r": 0.25, "preset": "noise"}))}&run=1 "picture; go on")',
    f"Three. [state](?scene={packed(Scene('diffusion', {'r': 0.2, 'preset': 'noise', 'backend': 'cpu_numpy'}))})",
    f"Four. [state](?scene={packed(Scene('mandelbrot', {'zoom': '1e3'}))})",
    f"Five. [state](?scene={packed(Scene('diffusion', {}, steps=40))}&run=1)",
    f"Six. [state](?scene={packed(CHANGED)})",
)


class Tab:
    """A tab around a session that only records the requests."""

    def __init__(self, lab):
        self.asked: list[object] = []
        values = {name: lab.param[name].default for name in lab.param if name != "name"}
        values["backend"] = preferred(lab.backends()).name  # as a tab starts

        def change(**changed):
            values.update(changed)
            self.asked.append(changed)

        self.session = SimpleNamespace(
            lab=lab, values=values, phase="paused", change=change, value_changes=Publisher(),
            act=self.asked.append, play=self.asked.append, later=lambda call: call(),
        )  # fmt: skip
        self.drawn, self.awaits_scene, self.parts = True, True, SimpleNamespace(plays=True)
        self.notices = SimpleNamespace(clear=lambda: None)
        self.groups = accordion(
            {"Field": column(), "Physics": column(pmui.FloatSlider(label=Diffusion.param["r"].label))}, opened=(0,)
        )
        self.controls = SimpleNamespace(panel=column(self.groups))
        self.lab_view = SimpleNamespace(show_part=lambda view: None)
        self.restorer = Restorer(self, lambda kind, text, about="": None)
        self.restorer.restore = lambda scene, plays: self.asked.append(("restore", scene.steps, plays))

    def expect_no_scene(self):
        self.awaits_scene = False

    def take(self):
        """Return the requests since the last call."""
        asked = list(self.asked)
        self.asked.clear()
        return asked


class Page:
    """A page with two tabs."""

    def __init__(self):
        self.document = Document()
        self.tabs = {lab: Tab(lab) for lab in (Diffusion, Mandelbrot)}
        self.current = self.tabs[Diffusion]
        self.rooms = 0

    def show_soon(self, kind):
        self.current = self.tabs[kind]
        return self.current

    def use_column(self):
        self.rooms += 1


@pytest.fixture
def page():
    return Page()


@pytest.fixture
def teller(page, tmp_path, monkeypatch):
    """Return a teller at the first step of a story of six."""
    text = "---\ntitle: T\nminutes: 1\nlab: diffusion\n---\n" + "\n---\n".join(STEPS)
    (tmp_path / "mine.md").write_text(text)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    teller = StoryTeller(page)
    teller.toggle()
    assert [each["name"] for each in teller.card.content["stories"]][-1] == "mine"
    teller.open_story("mine")
    return teller


def test_the_first_step_sets_everything_and_begins_the_field(page, teller):
    paused, changed, *rest = page.current.take()
    assert paused is False  # before the reset: a running lab would continue from the new start
    assert changed == {"r": 0.125, "preset": "noise"}
    assert rest == ["reset", False]
    assert not page.current.awaits_scene
    assert teller.card.content["number"] == 1
    assert teller.card.content["label"] == Diffusion.param["r"].label


@pytest.mark.parametrize(("name", "title"), [(b"mine", "T"), (b"../mine", None), (b"\xff", None)])
def test_an_address_opens_the_story_that_it_names_and_otherwise_the_list(page, teller, name, title):
    request = SimpleNamespace(arguments={"story": [name]})
    page.document._session_context = lambda: SimpleNamespace(request=request)
    other = StoryTeller(page)
    other.ready()
    assert other.open
    assert (other.story and other.story.title) == title


def test_an_address_without_a_story_opens_none(page, teller):
    page.document._session_context = lambda: SimpleNamespace(request=SimpleNamespace(arguments={}))
    other = StoryTeller(page)
    other.ready()
    assert (other.open, other.story) == (False, None)


def test_the_group_of_what_a_step_points_at_is_opened(page, teller):
    assert page.current.groups.active == [0, 1]  # the second group was closed
    page.current.groups.active = [0]
    teller.go(1)  # points at the picture
    assert page.current.groups.active == [0]
    teller.go(0)
    assert page.current.groups.active == [0, 1]


def test_going_on_sets_what_the_story_names_alone_once_a_move_has_ended(page, teller):
    page.current.session.values["dtype"] = "float64"
    page.current.take()
    page.current.session.phase = "moving"
    teller.go(1)
    assert page.current.take() == []
    page.current.session.phase = "running"
    teller._tick()
    assert page.current.take() == [{"r": 0.25}, True]  # and the field continues
    assert page.current.session.values["dtype"] == "float64"
    assert teller.card.content["area"] == "picture"


def test_a_step_that_was_left_is_said_and_brought_back_whole(page, teller):
    page.current.session.values["dtype"] = "float64"
    teller._tick()
    assert not teller.card.content["away"]  # no link names this value
    page.current.session.values["r"] = 0.01
    teller._tick()
    assert teller.card.content["away"]
    page.current.take()
    teller.back()
    assert page.current.take() == [False, {"r": 0.125, "dtype": "float32"}, "reset", False]
    assert not teller.card.content["away"]


@pytest.mark.parametrize("way", ["left", "backwards"])
def test_who_left_a_step_or_goes_backwards_gets_the_next_one_whole(page, teller, way):
    teller.go(1)
    values = page.current.session.values
    values |= {"dtype": "float64"} | ({"r": 0.01} if way == "left" else {})
    teller._tick()
    page.current.take()
    teller.go(2 if way == "left" else 0)
    _, changed, *rest = page.current.take()
    assert changed["dtype"] == "float32"
    assert rest == ["reset", False]


def test_a_state_that_must_be_computed_is_the_restorers(page, teller):
    teller.go(4)
    assert page.current.take()[-1] == ("restore", 40, True)


def test_a_step_with_a_history_has_the_values_at_its_end(page, teller):
    teller.go(5)
    page.current.session.values |= {"r": 0.1, "preset": Diffusion.param["preset"].default}  # as the restorer sets them
    teller._tick()
    assert not teller.card.content["away"]
    page.current.session.values["r"] = 0.2
    teller._tick()
    assert teller.card.content["away"]


def test_another_lab_is_shown_once_this_one_is_drawn_and_its_step_once_that_is(page, teller):
    first, other = page.tabs[Diffusion], page.tabs[Mandelbrot]
    first.take()
    first.drawn = other.drawn = False
    teller.go(3)
    assert page.current is first
    first.drawn = True
    teller._tick()
    assert page.current is other
    teller._tick()
    assert other.take() == []
    other.drawn = True
    teller._tick()
    assert other.take() == [False, {"zoom": "1e3"}, "reset", True]  # a lab with an end runs, as in a new tab


def test_keys_lead_and_are_given_back(page, teller):
    for key in ("arrowright", "pagedown"):
        teller.keys[key]()
    assert teller.number == 2
    for key in ("arrowleft", "pageup", "pageup"):  # the last press is before the first step
        teller.keys[key]()
    assert teller.number == 0
    rooms = page.rooms
    teller.toggle()
    assert page.rooms == rooms + 1
    assert teller.card.content == {}
    assert list(teller.keys) == [teller.key]
    assert not page.document.session_callbacks
    page.current.take()
    teller._tick()
    assert page.current.take() == []
    teller.toggle()  # the same story is there again
    assert teller.card.content["number"] == 1
    assert "arrowright" in teller.keys


def test_a_step_s_vote_opens_with_it_and_closes_with_the_next_one(page, teller):
    asked = {"number": 1, "question": "Which is faster?", "choices": ["NumPy", "<b>GPU</b>"]}
    assert teller.card.vote == {**asked, "open": True, "total": 0, "hands": [0, 0]}
    vote = teller.vote
    vote.cast("a", 2)
    teller.card._handle_msg({"hands": [1, 5]})
    teller._tick()
    assert teller.card.vote == {**asked, "open": True, "total": 6, "hands": [5, 0]}  # without the distribution
    teller.go(1)
    assert not vote.open
    assert vote.tokens == 0
    assert (teller.vote, teller.card.vote) == (None, {})
    teller.go(0)
    assert teller.card.vote["counts"] == [5, 1]


def test_a_vote_is_closed_and_begun_again_by_a_key(page, teller):
    teller.vote.cast("a", 2)
    teller.keys["y"]()
    assert (teller.card.vote["open"], teller.card.vote["counts"]) == (False, [0, 1])
    teller.card._handle_msg({"do": "vote"})
    assert (teller.card.vote["open"], teller.card.vote["total"], teller.card.vote["number"]) == (True, 0, 2)
    teller.keys["y"]()
    assert teller.card.vote["counts"] == [0, 0]  # also without votes
    teller.go(1)
    teller.keys["y"]()  # this step asks nothing
    assert teller.card.vote == {}
    teller.go(0)
    assert teller.card.vote["open"]  # a vote without votes begins again


def test_a_hidden_or_closed_story_shows_no_vote(page, teller):
    vote = teller.vote
    teller.toggle()
    assert teller.card.vote == {}
    teller.toggle()
    assert teller.vote is vote
    assert vote.open
    teller.card._handle_msg({"do": "list"})
    assert (teller.card.vote, vote.open) == ({}, False)


def test_an_open_vote_outlasts_a_broken_connection_and_a_killed_engine(page, teller):
    vote, session = teller.vote, page.current.session
    vote.cast("a", 2)
    teller.connected(False)
    for phase in ("restarting", "starting", "paused"):
        session.phase = phase
        teller._tick()
        assert (teller.vote, vote.open, teller.card.vote["total"]) == (vote, True, 1)
    teller.connected(True)
    assert "changed" in vote.cast("a", 1)
    teller._tick()
    assert (teller.card.vote["total"], teller.card.content["away"]) == (1, False)
    teller.keys["y"]()
    assert teller.card.vote["counts"] == [1, 0]


@pytest.mark.parametrize("sent", [[1, -1], [1, 1001], [0, 1], [3, 1], [1, "2"], [1, 1.5], [1], "1", None])
def test_invalid_numbers_of_hands_change_nothing(page, teller, sent):
    teller.card._handle_msg({"hands": sent})
    assert teller.vote.counts == [0, 0]
    teller.keys["y"]()
    teller.card._handle_msg({"hands": [1, 5]})  # late
    assert teller.vote.counts == [0, 0]


@pytest.mark.parametrize("message", [{}, {"go": 5}, {"go": "1"}, {"open": 3}, {"open": "nothing"}, {"do": "harm"}])
def test_messages_that_mean_nothing_do_nothing(page, teller, message):
    page.current.take()
    teller.card._handle_msg(message)
    assert teller.number == 0
    assert page.current.take() == []
