"""Transitions of a session when the engine of its shown lab dies, restarts or gives up, and when `play` tries it again.

A GPU's lab continues on the host when its engine gives up; the host's own lab stays broken until `play`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.tab.engine_move import EngineMove
from app.tab.session_states import Broken, Failed, FellBack, Moving, Opening, Restarting, SessionStatus
from app.tab.shown_lab import ShownLab
from app.tab.stream import FrameGate
from compute.devices.devices import HOST
from compute.engine import messages
from compute.lab.lab import Lab, values_on


def host_values(lab: type[Lab], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that make `values` valid on the host: its backend, and a kernel of that backend."""
    ready = [one.name for one in lab.backends() if one.kind == "cpu" and one.missing is None]
    usual = lab.param["backend"].default
    name = usual if usual in ready or not ready else ready[0]
    return values_on(lab, name, values)


class EngineFaults:
    """The transitions of one session."""

    def __init__(self, status: SessionStatus, shown: ShownLab, gate: FrameGate, move: EngineMove) -> None:
        self._status, self._shown, self._gate, self._move = status, shown, gate, move

    def follow(self, event: messages.Event) -> messages.Event:
        """Follow the state of the shown lab's engine; return the event to publish, which may be another one."""
        match event:
            case messages.EngineRestarting(reason=reason):
                self._lost(reason)
            case messages.EngineRestarted(reason=reason):
                self._restored(f"restarted: {reason}")
            case messages.Refused(change=messages.OPENING, text=reason):
                self._gave_up(reason)
            case messages.EngineBroken(reason=reason):
                self._gave_up(reason)
                return event if self._on_host else FellBack(reason)
            case messages.LabFailed(reason=reason):
                self._shown.failures += 1
                self._gave_up(reason, Failed)
                return event if self._on_host else FellBack(reason)
        return event

    @property
    def _on_host(self) -> bool:
        return self._shown.engine == HOST

    def _lost(self, reason: str) -> None:
        """Record that the engine has died."""
        status = self._status
        status.busy = ""
        if isinstance(status.state, Moving):
            status.state.restarting = reason
        elif not isinstance(status.state, Broken):
            status.state = Restarting(reason)

    def _restored(self, note: str) -> None:
        """Record that the engine is running again."""
        status = self._status
        if isinstance(status.state, Moving):
            status.state.restarting = ""
        elif isinstance(status.state, Restarting | Broken):  # another tab may have retried a broken engine
            status.settle(note)

    def _gave_up(self, reason: str, state: type[Broken] = Broken) -> None:
        """React to an engine that gave up."""
        status, shown = self._status, self._shown
        status.busy = ""
        if shown.handle is not None:
            shown.recording.give_up(shown.handle, reason)
        if isinstance(status.state, Moving):
            self._move.continue_broken(status.state, reason)
            return
        status.state = state(reason)
        if self._on_host:
            status.playing = False
            shown.snapshots.refuse(reason)
        else:
            self._move.begin(host_values(shown.lab, shown.values), HOST)

    def try_again(self, reason: str) -> None:
        """Retry a broken engine, and open the lab again if it was closed. reason: of the fault."""
        status, shown = self._status, self._shown
        shown.engine_of(shown.engine).retry()
        if shown.handle is None or not shown.handle.closed:
            status.state = Restarting(reason)
            return
        values = dict(shown.values)
        if shown.failures > 1:
            values |= {n: shown.lab.param[n].default for n in values if n not in self._status.where}
            shown.failures = 0
        changed = {name: value for name, value in values.items() if value != shown.values[name]}
        status.state = Opening()
        shown.opened = shown.open(shown.engine, values, self._gate.newest)
        shown.resume(self._gate.permitted, status.playing)
        if changed:
            status.value_changes.publish(changed)
