"""`--auth` under a path: a visitor logs in, receives the requested page, uses it in two tabs, and logs out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import WAIT
from tests.browser.console import ConsoleErrors
from tests.browser.lab_page import OPENING, LabPage
from tests.browser.serving import Server, serve
from tests.browser.test_reconnect import NOISE, SOCKETS, reconnect

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server with the options of `fieldlab serve --auth FILE --prefix /fieldlab`."""
    folder = tmp_path_factory.mktemp("login")
    names = folder / "names.json"
    names.write_text(json.dumps({"course": "a long sentence"}))
    with serve(folder, ["--prefix", "/fieldlab", "--basic-auth", str(names)]) as server:
        yield server


def test_a_login_leads_to_the_requested_page(browser: Browser, guarded: Server) -> None:
    """The requested query is kept; a wrong password shows an error and keeps the query, too."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(WAIT)
    try:
        page.goto(f"http://localhost:{guarded.port}/fieldlab/app?scene=1.none")
        expect(page).to_have_title("Fieldlab: log in")
        page.get_by_label("Name").fill("course")
        page.get_by_label("Password").fill("a wrong sentence")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_have_text("Wrong name or password.", timeout=WAIT)
        page.get_by_label("Name").fill("course")
        page.get_by_label("Password").fill("a long sentence")
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(re.compile(r"/fieldlab/app\?scene=1\.none$"), timeout=WAIT)
        expect(page.get_by_role("tab", name="Diffusion")).to_be_visible(timeout=WAIT)
    finally:
        context.close()


def test_a_logout_ends_all_tabs(browser: Browser, guarded: Server) -> None:
    """A reconnection needs no login; after the logout the other tab shows the login page."""
    context = browser.new_context()
    context.set_default_timeout(WAIT)
    context.add_init_script(SOCKETS)
    errors, labs = ConsoleErrors(), []
    address = f"http://localhost:{guarded.port}/fieldlab/app"
    try:
        given = {"username": "course", "password": "a long sentence"}
        context.request.post(f"http://localhost:{guarded.port}/fieldlab/login", form=given)
        for _ in range(2):
            lab = LabPage.of(context.new_page())
            errors.watch(lab.page)
            lab.page.goto(address, wait_until="commit")
            lab.until(lambda lab=lab: lab.step() > 0, OPENING)
            labs.append(lab)
        first, second = labs
        before = second.step()
        reconnect(second)
        second.until(lambda: second.step() > before)
        assert errors.unexpected(NOISE) == []

        first.page.get_by_role("button", name="Log out").or_(first.page.get_by_role("link", name="Log out")).click()
        expect(first.page).to_have_title("Fieldlab: log out", timeout=WAIT)
        first.page.get_by_role("button", name="Log out").click()
        expect(first.page).to_have_title("Fieldlab: log in", timeout=WAIT)
        expect(second.page).to_have_title("Fieldlab: log in", timeout=WAIT)  # without a reload by the user
        assert "fieldlab_login" not in {cookie["name"] for cookie in context.cookies()}
    finally:
        context.close()
