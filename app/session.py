"""One browser tab's lab: which engine runs it, with which values; frames in, commands out, clean-up at the end.

Everything here happens on the document's loop, except that an engine's events arrive on its reader thread: frames go
straight to the gate, which is made for that, all other events are carried over to the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import param
from bokeh.document import Document

from app.lobby import lobby
from app.stream import Delivered, FrameGate
from app.taping import Taping
from compute.backends import backend
from compute.engine import messages
from compute.frames import Frame
from compute.lab import Lab

HOST = "host"
STATES = ("starting", "running", "paused", "moving", "restarting", "broken")


class Session(param.Parameterized):
    """A lab on an engine, as one tab sees it.

    state and detail say in a word and in words how it is; playing whether it advances by itself; values holds every
    parameter of the lab, at first `values` and the defaults; busy is true while detail names something long, answered
    false from a change until the next frame; steps_per_frame, at first `pace`, is None for as fast as it goes.
    Listeners: on_frame(number, frame), on_delivered(Delivered), on_event(engine event), on_values(changed by others).
    """

    state = param.Selector(default="starting", objects=list(STATES))
    detail = param.String(default="")
    playing = param.Boolean(default=False)

    def __init__(
        self,
        lab: type[Lab],
        document: Document,
        values: Mapping[str, Any] = MappingProxyType({}),
        pace: int | None = None,
    ) -> None:
        super().__init__()
        self.lab, self.document = lab, document
        self.values: dict[str, Any] = {n: lab.param[n].default for n in lab.param if n != "name"} | dict(values)
        self.steps_per_frame = pace
        self.view: tuple[float, float, float, float] | None = None
        self.pixels = (512, 512)
        self.latest: Frame | None = None
        self.on_frame: Callable[[int, Frame], None] = _ignore
        self.on_delivered: Callable[[Delivered], None] = _ignore
        self.on_event: Callable[[Any], None] = _ignore
        self.on_values: Callable[[dict[str, Any]], None] = _ignore
        self.gate = FrameGate(self._send, self._grant, document.add_next_tick_callback, self._painted)
        self._handle: Any = None
        self._before: dict[str, Any] = {}  # the values that a move to another engine has changed
        self._asked: dict[str, int] = {}  # the number of the last change of each value, 0 if none was asked for
        self._closed = self.busy = self.answered = False
        self._taping = Taping(lambda news: self.later(lambda: self.on_event(news)))
        self._target = ""

    # -- life

    @property
    def engine(self) -> str:
        """Name of the engine the values ask for: "host" or "cuda:<index>"."""
        chosen = backend(self.values["backend"])
        return HOST if chosen.device == HOST else f"{chosen.device}:{self.values['device_index']}"

    @property
    def restarting(self) -> bool:
        """Whether the engine has died and is being replaced just now."""
        return self._handle is not None and lobby().engines.get(self._target).state == "restarting"

    def start(self) -> None:
        """Open the lab on its engine. Frames come once the gate is opened, when the browser can show them."""
        self._open()

    def _open(self, snapshot: Mapping[str, Any] | None = None) -> None:
        self._target = self.engine
        supervisor = lobby().engines.get(self._target)
        self._handle = supervisor.open(self.lab.LAB, dict(self.values), self._hear, pixels=self.pixels)
        if snapshot is not None:
            self._handle.act("restore", snapshot=snapshot)
        self._handle.pace(self.steps_per_frame)
        self._handle.look(self.view, self.pixels)
        self._taping.go_on(self._handle)
        if self.playing:
            self._handle.run()

    def connection_lost(self) -> None:
        """The browser is gone, perhaps for good. Bokeh holds no lock of the document, so that is not touched here."""
        self.gate.pause()
        if self._handle is not None and not self._closed:
            self._handle.pause()

    def reconnected(self) -> None:
        """The same browser is back: go on where it was."""
        if self._handle is None or self._closed:
            return
        if self.playing:
            self._handle.run()
        self._settle()
        self.later(self.gate.open)

    def close(self) -> None:
        """Give everything back. Harmless if called twice."""
        if self._closed:
            return
        self._closed = True
        self.gate.close()
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def later(self, callback: Callable[[], object]) -> None:
        """Run `callback` soon with the document's lock, which changing a bokeh model needs.

        Panel runs the callbacks of its own widgets without that lock.
        """
        if not self._closed:
            self.document.add_next_tick_callback(callback)

    # -- commands

    def change(self, **values: Any) -> None:
        """Set parameters of the lab. The engine checks them; what it refuses is put back and said."""
        changed = {name: value for name, value in values.items() if self.values.get(name) != value}
        if not changed:
            return
        before = {name: self.values[name] for name in changed}
        self.values.update(changed)
        self._asked |= dict.fromkeys(changed, 0)
        self.answered = False
        if self._handle is None:
            return
        if self.engine != self._target and self.state != "moving":
            self._before = before
            self.param.update(state="moving", detail=f"moving to {self.engine}")
            self._taping.interrupt(self._handle)
            self._handle.snapshot()
        elif self.engine == self._target:
            self._asked |= dict.fromkeys(changed, self._handle.update(**changed))
            if self.playing:
                self.gate.refresh()

    def act(self, name: str, **arguments: Any) -> None:
        """Call one of the lab's actions."""
        if self._handle is not None:
            self._handle.act(name, **arguments)

    def play(self, playing: bool) -> None:
        """Run, or pause."""
        if self._handle is None:
            return
        if self.state == "broken":
            lobby().engines.get(self._target).retry()
        self._handle.run() if playing else self._handle.pause()
        self.playing = playing
        self._settle()

    def step(self) -> None:
        """Advance by one step, and stay paused."""
        self.play(False)
        if self._handle is not None:
            self._handle.step(1)

    def pace(self, steps: int | None) -> None:
        """Steps a frame; None: as fast as it goes."""
        self.steps_per_frame = steps
        if self._handle is not None:
            self._handle.pace(steps)

    def look(self, view: tuple[float, float, float, float] | None, pixels: tuple[int, int]) -> None:
        """Show `view` (cells; None: all) in at most `pixels` (height, width)."""
        if (view, pixels) != (self.view, self.pixels):
            self.view, self.pixels = view, pixels
            if self._handle is not None:
                self._handle.look(view, pixels)

    def ask(self, request: str, *arguments: Any) -> None:
        """Ask for a measurement ("sample"), an independent result ("solve") or a "snapshot"; the answer is an event."""
        if request not in ("sample", "solve", "snapshot"):
            raise ValueError(f"request must be sample, solve or snapshot, not {request!r}")
        if self._handle is not None:
            getattr(self._handle, request)(*arguments)

    # -- recording

    @property
    def recording(self) -> bool:
        """Whether the lab is being recorded."""
        return self._taping.on

    def record(self, folder: str, every: int, pixels: tuple[int, int], most: int) -> None:
        """Record at every `every`-th step, whatever is shown (LabHandle.record); answered by Recorded events.

        It goes on in the same folder on another engine, but ends where an engine gives up and the lab begins afresh.
        """
        if self._handle is not None:
            self._taping.begin(self._handle, folder, every, pixels, most)

    def stop_recording(self) -> None:
        """End the recording, if there is one."""
        if self._handle is not None:
            self._taping.end(self._handle)

    # -- frames

    def _grant(self, count: int) -> None:
        if self._handle is not None:
            self._handle.credit(count)

    def _send(self, number: int, frame: Frame) -> None:
        self.latest, self.answered = frame, True
        if self.state == "starting" or self.busy:
            self._settle()
        self.on_frame(number, frame)

    def _painted(self, delivered: Delivered) -> None:
        self.on_delivered(delivered)

    def _settle(self) -> None:
        self.busy = False
        self.param.update(state="running" if self.playing else "paused", detail="")

    # -- events of the engine

    def _hear(self, event: Any) -> None:
        """Any thread."""
        if self._closed:
            return
        if isinstance(event, messages.FrameReady):
            self.gate.offer(event.frame)
        else:
            self.later(partial(self._react, event))

    def _react(self, event: Any) -> None:
        if self._closed:
            return
        match event:
            case messages.Refused(change=messages.OPENING, text=text) if self._before:
                self._taping.give_up(text)
                before, self._before = self._before, {}
                self._put_back(before)
                self._move()
            case messages.Refused(change=change, kept=kept):
                self._put_back({name: value for name, value in kept.items() if self._asked.get(name) == change})
            case messages.Paused(reason=reason):
                self.playing = False
                self.param.update(state="paused", detail=reason)
            case messages.Busy(what=what):
                self.busy = True
                self.detail = f"{what} …"
            case messages.Restarted(reason=reason):
                self.gate.open()
                self._settle()
                self.detail = f"restarted: {reason}"
            case messages.Broken(reason=reason):
                self._fall_back(reason)
            case messages.SnapshotTaken(snapshot=snapshot) if self.state == "moving":
                self._move(snapshot)
            case messages.Recorded() if not self._taping.hear(event):
                return
        self.on_event(event)

    def _put_back(self, values: dict[str, Any]) -> None:
        """These hold still: a change of them was refused, and nobody has changed them since."""
        self.values.update(values)
        if values:
            self.answered = True
            self.on_values(values)

    def _move(self, snapshot: Mapping[str, Any] | None = None) -> None:
        """Continue on the engine the values now ask for; without a snapshot afresh."""
        old, self._handle = self._handle, None
        old.close()
        self._open(snapshot)
        self._settle()
        self.gate.open()

    def _fall_back(self, reason: str) -> None:
        """The engine has given up: a GPU's lab goes on afresh on the host, the host's lab waits for `play`."""
        self.playing = False
        self.param.update(state="broken", detail=reason)
        if self._target != HOST:
            self._taping.give_up(reason)
            self.values["backend"] = self.lab.param["backend"].default
            self._move()
            self.on_values({"backend": self.values["backend"]})


def _ignore(*anything: object) -> None:
    """What a listener does until somebody listens."""
