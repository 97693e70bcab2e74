"""An engine that is killed, crashes or is stopped under a page that runs: how long until the page shows the next frame.

The times are printed (`-s` shows them). They are bounded by twice the goal, and by more where the processors have more
to do than this test; they are far below the goal where there is a spare process, and above it without one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.browser.lab_page import FRAMES, LabPage
from tests.browser.serving import Server, serve, slack, with_spare

GOALS = {"SIGKILL": 1.5, "SIGSEGV": 1.5, "SIGSTOP": 5.0}  # s from the blow to the next frame
LOST = 1.0  # s between two states that are kept, so of steps that may be lost
# When each frame was painted, in seconds since 1970: in the second animation frame after its data have come.
WATCH = f"""() => {{
  const source = {FRAMES}, painted = window.painted = [];
  source.properties.data.change.connect(() =>
    requestAnimationFrame(() => requestAnimationFrame(() => painted.push(Date.now() / 1000))));
}}"""


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("server")) as server:
        yield server


def frozen(painted: list[float], blow: float) -> tuple[float, float]:
    """The longest pause between two frames since the blow: its end, in seconds after the blow, and its length."""
    moments = [blow, *(moment for moment in painted if moment > blow)]
    length, end = max((later - earlier, later) for earlier, later in pairwise(moments))
    return end - blow, length


def test_a_page_goes_on_when_its_engine_is_killed_crashes_or_is_stopped(own_server, page) -> None:
    """One after the other in one tab: steps and field go on from about a second before, and the page says so."""
    lab = LabPage(page, own_server)
    lab.until(lambda: lab.step() > 100)
    page.evaluate(WATCH)
    for name, goal in GOALS.items():
        victim, allowed = with_spare(own_server), slack()
        rough, first, start = lab.field()["rough"], lab.step(), time.monotonic()
        page.wait_for_timeout(2000 * LOST * allowed)
        before = lab.step()
        rate = (before - first) / (time.monotonic() - start)
        blow = time.time()
        os.kill(victim.pid, getattr(signal, name))
        page.get_by_text(name).wait_for(timeout=60_000)
        lab.until(lambda blow=blow: sum(moment > blow for moment in page.evaluate("painted")) > 20, 60)
        seconds, pause = frozen(page.evaluate("painted"), blow)
        page.wait_for_timeout(500)  # the status bar is written four times a second
        print(f"{name}: next frame after {seconds:.2f} s, pause {pause:.2f} s; goal {goal:g} s, here x {allowed:.1f}")
        assert seconds < goal * allowed
        assert lab.step() > before - rate * LOST * allowed
        assert lab.field()["rough"] < rough  # heat spreads: smoother than the field that is too old to go on from
        assert "Running" in lab.status()
        assert victim.pid not in {child.pid for child in own_server.family()}
