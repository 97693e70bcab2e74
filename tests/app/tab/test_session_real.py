"""The session against two real engines that are killed: page and engines agree after any sequence."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from app.tab import session as module
from app.tab.session_states import Live
from compute.engine import Refused, SnapshotTaken, Supervisor
from tests.app.tab.test_session_machine import Elsewhere
from tests.compute.engine.faulty import Faulty, running

EXAMPLES = int(os.environ.get("FIELDLAB_REAL_EXAMPLES", "8"))  # number of random sequences; 200 for a thorough run
ACTS = 12  # per sequence


@pytest.fixture(scope="module")
def engines() -> Iterator[dict[str, Supervisor]]:
    lives = {name: running(name) for name in ("host", "host:a")}
    yield {name: next(life) for name, life in lives.items()}
    for life in lives.values():
        next(life, None)


class Two(Elsewhere):
    """A session on the engine that the value `text` names; "" is the host."""

    @staticmethod
    def engine_for(values: Any) -> str:
        return "host:a" if values["text"] else "host"


class Tab:
    """A page with a manual loop, and a browser that confirms frames immediately."""

    def __init__(self, engines: dict[str, Supervisor]) -> None:
        self.engines = engines
        self.jobs: deque[Callable[[], object]] = deque()
        self.told: list[Any] = []
        document: Any = SimpleNamespace(add_next_tick_callback=self.jobs.append)
        self.session = Two(Faulty, document, {"backend": "cpu_numpy"})
        self.widgets = dict(self.session.values)
        self.session.value_changes.subscribe(self.widgets.update)
        self.session.events.subscribe(self.told.append)
        self.session.frames.subscribe(lambda frame: self.session.gate.acknowledge(frame.number, 0.0))
        self.session.start()
        self.session.ready()

    def turn(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.jobs:
                self.jobs.popleft()()
            else:
                time.sleep(0.001)

    def until(self, good: Callable[[], object]) -> None:
        end = time.monotonic() + 120
        while not good():
            assert time.monotonic() < end, (self.session.state, self.told[-5:])
            self.turn(0.005)

    def snapshot(self) -> dict[str, Any]:
        before = len(self.of(SnapshotTaken))
        self.session.request_snapshot()
        self.until(lambda: len(self.of(SnapshotTaken)) > before)
        return dict(self.of(SnapshotTaken)[-1].snapshot)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]

    def change(self, **values: Any) -> None:
        self.widgets |= values
        self.session.change(**values)


def strike(tab: Tab, rng: random.Random) -> None:
    """Kill or crash an engine. A second crash would be charged to the lab, which would then be closed."""
    engine = tab.engines[rng.choice(["host", "host:a"])]
    number = rng.choice([signal.SIGKILL, signal.SIGSEGV])
    charged = tab.session.shown.handle is not None and tab.session.shown.handle._lab.charge_times
    if engine.pid:
        os.kill(engine.pid, signal.SIGKILL if charged else number)


def act(tab: Tab, rng: random.Random) -> None:
    """Do one random user action or engine fault."""
    session, chosen = tab.session, rng.randrange(11)
    if chosen <= 1:
        tab.change(level=rng.choice([0.1, 0.25, 0.75, 9.0]))
    elif chosen <= 3:
        more = rng.choice([{}, {"level": 0.3}, {"level": 9.0}, {"size": rng.choice([3, 4, 64])}])
        tab.change(text=rng.choice(["", "a"]), **more)
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
        strike(tab, rng)
    tab.turn(rng.choice([0.0, 0.0, 0.002, 0.02, 0.1]))


def agrees(tab: Tab) -> bool:
    """Return whether all is at rest: the lab is live, and every request has been answered."""
    session = tab.session
    handle = session.shown.handle
    return (
        isinstance(session.state, Live)
        and handle is not None
        and not handle._lab.unapplied
        and session.shown.snapshots.pending == 0
        and all(engine.state in ("ready", "busy") for engine in tab.engines.values())
    )


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_page_values_and_what_computes_agree_after_any_sequence(engines, monkeypatch, seed):
    for engine in engines.values():
        engine._breaker.reset()  # crashes in earlier sequences do not count
    pool = SimpleNamespace(get=engines.__getitem__)
    monkeypatch.setattr(module, "session_limiter", lambda: SimpleNamespace(engines=pool))
    tab, rng = Tab(engines), random.Random(seed)
    try:
        tab.session.play(True)
        for _ in range(ACTS):
            act(tab, rng)
        tab.session.show(True)
        tab.until(lambda: agrees(tab))
        tab.session.play(False)
        tab.turn(0.05)
        tab.until(lambda: agrees(tab))
        state, values = tab.snapshot(), dict(tab.session.values)
        assert tab.session.phase == "paused"
        assert tab.widgets == values
        assert 0 <= values["level"] <= 1
        assert (state["field"] == state["count"]).all()  # the field and its count belong together
        assert state["field"].shape == (values["size"],) * 2
        tab.until(lambda: tab.session.latest and tab.session.latest.facts["step"] == state["count"])
        assert tab.session.latest is not None
        assert tab.session.latest.facts["level"] == values["level"]
        open_labs = [record for engine in engines.values() for record in engine._registry.all() if not record.closing]
        assert [record.number for record in open_labs] == [tab.session.shown.handle._lab.number]
        assert tab.session.shown.handle._supervisor is engines[tab.session.engine]
        gate, record = tab.session.gate, tab.session.shown.handle._lab
        assert gate.under_way + record.frames_through - record.frames <= gate.window + 1
        told = ("level", "given up when the engine died for the second time")  # the only refusals that may occur
        assert not [event for event in tab.of(Refused) if not any(words in event.text for words in told)]
    finally:
        tab.session.close()
