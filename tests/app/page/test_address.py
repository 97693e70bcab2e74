"""The address follows the lab: written when the lab is at rest, with a history entry per act, within a link's size."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bokeh.document import Document
from PIL import Image

from app.page.address import CALM, LEVELS, PERIOD, LabAddress, asked_level, asked_to_run, link_of
from compute.engine.messages import HistoryTold
from compute.export.link import DISPLAY, LONGEST, MOST_QUERY, PACE, RUN, link_in_query, text_in_query, unpacked
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
        self.controls = SimpleNamespace(
            style=lambda part: Style("Inferno"), landmark=lambda: self.about, pace="", display_text=""
        )
        self.notices = SimpleNamespace(tell=lambda kind, words: self.told.append(words))
        self.about, self.told = "hot spots", []
        self.written: list[tuple[str, bool]] = []
        self.address = LabAddress(self, lambda *written: self.written.append(written), lambda: self.now)  # type: ignore[arg-type]

    def ask(self, number: int) -> None:
        self.questions = number

    def origin(self) -> dict[str, Any]:
        """Return the engine's answer to a request for the history of the lab."""
        return self.lab.HISTORY.origin(self.lab)

    def answer(self, **changes: Any) -> None:
        self.address.on_event(HistoryTold({**self.origin(), **changes}, self.questions))

    def look(self, seconds: float = CALM) -> None:
        """Deliver a frame if anything has changed; the page checks immediately and again after `seconds`."""
        if (self.lab.values(), self.lab.steps) != (self.session.values, self.session.latest.facts.get("step")):
            self.session.values, self.session.latest = self.lab.values(), self.lab.frame()
        self.address.tick()
        self.now += seconds
        self.address.tick()

    def settle(self) -> Scene:
        """Return the scene in the address of the present state."""
        self.now += PERIOD
        self.look()
        self.answer()
        return self.scene

    @property
    def scene(self) -> Scene:
        """The scene in the latest address."""
        return unpacked(link_in_query(f"?{self.written[-1][0]}")[0])

    @property
    def entries(self) -> list[bool]:
        """Whether each address is an entry of its own in the browser's history."""
        return [push for _, push in self.written]


@pytest.fixture
def tab():
    return Tab(Diffusion(backend="cpu_numpy", ny=16, nx=16))


@pytest.mark.parametrize("late", [False, True], ids=["", "after an answer of before the last change"])
def test_the_address_reproduces_the_field(tab, late):
    tab.lab.advance(3)
    tab.lab.paint([(4.0, 5.0)], 2.0, 3.0)
    tab.settle()
    before = tab.origin()
    tab.lab.update(r=0.1)
    tab.lab.advance(4)
    if late:
        tab.look(PERIOD)
        tab.address.on_event(HistoryTold(before, tab.questions))
    scene = tab.settle()
    assert (scene.steps, scene.look) == (7, Style("Inferno"))
    assert not link_in_query(tab.written[-1][0])[1]
    with opened_at(scene) as again:
        np.testing.assert_array_equal(again.field(), tab.lab.field())


@pytest.mark.parametrize(
    ("attribute", "name", "text"),
    [
        *(("pace", PACE, text) for text in ("7", "0.5 steps/s", "1&run=1")),
        *(("display_text", DISPLAY, text) for text in ('{"alpha":true}', '{"a":"&run=1#λ"}')),
    ],
)
def test_the_address_has_a_speed_and_display_settings_that_were_chosen(tab, attribute, name, text):
    tab.settle()
    setattr(tab.controls, attribute, text)
    tab.settle()
    query, push = tab.written[-1]
    assert (text_in_query(f"?{query}", name), link_in_query(query)[1], push) == (text, False, False)
    setattr(tab.controls, attribute, "")
    tab.settle()
    assert text_in_query(tab.written[-1][0], name) == ""
    assert name not in tab.written[-1][0]


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


def test_the_address_of_a_running_lab_is_written_now_and_then(tab):
    tab.session.playing, tab.session.phase = True, "running"
    for _ in range(41):
        tab.lab.advance(1)
        tab.look(PERIOD / 8)
        tab.answer()
    assert tab.questions == pytest.approx(6, abs=1)
    assert all(link_in_query(query)[1] for query, _ in tab.written)


def test_a_missing_answer_is_requested_again_and_ignored_when_it_comes_late(tab):
    tab.look()
    late = HistoryTold(tab.origin(), tab.questions)
    tab.lab.advance(5)
    tab.look(PERIOD)
    assert tab.questions == 2
    tab.address.on_event(late)
    assert tab.written == []
    tab.answer()
    assert tab.scene.steps == 5


def test_a_change_that_is_taken_back_while_the_engine_is_asked_leaves_no_link_to_it(tab):
    """Found by `make fuzz`: the address kept reverted values until the next change."""
    tab.settle()
    tab.lab.update(edges="periodic")
    tab.look(PERIOD)
    chosen = tab.session.values
    tab.session.values = chosen | {"edges": "zero-dirichlet"}  # reverted before the answer arrives, and then set again
    tab.answer()
    tab.session.values = chosen
    assert tab.settle().values["edges"] == "periodic"


def test_only_an_act_of_the_user_has_an_entry_of_its_own(tab):
    tab.settle()
    tab.lab.update(r=0.1)
    tab.settle()
    tab.lab.update(preset="ring")
    tab.about = "ring"
    tab.settle()
    assert tab.entries == [False, False, True]
    tab.restorer.busy = True  # a scene is restored
    asked = tab.questions
    tab.about = "step"
    tab.lab.update(preset="step")
    tab.look(PERIOD)
    tab.answer()
    assert (tab.questions, len(tab.written)) == (asked, 3)
    tab.restorer.busy = False
    tab.settle()
    assert tab.entries[3:] == [False]


def test_a_chosen_lab_has_an_entry_and_one_that_an_address_led_to_has_none(tab):
    tab.address.enter(push=True)
    tab.settle()
    tab.address.enter(push=False)  # it is written regardless of the address bar
    first, second = tab.written
    assert first == (second[0], True)
    assert tab.entries == [True, False]


def test_a_lab_whose_values_are_its_state_needs_no_engine():
    tab = Tab(Mandelbrot(backend="cpu_numpy", ny=8, nx=8, zoom="3e1"))
    tab.look()
    assert tab.questions == 0
    assert tab.scene.values["zoom"] == "3e1"


# -- states that no link can hold


def assert_reported_once(tab: Tab, words: str) -> None:
    """Assert that one notice with these words was shown, and that a further state adds none."""
    assert len(tab.told) == 1
    assert words in tab.told[0]
    tab.lab.advance(1)
    tab.settle()
    assert len(tab.told) == 1


def test_the_link_of_a_large_image_leads_to_the_beginning():
    tab, file = Tab(Diffusion(backend="cpu_numpy", ny=200, nx=200)), io.BytesIO()
    noise = np.random.default_rng(1).integers(0, 255, (200, 200), np.uint8)
    Image.fromarray(noise).save(file, "PNG")
    tab.lab.load_image(file.getvalue())
    scene = tab.settle()
    assert (scene.history, scene.values["ny"]) == ((), 200)
    assert scene.missing
    assert_reported_once(tab, str(LONGEST))


@pytest.mark.parametrize("view", [(1e308, 0.0, 512.0, 512.0), (float("nan"), 0.0, 1.0, 1.0), (5.0, 5.0, 4.0, 4.0)])
def test_the_link_of_an_invalid_view_leads_to_the_whole(tab, view):
    """A browser can report any range of its axes."""
    tab.session.view = view
    tab.lab.advance(3)
    scene = tab.settle()
    assert (scene.steps, scene.view) == (3, None)
    assert "view must be" in scene.missing
    assert_reported_once(tab, str(view))


def test_the_link_of_too_many_steps_leads_to_the_beginning(tab):
    tab.look()
    tab.answer(steps=MOST_STEPS + 1)
    assert (tab.scene.steps, tab.scene.lab) == (0, "diffusion")
    assert_reported_once(tab, str(MOST_STEPS + 1))


def test_a_history_that_no_link_can_hold_is_left_out():
    stroke = {"step": 0, "do": "paint", "with": {"points": [[1.5, 2.5]] * 900, "value": 1.0, "radius": 3.0}}
    text, missing = link_of(Scene("diffusion", {"ny": 64}, steps=0, history=(stroke,) * 20))
    assert "too long" in missing
    assert unpacked(text).values == {"ny": 64}


# -- the address of a page


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("?scene=1.abc&run=1", ("1.abc", True)),
        ("scene=1.abc&run=0", ("1.abc", False)),
        ("?other=3", ("", False)),
        ("?run=1", ("", True)),
        ("&" * 5000, ("", False)),
        ("?scene=%ff%00<b>", ("\N{REPLACEMENT CHARACTER}\0<b>", False)),
    ],
)
def test_a_query_has_a_link_and_a_request_to_run(query, asked):
    assert link_in_query(query) == asked


def test_a_long_query_is_cut_before_it_is_read():
    text, _ = link_in_query("?scene=" + "a" * 10**6)
    assert len(text) < MOST_QUERY


def document(**arguments: list[bytes]) -> Document:
    """Return a document of a page requested with these arguments in its address."""
    made = Document()
    made._session_context = lambda: SimpleNamespace(request=SimpleNamespace(arguments=arguments))
    return made


def test_the_address_of_a_page_requests_whether_it_runs_and_how_much_it_shows():
    assert asked_to_run(document(**{RUN: [b"1"]}))
    assert not any(asked_to_run(each) for each in (document(**{RUN: [b"yes"]}), document(), Document()))
    assert [asked_level(document(ui=[level.encode()])) for level in LEVELS] == list(LEVELS)
    assert asked_level(document()) == asked_level(Document()) == "full"


@pytest.mark.parametrize("text", [b"", b"Minimal", b"\xff", b"none,minimal", b"x" * 5000])
def test_an_unknown_level_is_refused_with_the_known_ones(text):
    with pytest.raises(ValueError, match=r"ui must be one of none, minimal, full, not ") as caught:
        asked_level(document(ui=[text]))
    assert len(str(caught.value)) < 120
