"""QR codes of links. make.js draws them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import segno

from app.server.access import host_name
from compute.cli.serve_options import LOOPBACK

QUIET_ZONE = 4  # modules around a QR code, as the standard requires
LEVELS = ("m", "l")  # of error correction, the better one first: the capacity is 2331 bytes in m, 2953 in l
MOST_BYTES = 2953  # in the largest code, version 40 at level l


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
