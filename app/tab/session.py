"""The lab of one browser tab: a state machine that connects the tab with the engine that runs the lab.

The attribute `playing` (whether the lab should run) is independent of the state and survives every move:

    start ──► Opening ── first frame ──► Live ──────── values name another engine ───────► Moving
                 │                       ▲  │                                               │  │
                 │ engine died           │  │ engine died        the new lab's first frame  │  │ refused, failed,
                 ▼                       │  ▼                    (the old one is closed) ───┤  │ or cancelled
             Restarting ◄── play ──┐     │ Restarting ── reopened ──► Live, or Opening       ▼  ▼
                 │                 │     └──────────────────────────────────────────────── Live
                 └─ gave up ──► Broken ── a GPU's: from the last checkpoint ──► Moving to the host
                    (Failed if it closed this lab alone)
    close, from any state ──► Closed

A move opens the lab on the other engine from a checkpoint of the old lab, which is paused and is closed only when the
new lab has sent a frame. Until then the old lab remains in charge: if the move is refused, fails or is cancelled, it
continues with its field, history, recording and values. Requests made during a move are queued for the lab that
survives it.

The values are the engine's (those that it has applied, and those requested and not refused); the session stores no
copy. The status text is derived from the state (`phase`, `detail`) and never read back.

All code runs on the document's loop, except that an engine's events arrive on its reader thread: frames of the current
lab go directly to the gate, which is thread-safe; all other events are forwarded to the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeAlias

import param
from bokeh.document import Document

from app.server.admission import session_limiter
from app.server.builder import builder
from app.tab.publisher import Publisher
from app.tab.stream import Delivered, FrameGate
from app.tab.tab_recording import TabRecording
from app.upstream.internals import is_destroyed
from compute.devices.backends import backend
from compute.devices.devices import HOST
from compute.engine import Checkpoint, LabHandle, messages
from compute.engine.api import KeptUnion
from compute.lab.frames import Frame
from compute.lab.lab import Lab

BEGINNING = ("reset", "rollback")  # actions that load another state, which clears the note about a pause

LabRequest: TypeAlias = Callable[[LabHandle], object]


@dataclass(frozen=True)
class UpdateRequest:
    """A request for values; a lab that could not be opened stores them until it is opened again."""

    values: Mapping[str, Any]

    def __call__(self, handle: LabHandle) -> None:
        """Request the values."""
        handle.update(**self.values)


class State:
    """Base class of the states of a session."""


@dataclass(frozen=True)
class Opening(State):
    """The lab was requested, but has sent no frame."""


@dataclass(frozen=True)
class Live(State):
    """The lab shows frames; note: the engine's last message, why the lab was paused or restarted."""

    note: str = ""


@dataclass(frozen=True)
class Restarting(State):
    """The engine has died and is being replaced; the lab will continue from its last checkpoint."""

    reason: str


@dataclass(frozen=True)
class Broken(State):
    """The engine has given up; `play` tries it again."""

    reason: str


@dataclass(frozen=True)
class Failed(Broken):
    """The engine failed twice while it worked for this lab, and closed it. Other labs are not affected.

    `play` opens the lab again from its initial state; after a second failure with the same values it uses the defaults.
    """


@dataclass(frozen=True)
class Closed(State):
    """All resources are released."""


@dataclass(eq=False)
class Moving(State):
    """The lab is being opened on the engine `target`.

    cause: the values that name the engine, reverted if the move fails; waiting: the requests made during the move, in
    order; wanted: the values among them; key, handle: of the new lab after its request; broken: why the old lab cannot
    continue; restarting: why its engine is being restarted.
    """

    target: str
    cause: dict[str, Any]
    waiting: list[LabRequest] = field(default_factory=list)
    wanted: dict[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    key: int = 0
    handle: LabHandle | None = None
    broken: str = ""
    restarting: str = ""


@dataclass(frozen=True)
class FellBack(messages.Event):
    """The engine of a GPU has given up for `reason`; the lab continues on the host, from its last checkpoint."""

    reason: str


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


def host_values(lab: type[Lab], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that make `values` valid on the host: its backend, and a kernel of that backend."""
    ready = [one.name for one in lab.backends() if one.kind == "cpu" and one.missing is None]
    usual = lab.param["backend"].default
    name = usual if usual in ready or not ready else ready[0]
    known = "variant" not in values or values["variant"] in ("", *lab.variants(name))
    return {"backend": name} | ({} if known else {"variant": ""})


MOST_WAITING = 4096  # queued requests during a move: a minute of fast input


class FrameTarget(Protocol):
    """The part of a view that shows the session's frames and confirms them; see app.tab.stream.FrameSource."""

    def skip(self, number: int) -> None:
        """Request only a confirmation of frame `number` from the browser."""

    @property
    def lock_free(self) -> bool:
        """Whether a frame can be shown without the document's lock."""


OpenedLab: TypeAlias = tuple[int, LabHandle]  # the number that identifies a lab's events, and the lab


class Session(param.Parameterized):
    """A lab on an engine, as one tab uses it.

    state, playing: see above; busy: description of a long operation of the engine for this lab, or ""; values: every
    parameter of the lab, initially `values` and the defaults; answered: False from a change until the next frame;
    steps_per_frame: initially `pace`, None for the highest rate. All publishers call on the document's loop; `close`
    closes them. frames: frames to show; delivered: painted frames; events: engine events; value_changes: values that
    were changed without their widgets, because others were refused or a scene was loaded.
    """

    # values that select engine and kernel
    WHERE: ClassVar[tuple[str, ...]] = ("backend", "device_index", "variant")

    state = param.ClassSelector(class_=State, default=Opening())
    busy = param.String(default="")
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
        self.values = Values(self._all_values)
        self.steps_per_frame = pace
        self.view: tuple[float, float, float, float] | None = None
        self.pixels = (512, 512)
        self.latest: Frame | None = None
        self.answered = False
        self.frames: Publisher[Frame] = Publisher()
        self.delivered: Publisher[Delivered] = Publisher()
        self.events: Publisher[messages.Event] = Publisher()
        self.value_changes: Publisher[Mapping[str, Any]] = Publisher()
        self._frame_target: FrameTarget | None = None
        self._loop = builder().loop()
        self.gate = FrameGate(self._send, self._permit, self._schedule, self._confirm, self.delivered.publish)
        self._first = {n: lab.param[n].default for n in lab.param if n != "name"} | dict(values)
        self._asked, self._applied = KeptUnion(), KeptUnion()
        self._handle: LabHandle | None = None  # of the shown lab
        self._key = self._keys = 0  # number of the shown lab and of the last opened one: they identify a lab's events
        self._target = ""  # the engine of the shown lab
        self._shown, self._drawn = True, False  # whether the tab is visible; whether the browser has drawn the plots
        self._failures = 0  # number of LabFailed events with the current values
        self._pending_snapshots = 0  # requested snapshots that have not arrived
        self._checkpoints = 0  # requested checkpoints of the shown lab that have not arrived
        self._recording = TabRecording(lambda news: self.later(lambda: self.events.publish(news)))

    # -- status

    @property
    def phase(self) -> str:
        """The state in a word: starting, running, paused, moving, restarting, broken, failed or closed."""
        match self.state:
            case Live():
                return "running" if self.playing else "paused"
            case Opening():
                return "starting"
            case other:
                return type(other).__name__.lower()

    @property
    def detail(self) -> str:
        """An explanation of the state; "" for none."""
        match self.state:
            case _ if self.busy:
                return f"{self.busy} …"
            case Moving(target=target):
                return f"moving to {target}"
            case Failed(reason=text):
                return f"{text}. Press Run to start it again from its initial state"
            case Restarting(reason=text) | Broken(reason=text) | Live(note=text):
                return text
        return ""

    @property
    def engine(self) -> str:
        """Name of the engine that the values select: "host" or "cuda:<index>"."""
        return self.engine_for(self.values)

    @staticmethod
    def engine_for(values: Mapping[str, Any]) -> str:
        """Return the name of the engine that `values` select."""
        return backend(values["backend"]).engine(values["device_index"])

    def _all_values(self) -> dict[str, Any]:
        asked = self._asked.of(self._first, *([self._handle.values] if self._handle is not None else []))
        if isinstance(self.state, Moving):
            return {**asked, **self.state.cause, **self.state.wanted}
        return asked

    @property
    def confirmed(self) -> Mapping[str, Any]:
        """The values that the engine has applied: a read-only mapping, replaced when one of them changes."""
        return self._applied.of(self._first, *([self._handle.confirmed] if self._handle is not None else []))

    # -- life cycle

    def start(self) -> None:
        """Open the lab on its engine. Frames follow when the browser can show them (`ready`)."""
        self._target = self.engine
        self._key, self._handle = self._open(self._target, self._first, self.gate.newest)
        self._resume(self._handle)

    def _open(
        self, target: str, values: Mapping[str, Any], frames: int, checkpoint: Checkpoint | None = None
    ) -> OpenedLab:
        """Return a lab on the engine `target`; its frame numbers continue from `frames`."""
        self._keys += 1
        key, supervisor = self._keys, session_limiter().engines.get(target)
        on_event = partial(self._receive, key)
        return key, supervisor.open(self.lab.LAB, dict(values), on_event, self.pixels, checkpoint, frames)

    def _resume(self, handle: LabHandle) -> None:
        """Apply the session's settings to a lab and let it continue."""
        handle.pace(self.steps_per_frame)
        handle.set_view(self.view, self.pixels)
        handle.frames_through(self.gate.permitted)
        self._recording.resume(handle)
        self._drive()

    def _drive(self) -> None:
        """Run the shown lab while playing and visible, otherwise pause it."""
        if self._handle is None or isinstance(self.state, Moving | Closed):
            return
        if self.playing and self._shown:
            self._handle.run()
        else:
            self._handle.pause()

    def ready(self) -> None:
        """Start the frames after the browser has drawn the plots."""
        self._drawn = True
        self._open_gate()

    def show(self, shown: bool) -> None:
        """Run the lab when it is shown, pause it when it is hidden. May be called without the document's lock."""
        self._shown = shown
        if isinstance(self.state, Closed):
            return
        self._drive()
        if shown:
            self.later(self._open_gate)
        else:
            self.gate.pause()

    def _open_gate(self) -> None:
        if self._shown and self._drawn:
            self.gate.open()

    def close(self) -> None:
        """Release all resources; further calls have no effect."""
        old, self.state = self.state, Closed()
        self.gate.close()
        for handle in (self._handle, old.handle if isinstance(old, Moving) else None):
            if handle is not None:
                handle.close()
        self._handle = self._frame_target = None
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
        self.answered, self._failures = False, 0
        if self._handle is None:
            self._first = self._first | changed
        elif isinstance(self.state, Moving):
            self._change_moving(self.state, changed, self.engine_for(now | changed))
        elif self.engine_for(now | changed) != self._target:
            self._move(changed, self.engine_for(now | changed))
        else:
            self._handle.update(**changed)
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
            self._try_again(self.state.reason)
        elif isinstance(self.state, Live):
            self.state = Live()
        self._drive()

    def _try_again(self, reason: str) -> None:
        session_limiter().engines.get(self._target).retry()
        if self._handle is not None and self._handle.closed:  # it could not be opened, or has failed
            values = dict(self.values)
            if self._failures > 1:
                values |= {n: self.lab.param[n].default for n in values if n not in self.WHERE}
                self._failures = 0
            changed = {name: value for name, value in values.items() if value != self.values[name]}
            self.state = Opening()
            self._key, self._handle = self._open(self._target, values, self.gate.newest)
            self._resume(self._handle)
            if changed:
                self.value_changes.publish(changed)
        else:
            self.state = Restarting(reason)

    def step(self) -> None:
        """Advance by one step, and stay paused."""
        self.play(False)
        self._request(lambda handle: handle.step(1))

    def pace(self, steps: int | None) -> None:
        """Set the steps per frame; None for the highest rate."""
        self.steps_per_frame = steps
        if self._handle is not None:
            self._handle.pace(steps)

    def set_view(self, view: tuple[float, float, float, float] | None, pixels: tuple[int, int]) -> None:
        """Show `view` (cells; None: all) in at most `pixels` (height, width)."""
        if (view, pixels) != (self.view, self.pixels):
            self.view, self.pixels = view, pixels
            if self._handle is not None:
                self._handle.set_view(view, pixels)

    def ask_snapshot(self) -> None:
        """Request the lab's whole state; the answer is SnapshotTaken, or Refused with the request TakeSnapshot."""
        self._pending_snapshots += 1
        if self._handle is None or isinstance(self.state, Broken):
            self.later(lambda: self._refuse_snapshots("the lab cannot answer now"))
        else:
            self._handle.snapshot()

    def tell_history(self, number: int = 0) -> None:
        """Request the history of the lab's state, without the state; the answer is HistoryTold, unless the engine dies.

        No answer follows during a move or if the engine is not running. number: copied into the answer.
        """
        if self._handle is not None and isinstance(self.state, Live):
            self._handle.tell_history(number)

    def _request(self, request: LabRequest) -> None:
        """Send a request to the lab; queue it during a move."""
        if isinstance(self.state, Moving):
            if len(self.state.waiting) < MOST_WAITING:
                self.state.waiting.append(request)
            else:
                text = f"the lab is moving to {self.state.target}, and {MOST_WAITING} requests wait for that already"
                self.events.publish(messages.Refused(text))
        elif self._handle is not None:
            self._pass_on(request, self._handle)

    def _pass_on(self, request: LabRequest, handle: LabHandle) -> None:
        if handle.closed and not isinstance(request, UpdateRequest):
            self.events.publish(messages.Refused("the lab is not open: it could not be opened, or was stopped"))
        else:
            request(handle)

    # -- recording

    @property
    def recording(self) -> bool:
        """Whether the lab is being recorded."""
        return self._recording.on

    def record(self, folder: str, every: int, pixels: tuple[int, int], most: int) -> None:
        """Record every `every`-th step, even while hidden (LabHandle.record); answered by RecordingProgress.

        The recording continues in the same folder on another engine, but ends if an engine gives up.
        """
        if self._handle is not None:
            self._recording.start(self._handle, (folder, every, pixels, most))

    def stop_recording(self) -> None:
        """Stop the recording, if any."""
        if self._handle is not None:
            self._recording.stop(self._handle)

    # -- frames

    def _permit(self, number: int) -> None:
        """Set the frame limit of the shown lab; it stays unchanged during a move."""
        if self._handle is not None and not isinstance(self.state, Moving):
            self._handle.frames_through(number)

    def _schedule(self, show: Callable[[], None]) -> None:
        """Show a frame soon, with the document's lock if a model may change. Callable from any thread."""
        target = self._frame_target
        live = isinstance(self.state, Live) and not self.busy
        if self._loop is not None and live and target is not None and target.lock_free:
            self._loop.add_callback(show)
        else:
            self.later(show)

    def pass_on(self) -> None:
        """Permit further frames although a hidden browser tab has painted none of the previous ones."""
        self._schedule(self.gate.pass_on)

    def show_in(self, target: FrameTarget) -> None:
        """Let `target` confirm the frames, instead of an earlier one."""
        self._frame_target = target

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
        if isinstance(event, messages.FrameReady) and key == self._key:
            self.gate.offer(event.frame)
        elif isinstance(event, messages.Busy):
            self.later(partial(self._react_to_busy, key, event, self.gate.newest))
        else:
            self.later(partial(self._react, key, event))

    def _react_to_busy(self, key: int, event: messages.Busy, newest: int) -> None:
        """Show a long operation unless a frame has arrived since; newest: number of the last frame before it."""
        if key != self._key or self.gate.newest == newest:
            self._react(key, event)

    def _react(self, key: int, event: messages.Event) -> None:
        if isinstance(self.state, Moving) and key == self.state.key:
            self._on_new_event(self.state, event)
        elif key == self._key and not isinstance(self.state, Closed):
            if isinstance(event, messages.FrameReady):  # it arrived before its lab took over
                self.gate.offer(event.frame)
            else:
                self._on_shown_event(event)

    def _on_shown_event(self, event: messages.Event) -> None:
        """Handle an event of the shown lab."""
        self._follow_engine(event)
        match event:
            case messages.SnapshotTaken() | messages.Refused(request=messages.TakeSnapshot):
                self._pending_snapshots = max(0, self._pending_snapshots - 1)
            case messages.CheckpointTaken() | messages.Refused(request=messages.TakeCheckpoint):
                self._take_checkpoint(event)
                return
            case messages.Refused(kept=kept):
                self._revert(kept)
            case messages.RecordingProgress() if not self._recording.on_recorded(event):
                return
            case messages.EngineBroken(reason=reason) | messages.LabFailed(reason=reason) if self._target != HOST:
                event = FellBack(reason)
        self.events.publish(event)

    def _follow_engine(self, event: messages.Event) -> None:
        """Follow the state of the shown lab's engine."""
        match event:
            case messages.Paused(reason=reason):
                self.playing = False
                if isinstance(self.state, Live):
                    self.state = Live(reason)
            case messages.Busy(what=what):
                self.busy = what
            case messages.EngineRestarting(reason=reason):
                self._engine_lost(reason)
            case messages.EngineRestarted(reason=reason):
                self._engine_restored(f"restarted: {reason}")
            case messages.EngineBroken(reason=reason) | messages.Refused(change=messages.OPENING, text=reason):
                self._engine_gave_up(reason)
            case messages.LabFailed(reason=reason):
                self._failures += 1
                self._engine_gave_up(reason, Failed)

    def _take_checkpoint(self, answer: messages.Event) -> None:
        """Continue a move with its checkpoint; answers to earlier, cancelled moves are ignored as too old."""
        self._checkpoints -= 1
        move = self.state
        if self._checkpoints or not isinstance(move, Moving) or move.handle is not None:
            return
        match answer:
            case messages.CheckpointTaken(checkpoint=checkpoint):
                move.checkpoint = checkpoint
                self._open_new(move)
            case messages.Refused(text=text):
                self._fail(move, text)

    def _revert(self, kept: Mapping[str, Any]) -> None:
        """Report the values that apply after a refused change."""
        if kept:
            self.answered = True
            now = self._all_values()
            self.value_changes.publish({name: now[name] for name in kept})
            if self._handle is not None:  # requests the frame again that `change` dropped from the gate
                self._handle.set_view(self.view, self.pixels)

    def _engine_lost(self, reason: str) -> None:
        """Record that the shown lab's engine has died."""
        self.busy = ""
        if isinstance(self.state, Moving):
            self.state.restarting = reason
        elif not isinstance(self.state, Broken):
            self.state = Restarting(reason)

    def _engine_restored(self, note: str) -> None:
        """Record that the shown lab's engine is running again."""
        if isinstance(self.state, Moving):
            self.state.restarting = ""
        elif isinstance(self.state, Restarting | Broken):  # another tab may have retried a broken engine
            self.state = self._settled_state(note)

    def _settled_state(self, note: str = "") -> State:
        """Return the state of a lab without a move or a fault."""
        return Live(note) if self.latest is not None else Opening()

    def _engine_gave_up(self, reason: str, state: type[Broken] = Broken) -> None:
        """React to an engine that gave up: a GPU's lab continues on the host, the host's lab stays broken."""
        self.busy = ""
        if self._handle is not None:
            self._recording.give_up(self._handle, reason)
        if isinstance(self.state, Moving):
            self.state.broken = reason
            if self.state.handle is None:
                self._open_new(self.state)
        else:
            self.state = state(reason)
            if self._target == HOST:
                self.playing = False
                self._refuse_snapshots(reason)
            else:
                self._move(host_values(self.lab, self.values), HOST)

    def _refuse_snapshots(self, reason: str) -> None:
        """Refuse all pending snapshots, because the engine does not answer."""
        for _ in range(self._pending_snapshots):
            self.events.publish(messages.Refused(f"the engine stopped: {reason}", request=messages.TakeSnapshot))
        self._pending_snapshots = 0

    # -- moving to another engine

    def _move(self, cause: dict[str, Any], target: str) -> None:
        """Begin a move to the engine `target`, which the values `cause` select."""
        if self._handle is None:
            return
        move = Moving(target, dict(cause))
        if isinstance(self.state, Broken):
            move.broken = self.state.reason
            self._recording.give_up(self._handle, move.broken)
        elif isinstance(self.state, Restarting):
            move.restarting = self.state.reason
        self.state = move
        self._recording.interrupt(self._handle)
        self._handle.pause()
        if move.broken:
            self._open_new(move)
        else:
            self._checkpoints += 1
            self._handle.take_checkpoint()

    def _open_new(self, move: Moving) -> None:
        """Open the lab on the other engine in its old state, then set the values that the move requested."""
        assert self._handle is not None  # noqa: S101 - only close() clears it, which ends every move
        checkpoint = move.checkpoint or self._handle.last_checkpoint
        move.checkpoint = checkpoint
        values = self._first | self._handle.values
        where = {name: value for name, value in move.cause.items() if name in self.WHERE or checkpoint is None}
        held = {name: value for name, value in (checkpoint.values if checkpoint else values).items() if name in values}
        rest = {name: value for name, value in (values | move.cause).items() if value != (held | where).get(name)}
        frames = self.gate.permitted  # the last number that the old lab may still use
        try:
            move.key, move.handle = self._open(move.target, values | held | where, frames, checkpoint)
        except (OSError, MemoryError, RuntimeError) as error:  # no descriptor or memory for the state, or no thread
            self._fail(move, str(error))
            return
        if rest:
            move.handle.update(**rest)
        move.handle.pace(self.steps_per_frame)
        move.handle.set_view(self.view, self.pixels)
        move.handle.frames_through(frames + 1)  # its first frame

    def _on_new_event(self, move: Moving, event: messages.Event) -> None:
        """Handle an event of the new lab before its first frame: the frame completes the move, any failure ends it."""
        match event:
            case messages.FrameReady(frame=frame):
                self._take_over(move, frame)
            case (
                messages.Refused(text=text)
                | messages.Paused(reason=text)
                | messages.EngineBroken(reason=text)
                | messages.LabFailed(reason=text)
            ):
                self._fail(move, text)
            case messages.LabClosed():
                self._fail(move, "its lab was closed")
            case messages.Busy(what=what):
                self.busy = what

    def _take_over(self, move: Moving, frame: Frame) -> None:
        """Make the new lab the shown one after its first frame, and close the old one."""
        old, self._handle = self._handle, move.handle
        self._key, self._target, self._checkpoints = move.key, move.target, 0
        self.busy, self.state = "", Live()
        if old is not None:
            old.close()
        self.gate.offer(frame)
        self._go_on(move)
        if move.broken:  # the user did not request these values
            now = self._all_values()
            self.value_changes.publish({name: now[name] for name in move.cause})

    def _fail(self, move: Moving, text: str) -> None:
        """Continue with the old lab after a refused or failed move, and report that."""
        self._stay(move)
        names = move.cause.keys() - move.wanted.keys()
        now = self._all_values()
        self.answered = True
        self.value_changes.publish({name: now[name] for name in names})
        self.events.publish(messages.Refused(f"the lab stays on {self._target}: {text}"))

    def _stay(self, move: Moving) -> None:
        """End a move and stay on the old lab."""
        if move.handle is not None:
            move.handle.close()
        self.busy = ""
        if move.broken:
            self.playing = False
            self.state = Broken(move.broken)
            self._refuse_snapshots(move.broken)
        else:
            self.state = Restarting(move.restarting) if move.restarting else self._settled_state()
        self._go_on(move)

    def _go_on(self, move: Moving) -> None:
        """After a move, send the queued requests to the surviving lab, and resume playing."""
        handle = self._handle
        if handle is None:
            return
        self._resume(handle)
        for request in move.waiting:
            self._pass_on(request, handle)
        if self.playing:  # a queued step has paused the lab again
            self._drive()
        if handle is move.handle:
            for _ in range(self._pending_snapshots):
                handle.snapshot()

    def _change_moving(self, move: Moving, changed: dict[str, Any], target: str) -> None:
        """Handle a change during a move: queue it, cancel the move, or change its target to a third engine."""
        if target == move.target:
            move.wanted |= changed
            self._request(UpdateRequest(changed))
        elif target == self._target and not move.broken:
            assert self._handle is not None  # noqa: S101 - see _open_new
            wanted = self._all_values() | changed
            self._stay(move)
            now = self._first | self._handle.values
            if rest := {name: wanted[name] for name in move.cause | changed if now.get(name) != wanted[name]}:
                self._handle.update(**rest)
        else:
            rest = {name: value for name, value in changed.items() if name not in self.WHERE}
            move.cause |= {name: value for name, value in changed.items() if name in self.WHERE}
            move.target = target
            if rest:  # after the requests that are queued already
                move.wanted |= rest
                self._request(UpdateRequest(rest))
            if move.handle is not None:
                move.handle.close()
                self._open_new(move)
