"""A page at an IPv6 address: `fieldlab serve --address ::1`."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.lab_page import OPENING, LabPage
from tests.browser.serving import has_ipv6, serve

pytestmark = pytest.mark.extended


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback address")
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
