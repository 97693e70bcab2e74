"""A short fuzz of the served app: `make fuzz` sends 100 000 messages, this test a few hundred."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import panel as pn
import panel_material_ui as pmui
import pytest
from bokeh.core.serialization import Serializer

from app.labs.l_curve.problem_controls import titles
from app.load.server import Server
from tests.fuzz.campaign import GROWTH, Campaign, fuzzed_server, grown
from tests.fuzz.messages import Hostile, Known
from tests.fuzz.users import User, disagreement
from tests.fuzz.visitors import Guest

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve the app with the limits for public servers."""
    with fuzzed_server(tmp_path_factory.mktemp("fuzz") / "log") as found:
        yield found


def test_hostile_messages_harm_neither_the_server_nor_another_page(server: Server) -> None:
    found = asyncio.run(Campaign(server, seed=1).messages(300, batch=150, pages=2))
    assert found.sent.total() == 300
    assert found.closed > 10  # messages that no page sends close the connection
    assert found.refused > 10  # values that no model accepts are answered with an error
    assert found.restarts == 0


def test_widgets_session_engine_and_link_agree_after_any_sequence(server: Server) -> None:
    found = asyncio.run(Campaign(server, seed=1).sequences(16, batch=16))
    assert found.sent.total() == 16
    assert len(found.sent) == 4  # labs
    assert set(found.longest) == set(found.sent)  # the longest wait for agreement in each lab


@pytest.mark.parametrize("label", ["Maximum iterations", "Samples per pixel", "Maximum steps", "n  [samples]", "to"])
def test_expensive_controls_are_used_too(label: str) -> None:
    user = User(Guest("http://nowhere"), random.Random(1))
    assert user.change_of("IntSlider", {"label": label, "start": 1, "end": 9})
    assert user.change_of("TextInput", {"label": label})


def test_choices_in_groups_and_of_buttons_are_changed_too() -> None:
    """Uses the page's own widget classes: they accept a user's change."""
    pn.extension()
    problem = pmui.Select(label="Problem", groups=titles(), value="shaw")
    buttons = pmui.RadioButtonGroup(options={"one": 1, "two": 2}, value=1)
    for widget in (problem, buttons):
        user, chosen = User(Guest("http://nowhere"), random.Random(1)), set()
        whole = widget.get_root().data.properties_with_values()
        shown = {name: Serializer().encode(whole[name]) for name in ("options", "disabled_options") if name in whole}
        for _ in range(200):
            change = user.change_of(type(widget).__name__, shown)
            assert change is not None
            widget._process_events(dict([change]))
            chosen.add(widget.value)
        assert chosen == set(widget.values)


def test_the_same_seed_makes_the_same_messages() -> None:
    known = Known(models={"p1": ("Slider", ("value",)), "p2": ("Figure", ())}, browser="p1", sources=("p2",))
    once, again = (Hostile(random.Random(7), known) for _ in range(2))
    made = [once.message() for _ in range(200)]
    same = repr(made) == repr([again.message() for _ in range(200)])
    assert same  # pytest would compare half a megabyte of text for minutes
    assert {kind for kind, _ in made} == {maker.__name__ for _, maker in once.kinds}


GOOD = {
    "phase": "paused", "pending": {}, "running": False, "values": {"r": 0.2}, "applied": {"r": 0.2},
    "widgets": {"Controls.r": [0.2, 0.2, ["p1"]]}, "link": {"r": 0.2},
}  # fmt: skip


@pytest.mark.parametrize(
    "lie",
    [
        {"phase": "moving"}, {"pending": {"r": 0.1}}, {"running": True}, {"applied": {"r": 0.1}}, {"link": {"r": 0.1}},
        {"widgets": {"Controls.r": [0.1, 0.2, ["p1"]]}},
    ],
)  # fmt: skip
def test_a_disagreement_is_found(lie: dict[str, object]) -> None:
    assert disagreement(GOOD, whole=True) == ""
    assert disagreement(GOOD | lie, whole=True)


def test_growing_memory_of_closed_pages_is_found() -> None:
    first = 1_000_000
    most = int(GROWTH * first)
    assert grown([first]) == ""
    assert grown([first, most]) == ""
    assert grown([first, 2 * first, most]) == ""  # a temporary peak is no leak
    words = grown([first, first, most + 1])
    assert str(most + 1) in words
    assert str(first) in words
    page = 0.025 * first  # three pages left by a batch of ten are detected after it
    assert grown([first, int(first + 3 * page)])
