"""The address follows the lab: written when the lab is at rest, with a history entry per act, within a link's size."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bokeh.document import Document
from PIL import Image

from app.page.address import CALM, PERIOD, LabAddress, asked_to_run, link_of
from compute.engine.messages import HistoryTold
from compute.export.link import LONGEST, RUN, link_in_query, unpacked
from compute.export.render import opened_at
from compute.export.scene import MOST_STEPS, Scene, Style
from compute.labs.diffusion import Diffusion
from compute.labs.mandelbrot import Mandelbrot


class Tab:
    """A tab around a lab in this process; `written` has the addresses. The engine answers when `answer` is called."""

    def __init__(self, lab: Any) -> None:
        self.lab, self.now = lab, 100.0
        self.questions = 0
        self.view: Any = None
        self.session = SimpleNamespace(
            lab=type(lab), values=lab.values(), view=None, latest=lab.frame(), phase="paused", playing=False,
            request_history=self.ask,
        )  # fmt: skip
        self.restorer = SimpleNamespace(busy=False)
        self.controls = SimpleNamespace(style=lambda part: Style("Inferno"), landmark=lambda: self.about)
        self.notices = SimpleNamespace(tell=lambda kind, words: self.told.append(words))
        self.about, self.told = "hot spots", []
        self.written: list[tuple[str, bool]] = []
        self.address = LabAddress(self, lambda *written: self.written.append(written), lambda: self.now)  # type: ignore[arg-type]

    def ask(self, number: int) -> None:
        self.questions = number

    def answer(self) -> None:
        self.address.on_event(HistoryTold(self.lab.HISTORY.origin(self.lab), self.questions))

    def look(self, seconds: float = CALM) -> None:
        """Deliver a frame if anything has changed; the page checks immediately and again after `seconds`."""
        if (self.lab.values(), self.lab.steps) != (self.session.values, self.session.latest.facts.get("step")):
            self.session.values, self.session.latest = self.lab.values(), self.lab.frame()
        self.address.tick()
        self.now += seconds
        self.address.tick()

    def settle(self) -> str:
        """Return the address of the present state."""
        self.now += PERIOD
        self.look()
        self.answer()
        return self.written[-1][0]


@pytest.fixture
def tab():
    return Tab(Diffusion(backend="cpu_numpy", ny=16, nx=16))


def test_what_the_address_holds_makes_the_same_field_again(tab):
    tab.lab.advance(3)
    tab.lab.paint([(4.0, 5.0)], 2.0, 3.0)
    tab.lab.update(r=0.1)
    tab.lab.advance(4)
    text, runs = link_in_query(f"?{tab.settle()}")
    assert not runs
    scene = unpacked(text)
    assert (scene.steps, scene.look) == (7, Style("Inferno"))
    with opened_at(scene) as again:
        np.testing.assert_array_equal(again.field(), tab.lab.field())


def test_the_engine_is_asked_once_a_change_and_only_when_it_has_come_to_rest(tab):
    tab.look(CALM / 2)
    assert tab.questions == 1  # the first one is requested immediately
    tab.answer()
    for _ in range(5):
        tab.lab.update(r=tab.lab.r - 0.01)
        tab.look(CALM / 10)
    assert tab.questions == 1
    tab.look()
    tab.look()
    assert tab.questions == 2
    tab.answer()
    for _ in range(3):
        tab.look(10 * PERIOD)
        tab.answer()
    assert (tab.questions, len(tab.written)) == (3, 2)  # one more request, as confirmation


def test_an_answer_of_before_the_last_change_is_put_right(tab):
    """Found by `make fuzz` on a busy machine: the link kept the value before the last one for minutes."""
    tab.lab.advance(3)
    tab.settle()
    before = tab.lab.HISTORY.origin(tab.lab)
    tab.lab.update(r=0.1)
    tab.lab.advance(1)
    tab.look(PERIOD)
    tab.address.on_event(HistoryTold(before, tab.questions))
    scene = unpacked(link_in_query(f"?{tab.settle()}")[0])
    with opened_at(scene) as again:
        np.testing.assert_array_equal(again.field(), tab.lab.field())


def test_of_a_lab_that_runs_it_is_written_now_and_then(tab):
    tab.session.playing, tab.session.phase = True, "running"
    for _ in range(41):
        tab.lab.advance(1)
        tab.look(PERIOD / 8)
        tab.answer()
    assert tab.questions == pytest.approx(6, abs=1)
    assert all(link_in_query(query)[1] for query, _ in tab.written)


def test_an_answer_that_does_not_come_is_asked_for_again(tab):
    tab.look()
    tab.look(PERIOD)
    assert tab.questions == 2


def test_an_answer_that_comes_late_is_not_taken_for_a_newer_one(tab):
    tab.look()
    late = HistoryTold(tab.lab.HISTORY.origin(tab.lab), tab.questions)
    tab.lab.advance(5)
    tab.look(PERIOD)
    assert tab.questions == 2
    tab.address.on_event(late)
    assert tab.written == []
    tab.answer()
    assert unpacked(link_in_query(f"?{tab.written[-1][0]}")[0]).steps == 5


def test_a_change_that_is_taken_back_while_the_engine_is_asked_leaves_no_link_to_it(tab):
    """Found by `make fuzz`: the address kept reverted values until the next change."""
    tab.settle()
    tab.lab.update(edges="periodic")
    tab.look(PERIOD)
    chosen = tab.session.values
    tab.session.values = chosen | {"edges": "zero-dirichlet"}  # reverted before the answer arrives, and then set again
    tab.answer()
    tab.session.values = chosen
    assert unpacked(link_in_query(f"?{tab.settle()}")[0]).values["edges"] == "periodic"


def test_an_act_has_an_entry_of_its_own_and_a_slider_has_none(tab):
    tab.settle()
    tab.lab.update(r=0.1)
    tab.settle()
    tab.lab.update(preset="ring")
    tab.about = "ring"
    tab.settle()
    assert [push for _, push in tab.written] == [False, False, True]


def test_a_lab_that_is_chosen_has_an_entry_and_one_that_an_address_led_to_has_none(tab):
    tab.address.enter(push=True)
    tab.settle()
    tab.address.enter(push=False)  # it is written regardless of the address bar
    first, *others = tab.written
    assert (first[1], others) == (True, [(first[0], False)])


def test_nothing_is_written_on_the_way_to_a_scene_and_what_it_brings_is_no_act(tab):
    tab.settle()
    tab.restorer.busy = True
    tab.about = "ring"
    tab.lab.update(preset="ring")
    tab.look(PERIOD)
    tab.answer()
    assert (tab.questions, len(tab.written)) == (1, 1)
    tab.restorer.busy = False
    tab.settle()
    assert [push for _, push in tab.written] == [False, False]


def test_a_lab_whose_values_are_its_state_needs_no_engine():
    tab = Tab(Mandelbrot(backend="cpu_numpy", ny=8, nx=8, zoom="3e1"))
    tab.look()
    assert tab.questions == 0
    assert unpacked(link_in_query(tab.written[-1][0])[0]).values["zoom"] == "3e1"


def test_the_origin_of_a_lab_says_what_its_snapshot_says_and_holds_no_array(tab):
    tab.lab.paint([(4.0, 5.0)], 2.0, 3.0)
    tab.lab.advance(4)
    origin, values = tab.lab.HISTORY.origin(tab.lab), tab.lab.values()
    assert Diffusion.HISTORY.of(Diffusion, values, origin) == Diffusion.HISTORY.of(
        Diffusion, values, tab.lab.snapshot()
    )
    assert set(origin) == {"steps", "history"}


def test_an_image_that_is_too_large_for_a_link_is_said_once_and_the_link_leads_to_the_beginning(tab):
    file = io.BytesIO()
    noise = np.random.default_rng(1).integers(0, 255, (200, 200), np.uint8)
    Image.fromarray(noise).save(file, "PNG")
    large = Tab(Diffusion(backend="cpu_numpy", ny=200, nx=200))
    large.lab.load_image(file.getvalue())
    scene = unpacked(link_in_query(large.settle())[0])
    assert (scene.history, scene.values["ny"]) == ((), 200)
    assert scene.missing
    (words,) = large.told
    assert str(LONGEST) in words
    large.lab.advance(1)
    large.settle()
    assert len(large.told) == 1
    tab.settle()
    assert not tab.told


@pytest.mark.parametrize("view", [(1e308, 0.0, 512.0, 512.0), (float("nan"), 0.0, 1.0, 1.0), (5.0, 5.0, 4.0, 4.0)])
def test_a_view_that_no_scene_has_is_said_once_and_the_link_leads_to_the_whole(tab, view):
    """Found by a fuzz of messages: a browser can report any range of its axes."""
    tab.session.view = view
    tab.lab.advance(3)
    scene = unpacked(link_in_query(tab.settle())[0])
    assert (scene.steps, scene.view) == (3, None)
    assert "view must be" in scene.missing
    (words,) = tab.told
    assert str(view) in words
    tab.lab.advance(1)
    tab.settle()
    assert len(tab.told) == 1


def test_more_steps_than_a_scene_has_are_said_and_the_link_leads_to_the_beginning(tab):
    tab.look()
    tab.address.on_event(HistoryTold(dict(tab.lab.HISTORY.origin(tab.lab), steps=MOST_STEPS + 1), tab.questions))
    scene = unpacked(link_in_query(tab.written[-1][0])[0])
    assert (scene.steps, scene.lab) == (0, "diffusion")
    assert str(MOST_STEPS + 1) in tab.told[0]


def test_a_history_that_no_link_can_hold_is_not_even_packed():
    stroke = {"step": 0, "do": "paint", "with": {"points": [[1.5, 2.5]] * 900, "value": 1.0, "radius": 3.0}}
    text, missing = link_of(Scene("diffusion", {"ny": 64}, steps=0, history=(stroke,) * 20))
    assert "too long" in missing
    assert unpacked(text).values == {"ny": 64}


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("?scene=1.abc&run=1", ("1.abc", True)),
        ("scene=1.abc&run=0", ("1.abc", False)),
        ("", ("", False)),
        ("?other=3", ("", False)),
        ("?run=1", ("", True)),
        ("&" * 5000, ("", False)),
        ("?scene=%ff%00<b>", ("\N{REPLACEMENT CHARACTER}\0<b>", False)),
    ],
)
def test_what_an_address_asks_for(query, asked):
    assert link_in_query(query) == asked


def test_an_address_of_any_length_is_cut_before_it_is_read():
    text, _ = link_in_query("?scene=" + "a" * 10**6)
    assert len(text) < LONGEST + 200


def test_the_page_s_own_address_says_whether_to_run():
    for arguments, runs in (({RUN: [b"1"]}, True), ({RUN: [b"yes"]}, False), ({}, False)):
        document, context = Document(), SimpleNamespace(request=SimpleNamespace(arguments=arguments))
        document._session_context = lambda context=context: context
        assert asked_to_run(document) is runs
    assert asked_to_run(Document()) is False
