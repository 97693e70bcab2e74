"""What a page says, as words: the lab, its headline, its values, its numbers, the story's step.

Whoever shows them shows them as text. HTML of ours (a headline, a story's step) is taken apart here; none leaves.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from app.lab_tab import WORDS
from app.lab_view import SaysHeadline
from app.markup import plain
from compute.backends import backend

if TYPE_CHECKING:
    from app.lab_tab import LabTab
    from app.stories import StoryTeller

HEADINGS, PARAGRAPHS = ("h1", "h2", "h3", "h4"), ("p", "div", "tr", "br", "pre")
BLOCKS = dict.fromkeys(HEADINGS, "h") | dict.fromkeys(PARAGRAPHS, "p") | {"li": "li"}
MOST_BLOCKS = 60  # paragraphs of a text
MOST_VALUES = 12  # values, and numbers, that are shown


class _Blocks(HTMLParser):
    """Collects paragraphs."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[str]] = [["p", ""]]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A block begins a paragraph; a cell stands apart from the one before."""
        if tag in BLOCKS:
            self.found.append([BLOCKS[tag], ""])
        elif tag in {"td", "th"}:
            self.found[-1][1] += " "

    def handle_endtag(self, tag: str) -> None:
        """What follows a block is a paragraph of its own."""
        if tag in BLOCKS:
            self.found.append(["p", ""])

    def handle_data(self, data: str) -> None:
        """Text goes to the paragraph that is open."""
        self.found[-1][1] += data


def paragraphs(html: str) -> list[list[str]]:
    """Return the text of HTML of ours as [kind, text] of each paragraph; kind: "h", "p" or "li"."""
    parser = _Blocks()
    parser.feed(html)
    parser.close()
    found = [[kind, plain(re.sub(r"[ \t\r\n]+", " ", text).strip(), 3000)] for kind, text in parser.found]
    return [one for one in found if one[1]][:MOST_BLOCKS]


def line(html: str) -> str:
    """Return the text of HTML of ours as one line."""
    return " ".join(text for _, text in paragraphs(html.replace("><", "> <")))  # what stands side by side there


def lab_words(tab: LabTab) -> dict[str, Any]:
    """Return what a tab says of its lab: lab, phase, headline, sentence, values and facts, each [name, text]."""
    session, readout = tab.session, tab.readout
    values = [[plain(dial.label), plain(dial.words())] for dial in tab.controls.dials()]
    values.append(["Computed by", plain(backend(session.values["backend"]).label)])
    facts = tab.parts.facts(session.latest) if session.latest is not None else []
    return {
        "lab": session.lab.TITLE,
        "phase": WORDS.get(session.phase, session.phase),
        "headline": line(readout.headline) if isinstance(readout, SaysHeadline) else "",
        "sentence": line(readout.sentence) if isinstance(readout, SaysHeadline) else "",
        "values": values[:MOST_VALUES],
        "facts": [[plain(label), plain(text)] for label, text, _ in facts[:MOST_VALUES]],
    }


def step_words(teller: StoryTeller, number: int) -> dict[str, Any] | None:
    """Return the title of the story that is told, its step `number` (given from 0, returned from 1), of how many, and
    the step's text; None if there is none.
    """
    story = teller.story
    if not teller.open or story is None or not 0 <= number < len(story.steps):
        return None
    text = paragraphs(story.steps[number].html)
    return {"title": story.title, "number": number + 1, "of": len(story.steps), "text": text}
