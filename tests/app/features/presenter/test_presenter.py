"""The bar at the bottom mirrors its tab and sends its keys; a window gets the mode that fits."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from app.features.presenter.presenter import MINIMAL, NARROW, PRESENTING, STATEMENT, PresenterBar, bar_mode
from app.page.address import FULL
from app.page.explain import explained
from app.tab.controls import Dial


class Lab:
    """A tab with one value `r`, for which the bar has a slider."""

    def __init__(self, readout: object) -> None:
        self.r, self.readout = 0.2, readout
        self.controls = self

    def acts(self):
        """Return one button."""
        return [(" ", "Run", "Run or pause")]

    def dials(self):
        """Return one slider."""
        return [Dial("r", 0.0, 0.25, 0.005, lambda: self.r, self.turn, lambda: f"{self.r:.3f}")]

    def turn(self, place):
        """Set the slider's value."""
        self.r = place


def bar_of(readout: object) -> tuple[PresenterBar, Lab, list[object]]:
    """Return a visible bar, its lab, and the list of keys and of heights that it reports."""
    reported: list[object] = []
    bar, lab = PresenterBar(reported.append, lambda: reported.append(bar.height_px)), Lab(readout)
    bar.show(PRESENTING)
    bar.follow(lab)
    reported.clear()
    return bar, lab, reported


def test_it_shows_the_lab_s_buttons_slider_headline_and_sentence():
    bar, _, _ = bar_of(SimpleNamespace(headline="<b>29×</b>", sentence="<p>This computer</p>"))
    assert bar.acts == [[" ", "Run", "Run or pause"]]
    assert bar.dials == [{"label": "r", "low": 0.0, "high": 0.25, "step": 0.005}]
    assert bar.place == [0.2, "0.200"]
    assert (bar.headline, bar.sentence) == ("<b>29×</b>", "<p>This computer</p>")


def test_the_bar_s_words_explain_themselves_once():
    words = "<b>Measuring</b>", "<p>Measuring; recorded: 12 Gcell/s</p>"
    bar, _, _ = bar_of(SimpleNamespace(headline=words[0], sentence=words[1]))
    assert bar.headline == explained(words[0])
    assert "data-term='Measuring'" not in bar.sentence
    assert all(f"data-term='{word}'" in bar.sentence for word in ("recorded", "Gcell/s"))


def test_a_lab_from_outside_whose_column_has_no_headline_has_a_bar_all_the_same():
    bar, _, _ = bar_of(object())
    assert (bar.headline, len(bar.acts)) == ("", 1)


def test_a_button_does_what_its_key_does_and_the_slider_sets_the_value():
    bar, lab, pressed = bar_of(object())
    for message in ({"key": " "}, {"dial": 0, "place": 0.1}, {"height": 104}):
        bar._handle_msg(message)
    assert pressed == [" ", 104]  # the page is arranged once the height is known
    assert lab.r == 0.1
    assert bar.place == [0.1, "0.100"]


@pytest.mark.parametrize(
    "message",
    [
        {"dial": 0, "place": 0.3},  # beyond the end of its range
        {"dial": 0, "place": float("nan")}, {"dial": 0, "place": "0.1"}, {"dial": 7, "place": 0.1},
        {"dial": -1, "place": 0.1}, {"dial": [0], "place": 0.1}, {"choose": 3}, {"choose": "0"}, {"height": -1},
        {"height": 1e9}, "key", None,
    ],
)  # fmt: skip
def test_what_no_bar_sends_changes_nothing(message):
    bar, lab, pressed = bar_of(object())
    bar._handle_msg(message)
    assert (lab.r, bar.dial, bar.height_px, pressed) == (0.2, 0, 0, [])


def test_leaving_takes_away_what_lay_over_the_pictures():
    bar, _, _ = bar_of(object())
    for key in "zvd.":
        bar.tool_keys[key]()
    assert (bar.frozen, bar.spotlight, bar.pen, bar.hidden) == (True, True, True, True)
    bar.show(NARROW)
    assert (bar.frozen, bar.spotlight, bar.pen, bar.hidden) == (False, False, False, False)


@pytest.mark.parametrize(
    ("width", "level", "readout_open", "mode"),
    [
        (899, FULL, False, NARROW), (900, FULL, False, STATEMENT), (1180, FULL, True, ""),
        (1180, FULL, False, STATEMENT), (1280, "minimal", False, MINIMAL), (1280, "none", False, ""),
    ],
)  # fmt: skip
def test_what_is_said_first_stays_where_the_readout_is_closed(width, level, readout_open, mode):
    assert bar_mode(width, level, readout_open) == mode
