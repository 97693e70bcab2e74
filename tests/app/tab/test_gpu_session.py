"""Moves of a tab's lab between the host and a real GPU: completed, refused, and back to the host after a failure."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from app.tab import session as module
from app.tab.session import Session
from app.tab.session_states import FellBack, Live
from compute.devices.backends import backend
from compute.engine import EnginePool, Refused
from compute.lab.lab import variants
from compute.labs.diffusion import Diffusion
from tests.app.tab.pages import LivePage

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(backend("gpu_cupy").missing), reason="gpu_cupy is missing here")]


@pytest.fixture(scope="module")
def engines() -> Iterator[EnginePool]:
    pool = EnginePool()
    yield pool
    pool.close()


@pytest.fixture
def page(engines, monkeypatch) -> Iterator[LivePage]:
    monkeypatch.setattr(module, "session_limiter", lambda: SimpleNamespace(engines=engines))
    page = LivePage(Session, Diffusion, backend="cpu_numba", ny=300, nx=200, r=0.2)
    page.until(lambda: page.session.latest)
    yield page
    page.session.close()


def move(page: LivePage, **values: object) -> None:
    """Change values, and wait until the lab is live again."""
    page.session.change(**values)
    page.until(lambda: isinstance(page.session.state, Live))


def step_once(page: LivePage) -> None:
    page.session.step()
    page.until(lambda: page.session.latest.facts["step"] == 1)


def test_a_field_goes_to_the_gpu_and_back(page):
    session = page.session
    session.play(True)
    page.until(lambda: session.latest.facts["step"] > 20)
    session.act("checkpoint")
    session.play(False)
    start = page.snapshot()
    for name, r in (("gpu_cupy", 0.1), ("gpu_numba", 0.15), ("cpu_numpy", 0.2)):
        move(page, backend=name, variant="", r=r)
        page.until(lambda name=name: session.latest.timing.backend == name)
    end = page.snapshot()
    assert end["steps"] == start["steps"]
    np.testing.assert_array_equal(end["field"], start["field"])
    session.step()
    session.act("rollback")  # the checkpoint has moved along
    page.until(lambda: session.latest.facts["step"] == start["saved"]["steps"])
    assert not page.of(Refused)


def test_a_link_s_size_and_state_arrive_on_the_gpu(page):
    page.session.change(backend="gpu_cupy", variant="", ny=2048, nx=2048)
    field = np.random.default_rng(1).random((2048, 2048), np.float32)
    truth = Diffusion(backend="cpu_numba", ny=2048, nx=2048)
    truth.load(field)
    page.session.restore(truth.snapshot())
    page.until(lambda: isinstance(page.session.state, Live))
    page.until(lambda: page.session.latest.timing.cells == 2048**2)
    np.testing.assert_array_equal(page.snapshot()["field"], field)
    assert not page.of(Refused)


def test_what_the_gpu_refuses_leaves_the_lab_on_the_host(page):
    step_once(page)
    before = page.snapshot()
    page.session.change(backend="gpu_cupy", variant="", device_index=63)
    page.until_told(Refused)
    page.until(lambda: isinstance(page.session.state, Live))
    assert (page.session.engine, page.session.values["device_index"]) == ("host", 0)
    np.testing.assert_array_equal(page.snapshot()["field"], before["field"])


def test_where_the_gpu_s_engine_gives_up_the_host_goes_on(page, engines):
    move(page, backend="gpu_cupy", variant=variants(Diffusion, "gpu_cupy")[-1])
    page.until(lambda: page.session.shown.handle.last_checkpoint)
    initial = page.session.shown.handle.last_checkpoint
    step_once(page)
    page.until(lambda: page.session.shown.handle.last_checkpoint is not initial)
    engine = engines.get("cuda:0")

    def is_broken() -> bool:
        """Kill the engine's process whenever it runs."""
        if engine.state in ("ready", "busy") and engine.pid:
            os.kill(engine.pid, signal.SIGKILL)
        return engine.state == "broken"

    page.until(is_broken)
    page.until_told(FellBack)
    page.until(lambda: isinstance(page.session.state, Live))
    assert page.session.values["backend"] == "cpu_numba"
    assert page.snapshot()["steps"] == 1
