"""Explained words: marked once each, without other changes to the HTML; every label has an explanation."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from html import escape

import pytest

from app.page.explain import LABELS, WORDS, explained, label_html, term
from app.readout import readout_html
from app.tab.lab_view import parts_of
from compute.labs import LABS
from compute.measure.benchmark import benchmark_of
from compute.measure.statistics import Measurement
from compute.measure.timing import PARTS, Timing


def text(html: str) -> str:
    """Return the visible text."""
    return re.sub(r"<[^>]*>", "", html)


def test_a_word_is_marked_once_and_its_explanation_can_be_focused_and_read_aloud():
    html = explained("<p>4.31 Gcell/s</p><p>Gcell/s</p>")
    assert html.startswith("<p>4.31 <span class='term' tabindex='0' role='note' aria-label='")
    assert f"aria-label='{escape(WORDS['Gcell/s'])}'" in html
    assert html.endswith("data-term='Gcell/s'>Gcell/s</span></p><p>Gcell/s</p>")


def test_text_attributes_and_parts_of_words_stay_as_they_are():
    html = "<div title='levels <b>'>levels 1.6&nbsp;ms, <b>noisy</b>, delivery; GB/s &amp; more</div>"
    assert text(explained(html)) == text(html)
    html = "<a class='compute levels' title='noisy'>computed recordeds Gcell/second launch_time</a>"
    assert explained(html) == html


def test_every_explanation_is_safe_in_an_attribute():
    for words, mark in ((WORDS, explained), (LABELS, label_html)):
        for word, about in words.items():
            assert f"aria-label='{escape(about)}' data-term='{escape(word)}'" in mark(word)


def test_an_explained_part_is_kept_whole_and_words_explained_before_are_not_marked():
    own = term("<b>10</b> GB/s, noisy", "What it <is>.", "own")
    html = explained(f"<p>{own} and noisy</p><p>{own}</p>")
    assert f"<p>{own} and <span class='term'" in html
    assert html.endswith("<p><b>10</b> GB/s, noisy</p>")
    assert html.count("data-term") == 2
    seen: set[str] = set()
    assert "data-term" in explained("noisy", seen)
    assert explained("noisy, recorded", seen).count("data-term") == 1


# Labels that a lab shows in special cases only: facts added to those of its first frame.
SPECIAL = {
    "diffusion": {"exact_error": 1e-3, "racing_error": 1e-2, "nonfinite": 7.0},
    "mandelbrot": {"samples": 4.0, "finished": 0.0},
    "l_curve": {"products": 100.0, "seconds": 1.0, "steps": 50.0, "lam": 0.1, "residual": 1.0, "solution": 1.0},
}
NOTES = [{}, {"precision": "perturbation"}]  # with the second, a deep view of the set begins with its reference orbit


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.LAB)
def test_every_label_of_the_status_bars_has_an_explanation(lab):
    with closing(lab(backend="cpu_numpy")) as running:
        running.advance(1)
        frame = running.frame()
    special = replace(frame, facts={**frame.facts, **SPECIAL.get(lab.LAB, {})})
    frames = [frame, *(replace(special, notes={**frame.notes, **notes}) for notes in NOTES)]
    labels = {label for each in frames for label, _, _ in parts_of(lab).facts(each)}
    assert labels
    assert [label for label in labels if "data-term" not in label_html(label)] == []


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.LAB)
def test_every_unit_and_every_fact_of_the_readouts_has_an_explanation(lab):
    rules = benchmark_of(lab).rules
    if rules is None:  # the crossover's column has times only; their marks are in the next test
        return
    with closing(lab(backend="cpu_numpy")) as running:
        running.advance(1)
        told = rules.facts(running.values(), running.frame(), 1e10)
    assert [fact.name for fact in told if not fact.about.endswith(".")] == []
    rate = rules.rate
    unit, _ = readout_html.COUNTED[rate.counted]
    words = (rate.unit, unit, f"of {readout_html.ROOFS[rate.roof]}", f"{rate.step}s/s")
    assert [word for word in words if word not in WORDS] == []


def test_every_part_of_a_live_frame_and_every_mark_has_an_explanation():
    timing = Timing("gpu_cupy", "", 1, 100, **dict.fromkeys(PARTS, 1e-3))
    shown = explained(readout_html.parts(Measurement.of([timing] * 9), "gpu", 30.0, 2, 0.01))
    for mark in ("launch-bound", *readout_html.PART_NAMES.values(), "frames/s", "dropped", "latency"):
        assert f"data-term='{mark}'" in shown
