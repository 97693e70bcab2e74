"""The browser fixtures themselves: they see what they are meant to see."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from tests.browser.conftest import LAPTOP, PROJECTOR
from tests.browser.console import ConsoleErrors
from tests.browser.serving import Server, answers, free_port, stop


def test_console_errors_and_uncaught_exceptions_are_seen(page, allowed_errors):
    allowed_errors += ["planted", "thrown"]
    errors = ConsoleErrors()
    errors.watch(page)
    page.goto("about:blank")
    page.evaluate("console.log('fine'); console.error('planted'); setTimeout(() => { throw new Error('thrown') })")
    page.wait_for_timeout(100)
    assert len(errors.texts) == 2
    assert [text for text in errors.unexpected(["planted"]) if "thrown" not in text] == []
    assert len(errors.unexpected([])) == 2


@pytest.mark.parametrize("viewport", [LAPTOP, PROJECTOR], indirect=True)
def test_viewport_has_the_size_asked_for(page, viewport):
    assert tuple(page.evaluate("[innerWidth, innerHeight]")) == viewport


@pytest.mark.parametrize(("asked", "folder"), [("", "own"), ("1", "assets")])
def test_screenshots_go_to_the_assets_only_when_asked(page, screenshot, tmp_path, monkeypatch, asked, folder):
    monkeypatch.setenv("UPDATE_SCREENSHOTS", asked)
    monkeypatch.setattr("tests.browser.conftest.SCREENSHOTS", tmp_path / "assets")
    page.set_content("<h1>Fieldlab</h1>")
    path = screenshot("heading")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.parent == {"own": tmp_path, "assets": tmp_path / "assets"}[folder]


DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


def test_a_process_that_outlives_its_server_is_found_and_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.browser.serving.STOP", 0.5)
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {DEAF!r}]); time.sleep(60)"
    process = psutil.Popen([sys.executable, "-c", parent], start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"deaf\n"
    left = stop(Server(0, process, tmp_path / "none"))
    process.stdout.close()
    assert len(left) == 1
    assert "SIG_IGN" in left[0]
    pid = int(left[0].split()[0])
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_nobody_answers_on_a_free_port():
    assert not answers(free_port())


@pytest.fixture
def last_out(page):
    """Something set up after the tab, as a test's own server is."""
    yield
    assert page.is_closed()


def test_tabs_are_closed_before_any_server(page, last_out):
    page.goto("about:blank")
