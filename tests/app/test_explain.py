"""Words of the page explain themselves, once each, and nothing else of its HTML is changed."""

from __future__ import annotations

import re
from html import escape

import pytest

from app.explain import WORDS, explained


def text(html: str) -> str:
    """What a reader sees of it."""
    return re.sub(r"<[^>]*>", "", html)


def test_a_word_can_be_pointed_at_focused_and_heard():
    html = explained("<p>4.31 Gcell/s</p>")
    assert html.startswith("<p>4.31 <span class='term' tabindex='0' role='note' aria-label='")
    assert f"aria-label='{escape(WORDS['Gcell/s'])}'" in html
    assert "data-term='Gcell/s'>Gcell/s</span></p>" in html


def test_what_is_read_stays_the_same():
    html = "<div title='levels <b>'>levels 1.6&nbsp;ms, <b>noisy</b>, delivery; GB/s &amp; more</div>"
    assert text(explained(html)) == text(html)


def test_each_word_is_marked_where_it_first_stands_only():
    assert explained("<i>noisy</i> noisy <b>noisy</b>").count("data-term") == 1


def test_attributes_and_parts_of_words_are_left_alone():
    html = "<a class='compute levels' title='noisy'>computed recordeds Gcell/second launch_time</a>"
    assert explained(html) == html


@pytest.mark.parametrize("word", WORDS)
def test_every_explanation_is_a_sentence_or_two_and_safe_in_an_attribute(word):
    about = WORDS[word]
    assert about.endswith(".")
    assert 20 < len(about) < 160
    assert f"aria-label='{escape(about)}' data-term='{word}'" in explained(word)
