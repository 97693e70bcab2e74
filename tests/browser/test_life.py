"""Lifecycle: requests without a browser, closed tabs, the forced public transport, and the session limit."""

from __future__ import annotations

import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.browser.lab_page import PATIENCE, LabPage
from tests.browser.labs import GROUPS
from tests.browser.serving import Server, poll, serve, with_spare
from tests.browser.test_transport import TRANSPORT

pytestmark = pytest.mark.extended

MEGABYTE = 2**20
HERE = Path(__file__).parent
IDLE = 0.02  # CPU s per second of an idle engine, which sends only its heartbeat
SHORT_LIVED = ("--unused-session-lifetime", "2000", "--check-unused-sessions", "500")  # ms, instead of 15 s and 17 s


def memory(server: Server) -> float:
    """Return the resident memory of the server and all its processes in MB."""
    held = 0
    for process in (server.process, *server.family()):
        with suppress(psutil.NoSuchProcess):  # a job's process may end at any moment
            held += process.memory_info().rss
    return held / MEGABYTE


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server that discards closed sessions quickly; the first test receives it before any page was opened."""
    with serve(tmp_path_factory.mktemp("own"), (*SHORT_LIVED, "--setup", str(HERE / "alive_setup.py"))) as server:
        yield server


def alive(server: Server) -> str:
    """Return the numbers of live views, sessions and pages, as printed by the server."""
    before = len(server.text())
    server.process.send_signal(signal.SIGUSR1)
    found = poll(lambda: re.findall("alive: (.*)", server.text()[before:]), PATIENCE, server.text)
    return str(found[-1])


def deserted(server: Server, allowed: float = 1e9) -> float:
    """Wait until no lab and no page is alive and memory is at most `allowed`; return it in MB."""
    poll(
        lambda: alive(server) == "0 views, 0 sessions, 0 pages" and memory(server) <= allowed,
        PATIENCE,
        lambda: f"{alive(server)}, {memory(server):.0f} MB; allowed are {allowed:.0f} MB",
    )
    return memory(server)


def test_requests_without_a_browser_start_no_work(own_server) -> None:
    def get(count: int) -> None:
        for _ in range(count):
            with suppress(urllib.error.HTTPError), urllib.request.urlopen(own_server.url) as answer:
                assert answer.status == 200
                answer.read()

    get(10)
    worker = with_spare(own_server)
    baseline = deserted(own_server)
    began, before = time.monotonic(), sum(worker.cpu_times()[:2])
    get(30)
    deserted(own_server, baseline + 30)
    worked = sum(worker.cpu_times()[:2]) - before
    seconds = time.monotonic() - began
    assert worked < 0.5 + IDLE * seconds


def test_closed_tabs_leave_no_sessions_and_no_memory(own_server, new_page) -> None:
    """No session survives, whichever labs a tab has shown; tabs are closed while they compute and export."""

    for lab, group in list(GROUPS.items())[1:]:  # compiles, imports, warms every cache
        tab = LabPage(new_page(), own_server)
        tab.page.get_by_role("tab", name=lab).click()
        tab.group(group)
        tab.key(" ")
        tab.key("e")
        tab.page.get_by_role("button", name="Save the picture").click()
        tab.page.locator(".job").first.wait_for(state="attached")
        tab.page.close()
    baseline = deserted(own_server)
    for _ in range(5):
        LabPage(new_page(), own_server).page.close()
    deserted(own_server, baseline + 25)  # memory that Python keeps; a page is some 5 MB


@pytest.fixture(scope="module")
def alone(tmp_path_factory, lasting):
    """Yield the only page of a server limited to one session and to the public frame transport."""
    environ = {"FIELDLAB_MAX_SESSIONS": "1", "FIELDLAB_TRANSPORT": "public"}
    with serve(tmp_path_factory.mktemp("alone"), environ=environ) as server:
        yield LabPage(lasting(), server)
        lasting.close()
    lasting.complain([])


def test_the_environment_forces_the_public_transport(alone) -> None:
    alone.frames_on(5)
    assert alone.page.evaluate(TRANSPORT) == ""


def test_a_page_above_the_limit_shows_a_message(alone, new_page, allowed_errors) -> None:
    allowed_errors.append("status of 503")
    second = new_page()
    second.goto(alone.server.url)
    second.get_by_text("The server is full").wait_for()
    assert second.locator(".status").count() == 0
