"""QR codes of links: the link of a room, and the link that restores a state.

Both contain the address by which the browser reached the page, including the prefix. A page that was opened as
localhost gets no code, because no phone could open it; the card explains this.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import segno

from app.page.theme import ASSETS
from app.page.widgets import Card, card_script
from app.server.access import host_name
from compute.cli.serve_options import LOOPBACK

QUIET_ZONE = 4  # modules around a QR code, as the standard requires
LEVELS = ("m", "l")  # of error correction, the better one first: the capacity is 2331 bytes in m, 2953 in l
MOST_BYTES = 2953  # in the largest code, version 40 at level l
DENSE = 97  # modules per side, of version 20: the finest code that the back rows can scan from a projector
STYLE = (ASSETS / "qr_code.css").read_text(encoding="utf-8")
LOCAL = (
    "No QR code: this page was opened as localhost, an address that no phone can reach. "
    "Open it by this computer's address, and copy the link there."
)
TOO_LONG = "No QR code: it holds {most} bytes at most, and this link has {length}. Save the state as JSON instead."
CLOSE_BY = "A long link makes a fine code: it must be scanned from close by."


class TooLongForCode(ValueError):
    """A text that is too long for a QR code."""


@lru_cache(maxsize=16)
def qr(text: str) -> dict[str, Any]:
    """Return the QR code of `text`: side length in modules, and its dark modules as an SVG path.

    Raise TooLongForCode for a text of more than MOST_BYTES. Cached, because the card of a room requests its code twice
    a second; callers must not modify the result.
    """
    if len(text) > MOST_BYTES:
        raise TooLongForCode(f"a QR code holds {MOST_BYTES} bytes at most, not {len(text)}")
    for level in LEVELS:
        try:
            rows = segno.make(text, error=level, micro=False).matrix
        except segno.DataOverflowError:
            continue
        path = "".join(
            f"M{x + QUIET_ZONE} {y + QUIET_ZONE}h1v1h-1z"
            for y, row in enumerate(rows)
            for x, dark in enumerate(row)
            if dark
        )
        return {"side": len(rows) + 2 * QUIET_ZONE, "path": path}
    raise TooLongForCode(f"a QR code holds {MOST_BYTES} bytes at most, not {len(text.encode())}")


def is_local(link: str) -> bool:
    """Return True if a link leads to the local machine, where no phone can follow; ValueError if malformed."""
    return host_name(urlsplit(link).netloc) in LOOPBACK


class LinkCode(Card):
    """The QR code of a link, drawn by static/qr_code.js; a click or Enter enlarges it to the whole screen."""

    _esm = card_script("qr_code.js")

    def __init__(self) -> None:
        super().__init__(lambda message: None, sizing_mode="stretch_width", stylesheets=[STYLE])

    def show(self, link: str) -> None:
        """Show the code of this link, or the reason why it has none. The longest links take 0.3 s."""
        self.content = link_code(link)

    def clear(self) -> None:
        """Show neither code nor text."""
        self.content = {}


def link_code(link: str) -> dict[str, Any]:
    """Return the content of the card: the link's code with a `note`, or the reason why it has none."""
    try:
        if is_local(link):
            return {"words": LOCAL}
        code = qr(link)
    except TooLongForCode:
        return {"words": TOO_LONG.format(most=MOST_BYTES, length=len(link.encode()))}
    return {"link": link, "code": code, "note": CLOSE_BY if code["side"] - 2 * QUIET_ZONE > DENSE else ""}
