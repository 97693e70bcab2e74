"""Transitions of a session whose lab moves to another engine.

The old lab is paused and takes a checkpoint, from which the new lab is opened on the other engine. The new lab becomes
the shown one with its first frame. If the move is refused, fails or is cancelled before, the old lab continues with its
field, history, recording and values. Requests made during the move are queued for the lab that survives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.tab.session_states import (
    Broken,
    LabRequest,
    Live,
    Moving,
    Restarting,
    SessionStatus,
    UpdateRequest,
)
from app.tab.shown_lab import ShownLab
from app.tab.stream import FrameGate
from compute.engine import messages
from compute.lab.frames import Frame

MAX_QUEUED = 4096  # requests during a move: a minute of fast input


class EngineMove:
    """The transitions of one session; `Moving` contains the data of the current move."""

    def __init__(self, status: SessionStatus, shown: ShownLab, gate: FrameGate) -> None:
        self._status, self._shown, self._gate = status, shown, gate
        self._checkpoints = 0  # requested checkpoints of the shown lab that have not arrived

    def begin(self, cause: Mapping[str, Any], target: str) -> None:
        """Begin a move to the engine `target`, which the values `cause` select."""
        status, shown = self._status, self._shown
        if shown.handle is None:
            return
        move = Moving(target, dict(cause))
        if isinstance(status.state, Broken):
            move.broken = status.state.reason
            shown.recording.give_up(shown.handle, move.broken)
        elif isinstance(status.state, Restarting):
            move.restarting = status.state.reason
        status.state = move
        shown.recording.interrupt(shown.handle)
        shown.handle.pause()
        if move.broken:
            self._open_new(move)
        else:
            self._checkpoints += 1
            shown.handle.take_checkpoint()

    def queue(self, move: Moving, request: LabRequest) -> None:
        """Queue a request for the lab that survives the move."""
        if len(move.queue) < MAX_QUEUED:
            move.queue.append(request)
        else:
            text = f"at most {MAX_QUEUED} requests can be queued while the lab moves to {move.target}"
            self._status.events.publish(messages.Refused(text))

    def change(self, move: Moving, changed: dict[str, Any], target: str) -> None:
        """Handle a change of values, which select `target`: queue it, cancel the move, or move to a third engine."""
        shown = self._shown
        if target == move.target:
            move.changes |= changed
            self.queue(move, UpdateRequest(changed))
        elif target == shown.engine and not move.broken:
            requested = move.values(shown.values) | changed
            self._stay(move)
            now = shown.values
            rest = {name: requested[name] for name in move.cause | changed if now.get(name) != requested[name]}
            if rest and shown.handle is not None:
                shown.handle.update(**rest)
        else:
            rest = {name: value for name, value in changed.items() if name not in self._status.where}
            move.cause |= {name: value for name, value in changed.items() if name in self._status.where}
            move.target = target
            if rest:  # after the requests that are queued already
                move.changes |= rest
                self.queue(move, UpdateRequest(rest))
            if move.new is not None:
                move.new.handle.close()
                self._open_new(move)

    # -- events of the old lab

    def take_checkpoint(self, answer: messages.Event) -> None:
        """Continue a move with its checkpoint; answers to earlier, cancelled moves are ignored as too old."""
        self._checkpoints -= 1
        move = self._status.state
        if self._checkpoints or not isinstance(move, Moving) or move.new is not None:
            return
        match answer:
            case messages.CheckpointTaken(checkpoint=checkpoint):
                move.checkpoint = checkpoint
                self._open_new(move)
            case messages.Refused(text=text):
                self._fail(move, text)

    def continue_broken(self, move: Moving, reason: str) -> None:
        """Continue although the old lab's engine has given up, from its last checkpoint."""
        move.broken = reason
        if move.new is None:
            self._open_new(move)

    # -- the new lab

    def _open_new(self, move: Moving) -> None:
        """Open the lab on the other engine in its old state, then set the values that the move requested."""
        shown = self._shown
        assert shown.handle is not None  # noqa: S101 - only Session.close clears it, which ends every move
        checkpoint = move.checkpoint or shown.handle.last_checkpoint
        move.checkpoint = checkpoint
        values = shown.values
        where = {name: value for name, value in move.cause.items() if name in self._status.where or checkpoint is None}
        known = checkpoint.values if checkpoint else values
        stored = {name: value for name, value in known.items() if name in values}
        rest = {name: value for name, value in (values | move.cause).items() if value != (stored | where).get(name)}
        frames = self._gate.permitted  # the last number that the old lab may still use
        try:
            move.new = new = shown.open(move.target, values | stored | where, frames, checkpoint)
        except (OSError, MemoryError, RuntimeError) as error:  # no descriptor or memory for the state, or no thread
            self._fail(move, str(error))
            return
        if rest:
            new.handle.update(**rest)
        shown.apply_settings(new.handle, frames + 1)  # its first frame

    def on_new_event(self, move: Moving, event: messages.Event) -> None:
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
                self._status.busy = what

    # -- the end of a move

    def _take_over(self, move: Moving, frame: Frame) -> None:
        """Make the new lab the shown one after its first frame, and close the old one."""
        status, shown = self._status, self._shown
        old, shown.opened = shown.handle, move.new
        self._checkpoints = 0
        status.busy, status.state = "", Live()
        if old is not None:
            old.close()
        self._gate.offer(frame)
        self._resume(move)
        if shown.handle is not None:
            shown.snapshots.repeat(shown.handle)
        if move.broken:  # the user did not request these values
            status.value_changes.publish({name: shown.values[name] for name in move.cause})

    def _fail(self, move: Moving, text: str) -> None:
        """Continue with the old lab after a refused or failed move, and report that."""
        status, shown = self._status, self._shown
        self._stay(move)
        status.answered = True
        status.value_changes.publish({name: shown.values[name] for name in move.cause.keys() - move.changes.keys()})
        status.events.publish(messages.Refused(f"the lab stays on {shown.engine}: {text}"))

    def _stay(self, move: Moving) -> None:
        """End a move and stay on the old lab."""
        status = self._status
        if move.new is not None:
            move.new.handle.close()
        status.busy = ""
        if move.broken:
            status.playing = False
            status.state = Broken(move.broken)
            self._shown.snapshots.refuse(move.broken)
        elif move.restarting:
            status.state = Restarting(move.restarting)
        else:
            status.settle()
        self._resume(move)

    def _resume(self, move: Moving) -> None:
        """After a move, send the queued requests to the surviving lab, and resume playing."""
        status, shown = self._status, self._shown
        shown.resume(self._gate.permitted, status.playing)
        for request in move.queue:
            shown.send(request)
        if status.playing:  # a queued step has paused the lab again
            shown.run(True)
