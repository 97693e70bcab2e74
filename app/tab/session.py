"""The lab of one browser tab: a state machine that connects the tab with the engine that runs the lab.

The attribute `playing` (whether the lab should run) is independent of the state and survives every move:

    start ──► Opening ── first frame ──► Live ────── values select another engine ───────► Moving
                 │                       ▲  │                                               │  │
                 │ engine died           │  │ engine died        the new lab's first frame  │  │ refused, failed,
                 ▼                       │  ▼                    (the old one is closed) ───┤  │ or cancelled
             Restarting ◄── play ──┐     │ Restarting ── reopened ──► Live, or Opening       ▼  ▼
                 │                 │     └──────────────────────────────────────────────── Live
                 └─ gave up ──► Broken ── a GPU's: from the last checkpoint ──► Moving to the host
                    (Failed if it closed this lab alone)
    close, from any state ──► Closed

Four parts share the work: session_states.py has the states and the status with their texts; shown_lab.py is the client
of the shown lab, with its values, settings and pending snapshots; engine_move.py has the transitions of a move,
engine_faults.py those after an engine's death. `Session` is what the page calls, and routes frames and the engines'
events.

The values are the engine's (those that it has applied, and those requested and not refused); the session stores no
copy. The status text is derived from the state (`phase`, `detail`) and never read back.

All code runs on the document's loop, except that an engine's events arrive on its reader thread: frames of the current
lab go directly to the gate, which is thread-safe; all other events are forwarded to the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from bokeh.document import Document

from app.server.admission import session_limiter
from app.server.builder import builder
from app.tab.engine_faults import EngineFaults
from app.tab.engine_move import EngineMove
from app.tab.publisher import Publisher
from app.tab.session_states import (
    Broken,
    Closed,
    LabRequest,
    Live,
    Moving,
    Opening,
    SessionStatus,
)
from app.tab.shown_lab import ShownLab
from app.tab.stream import Delivered, FrameGate
from app.tab.tab_recording import TabRecording
from app.upstream.internals import is_destroyed
from compute.devices.backends import backend
from compute.engine import Supervisor, messages
from compute.lab.frames import Frame, View
from compute.lab.lab import Lab

BEGINNING = ("reset", "rollback")  # actions that load another state, which clears the note about a pause


class Values(Mapping[str, Any]):
    """A live view of every parameter of the lab with its applied or requested value."""

    def __init__(self, read: Callable[[], Mapping[str, Any]]) -> None:
        self._read = read

    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


class FrameTarget(Protocol):
    """The part of a view that shows the session's frames and confirms them; see app.tab.stream.FrameSource."""

    def skip(self, number: int) -> None:
        """Request only a confirmation of frame `number` from the browser."""

    @property
    def lock_free(self) -> bool:
        """Whether a frame can be shown without the document's lock."""


def engine_called(name: str) -> Supervisor:
    """Return the server's engine of this name, which is started at first use."""
    return session_limiter().engines.get(name)


class Session(SessionStatus):
    """A lab on an engine, as one tab uses it.

    values: every parameter of the lab, initially `values` and the defaults; pace: initial steps per frame, None for the
    highest rate; shown: the lab as a client of its engine; frames: publishes frames to show; delivered: painted frames.
    `close` closes all publishers.
    """

    def __init__(
        self,
        lab: type[Lab],
        document: Document,
        values: Mapping[str, Any] = MappingProxyType({}),
        pace: int | None = None,
    ) -> None:
        super().__init__()
        self.lab, self.document = lab, document
        self.values = Values(self._all_values)
        self.frames: Publisher[Frame] = Publisher()
        self.delivered: Publisher[Delivered] = Publisher()
        self._frame_target: FrameTarget | None = None
        self._loop = builder().loop()
        self.gate = FrameGate(self._send, self._permit, self._schedule, self._confirm, self.delivered.publish)
        recording = TabRecording(lambda progress: self.later(lambda: self.events.publish(progress)))
        self.where = (*self.WHERE, lab.NUMBER_TYPE)
        self.shown = ShownLab(lab, values, pace, engine_called, self._receive, self.events, recording)
        self._move = EngineMove(self, self.shown, self.gate)
        self._faults = EngineFaults(self, self.shown, self.gate, self._move)
        self._drawn = False  # whether the browser has drawn the plots

    # -- status

    @property
    def engine(self) -> str:
        """Name of the engine that the values select: "host" or "cuda:<index>"."""
        return self.engine_for(self.values)

    @staticmethod
    def engine_for(values: Mapping[str, Any]) -> str:
        """Return the name of the engine that `values` select."""
        return backend(values["backend"]).engine(values["device_index"])

    def _all_values(self) -> dict[str, Any]:
        values = self.shown.values
        return self.state.values(values) if isinstance(self.state, Moving) else values

    @property
    def confirmed(self) -> Mapping[str, Any]:
        """The values that the engine has applied: a read-only mapping, replaced when one of them changes."""
        return self.shown.confirmed

    @property
    def view(self) -> View | None:
        """The visible part (x0, y0, x1, y1) in cells; None for all."""
        return self.shown.view

    @property
    def steps_per_frame(self) -> int | None:
        """The pace; None for the highest rate."""
        return self.shown.steps_per_frame

    @property
    def recording(self) -> bool:
        """Whether the lab is being recorded."""
        return self.shown.recording.on

    # -- life cycle

    def start(self) -> None:
        """Open the lab on its engine. Frames follow when the browser can show them (`ready`)."""
        self.shown.opened = self.shown.open(self.engine, self.shown.values, self.gate.newest)
        self.shown.resume(self.gate.permitted, self.playing)

    def _drive(self) -> None:
        """Run or pause the shown lab; during a move it stays paused."""
        if not isinstance(self.state, Moving | Closed):
            self.shown.run(self.playing)

    def ready(self) -> None:
        """Start the frames after the browser has drawn the plots."""
        self._drawn = True
        self._open_gate()

    def show(self, shown: bool) -> None:
        """Run the lab when it is shown, pause it when it is hidden. May be called without the document's lock."""
        self.shown.visible = shown
        if isinstance(self.state, Closed):
            return
        self._drive()
        if shown:
            self.later(self._open_gate)
        else:
            self.gate.pause()

    def _open_gate(self) -> None:
        if self.shown.visible and self._drawn:
            self.gate.open()

    def close(self) -> None:
        """Release all resources; further calls have no effect."""
        old, self.state = self.state, Closed()
        self.gate.close()
        self.shown.close()
        if isinstance(old, Moving) and old.new is not None:
            old.new.handle.close()
        self._frame_target = None
        for publisher in (self.frames, self.delivered, self.events, self.value_changes):
            publisher.close()

    def later(self, callback: Callable[[], object]) -> None:
        """Run `callback` soon with the document's lock, which changes of Bokeh models require.

        Panel runs the callbacks of its own widgets without that lock. Callable from any thread: an engine may send an
        event after the page's document is destroyed and before the session is closed.
        """
        if self._loop is None or builder().loop() is not None:
            self._next_tick(callback)
        else:  # an engine's thread: Bokeh loses a callback that is added while the loop releases a document's lock
            self._loop.add_callback(self._next_tick, callback)

    def _next_tick(self, callback: Callable[[], object]) -> None:
        if not isinstance(self.state, Closed) and not is_destroyed(self.document):
            self.document.add_next_tick_callback(callback)

    # -- requests

    def change(self, **values: Any) -> None:
        """Set parameters of the lab. The engine checks them; refused values are reverted and reported."""
        now = self._all_values()
        changed = {name: value for name, value in values.items() if now.get(name) != value}
        if not changed or isinstance(self.state, Closed):
            return
        self.answered, self.shown.failures = False, 0
        handle, target = self.shown.handle, self.engine_for(now | changed)
        if handle is None:
            self.shown.change_initial(changed)
        elif isinstance(self.state, Moving):
            self._move.change(self.state, changed, target)
        elif target != self.shown.engine:
            self._move.begin(changed, target)
        else:
            handle.update(**changed)
            if self.playing:
                self.gate.refresh()

    def act(self, name: str, **arguments: Any) -> None:
        """Call one of the lab's actions."""
        if name in BEGINNING and isinstance(self.state, Live) and self.state.note:
            self.state = Live()  # the note is about the previous state
        self._request(lambda handle: handle.act(name, **arguments))

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue from a state that Lab.snapshot returned for a lab of this shape."""
        self._request(lambda handle: handle.restore(snapshot))

    def play(self, playing: bool) -> None:
        """Run or pause; running also retries a broken engine."""
        self.playing = playing
        if isinstance(self.state, Broken) and playing:
            self._faults.try_again(self.state.reason)
        elif isinstance(self.state, Live):
            self.state = Live()
        self._drive()

    def step(self) -> None:
        """Advance by one step, and stay paused."""
        if self.playing:
            self.play(False)
        elif isinstance(self.state, Live):  # without a pause, which would cancel an earlier step that waits
            self.state = Live()
        self._request(lambda handle: handle.step(1))

    def pace(self, steps: int | None) -> None:
        """Set the steps per frame; None for the highest rate."""
        self.shown.set_pace(steps)

    def set_view(self, view: View | None, pixels: tuple[int, int]) -> None:
        """Show `view` (cells; None: all) in at most `pixels` (height, width)."""
        self.shown.set_view(view, pixels)

    def request_snapshot(self) -> None:
        """Request the lab's whole state; the answer is SnapshotTaken, or Refused with the request TakeSnapshot."""
        snapshots, handle = self.shown.snapshots, self.shown.handle
        snapshots.pending += 1
        if handle is None or isinstance(self.state, Broken):
            self.later(lambda: snapshots.refuse("the lab cannot answer now"))
        else:
            handle.snapshot()

    def request_history(self, number: int = 0) -> None:
        """Request the history of the lab's state, without the state; the answer is HistoryTold, unless the engine dies.

        No answer follows during a move or if the engine is not running. number: copied into the answer.
        """
        if self.shown.handle is not None and isinstance(self.state, Live):
            self.shown.handle.request_history(number)

    def record(self, folder: str, every: int, pixels: tuple[int, int], most: int) -> None:
        """Record every `every`-th step, even while hidden (LabHandle.record); answered by RecordingProgress.

        The recording continues in the same folder on another engine, but ends if an engine gives up.
        """
        if self.shown.handle is not None:
            self.shown.recording.start(self.shown.handle, (folder, every, pixels, most))

    def stop_recording(self) -> None:
        """Stop the recording, if any."""
        if self.shown.handle is not None:
            self.shown.recording.stop(self.shown.handle)

    def _request(self, request: LabRequest) -> None:
        """Send a request to the lab; queue it during a move."""
        if isinstance(self.state, Moving):
            self._move.queue(self.state, request)
        else:
            self.shown.send(request)

    # -- frames

    def show_in(self, target: FrameTarget) -> None:
        """Let `target` confirm the frames, instead of an earlier one."""
        self._frame_target = target

    def pass_on(self) -> None:
        """Permit further frames although a hidden browser tab has painted none of the previous ones."""
        self._schedule(self.gate.pass_on)

    def _permit(self, number: int) -> None:
        """Set the frame limit of the shown lab; it stays unchanged during a move."""
        if self.shown.handle is not None and not isinstance(self.state, Moving):
            self.shown.handle.frames_through(number)

    def _schedule(self, show: Callable[[], None]) -> None:
        """Show a frame soon, with the document's lock if a model may change. Callable from any thread."""
        target = self._frame_target
        live = isinstance(self.state, Live) and not self.busy
        if self._loop is not None and live and target is not None and target.lock_free:
            self._loop.add_callback(show)
        else:
            self.later(show)

    def _confirm(self, number: int) -> None:
        if self._frame_target is not None:
            self._frame_target.skip(number)

    def _send(self, number: int, frame: Frame) -> None:
        self.latest, self.answered = frame, True
        state = self.state
        if self.busy and not isinstance(state, Moving):
            self.busy = ""
        if isinstance(state, Opening):
            self.state = Live()
        self.frames.publish(frame)

    # -- events of the engines

    def _receive(self, key: int, event: messages.Event) -> None:
        """Handle an event on any thread. key: of the event's lab."""
        if isinstance(self.state, Closed):
            return
        if isinstance(event, messages.FrameReady) and key == self.shown.key:
            self.gate.offer(event.frame)
        elif isinstance(event, messages.Busy):
            self.later(partial(self._react_to_busy, key, event, self.gate.newest))
        else:
            self.later(partial(self._react, key, event))

    def _react_to_busy(self, key: int, event: messages.Busy, newest: int) -> None:
        """Show a long operation unless a frame has arrived since; newest: number of the last frame before it."""
        if key != self.shown.key or self.gate.newest == newest:
            self._react(key, event)

    def _react(self, key: int, event: messages.Event) -> None:
        state = self.state
        if isinstance(state, Moving) and state.new is not None and key == state.new.key:
            self._move.on_new_event(state, event)
        elif key == self.shown.key and not isinstance(state, Closed):
            if isinstance(event, messages.FrameReady):  # it arrived before its lab took over
                self.gate.offer(event.frame)
            else:
                self._on_shown_event(event)

    def _on_shown_event(self, event: messages.Event) -> None:
        """Handle an event of the shown lab."""
        event = self._faults.follow(event)
        match event:
            case messages.Paused(reason=reason):
                self.playing = False
                if isinstance(self.state, Live):
                    self.state = Live(reason)
            case messages.Busy(what=what):
                self.busy = what
            case messages.SnapshotTaken() | messages.Refused(request=messages.TakeSnapshot):
                self.shown.snapshots.answered()
            case messages.CheckpointTaken() | messages.Refused(request=messages.TakeCheckpoint):
                self._move.take_checkpoint(event)
                return
            case messages.Refused(kept=kept):
                self._revert(kept)
            case messages.RecordingProgress() if not self.shown.recording.on_recorded(event):
                return
        self.events.publish(event)

    def _revert(self, kept: Mapping[str, Any]) -> None:
        """Report the values that apply after a refused change."""
        if kept:
            self.answered = True
            now = self._all_values()
            self.value_changes.publish({name: now[name] for name in kept})
            self.shown.request_frame()  # `change` has dropped one from the gate
