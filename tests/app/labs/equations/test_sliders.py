"""Sliders of typed parameters."""

from __future__ import annotations

import pytest

from app.labs.equations.sliders import ParameterSliders, step_of, values_after
from compute.labs.equations.language import read
from compute.labs.equations.presets import presets
from compute.labs.equations.tree import Parameter

GRAY_SCOTT = presets()["gray_scott"].text


class Panel:
    """Sliders and the values that they reported."""

    def __init__(self, text):
        self.turned = []
        self.sliders = ParameterSliders(lambda name, value: self.turned.append((name, value)))
        self.show(text)

    def show(self, text, **values):
        self.sliders.show(read(text), values)

    def __getitem__(self, name):
        return self.sliders.sliders[name]


def test_each_parameter_has_a_slider_with_name_and_range():
    panel = Panel(GRAY_SCOTT)
    assert list(panel.sliders.sliders) == ["F", "k", "Du", "Dv"]
    assert [row[0] for row in panel.sliders.panel] == [panel[name] for name in ("F", "k", "Du", "Dv")]
    k = panel["k"]
    assert (k.value, k.start, k.end) == (0.06, 0.04, 0.07)
    assert all(part in k.label for part in ("k", "0.04", "0.07"))
    k.value = 0.062
    assert panel.turned == [("k", 0.062)]


def test_a_slider_stays_while_its_parameter_stays():
    panel = Panel(GRAY_SCOTT)
    kept = panel["k"]
    panel.show(GRAY_SCOTT.replace("F = 0.037 in [0, 0.1]\n", "").replace("F", "0.04").replace("0.07]", "0.08]"), k=0.05)
    assert list(panel.sliders.sliders) == ["k", "Du", "Dv"]
    assert panel["k"] is kept
    assert (kept.value, kept.end) == (0.05, 0.08)
    assert panel.turned == []
    kept.value = 0.075
    assert panel.turned == [("k", 0.075)]
    panel.sliders.show_values({"k": 0.055, "F": 1.0, "other": 2.0})
    assert (kept.value, len(panel.turned)) == (0.055, 1)


def test_a_text_without_parameters_says_how_to_add_one():
    panel = Panel(GRAY_SCOTT)
    panel.show("u_t = lap(u)")
    assert panel.sliders.sliders == {}
    (hint,) = panel.sliders.panel
    assert "in [0, 1]" in hint.object


@pytest.mark.parametrize("name", presets())
def test_a_slider_can_be_set_to_the_value_of_the_text(name):
    for parameter in read(presets()[name].text).parameters.values():
        steps = (parameter.value - parameter.low) / step_of(parameter)
        assert steps == pytest.approx(round(steps), abs=1e-6)
        assert 100 <= (parameter.high - parameter.low) / step_of(parameter) <= 1000


@pytest.mark.parametrize(
    "parameter", [Parameter(0.1, -1e-6, 1e6), Parameter(1 / 3, 0, 1), Parameter(1e-30, 0, 1e-29), Parameter(-5, -9, -4)]
)
def test_unusual_ranges_have_a_positive_step(parameter):
    step = step_of(parameter)
    assert 0 < step <= (parameter.high - parameter.low) / 99


def test_a_changed_text_keeps_the_positions_of_sliders():
    old = read("u_t = a*u + b*u + c*u\na = 1 in [0, 2]\nb = 1 in [0, 2]\nc = 1 in [0, 2]")
    new = read("u_t = d*u + c*u + b*u + a*u\nc = 1 in [0, 1.5]\nd = 4 in [0, 9]\nb = 0.5 in [0, 2]\na = 1 in [0, 2]")
    assert values_after(old, new, {"a": 1.25, "b": 1.5, "c": 1.75}) == {"a": 1.25, "b": 0.5, "c": 1.5, "d": 4}
    assert values_after(None, old, {"a": 1.25}) == {"a": 1, "b": 1, "c": 1}
