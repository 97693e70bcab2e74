"""LabHandle, the server's interface to one lab. Supervisor.open returns it; EnginePool owns the supervisors.

No call blocks. Each call becomes a request (messages.py), which the supervisor's queue sends to the worker. LabState
stores everything that is needed to reopen the lab after a restart. Answers and errors arrive as events.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import TYPE_CHECKING, Any, Literal

from compute.engine import messages
from compute.engine.registry import LabState, RecordingState
from compute.engine.shared_memory import MAX_PIXELS
from compute.lab.fields import is_finite
from compute.lab.frames import View
from compute.measure.rates import RoofKind

if TYPE_CHECKING:
    from compute.engine.supervisor import Supervisor

MAX_STEPS = 10**9  # steps in one request: days of computing, but the lab can be paused at any time
MAX_SAMPLES = 1000
MAX_RECORDED_FRAMES = 10**6  # frames of a recording: nine hours at 30 a second
MAX_RECORDED_PIXELS = 2**24  # pixels of a recorded picture, which is not sent to a browser
MAX_AHEAD = 64  # frames permitted beyond the last one received; the ring limits the frames in flight in any case


class LabHandle:
    """One lab on an engine. No call blocks: answers and errors arrive as events, on the engine's reader thread.

    Invalid arguments are answered by Refused and change nothing. Calls on a closed lab do nothing.
    """

    def __init__(self, supervisor: Supervisor, lab: LabState) -> None:
        self._supervisor, self._lab, self._number = supervisor, lab, lab.number
        self._union = KeptUnion()

    def update(self, **values: Any) -> int:
        """Set parameters, all or none of them. If several calls set the same parameter, the latest value is applied.

        Return the number of the change, counted from 1; a Refused refers to the change by this number.
        """
        with self._supervisor.lock:
            lab = self._lab
            lab.serial += 1
            lab.unapplied = [old for old in lab.unapplied if not old[1].keys() <= values.keys()]
            lab.unapplied.append((lab.serial, values))
            self._send(messages.Update(self._number, lab.serial, values))
            return lab.serial

    def act(self, name: str, **arguments: Any) -> None:
        """Call an action of the lab, for example "paint"."""
        self._send(messages.Act(self._number, name, arguments))

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Replace the lab's state by the `snapshot` of a lab of this shape."""
        self._send(messages.Restore(self._number, snapshot))

    def run(self) -> None:
        """Start or resume the lab."""
        with self._supervisor.lock:
            self._lab.running = True
            self._send(messages.Run(self._number))

    def pause(self) -> None:
        """Pause the lab and show its current state."""
        with self._supervisor.lock:
            self._lab.running = False
            self._send(messages.Pause(self._number))

    def step(self, n: int = 1) -> None:
        """Pause, advance `n` steps, show one frame."""
        if self._whole("steps", n, MAX_STEPS):
            with self._supervisor.lock:
                self._lab.running = False
                self._send(messages.Step(self._number, n))

    def pace(self, steps: int | None) -> None:
        """Set the steps per frame; None: as many as possible."""
        if steps is None or self._whole("steps per frame", steps, MAX_STEPS):
            with self._supervisor.lock:
                self._lab.steps = steps
                self._send(messages.SetPace(self._number, steps))

    def set_view(self, view: View | None, pixels: tuple[int, int]) -> None:
        """Show `view` (x0, y0, x1, y1) in cells, None for all, at most `pixels` (height, width) large."""
        if (view is None or self._is_view(view)) and self._are_pixels(pixels):
            with self._supervisor.lock:
                self._lab.view, self._lab.pixels = view, pixels
                self._send(messages.SetView(self._number, view, pixels))

    def frames_through(self, number: int) -> None:
        """Permit all frames up to this `number`, at most MAX_AHEAD beyond the last one received.

        The number is absolute: a repeated call changes nothing, and it stays valid for a restarted engine.
        """
        with self._supervisor.lock:
            if self._whole("frames_through", number, self._lab.frames + MAX_AHEAD, least=0):
                self._lab.frames_through = number
                self._supervisor.permit(self._lab, number)

    def sample(self, steps: int, repeat: int, roof: RoofKind | Literal[""] = "", dtype: str = "") -> None:
        """Time `repeat` runs of `steps` steps on a separate lab, at a low duty cycle; answered by Sampled.

        roof, dtype: kind and dtype of the device's roof that is sampled right after the runs; "" for none.
        """
        if self._whole("steps", steps, MAX_STEPS) and self._whole("repeat", repeat, MAX_SAMPLES):
            self._ask(messages.TakeSample(self._number, steps, repeat, roof, dtype))

    def solve(self, steps: int, seed: int) -> None:
        """Compute `steps` steps on a separate lab, from a field that depends only on `seed`; answered by Solved."""
        if self._whole("steps", steps, MAX_STEPS) and self._whole("seed", seed, 2**31 - 1, least=0):
            self._ask(messages.Solve(self._number, steps, seed))

    def snapshot(self) -> None:
        """Request the lab's whole state; answered by SnapshotTaken."""
        self._ask(messages.TakeSnapshot(self._number))

    def request_history(self, number: int = 0) -> None:
        """Request the history of the lab's state without the state; answered by HistoryTold unless the engine dies.

        number: copied into the answer, to match it with the request.
        """
        self._send(messages.TellHistory(self._number, number))

    def take_checkpoint(self) -> None:
        """Request the lab's state in a file from which another engine can continue; answered by CheckpointTaken."""
        self._ask(messages.TakeCheckpoint(self._number))

    @property
    def closed(self) -> bool:
        """Whether the lab was closed, failed, or could not be opened."""
        return self._lab.closing

    @property
    def last_checkpoint(self) -> messages.Checkpoint | None:
        """The last good state, about one second old; None before the first checkpoint."""
        with self._supervisor.lock:
            return self._lab.checkpoint

    @property
    def values(self) -> dict[str, Any]:
        """The requested values that were not refused: the last confirmed ones, updated by the ones that still wait.

        Returns the same object until a value changes. Do not modify it.
        """
        with self._supervisor.lock:
            return self._union.of(self._lab.values, *(values for _, values in self._lab.unapplied))

    @property
    def confirmed(self) -> Mapping[str, Any]:
        """The last values that the engine has confirmed, without pending updates, which it may refuse.

        Returns the same object until a value changes. Do not modify it.
        """
        return self._lab.values

    def record(self, folder: str, every: int, pixels: tuple[int, int], most: int, done: int | None = None) -> None:
        """Record a frame of the whole lab, at most `pixels` (height, width), now and after every `every` steps.

        Write at most `most` frames, shown or not, into the empty or new `folder`; answered by RecordingProgress.

        every: steps between frames; 0, for a lab that ends, records complete pictures only, which any other `every`
        records too. done: its `steps` at the snapshot from which this lab continues, to continue the recording that
        another engine began in `folder`.
        """
        fine = self._whole("every", every, MAX_STEPS, least=0) and self._are_pixels(pixels, MAX_RECORDED_PIXELS)
        if not (fine and self._whole("most", most, MAX_RECORDED_FRAMES)):
            return
        with self._supervisor.lock:
            if self.recording:
                self._refuse("this lab is being recorded already")
                return
            request = messages.Record(self._number, str(folder), every, pixels, most, done)
            self._lab.recording = RecordingState(request)
            self._send(request)

    def stop_recording(self) -> None:
        """End the current recording, if any; answered by the last RecordingProgress."""
        with self._supervisor.lock:
            if self._lab.recording:
                self._lab.recording.stopping = True
                self._send(messages.StopRecording(self._number))

    @property
    def recording(self) -> bool:
        """Whether the lab is being recorded or a recording was requested."""
        return self._lab.recording is not None

    def close(self) -> None:
        """Close the lab and free its memory; answered by LabClosed, the last event."""
        self._supervisor.close_lab(self._lab)

    def _send(self, request: messages.Request) -> None:
        self._supervisor.send(self._lab, request)

    def _ask(self, question: messages.AnsweredRequest) -> None:
        """Send a request that requires an answer; if the engine dies before the answer, the request is sent again."""
        with self._supervisor.lock:
            self._lab.questions.append(question)
            self._send(question)

    def _refuse(self, text: str) -> bool:
        self._send(messages.Refuse(self._number, text))
        return False

    def _whole(self, name: str, value: object, most: int, least: int = 1) -> bool:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return True
        return self._refuse(f"{name} must be a whole number from {least} to {most}, not {_short(value)}")

    def _is_view(self, view: object) -> bool:
        four = isinstance(view, tuple) and len(view) == 4 and all(_finite(edge) for edge in view)
        if four and view[0] < view[2] and view[1] < view[3]:  # type: ignore[index]
            return True
        return self._refuse(f"view must be (x0, y0, x1, y1) with x0 < x1 and y0 < y1, not {_short(view)}")

    def _are_pixels(self, pixels: object, most: int = MAX_PIXELS) -> bool:
        whole = (
            isinstance(pixels, tuple) and len(pixels) == 2 and all(type(side) is int and side >= 1 for side in pixels)
        )
        if whole and pixels[0] * pixels[1] <= most:  # type: ignore[index]
            return True
        return self._refuse(f"pixels must be (height, width), at most {most} in all, not {_short(pixels)}")


class KeptUnion:
    """A cached union of mappings, rebuilt when one of them is replaced. The mappings themselves never change."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[Mapping[str, Any], ...], dict[str, Any]] = ((), {})

    def of(self, *parts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the union of `parts`, where later ones take precedence. Do not modify it."""
        former, union = self._kept
        if len(parts) != len(former) or not all(map(is_, parts, former)):
            union = {name: value for part in parts for name, value in part.items()}
            self._kept = parts, union
        return union


def _finite(value: object) -> bool:
    return is_finite(value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
