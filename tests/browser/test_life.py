"""What happens around a lab: engines die, tabs come and go, robots ask for pages, seats run out."""

from __future__ import annotations

import os
import signal
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.browser.lab_page import LabPage
from tests.browser.serving import Server, serve

MEGABYTE = 2**20
RECOVERY = 5.0  # s from the engine's death until frames flow again
SHORT_LIVED = ("--unused-session-lifetime", "2000", "--check-unused-sessions", "500")  # ms, instead of 15 s and 17 s


def memory(server: Server) -> float:
    """Resident megabytes of the server and all its processes."""
    family = [server.process, *server.family()]
    return sum(process.memory_info().rss for process in family) / MEGABYTE


def engines(server: Server) -> list[psutil.Process]:
    """The engines' processes, the busiest first."""
    found = [child for child in server.family() if "compute.engine" in " ".join(child.cmdline())]
    return sorted(found, key=lambda child: -sum(child.cpu_times()[:2]))


@pytest.fixture
def own_server(tmp_path: Path):
    """A server for one test, which forgets closed sessions quickly."""
    with serve(tmp_path, SHORT_LIVED) as server:
        yield server


def test_a_killed_engine_is_announced_and_replaced(own_server, page) -> None:
    lab = LabPage(page, own_server)
    lab.until(lambda: lab.step() > 100)
    victim = engines(own_server)[0]
    os.kill(victim.pid, signal.SIGKILL)
    killed = time.monotonic()
    page.get_by_text("The engine was restarted").first.wait_for()
    number = lab.field()["number"]
    lab.until(lambda: lab.field()["number"] > number + 3)
    assert time.monotonic() - killed < RECOVERY
    assert "Running" in lab.status()
    assert victim.pid not in {child.pid for child in engines(own_server)}
    assert lab.step() > 0


def test_twenty_tabs_leave_nothing_behind(own_server, new_page) -> None:
    def visit(count: int) -> None:
        for _ in range(count):
            page = LabPage(new_page(), own_server).page
            page.context.close()

    def settled() -> float:
        time.sleep(5)
        return memory(own_server)

    visit(3)  # compiles, imports, warms every cache
    baseline = settled()
    visit(20)
    after = settled()
    print(f"memory {baseline:.0f} MB before, {after:.0f} MB after 20 tabs")
    assert after < baseline + 60


def test_bare_requests_start_no_work(own_server) -> None:
    def get(count: int) -> None:
        for _ in range(count):
            with urllib.request.urlopen(own_server.url) as answer:
                assert answer.status == 200
                answer.read()

    get(10)
    time.sleep(4)
    baseline = memory(own_server)
    before = {child.pid: sum(child.cpu_times()[:2]) for child in engines(own_server)}
    get(60)
    time.sleep(4)
    after = memory(own_server)
    worked = [sum(child.cpu_times()[:2]) - before.get(child.pid, 0.0) for child in engines(own_server)]
    print(f"memory {baseline:.0f} MB before, {after:.0f} MB after 60 requests; engines worked {worked} s")
    assert all(seconds < 0.5 for seconds in worked)
    assert after < baseline + 40


def test_above_the_cap_a_friendly_page(new_page, tmp_path) -> None:
    with serve(tmp_path, environ={"FIELDLAB_MAX_SESSIONS": "1"}) as server:
        first = LabPage(new_page(), server).page
        second = new_page()
        second.goto(server.url)
        second.get_by_text("Every seat is taken").wait_for()
        assert second.locator(".status").count() == 0
        first.context.close()
        second.context.close()
