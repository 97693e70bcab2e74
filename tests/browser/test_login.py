"""`--auth` under a path: whoever asks for a page logs in first, and gets the page that was asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from app.serve import COOKIES, LOGIN
from tests.browser.conftest import WAIT
from tests.browser.serving import Server, serve


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """As `fieldlab serve --auth FILE --prefix /fieldlab` makes it."""
    folder = tmp_path_factory.mktemp("login")
    names = folder / "names.json"
    names.write_text(json.dumps({"course": "a long sentence"}))
    own = ["--prefix", "/fieldlab", "--basic-auth", str(names), "--basic-login-template", str(LOGIN)]
    own += ["--root-path", "/fieldlab/"]
    with serve(folder, own, {COOKIES: "of this test alone"}) as server:
        yield server


def test_a_page_behind_a_login_is_the_page_that_was_asked_for(browser: Browser, guarded: Server) -> None:
    """With its query; a wrong password is said, and changes nothing about that."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(WAIT)
    try:
        page.goto(f"http://localhost:{guarded.port}/fieldlab/app?scene=1.none")
        expect(page).to_have_title("Fieldlab: log in")
        page.get_by_label("Name").fill("course")
        page.get_by_label("Password").fill("a wrong sentence")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_have_text("This name and password do not go together.", timeout=WAIT)
        page.get_by_label("Name").fill("course")
        page.get_by_label("Password").fill("a long sentence")
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(re.compile(r"/fieldlab/app\?scene=1\.none$"), timeout=WAIT)
        expect(page.get_by_role("tab", name="Diffusion")).to_be_visible(timeout=WAIT)
    finally:
        context.close()


def test_who_has_not_logged_in_gets_nothing_of_it(browser: Browser, guarded: Server) -> None:
    context = browser.new_context()
    try:
        answer = context.request.get(f"http://localhost:{guarded.port}/fieldlab/app", timeout=WAIT)
        assert "Fieldlab: log in" in answer.text()
        assert "token" not in answer.text()
        assert context.request.get(f"http://localhost:{guarded.port}/fieldlab/health", timeout=WAIT).ok
    finally:
        context.close()


def test_who_logs_in_without_having_asked_for_a_page_comes_to_the_path(browser: Browser, guarded: Server) -> None:
    context = browser.new_context()
    try:
        given = {"username": "course", "password": "a long sentence"}
        address = f"http://localhost:{guarded.port}/fieldlab/login"
        answer = context.request.post(address, form=given, max_redirects=0, timeout=WAIT)
        assert (answer.status, answer.headers["location"]) == (302, "/fieldlab/")
        assert context.request.get(f"http://localhost:{guarded.port}/fieldlab/", timeout=WAIT).ok
    finally:
        context.close()


def test_the_login_s_page_is_ours() -> None:
    """It asks for nothing of another server, and says what is wrong in words."""
    text = Path(LOGIN).read_text()
    assert "http" not in text
    assert 'role="alert"' in text
