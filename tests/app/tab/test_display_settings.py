"""The display settings of each lab in the page's address: kept, applied to another tab, and checked."""

from __future__ import annotations

import json

import pytest
from bokeh.document import Document

from app.tab.controls import Controls
from app.tab.lab_tab import LabTab
from compute.export.link import MOST_DISPLAY
from compute.lab.lab import Lab
from compute.labs import LABS

SETTINGS = {
    "diffusion": {"pictures", "curves", "growth", "fitted", "field_palette", "laplacian_palette"},
    "mandelbrot": {"orbit", "histogram", "cycle"},
    "l_curve": {"alpha"},
    "crossover": {"transfers", "recorded", "cited"},
    "equations": {"editor", "first_palette", "second_palette"},
}


def controls_of(lab: type[Lab]) -> Controls:
    return LabTab(lab, Document(), (1280, 720)).controls


def by_name(name: str) -> Controls:
    return controls_of(next(lab for lab in LABS if name == lab.LAB))


def others(widget, usual):
    """Return values of a widget apart from the usual one."""
    if isinstance(usual, bool):
        return [not usual]
    if hasattr(widget, "options"):
        options = widget.options.values() if isinstance(widget.options, dict) else widget.options
        return [option for option in options if option != usual]
    return [widget.start + 0.25 * (widget.end - widget.start), widget.end]


@pytest.mark.parametrize("lab", [lab for lab in LABS if lab.LAB in SETTINGS], ids=lambda lab: lab.LAB)
def test_every_display_setting_reaches_another_tab_by_its_text(lab):
    first, again = controls_of(lab), controls_of(lab)
    assert first.display_text == ""
    assert set(first._shown_by) == SETTINGS[lab.LAB]
    for name, (widget, usual) in first._shown_by.items():
        for value in others(widget, usual):
            widget.value = value
            again.apply_display(first.display_text)
            assert again._shown_by[name][0].value == value
    assert len(first.display_text) <= MOST_DISPLAY  # with all of them changed
    assert again.display_text == first.display_text
    for widget, usual in first._shown_by.values():
        widget.value = usual
    assert first.display_text == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "JSON object of at most 400"),
        ("[]", "JSON object of at most 400"),
        ("{", "JSON object of at most 400"),
        ("[" * 400, "JSON object of at most 400"),
        (json.dumps({"curves": True, "more": "x" * 400}), "JSON object of at most 400"),
        ('{"curves": 1}', "curves must be true or false, not '1'"),
        ('{"curves": null}', "curves must be true or false, not 'None'"),
        ('{"pictures": "Neither"}', "pictures must be one of .*Both.*, not 'Neither'"),
        ('{"pictures": ["Both"]}', "pictures must be one of .*Both.*, not "),
        ('{"fitted": true}', "fitted must be one of "),
        ('{"fitted": NaN}', "fitted must be one of .*, not 'nan'"),
        ('{"field_palette": "<b>Magma"}', "field_palette must be one of .*, not '<b>Magma'"),
        ('{"curves": false, "r": 0.2}', "'r' is none of pictures, curves"),
        (json.dumps({"x" * 300: 1}), f"'{'x' * 40}' is none of"),
        ('{"pictures": "\\ud800"}', r"not '\\ud800'"),
    ],
)
def test_an_invalid_text_is_refused_and_sets_nothing(text, words):
    controls = by_name("diffusion")
    with pytest.raises(ValueError, match=words):
        controls.apply_display(text)
    assert controls.display_text == ""


@pytest.mark.parametrize("value", ["-0.1", "1e400", "NaN", "true", '"0.1"', "1" * 300])
def test_a_slider_refuses_what_is_not_on_its_rail(value):
    controls = by_name("mandelbrot")
    with pytest.raises(ValueError, match="cycle must be from 0 to "):
        controls.apply_display(f'{{"cycle": {value}}}')
    assert controls.display_text == ""
    controls.apply_display('{"cycle": 0.1}')
    assert controls.display_text == '{"cycle":0.1}'


def test_a_lab_without_display_settings_refuses_any(monkeypatch):
    controls = by_name("l_curve")
    controls.keep_display()
    with pytest.raises(ValueError, match="'alpha' is none of this lab"):
        controls.apply_display('{"alpha": true}')
    controls.apply_display("{}")
