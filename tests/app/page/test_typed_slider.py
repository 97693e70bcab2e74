"""Fields of sliders: typed numbers, lists with an added value, and refusals that leave the value."""

from __future__ import annotations

from math import inf
from typing import Any

import panel_material_ui as pmui
import pytest

from app.labs.diffusion.controls import DiffusionControls, r_words
from app.labs.diffusion.view import DiffusionView
from app.page.typed_slider import TypedList, TypedSlider, read_number
from app.page.widgets import LimitFields, NumberField, range_words
from app.tab.controls import Transport
from compute.labs.diffusion import Diffusion
from tests.direct import DirectSession


def enter(field: NumberField | Any, text: str) -> None:
    """Set the field as the browser does when Enter is pressed."""
    (field.panel if isinstance(field, NumberField) else field).value = text


@pytest.fixture
def tab():
    session: Any = DirectSession(Diffusion(backend="cpu_numpy", ny=16, nx=16))
    controls = DiffusionControls(session, DiffusionView(session, (1200, 800)), None)  # type: ignore[arg-type]
    session.value_changes.subscribe(controls.show_values)
    yield controls
    session.live.close()


def field_of(slider: Any, panel: Any) -> Any:
    """Return the field in the corner of a slider of this panel."""
    return next(row[1] for row in panel.select() if getattr(row, "objects", [None])[0] is slider)


def test_a_field_shows_all_digits_of_a_value_between_two_positions():
    slider = pmui.FloatSlider(label="r", value=0.2, start=0.0, end=0.25, step=0.005)
    typed = TypedSlider(slider)
    assert (typed.field.panel.value, slider.show_value) == ("0.2", False)
    slider.value = 0.1 + 0.2 - 0.1  # 0.20000000000000004
    assert typed.field.panel.value == "0.2"
    enter(typed.field, "0.2437001")
    assert (slider.value, typed.field.panel.value) == (0.2437001, "0.2437001")
    enter(typed.field, "2.5e-3")
    assert slider.value == 0.0025


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0.26", "r must be from 0 to 0.25, not 0.26"),
        ("-0.1", "from 0 to 0.25, not -0.1"),
        ("nan", "from 0 to 0.25"),
        ("inf", "from 0 to 0.25"),
        ("0,2", "r must be a number from 0 to 0.25, with a point before its decimals, not '0,2'"),
        ("", "r must be a number from 0 to 0.25, not ''"),
    ],
)
def test_a_refused_text_gets_an_error_with_the_bounds_and_the_value_stays(text, why):
    slider = pmui.FloatSlider(label="r", value=0.2, start=0.0, end=0.25, step=0.005)
    typed = TypedSlider(slider)
    enter(typed.field, text)
    assert typed.field.panel.error_state
    assert why in typed.field.panel.helper_text
    assert (slider.value, slider.end, typed.field.panel.value) == (0.2, 0.25, text)
    slider.value = 0.15
    assert (typed.field.panel.error_state, typed.field.panel.value) == (False, "0.15")


def test_whole_numbers_and_disabled_sliders():
    slider = pmui.IntSlider(label="p", value=3, start=0, end=64)
    typed = TypedSlider(slider)
    enter(typed.field, "2.5")
    assert "whole number" in typed.field.panel.helper_text
    enter(typed.field, "12")
    assert (slider.value, type(slider.value)) == (12, int)
    slider.disabled = True
    assert typed.field.panel.disabled


@pytest.mark.parametrize("value", [1234567, 100_000_000, 123_456_789, 2**31 - 1])
def test_whole_numbers_are_shown_with_all_digits(value):
    """As a field that opens with a value, for instance of a link, shows the number that the lab has."""
    taken: list[object] = []
    field = NumberField("Pause at step", value, taken.append, whole=True)
    assert float(field.panel.value) == value
    enter(field, "1")
    enter(field, str(value))
    assert taken == [1, value]


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        ((1, 100), "n must be a whole number from 1 to 100, not '1e'"),
        ((1, None), "n must be a whole number of at least 1, not '1e'"),
        (None, "n must be a whole number, not '1e'"),
    ],
)
def test_the_error_of_a_text_names_the_accepted_numbers(bounds, why):
    field = NumberField("n", 5, lambda value: None, whole=True, accepted=lambda: range_words(bounds))
    enter(field, "1e")
    assert (field.panel.error_state, field.panel.helper_text) == (True, why)


def test_limits_in_the_wrong_order_get_an_error_until_one_is_corrected():
    taken: list[tuple[float, float]] = []
    limits = LimitFields(("Field from", "Field to"), lambda *ends: taken.append(ends))
    low, high = limits.fields
    limits.show(0.25, 0.2500001)
    assert [field.panel.value for field in limits.fields] == ["0.25", "0.2500001"]
    enter(low, "5")
    assert low.panel.helper_text == "Field from must be below 0.2500001, not 5"
    enter(high, "nan")
    assert high.panel.helper_text == "Field to must be a finite number, not nan"
    assert taken == []
    enter(high, "6")
    assert taken == [(5.0, 6.0)]
    assert not any(field.panel.error_state for field in limits.fields)
    enter(high, "5")
    assert high.panel.helper_text == "Field to must be above 5, not 5"


def test_a_half_typed_text_survives_a_value_that_arrives():
    slider = pmui.FloatSlider(label="r", value=0.2, start=0.0, end=1.0)
    typed = TypedSlider(slider)
    typed.field.panel.param.update(value_input="0.")  # as each key press sends it
    slider.value = 0.3
    assert (typed.field.panel.value, typed.field.panel.value_input) == ("0.2", "0.")


def test_a_typed_value_joins_the_list_in_its_place_and_leaves_with_the_next_one():
    slider = pmui.DiscreteSlider(label="Steps", options={"1": 1, "5": 5, "maximum": 0}, value=5)
    typed = TypedList(slider, lambda steps: steps or inf, int, str)
    enter(typed.field, "3")
    assert (slider.value, list(slider.options)) == (3, ["1", "3", "5", "maximum"])
    slider.value = 1
    assert typed.field.value == "1"
    enter(typed.field, "9")
    assert (slider.value, list(slider.options)) == (9, ["1", "5", "9", "maximum"])
    enter(typed.field, "maximum")
    assert (slider.value, typed.field.error_state) == (0, False)
    enter(typed.field, "many")
    assert (slider.value, typed.field.error_state) == (0, True)
    typed.show(5)
    assert (slider.value, typed.field.value, typed.field.error_state) == (5, "5", False)


def test_numbers_of_a_list_have_bounds():
    assert read_number("noise", "\N{MINUS SIGN}0", (0, 10)) == 0
    with pytest.raises(ValueError, match="noise must be from 0 to 10, not 11"):
        read_number("noise", "11", (0, 10))
    with pytest.raises(ValueError, match="noise must be a number from 0 to 10, not 'x'"):
        read_number("noise", "x", (0, 10))


# -- diffusion


def test_a_typed_r_reaches_the_lab_and_the_limit_says_how_to_pass_it(tab):
    field, lab = field_of(tab.r, tab.panel), tab.session.live
    enter(field, "0.2437")
    assert lab.r == 0.2437
    enter(field, "0.26")
    assert lab.r == 0.2437
    assert field.helper_text == "r must be from 0 to 0.25, not 0.26; up to 0.5 with “See it blow up”"
    tab.unstable.value = True
    enter(field, "0.45")  # beyond the end of the slider
    assert (lab.r, tab.r.end, field.error_state) == (0.45, 0.45, False)
    enter(field, "0.51")
    assert "from 0 to 0.5, not 0.51" in field.helper_text
    assert lab.r == 0.45


def test_every_slider_of_the_diffusion_lab_has_a_field(tab):
    sliders = [each for each in tab.panel.select() if isinstance(each, pmui.IntSlider | pmui.FloatSlider)]
    assert len(sliders) == 6  # r, p, q, steps per frame, value and radius of the brush
    for slider in sliders:
        assert field_of(slider, tab.panel).label


@pytest.mark.parametrize(("text", "steps"), [("7", 7), ("1000000000", 10**9), ("maximum", None)])
def test_typed_steps_per_frame(text, steps):
    with_lab: Any = DirectSession(Diffusion(backend="cpu_numpy", ny=8, nx=8))
    paces: list[int | None] = []
    with_lab.pace = paces.append
    transport = Transport(with_lab)
    enter(field_of(transport.speed, transport.panel), text)
    assert paces == [steps]
    for wrong in ("0", "-3", "1.5", "1000000001", "9" * 5000, "٣x"):
        enter(field_of(transport.speed, transport.panel), wrong)
        error = field_of(transport.speed, transport.panel).helper_text
        assert "'maximum' or a whole number from 1 to 1000000000" in error
    assert paces == [steps]
    with_lab.live.close()


def test_the_speed_of_an_address_is_the_one_of_the_field(tab):
    paces: list[int | None] = []
    tab.session.pace = paces.append
    assert tab.pace == ""
    for text, steps in (("7", 7), ("maximum", None)):
        tab.apply_pace(text)
        assert (tab.pace, paces.pop()) == (text, steps)
    with pytest.raises(ValueError, match="'maximum' or a whole number from 1 to 1000000000, not '-1'"):
        tab.apply_pace("-1")
    assert (tab.pace, paces) == ("maximum", [])


def test_r_is_shown_with_three_decimals_or_all_its_digits():
    assert [r_words(r) for r in (0.2, 0.245, 0.2437, 0.24999)] == ["0.200", "0.245", "0.2437", "0.24999"]
