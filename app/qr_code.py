"""QR codes of links: of a room's, and of the one that brings a state back.

Both carry the address by which the browser reached the page, prefix included. One that was reached as localhost gets no
code, since no phone could open it; whoever shows the link says so.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import segno

from app.access import host_name
from app.theme import ASSETS
from app.widgets import Card, card_script
from compute.serve_options import LOOPBACK

QUIET_ZONE = 4  # modules around a QR code, by its standard
LEVELS = ("m", "l")  # of error correction, the better one first: 2331 bytes have room in m, 2953 in l
MOST_BYTES = 2953  # in the largest code, version 40 at level l
DENSE = 97  # modules a side, of version 20, up to which a code on a projector is read from the rows at the back
STYLE = (ASSETS / "qr_code.css").read_text(encoding="utf-8")
LOCAL = (
    "No QR code: this page was opened as localhost, an address that no phone can reach. "
    "Open it by this computer's address, and copy the link there."
)
TOO_LONG = "No QR code: it holds {most} bytes at most, and this link has {length}. Save the state as JSON instead."
CLOSE_BY = "A long link makes a fine code: it must be scanned from close by."


class TooLongForCode(ValueError):
    """A text that no QR code can hold."""


@lru_cache(maxsize=16)
def qr(text: str) -> dict[str, Any]:
    """Return the QR code of `text`: the side of its square in modules, and its dark ones as the path of an SVG.

    TooLongForCode if it has more than MOST_BYTES. Kept, as the card of a room asks for its own twice a second: nobody
    changes it.
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
    """Whether a link leads to the computer on which it is opened, and no phone could follow it. ValueError for none."""
    return host_name(urlsplit(link).netloc) in LOOPBACK


class LinkCode(Card):
    """The QR code of a link, as static/qr_code.js draws it; a click or Enter shows it as large as the screen."""

    _esm = card_script("qr_code.js")

    def __init__(self) -> None:
        super().__init__(lambda message: None, sizing_mode="stretch_width", stylesheets=[STYLE])

    def show(self, link: str) -> None:
        """Show the code of this link, or say why it has none. It takes 0.3 s of the longest ones."""
        self.content = link_code(link)

    def clear(self) -> None:
        """Show no code, and no words."""
        self.content = {}


def link_code(link: str) -> dict[str, Any]:
    """Return what the browser is told of a link: its code, or why it has none; `note` says what to mind."""
    try:
        if is_local(link):
            return {"words": LOCAL}
        code = qr(link)
    except TooLongForCode:
        return {"words": TOO_LONG.format(most=MOST_BYTES, length=len(link.encode()))}
    return {"link": link, "code": code, "note": CLOSE_BY if code["side"] - 2 * QUIET_ZONE > DENSE else ""}
