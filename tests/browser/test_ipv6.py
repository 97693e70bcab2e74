"""A page at an IPv6 address: `fieldlab serve --address ::1`."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.lab_page import OPENING, LabPage
from tests.browser.serving import serve

pytestmark = pytest.mark.extended


def has_loopback() -> bool:
    """Return whether this machine has the address ::1."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_loopback(), reason="this machine has no IPv6 loopback address")
def test_two_visits_by_an_ipv6_address(page: Page, tmp_path: Path) -> None:
    """The first visit receives the page built ahead, the second a page built on request; the console stays empty."""
    with serve(tmp_path, address="::1") as server:
        lab = LabPage.of(page)
        for query in ("", "?ui=minimal"):
            page.goto(f"http://[::1]:{server.port}/app{query}", wait_until="commit")
            lab.until(lambda: max(0, lab.step()), OPENING)
            before = lab.step()
            lab.until(lambda before=before: lab.step() > before)
        assert "Traceback" not in server.text()
        page.goto("about:blank")
