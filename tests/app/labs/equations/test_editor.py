"""The editor: typed text is typeset, applied after a pause or at Ctrl+Enter, and an error is shown with its place."""

from __future__ import annotations

import pytest

from app.labs.equations.editor import LOOK, PAUSE, EquationEditor
from app.labs.equations.typeset import error_html, typeset
from compute.labs.equations.language import MOST_CHARACTERS, read
from compute.labs.equations.presets import presets
from compute.labs.equations.tree import EquationError

HEAT = "u_t = D*lap(u)\nD = 0.2 in [0, 1]\n"
BAD = "u_t = D*lpa(u)\nD = 0.2 in [0, 1]\n"


class Clock:
    """Timers that fire when a test says so; a fired timer cannot be removed, as in Bokeh."""

    def __init__(self):
        self.timers = {}
        self.number = 0

    def add_timeout_callback(self, callback, timeout_milliseconds):
        self.number += 1
        self.timers[self.number] = (timeout_milliseconds, callback)
        return self.number

    def remove_timeout_callback(self, callback_obj):
        if self.timers.pop(callback_obj, None) is None:
            raise ValueError("callback already ran or was already removed")

    def wait(self, milliseconds):
        """Fire the timers that are due; the others stay."""
        for number, (due, callback) in list(self.timers.items()):
            if due <= milliseconds:
                del self.timers[number]
                callback()


class Typist:
    """An editor, the texts that it applied, and what a user does with it."""

    def __init__(self, text=HEAT):
        self.clock, self.applied = Clock(), []
        self.editor = EquationEditor(self.clock, text, lambda text, system: self.applied.append((text, system)))

    def type(self, text):
        self.editor.field.value_input = text

    def press_ctrl_enter(self, text):
        self.editor.keys._handle_msg({"text": text})

    @property
    def fault(self):
        return self.editor.fault.object if self.editor.fault.visible else ""


def test_text_is_applied_once_after_a_pause():
    user = Typist()
    for end in ("", " + u", " + u*(1 - u)"):
        user.type(HEAT.replace("lap(u)", f"lap(u){end}"))
        user.clock.wait(LOOK)
    assert user.applied == []
    user.clock.wait(PAUSE)
    ((text, system),) = user.applied
    assert text == HEAT.replace("lap(u)", "lap(u) + u*(1 - u)")
    assert system.fields == ["u"]
    assert user.clock.timers == {}


def test_ctrl_enter_applies_at_once():
    user = Typist()
    changed = HEAT.replace("0.2", "0.3")
    user.press_ctrl_enter(changed)
    assert [text for text, _ in user.applied] == [changed]
    assert user.editor.field.value_input == changed
    user.press_ctrl_enter(changed)
    assert len(user.applied) == 1


def test_equations_are_typeset_before_they_are_applied():
    user = Typist()
    user.type("u_t = v\nv_t = lap(u)")
    user.clock.wait(LOOK)
    assert user.editor.typeset.object == typeset(read("u_t = v\nv_t = lap(u)"))
    assert user.applied == []


def test_an_error_is_shown_with_its_place_and_the_previous_text_stays():
    user = Typist()
    user.type(BAD)
    user.clock.wait(LOOK)
    assert user.fault == ""  # a text in the middle of a word is no error yet
    assert "old" in user.editor.typeset.object
    user.clock.wait(PAUSE)
    assert "Line 1, column 9" in user.fault
    assert "lap" in user.fault  # the nearest word
    assert user.editor.field.error_state
    assert user.editor.jump.visible
    assert user.applied == []
    assert user.editor.text == HEAT
    user.editor.jump.param.trigger("clicks")
    assert (user.editor.keys.content["line"], user.editor.keys.content["column"]) == (1, 9)
    user.type(HEAT)
    user.clock.wait(PAUSE)
    assert user.fault == ""
    assert not user.editor.field.error_state
    assert not user.editor.jump.visible
    assert user.applied == []  # it is the text that still runs
    assert user.editor.typeset.object == typeset(read(HEAT))


def test_a_text_from_elsewhere_is_shown_and_not_applied():
    user = Typist()
    user.type(BAD)
    user.clock.wait(PAUSE)
    wave = presets()["wave"].text
    user.editor.show(wave)
    user.clock.wait(PAUSE)
    assert (user.editor.field.value_input, user.editor.text, user.fault, user.applied) == (wave, wave, "", [])
    user.type(BAD)
    user.editor.show(wave)  # the text that runs: the typed one stays
    assert user.editor.field.value_input == BAD
    user.editor.close()
    assert user.clock.timers == {}


def test_a_refused_text_stays_and_can_be_applied_again():
    user = Typist()
    wave = presets()["wave"].text
    user.press_ctrl_enter(wave)
    user.editor.show(HEAT)  # the lab keeps this one
    user.editor.refuse("compiling took <b>too long</b>", wave)
    assert "<b>too" not in user.fault
    assert "Refused" in user.fault
    assert (user.editor.field.value_input, user.editor.text) == (wave, HEAT)
    user.press_ctrl_enter(wave)
    assert [text for text, _ in user.applied] == [wave, wave]


@pytest.mark.parametrize("message", [{}, {"text": None}, {"text": 7}, {"text": "x" * 10**6}, {"text": []}])
def test_unexpected_messages_are_ignored(message):
    user = Typist()
    user.editor.keys._handle_msg(message)
    assert (user.applied, user.fault, user.editor.field.value_input) == ([], "", HEAT)


def test_a_text_that_is_too_long_is_refused():
    user = Typist()
    user.press_ctrl_enter(HEAT + "#" * MOST_CHARACTERS)
    assert f"at most {MOST_CHARACTERS}" in user.fault
    assert user.applied == []


def test_markup_in_a_text_is_shown_as_text():
    for text in ("u_t = <img src=x onerror='ran=1'>", "<script>ran=1</script>", "u_t = u # <b>ß</b>\nx'\"&lt; = 1"):
        with pytest.raises(EquationError) as error:
            read(text)
        shown = error_html(error.value)
        assert not any(tag in shown for tag in ("<img", "<script", "<b>ß"))


@pytest.mark.parametrize(("before", "after"), [(0, 0), (3, 100), (100, 3), (500, 500)])
def test_the_caret_is_below_the_place(before, after):
    source = "a" * before + "!" + "b" * after
    shown = error_html(EquationError("wrong", source, 1, before + 1))
    line = shown.split("<code>")[1].split("</code>")[0]
    caret = shown.split("aria-hidden='true'>")[1].split("<mark>")[0]
    assert line[len(caret)] == "!"
    assert len(line) < 80


def test_long_equations_are_typeset_one_by_one_or_shown_as_text():
    medium = " + ".join(["sin(u/v)^2"] * 30)
    shown = typeset(read(f"u_t = {medium}; v_t = {medium}"))
    assert (shown.count("<math"), shown.count("<code>")) == (2, 0)
    long = " + ".join(["min(tanh(abs(abs(u))), min(tanh(u), v))"] * 30)
    shown = typeset(read(f"u_t = u; v_t = {long}"))
    assert (shown.count("<math"), shown.count("<code>")) == (1, 1)
    assert f"v_t = {long}"[:500] in shown


@pytest.mark.parametrize("name", presets())
def test_presets_are_typeset(name):
    assert "<math" in typeset(read(presets()[name].text))
