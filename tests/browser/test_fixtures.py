"""Tests of the browser fixtures."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import psutil
import pytest

from tests.browser.console import ConsoleErrors
from tests.browser.serving import Server, bound, stop


def test_console_errors_and_uncaught_exceptions_are_collected(page, allowed_errors):
    allowed_errors += ["planted", "thrown"]
    errors = ConsoleErrors()
    errors.watch(page)
    page.goto("about:blank")
    with page.expect_event("pageerror"):
        page.evaluate("console.log('fine'); console.error('planted'); setTimeout(() => { throw new Error('thrown') })")
    assert len(errors.texts) == 2
    assert [text for text in errors.unexpected(["planted"]) if "thrown" not in text] == []
    assert len(errors.unexpected([])) == 2


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
    with suppress(psutil.NoSuchProcess):
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


RUN = """
import subprocess, sys
print(subprocess.Popen({command!r}, start_new_session=True).pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_a_server_ends_with_a_killed_test_run():
    command = bound([sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(60)"])
    run = [sys.executable, "-c", RUN.format(command=command)]
    with psutil.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        lines = sorted([process.stdout.readline().strip(), process.stdout.readline().strip()])
        assert lines[1] == b"ready"
        server = psutil.Process(int(lines[0]))
        process.kill()
    gone, _ = psutil.wait_procs([server], timeout=60)
    assert gone or server.status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def last_out(page):
    """A resource set up after the tab, like a test's server."""
    yield
    assert page.is_closed()


def test_tabs_are_closed_before_any_server(page, last_out):
    page.goto("about:blank")
