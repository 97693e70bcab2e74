"""An image in a history: the action `load_image` at step 0, with the file, or a smaller one of the same field, as text.

Files and links with such an entry are untrusted: `require_image` reads the structure of the image only, without
decoding it, as the server checks links and files in its own process.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from compute.files.images import LoadedPicture, essential
from compute.lab.history import MOST_CHARACTERS, Entry, StepHistory

LOAD = "load_image"  # the action
LARGE = "the image that was loaded is too large for a file"


def record_image(history: StepHistory, image: LoadedPicture, ny: int, nx: int) -> None:
    """Record that a state of ny x nx cells was made from that image; an image that is too large is missing."""
    data = image.small(ny, nx, MOST_CHARACTERS // 2)
    if data is None:
        history.mark_incomplete(LARGE)
    else:
        history.record_action(0, LOAD, {"data": base64.b64encode(data).decode("ascii")})


def image_notes(image: LoadedPicture | None, ny: int, nx: int) -> dict[str, str]:
    """Return the notes of a frame: image, the fingerprint of the file, and kept, the six numbers of files.images.Kept.

    Both are "" without an image.
    """
    kept = " ".join(map(str, astuple(image.kept(ny, nx)))) if image else ""
    return {"image": image.fingerprint if image else "", "kept": kept}


def require_image(arguments: Mapping[str, Any]) -> None:
    """Raise ValueError unless the arguments of an entry are an image within the bounds of compute/files/images.py."""
    if set(arguments) != {"data"}:
        raise ValueError(f"{LOAD} needs data, not {', '.join(sorted(map(str, arguments))) or 'nothing'}")
    essential(decoded(arguments["data"]))


def image_in(entry: Entry) -> bytes | None:
    """Return the file of an entry that loads an image, None for another entry. Raise ValueError for invalid text."""
    return decoded(entry["with"]["data"]) if entry.get("do") == LOAD else None


def decoded(text: object) -> bytes:
    """Return the bytes of an image in a history. Raise ValueError if the text is not base64."""
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"data of {LOAD} must be base64: {error}") from error
