"""The switch that reports blocking callbacks names the function, and reports no fast one."""

from __future__ import annotations

import asyncio
import time

import pytest

from app.server import free_loop
from app.server.free_loop import LoopWatch, limit


@pytest.fixture
def handle(monkeypatch):
    """Restore the method that a watch replaces."""
    monkeypatch.setattr(asyncio.events.Handle, "_run", asyncio.events.Handle._run)


def compute(seconds):
    """Keep a processor busy."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))


def test_a_callback_that_blocks_the_loop_is_named(handle):
    reported = []

    def slow_step():
        compute(0.2)

    async def work():
        loop = asyncio.get_running_loop()
        loop.call_soon(compute, 0.0)
        loop.call_soon(slow_step)
        loop.call_soon(time.sleep, 0.2)  # it blocks, too, but uses no processor time, as on a busy machine
        await asyncio.sleep(0.6)

    watch = LoopWatch(0.05, lambda seconds, where: reported.append((seconds, where)))
    watch.install()
    try:
        asyncio.run(work())
    finally:
        watch.close()
    ((seconds, where),) = reported
    assert seconds >= 0.2
    assert "slow_step" in where or "compute" in where


def test_the_limit_is_a_number_of_milliseconds(monkeypatch):
    monkeypatch.delenv(free_loop.VARIABLE, raising=False)
    assert limit() is None
    monkeypatch.setenv(free_loop.VARIABLE, "20")
    assert limit() == pytest.approx(0.02)
    for wrong in ("0", "-1", "soon", "1.5"):
        monkeypatch.setenv(free_loop.VARIABLE, wrong)
        with pytest.raises(ValueError, match=free_loop.VARIABLE):
            limit()
