"""The QR code of the link to a lab's state.

The link contains the address by which the browser reached the page, including the prefix. A page that was opened as
localhost gets no code, because no phone could open it; the card explains this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.page.qr_code import MOST_BYTES, QUIET_ZONE, TooLongForCode, is_local, qr
from app.page.widgets import Card, card_script

DENSE = 97  # modules per side, of version 20: the finest code that the back rows can scan from a projector
STYLE = Path(__file__).with_name("link_code.css").read_text(encoding="utf-8")
LOCAL = (
    "No QR code: this page was opened as localhost, an address that no phone can reach. "
    "Open it by this computer's address, and copy the link there."
)
TOO_LONG = "No QR code: it holds {most} bytes at most, and this link has {length}. Save the state as JSON instead."
CLOSE_BY = "A long link makes a fine code: it must be scanned from close by."


class LinkCode(Card):
    """The QR code of a link, drawn by link_code.js; a click or Enter enlarges it to the whole screen."""

    _esm = card_script(Path(__file__).with_name("link_code.js"))

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
