"""The choice of the second picture."""

from __future__ import annotations

import pytest

from app.labs.equations.second_picture import AS_IN_TEXT, TYPED, SecondPicture, checked
from compute.labs.equations.language import read
from compute.labs.equations.presets import presets
from compute.labs.equations.tree import EquationError, words

GRAY_SCOTT = presets()["gray_scott"].text


class Panel:
    """The widgets and the expressions that they reported."""

    def __init__(self, text=GRAY_SCOTT):
        self.chosen = []
        self.second = SecondPicture(read(text), self.chosen.append)

    def type(self, expression):
        self.second.choice.value = TYPED
        self.second.field.value = expression

    @property
    def error(self):
        return self.second.field.helper_text if self.second.field.error_state else ""


def test_fields_and_the_texts_own_expression_are_offered():
    panel = Panel()
    options = panel.second.choice.options
    assert options["show = u*v^2"] == AS_IN_TEXT
    assert [options[name] for name in ("u", "v")] == ["u", "v"]
    assert not panel.second.field.visible
    panel.second.choice.value = "v"
    panel.second.choice.value = AS_IN_TEXT
    assert panel.chosen == ["v", AS_IN_TEXT]
    assert Panel("u_t = lap(u)").second.choice.options["Automatic: rate of change"] == AS_IN_TEXT
    assert Panel("u_t = v; v_t = u").second.choice.options["Automatic: v"] == AS_IN_TEXT


def test_an_expression_is_typed():
    panel = Panel()
    panel.type("dx(u)^2 + dy(u)^2")
    assert panel.second.field.visible
    assert panel.chosen == ["dx(u)^2 + dy(u)^2"]
    panel.type("dx(u)^2 + dz(u)")
    assert panel.error.startswith("Column 11: ")
    assert len(panel.chosen) == 1
    panel.type("dx(u)^2 + dy(u)^2")
    assert panel.error == ""


@pytest.mark.parametrize("text", ["u +", "(u", "w", ") + u", "u - lpa(v)", "u" * 3900])
def test_an_error_has_its_column_in_the_expression(text):
    with pytest.raises(EquationError) as error:
        checked(GRAY_SCOTT, text)
    assert (error.value.line, error.value.source) == (1, text) or len(text) > 1000
    assert 1 <= error.value.column <= len(text) + 1


@pytest.mark.parametrize("text", ["u; F = 1", "u # hidden", "u\nF = 1"])
def test_an_expression_adds_no_other_statement(text):
    panel = Panel()
    panel.type(text)
    assert "show must be one expression" in panel.error
    assert panel.chosen == []


@pytest.mark.parametrize("text", [GRAY_SCOTT, "show = u;u_t = lap(u) ; v_t = v # show = v", "u_t=v;v_t=u;"])
def test_the_expression_replaces_that_of_the_text(text):
    shown = checked(text, "u - v").show
    assert shown is not None
    assert words(shown) == "u - v"


def test_another_text_keeps_a_valid_choice():
    panel = Panel()
    panel.type("u - v")
    panel.second.show(read(GRAY_SCOTT), "u - v")
    assert (panel.second.choice.value, panel.second.field.value, panel.second.field.visible) == (TYPED, "u - v", True)
    panel.second.show(read("u_t = lap(u)"), AS_IN_TEXT)
    assert (panel.second.choice.value, panel.second.field.visible) == (AS_IN_TEXT, False)
    assert panel.chosen == ["u - v"]
