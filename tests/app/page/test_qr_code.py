"""QR codes decode to the link; a text that is too long is refused."""

from __future__ import annotations

import numpy as np
import pytest
import segno
from PIL import Image

from app.page.qr_code import MOST_BYTES, QUIET_ZONE, TooLongForCode, qr

ROOM = "http://192.168.1.20:5006/follow/QQQQQQ"
PAGE = "https://lectures.example/fieldlab/app?scene=1."


def long(length):
    """Return a link to a state, of this many bytes."""
    return PAGE + ("aZ09-_" * length)[: length - len(PAGE)]


def drawn(code):
    """Return the modules that the path draws: True where white."""
    image = Image.new("1", (code["side"], code["side"]), 1)
    for dark in code["path"].removeprefix("M").split("M"):
        x, y = dark.removesuffix("h1v1h-1z").split(" ")
        image.putpixel((int(x), int(y)), 0)
    return np.asarray(image)


@pytest.mark.parametrize(
    ("link", "level"), [(ROOM, "m"), (long(300), "m"), (long(2331), "m"), (long(2332), "l"), (long(MOST_BYTES), "l")],
    ids=["of a room", "short", "longest of m", "longer", "longest"],
)  # fmt: skip
def test_the_qr_code_reads_as_the_link(link, level):
    """Its modules equal those of segno's own drawing, with the quiet zone of the standard."""
    matrix = segno.make(link, error=level, micro=False)
    expected = [[not cell for cell in row] for row in matrix.matrix_iter(border=QUIET_ZONE)]
    assert drawn(qr(link)).tolist() == expected


@pytest.mark.parametrize("text", [long(MOST_BYTES + 1), "€" * (MOST_BYTES // 3 + 1), "a" * 10**6])
def test_a_text_that_no_code_holds_is_refused(text):
    with pytest.raises(TooLongForCode, match=f"{MOST_BYTES} bytes at most"):
        qr(text)
