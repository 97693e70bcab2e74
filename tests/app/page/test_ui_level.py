"""The part of the page that the address requests."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from bokeh.document import Document

from app.page.address import CSS, LEVELS, asked_level


def document(**arguments: list[bytes]) -> Document:
    """Return a document of a page requested with these arguments in its address."""
    made = Document()
    made._session_context = lambda: SimpleNamespace(request=SimpleNamespace(arguments=arguments))
    return made


@pytest.mark.parametrize("level", LEVELS)
def test_the_address_says_how_much_is_shown(level):
    assert asked_level(document(ui=[level.encode()])) == level


def test_without_a_word_all_is_shown():
    assert asked_level(document()) == "full"
    assert asked_level(Document()) == "full"
    assert CSS["full"] == ""


@pytest.mark.parametrize("text", [b"", b"Minimal", b"all", b"<b>", b"\xff", b"none,minimal"])
def test_another_value_is_an_error_that_names_what_there_is(text):
    with pytest.raises(ValueError, match=r"ui must be one of none, minimal, full, not ") as caught:
        asked_level(document(ui=[text]))
    assert "<" not in str(caught.value) or "'<b>'" in str(caught.value)


def test_a_long_value_is_cut():
    with pytest.raises(ValueError, match="ui must be") as caught:
        asked_level(document(ui=[b"x" * 5000]))
    assert len(str(caught.value)) < 120
