"""Foreign text on the page is shown as text, whatever it contains."""

from __future__ import annotations

import ast
from html.parser import HTMLParser

import pytest
from bokeh.document import Document
from hypothesis import given
from hypothesis import strategies as st

from app.page.markup import MOST, filled, plain
from app.page.notices import Notices
from tests.sources import read

MARKUP = "<img src=x onerror='window.ran=1'>\"><script>window.ran=1</script>&lt;b&gt;"


class Elements(HTMLParser):
    """Records the elements, attributes and text that a browser would parse."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@given(st.text())
def test_words_become_text_and_nothing_else(words):
    made = Elements(filled("<p class='quiet' title='{words}'>{words}</p>", words=words))
    assert made.found == [("p", {"class": "quiet", "title": plain(words)})]
    assert made.text == plain(words)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("one\n two\tthree", "one two three"),
        ("a\u202eb\u0000c\u200bd", "a\ufffdb\ufffdc\ufffdd"),
        (":material/delete:", ": material/delete:"),
        ("λ ≥ 10⁻³, 3\u202f000\xa0m", "λ ≥ 10⁻³, 3\u202f000\xa0m"),
        ("x" * MOST, "x" * MOST),
        ("x" * 10**6, "x" * (MOST - 1) + "…"),
    ],
    ids=["white space", "invisible", "icon", "visible", "longest", "too long"],
)
def test_invisible_characters_are_marked_and_long_texts_cut(words, shown):
    assert plain(words) == shown


def test_a_note_shows_its_words_as_text():
    """No part of the text is passed where the library reads Markdown."""
    notices = Notices(Document())
    notices.tell("warning", f"{MARKUP} **bold** `code`")
    (note,) = notices.panel.objects
    assert note.title == f"{MARKUP} **bold** `code`"
    assert note._process_param_change({"object": note.object})["object"] == ""


def readers_of_markup(sources):
    """Return uses of widgets that read text as Markdown or HTML, except HTML panes, which get it from `filled`."""
    ours = {"app/features/help/help.py", "app/labs/crossover/view.py", "app/labs/crossover/programs.py"}
    known: dict[str, set[str]] = {"Markdown": ours, "StaticText": set(), "NotificationArea": set()}
    known["Typography"] = {"app/labs/mandelbrot/places.py"}
    found = []
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = node.func.attr
                if name in known and source.path.as_posix() not in known[name]:
                    found.append(f"{source.at(node)} {name}")
                if name == "Alert" and any(word.arg == "object" for word in node.keywords):
                    found.append(f"{source.at(node)} Alert(object=…)")
    return found


def test_markdown_is_for_our_own_words_only():
    assert readers_of_markup(read("app")) == []
