"""The lab that a tab shows, as a client of its engine: handle, values, settings, recording, requested snapshots.

`ShownLab` knows no state of the session. The session and its two groups of transitions (engine_move.py,
engine_faults.py) open a lab on an engine, make it the shown one, and send requests to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.tab.publisher import Publisher
from app.tab.session_states import LabRequest, UpdateRequest
from app.tab.tab_recording import TabRecording
from compute.engine import Checkpoint, LabHandle, Supervisor, messages
from compute.engine.api import KeptUnion
from compute.lab.frames import View
from compute.lab.lab import Lab


@dataclass(frozen=True)
class OpenedLab:
    """A lab on the engine `engine`; key: identifies its events among those of all labs that the session opened."""

    key: int
    engine: str
    handle: LabHandle


class ShownLab:
    """The lab of one session.

    engine_of(name): return an engine; on_event(key, event): called on an engine's thread; events: receives refusals of
    requests that no engine can answer.

    opened: None before the first lab and after `close`; steps_per_frame (None for the highest rate), view (cells; None:
    all) and pixels (height, width): settings that each opened lab gets; visible: whether the
    tab is shown; failures: number of LabFailed events with the current values.
    """

    def __init__(
        self,
        lab: type[Lab],
        values: Mapping[str, Any],
        pace: int | None,
        engine_of: Callable[[str], Supervisor],
        on_event: Callable[[int, messages.Event], None],
        events: Publisher[messages.Event],
        recording: TabRecording,
    ) -> None:
        self.lab, self.engine_of, self._on_event, self._events = lab, engine_of, on_event, events
        self.opened: OpenedLab | None = None
        self.steps_per_frame = pace
        self.view: View | None = None
        self.pixels = (512, 512)
        self.visible = True
        self.failures = 0
        self.recording, self.snapshots = recording, PendingSnapshots(events)
        self._initial = {name: lab.param[name].default for name in lab.param if name != "name"} | dict(values)
        self._opened_labs = 0
        self._requested, self._confirmed = KeptUnion(), KeptUnion()

    @property
    def handle(self) -> LabHandle | None:
        """The handle of the shown lab."""
        return self.opened.handle if self.opened is not None else None

    @property
    def key(self) -> int:
        """The key of the shown lab's events; 0 without a lab."""
        return self.opened.key if self.opened is not None else 0

    @property
    def engine(self) -> str:
        """Name of the shown lab's engine; "" without a lab."""
        return self.opened.engine if self.opened is not None else ""

    # -- values

    @property
    def values(self) -> dict[str, Any]:
        """All values, requested or confirmed. Do not modify it."""
        return self._requested.of(self._initial, *([self.handle.values] if self.handle is not None else []))

    @property
    def confirmed(self) -> Mapping[str, Any]:
        """The values that the engine has applied: a read-only mapping, replaced when one of them changes."""
        return self._confirmed.of(self._initial, *([self.handle.confirmed] if self.handle is not None else []))

    def change_initial(self, values: Mapping[str, Any]) -> None:
        """Change the values with which the first lab will be opened."""
        self._initial = self._initial | dict(values)

    # -- life cycle

    def open(
        self, engine: str, values: Mapping[str, Any], frames: int, checkpoint: Checkpoint | None = None
    ) -> OpenedLab:
        """Return a lab on `engine`, in the state of `checkpoint`; its frame numbers continue from `frames`."""
        self._opened_labs += 1
        key, on_event = self._opened_labs, partial(self._on_event, self._opened_labs)
        supervisor = self.engine_of(engine)
        handle = supervisor.open(self.lab.LAB, dict(values), on_event, self.pixels, checkpoint, frames)
        return OpenedLab(key, engine, handle)

    def apply_settings(self, handle: LabHandle, permitted: int) -> None:
        """Apply the session's settings to a lab, and permit its frames up to the number `permitted`."""
        handle.pace(self.steps_per_frame)
        handle.set_view(self.view, self.pixels)
        handle.frames_through(permitted)

    def resume(self, permitted: int, playing: bool) -> None:
        """Let the shown lab continue after it was opened or a move has ended: with its settings and its recording."""
        if self.handle is not None:
            self.apply_settings(self.handle, permitted)
            self.recording.resume(self.handle)
            self.run(playing)

    def close(self) -> None:
        """Close the shown lab."""
        if self.handle is not None:
            self.handle.close()
        self.opened = None

    # -- requests

    def run(self, playing: bool) -> None:
        """Run the lab while playing and visible, otherwise pause it."""
        if self.handle is None:
            return
        if playing and self.visible:
            self.handle.run()
        else:
            self.handle.pause()

    def set_pace(self, steps: int | None) -> None:
        """Set the steps per frame; None for the highest rate."""
        self.steps_per_frame = steps
        if self.handle is not None:
            self.handle.pace(steps)

    def set_view(self, view: View | None, pixels: tuple[int, int]) -> None:
        """Show `view` in at most `pixels`."""
        if (view, pixels) != (self.view, self.pixels):
            self.view, self.pixels = view, pixels
            self.request_frame()

    def request_frame(self) -> None:
        """Let the lab send a frame in the current view."""
        if self.handle is not None:
            self.handle.set_view(self.view, self.pixels)

    def send(self, request: LabRequest) -> None:
        """Send a request. A closed lab refuses all requests except new values, with which it is opened again."""
        if self.handle is None:
            return
        if self.handle.closed and not isinstance(request, UpdateRequest):
            self._events.publish(messages.Refused("the lab is not open: it could not be opened, or was stopped"))
        else:
            request(self.handle)


class PendingSnapshots:
    """Requests for snapshots without an answer; each is answered exactly once, even if the engine has stopped."""

    def __init__(self, events: Publisher[messages.Event]) -> None:
        self._events = events
        self.pending = 0

    def answered(self) -> None:
        """Record an answer of the engine."""
        self.pending = max(0, self.pending - 1)

    def refuse(self, reason: str) -> None:
        """Refuse all pending requests, because the engine does not answer."""
        pending, self.pending = self.pending, 0
        for _ in range(pending):
            self._events.publish(messages.Refused(f"the engine stopped: {reason}", request=messages.TakeSnapshot))

    def repeat(self, handle: LabHandle) -> None:
        """Request the pending snapshots of another lab, which has replaced the first."""
        for _ in range(self.pending):
            handle.snapshot()
