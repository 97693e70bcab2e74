"""QR codes: they decode to the link; a link that no phone can open, or that is too long, is reported instead."""

from __future__ import annotations

import numpy as np
import pytest
import segno
from PIL import Image

from app.page.qr_code import DENSE, MOST_BYTES, QUIET_ZONE, TooLongForCode, link_code, qr

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


def test_what_a_card_is_told_of_a_link():
    short, fine = link_code(long(300)), link_code(long(1500))
    assert (short["link"], short["code"], short["note"]) == (long(300), qr(long(300)), "")
    assert short["code"]["side"] - 2 * QUIET_ZONE <= DENSE < fine["code"]["side"] - 2 * QUIET_ZONE
    assert "scanned from close by" in fine["note"]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_a_link_that_no_phone_can_open_says_so(host):
    said = link_code(f"http://{host}:5006/app?scene=1.x")
    assert set(said) == {"words"}
    assert "localhost, an address that no phone can reach" in said["words"]


def test_a_link_too_long_for_a_code_says_so():
    said = link_code(long(MOST_BYTES + 47))
    assert set(said) == {"words"}
    assert f"{MOST_BYTES} bytes at most, and this link has {MOST_BYTES + 47}" in said["words"]
