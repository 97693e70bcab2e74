"""The QR code of a link on the card; a link that no phone can open, or that is too long, is reported instead."""

from __future__ import annotations

import pytest

from app.features.export.link_code import DENSE, link_code
from app.page.qr_code import MOST_BYTES, QUIET_ZONE, qr
from tests.app.page.test_qr_code import long


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
