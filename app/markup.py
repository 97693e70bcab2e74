"""The one place where words that are not ours become something that is shown.

Whatever comes from outside (a link, a file and its name, names in it, a refusal that quotes them, a driver's or another
user's names) goes through `filled` or `plain`, so that it is text and never markup. Markdown and templates without
`filled` are for our own words. Widgets of the material library (labels, options, helper texts, titles) show text as
text by themselves, but for ":material/name:", which `plain` breaks up. Second line: the page's policy, app.access.
"""

from __future__ import annotations

import re
from html import escape

MOST = 600  # characters of a foreign text that are shown
SPACES = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}"  # of numbers
ICON = ":material/"  # what the material library shows as a symbol


def plain(words: str, most: int = MOST) -> str:
    """`words` for a widget or a note that shows text: one line, at most `most` characters, nothing invisible.

    Characters that cannot be seen or that turn the direction of what follows become a replacement character.
    """
    text = re.sub(r"[\t\n\v\f\r ]+", " ", words[: 4 * most]).strip(" ")
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    if not text.isprintable():
        text = "".join(one if one.isprintable() or one in SPACES else "\N{REPLACEMENT CHARACTER}" for one in text)
    return text.replace(ICON, ": material/")


def filled(template: str, **words: object) -> str:
    """Our HTML with {names}, each replaced by its words as text: `filled("<p title='{why}'>{it}</p>", why=…, it=…)`."""
    return template.format(**{name: escape(plain(str(value))) for name, value in words.items()})


def quiet(words: str, role: str = "status") -> str:
    """A line of small print, as HTML; role: for a screen reader."""
    return filled("<p class='quiet' role='{role}'>{words}</p>", role=role, words=words)
