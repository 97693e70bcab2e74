"""An engine is killed, crashes or is stopped while its lab runs: the page shows the next frame soon."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.browser.lab_page import LabPage
from tests.browser.serving import Server, serve, slack, with_spare

pytestmark = pytest.mark.extended

GOALS = {"SIGKILL": 1.5, "SIGSEGV": 1.5, "SIGSTOP": 5.0}  # s from the signal to the next frame
LOST = 1.0  # s between two stored states, hence of steps that may be lost


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("server")) as server:
        yield server


def test_a_page_continues_after_its_engine_is_killed_crashes_or_is_stopped(own_server, page) -> None:
    """One signal after the other in one tab: the lab resumes about a second before the fault, and a notice names it."""
    lab = LabPage(page, own_server)
    for name, goal in GOALS.items():
        victim = with_spare(own_server)
        first, start = lab.step(), time.monotonic()
        lab.until(lambda first=first: lab.step() > first + 100)
        before, rough = lab.step(), lab.field()["rough"]
        rate = (before - first) / (time.monotonic() - start)
        blow = time.monotonic()
        os.kill(victim.pid, getattr(signal, name))
        page.get_by_text(name).wait_for()
        lab.frames_on()
        seconds, allowed = time.monotonic() - blow, slack()
        print(f"{name}: next frame after {seconds:.2f} s; goal {goal:g} s, here x {allowed:.1f}")
        assert seconds < goal * allowed
        assert lab.step() > before - rate * LOST * allowed
        lab.until(lambda rough=rough: lab.field()["rough"] < rough)  # diffusion smooths: the state is not an old one
        lab.until(lambda: "Running" in lab.status())
        lab.until(lambda victim=victim: victim.pid not in {child.pid for child in own_server.family()})
