"""Escaping of foreign text for display.

Text from outside (a link, a file and its name, names in it, an error message that quotes them, a driver's or another
user's names) passes through `filled` or `plain`, so that it is shown as text and never becomes markup. Markdown, and
templates without `filled`, are only for this project's own text. Widgets of the material library (labels, options,
helper texts, titles) escape text themselves, except for ":material/name:", which `plain` breaks up. The second line of
defence is the page's policy, app.server.access.
"""

from __future__ import annotations

import re
from html import escape

MOST = 600  # characters of a foreign text that are shown
SPACES = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}"  # of numbers
ICON = ":material/"  # shown by the material library as a symbol


def plain(words: str, most: int = MOST) -> str:
    """Return `words` as plain text for a widget or note: one line of at most `most` characters.

    Invisible characters, and those that change the direction of the text, become a replacement character.
    """
    text = re.sub(r"[\t\n\v\f\r ]+", " ", words[: 4 * most]).strip(" ")
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    if not text.isprintable():
        text = "".join(one if one.isprintable() or one in SPACES else "\N{REPLACEMENT CHARACTER}" for one in text)
    return text.replace(ICON, ": material/")


def shown(text: str) -> str:
    """Return `text` with a replacement character for each invisible one, except spaces, tabs and line ends."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text)


def filled(template: str, **words: object) -> str:
    """Return the HTML `template` with escaped {names}: `filled("<p title='{why}'>{it}</p>", why=…, it=…)`."""
    return template.format(**{name: escape(plain(str(value))) for name, value in words.items()})


def quiet(words: str, role: str = "status") -> str:
    """Return a line of small print as HTML; role: its ARIA role."""
    return filled("<p class='quiet' role='{role}'>{words}</p>", role=role, words=words)
