"""The session against two real engines that are killed: page and engines agree after any sequence."""

from __future__ import annotations

import os
import random
import signal
from types import SimpleNamespace

import pytest

from app.tab import session as module
from app.tab.session import Session
from app.tab.session_states import Live
from compute.devices.backends import backend
from compute.engine import EnginePool, Refused
from compute.lab.lab import values_on
from compute.labs.l_curve import LCurve
from tests.app.tab.pages import LivePage
from tests.conftest import require

EXAMPLES = int(os.environ.get("FIELDLAB_REAL_EXAMPLES", "8"))  # number of random sequences; 200 for a thorough run
ACTS = 12  # per sequence


def strike(page: LivePage, engine, rng: random.Random) -> None:
    """Kill or crash an engine. A second crash would be charged to the lab, which would then be closed."""
    number = rng.choice([signal.SIGKILL, signal.SIGSEGV])
    charged = page.session.shown.handle is not None and page.session.shown.handle._lab.charge_times
    if engine.pid:
        os.kill(engine.pid, signal.SIGKILL if charged else number)


def act(page: LivePage, engines, rng: random.Random) -> None:
    """Do one random user action or engine fault."""
    session, chosen = page.session, rng.randrange(11)
    if chosen <= 1:
        page.change(level=rng.choice([0.1, 0.25, 0.75, 9.0]))
    elif chosen <= 3:
        more = rng.choice([{}, {"level": 0.3}, {"level": 9.0}, {"size": rng.choice([3, 4, 64])}])
        page.change(text=rng.choice(["", "host:b"]), **more)
    elif chosen == 4:
        session.step()
    elif chosen == 5:
        session.play(not session.playing)
    elif chosen == 6:
        session.show(rng.random() < 0.5)
    elif chosen == 7:
        session.set_view((0.0, 0.0, 2.0, 2.0), (rng.choice([4, 8]), 8))
    elif chosen == 8:
        session.request_snapshot()
    elif rng.random() < 0.4:
        strike(page, engines[rng.choice(list(engines))], rng)
    page.turn(rng.choice([0.0, 0.0, 0.002, 0.02, 0.1]))


def is_at_rest(page: LivePage, engines) -> bool:
    """Return whether the lab is live and every request has been answered."""
    shown = page.session.shown
    return (
        isinstance(page.session.state, Live)
        and shown.handle is not None
        and not shown.handle._lab.unapplied
        and shown.snapshots.pending == 0
        and all(engine.state in ("ready", "busy") for engine in engines.values())
    )


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_page_values_and_the_running_lab_agree_after_any_sequence(engines, live_page, seed):
    for engine in engines.values():
        engine._breaker.reset()  # crashes in earlier sequences do not count
    page, rng = live_page(), random.Random(seed)
    session = page.session
    session.play(True)
    for _ in range(ACTS):
        act(page, engines, rng)
    session.show(True)
    page.until(lambda: is_at_rest(page, engines))
    session.play(False)
    page.turn(0.05)
    page.until(lambda: is_at_rest(page, engines))
    state, values = page.snapshot(), dict(session.values)
    assert session.phase == "paused"
    assert page.widgets == values
    assert 0 <= values["level"] <= 1
    assert (state["field"] == state["count"]).all()  # the field and its count belong together
    assert state["field"].shape == (values["size"],) * 2
    page.until(lambda: session.latest and session.latest.facts["step"] == state["count"])
    assert session.latest.facts["level"] == values["level"]
    shown = session.shown.handle._lab
    open_labs = {name: [lab for lab in engine._registry.all() if not lab.closing] for name, engine in engines.items()}
    assert {name: labs for name, labs in open_labs.items() if labs} == {session.engine: [shown]}
    assert session.gate.under_way + shown.frames_through - shown.frames <= session.gate.window + 1
    expected = "level", "given up when the engine died for the second time"
    assert not [event for event in page.of(Refused) if not any(words in event.text for words in expected)]


def test_a_lab_moves_to_a_backend_without_its_number_type(monkeypatch):
    """A backend is opened with a number type that it has: float64 on the host, float32 on WebGPU."""
    require(backend("gpu_wgpu"), monkeypatch)
    pool = EnginePool()
    monkeypatch.setattr(module, "session_limiter", lambda: SimpleNamespace(engines=pool))
    page = LivePage(Session, LCurve, backend="cpu_numpy", problem="shaw", n=32, dtype="float64")
    try:
        page.until(lambda: page.session.latest)
        page.session.change(**values_on(LCurve, "gpu_wgpu", page.session.values))
        page.until(lambda: page.session.latest.timing.backend == "gpu_wgpu")
        assert (page.session.values["dtype"], page.session.engine) == ("float32", "webgpu:0")
        assert not page.of(Refused)
    finally:
        page.session.close()
        pool.close()
