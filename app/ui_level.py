"""How much of the page is shown, by `ui` in its address: for a frame on a slide or on a course's page.

`none` shows the lab's main picture alone, `minimal` the main controls, one slider and the headline below it, `full`
everything. Keys do in all of them what they do otherwise; cards that they open lie over the picture.
"""

from __future__ import annotations

from typing import Literal, cast

from bokeh.document import Document

NAME = "ui"  # of the entry in the address
Level = Literal["none", "minimal", "full"]
FULL: Level = "full"
LEVELS: tuple[Level, ...] = ("none", "minimal", FULL)
WITHOUT_HEADER = ":root { --header: 0px; }"
CSS: dict[Level, str] = {  # of the page: what is not there takes no room
    "none": WITHOUT_HEADER + ":root { --status-bar: hidden; }",
    "minimal": WITHOUT_HEADER,
    FULL: "",
}
LONGEST = 40  # characters of an unknown value that are told


def asked_level(document: Document) -> Level:
    """Return how much the page's address asks for, `full` if it says nothing; ValueError names what it may be."""
    request = document.session_context.request if document.session_context else None
    given = request.arguments.get(NAME, []) if request else []
    if not given:
        return FULL
    text = given[0].decode("utf-8", "replace")
    if text not in LEVELS:
        raise ValueError(f"{NAME} must be one of {', '.join(LEVELS)}, not {text[:LONGEST]!r}")
    return cast(Level, text)
