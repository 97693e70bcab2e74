"""Pages around a session, on real or simulated engines: a document loop run by the test, widgets and a browser."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from app.tab import engine_faults
from app.tab import session as module
from app.tab.session import Session
from compute.engine import SnapshotTaken
from tests.compute.engine.faulty import Faulty
from tests.fake_engine import Engines, FakeLab


class Elsewhere(Session):
    """A session on the engine that the value `text` names; "" is the host."""

    WHERE = ("text",)

    @staticmethod
    def engine_for(values: Any) -> str:
        return values["text"] or "host"


class Page:
    """A page around a session. told: the events that it received; widgets: the values that its widgets show."""

    def __init__(self, session: type[Session] = Elsewhere, lab: type = Faulty, **values: Any) -> None:
        self.jobs: deque[Callable[[], object]] = deque()
        self.told: list[Any] = []
        document: Any = SimpleNamespace(add_next_tick_callback=self.jobs.append)
        self.session = session(lab, document, {"backend": "cpu_numpy", **values})
        self.widgets = dict(self.session.values)
        self.session.value_changes.subscribe(self.widgets.update)
        self.session.events.subscribe(self.told.append)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]

    def change(self, **values: Any) -> None:
        self.widgets |= values
        self.session.change(**values)


class LivePage(Page):
    """A page on real engines, whose browser confirms every frame at once."""

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
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
            self.turn(0.003)

    def until_told(self, kind: type[Any], count: int = 1) -> Any:
        """Return the event number `count` of its kind."""
        self.until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]

    def snapshot(self) -> dict[str, Any]:
        self.session.request_snapshot()
        return dict(self.until_told(SnapshotTaken, len(self.of(SnapshotTaken)) + 1).snapshot)


class FakePage(Page):
    """A page on the simulated engines `names`; `close` ends it."""

    def __init__(self, *names: str, **values: Any) -> None:
        super().__init__(**values)
        self.engines = Engines(*names)
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(module, "session_limiter", lambda: SimpleNamespace(engines=self.engines))
        self.patch.setattr(engine_faults, "host_values", lambda lab, values: {"text": ""})
        self.unconfirmed: deque[int] = deque()
        self.most_owed = 0  # greatest number of frames owed to the browser: in flight, or permitted and not made
        self.session.gate._clock = lambda: 0.0  # no delay, so that the window is 1
        self.session.frames.subscribe(lambda frame: self.unconfirmed.append(frame.number))
        self.session.show_in(SimpleNamespace(skip=self.unconfirmed.append, lock_free=False))
        self.session.start()
        self.session.ready()

    def close(self) -> None:
        self.session.close()
        self.patch.undo()

    def loop(self, n: int = 1) -> None:
        """Run up to `n` callbacks of the document's loop."""
        for _ in range(min(n, len(self.jobs))):
            self.jobs.popleft()()

    def paint(self) -> None:
        """Let the browser confirm one frame."""
        if self.unconfirmed:
            self.session.gate.acknowledge(self.unconfirmed.popleft(), 0.001)
        gate, lab = self.session.gate, self.session.shown.handle
        self.most_owed = max(self.most_owed, gate.under_way + (gate._unsent is not None) + lab.through - lab.frames)

    def rest(self, turns: int = 80) -> None:
        """Run engines, loop and browser until all are idle, or for `turns` turns."""
        for _ in range(turns):
            busy = self.engines.turn() or bool(self.jobs or self.unconfirmed)
            self.loop(3)
            self.paint()
            if not busy:
                break
        while self.jobs:
            self.loop()

    @property
    def lab(self) -> FakeLab:
        """The only open lab."""
        (lab,) = (lab for lab in self.engines.labs if not lab.closed)
        return lab
