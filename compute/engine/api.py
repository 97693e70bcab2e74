"""What the server asks of a lab: LabHandle. Supervisor.open returns one, EnginePool has the supervisors.

No call waits. A call becomes a request (messages.py), which the supervisor's queue sends to the worker; LabState keeps
what must be known to open the lab again after a restart. Answers and errors come back as events.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import TYPE_CHECKING, Any, Literal

from compute.engine import messages
from compute.engine.registry import LabState, RecordingState
from compute.engine.shared_memory import MAX_PIXELS
from compute.fields import is_finite
from compute.frames import View
from compute.measure.rates import RoofKind

if TYPE_CHECKING:
    from compute.engine.supervisor import Supervisor

MAX_STEPS = 10**9  # steps in one request: days, but the lab can be paused at any time
MAX_SAMPLES = 1000
MAX_RECORDED_FRAMES = 10**6  # of a recording: nine hours at 30 a second
MAX_RECORDED_PIXELS = 2**24  # pixels of a recorded picture at most: it goes through no browser
MAX_AHEAD = 64  # frames permitted beyond the last one; those under way are limited by the ring in any case


class LabHandle:
    """One lab on an engine. No call waits: answers and errors come as events, on the engine's reader thread.

    What a client gets wrong comes back as Refused, and changes nothing. Calls on a closed lab do nothing.
    """

    def __init__(self, supervisor: Supervisor, lab: LabState) -> None:
        self._supervisor, self._lab, self._number = supervisor, lab, lab.number
        self._union = KeptUnion()

    def update(self, **values: Any) -> int:
        """Set parameters: all of one call or none. Of several calls the newest values win.

        Returns the number of the change, from 1, by which a Refused names it.
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
        """Go on from the `snapshot` of a lab of this shape."""
        self._send(messages.Restore(self._number, snapshot))

    def run(self) -> None:
        """Start the lab, or let it go on."""
        with self._supervisor.lock:
            self._lab.running = True
            self._send(messages.Run(self._number))

    def pause(self) -> None:
        """Stop the lab; the state it has reached is shown."""
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
        """Set the steps per frame; None for as fast as it goes."""
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
        """Permit all frames up to this `number`, at most MAX_AHEAD beyond the last one that came.

        An absolute number: saying it again changes nothing, and a restarted engine needs no other.
        """
        with self._supervisor.lock:
            if self._whole("frames_through", number, self._lab.frames + MAX_AHEAD, least=0):
                self._lab.frames_through = number
                self._supervisor.permit(self._lab, number)

    def sample(self, steps: int, repeat: int, roof: RoofKind | Literal[""] = "", dtype: str = "") -> None:
        """Time `repeat` runs of `steps` steps on a lab of its own, at low duty beside the live; answered by Sampled.

        roof, dtype: what the device's roof is sampled of right after them, "" for nothing.
        """
        if self._whole("steps", steps, MAX_STEPS) and self._whole("repeat", repeat, MAX_SAMPLES):
            self._ask(messages.TakeSample(self._number, steps, repeat, roof, dtype))

    def solve(self, steps: int, seed: int) -> None:
        """Compute `steps` steps on a lab of its own, from a field that depends on `seed` alone; answered by Solved."""
        if self._whole("steps", steps, MAX_STEPS) and self._whole("seed", seed, 2**31 - 1, least=0):
            self._ask(messages.Solve(self._number, steps, seed))

    def snapshot(self) -> None:
        """Ask for the lab's whole state; answered by SnapshotTaken."""
        self._ask(messages.TakeSnapshot(self._number))

    def tell_history(self, number: int = 0) -> None:
        """Ask how the lab came to its state, without the state; answered by HistoryTold unless the engine dies.

        number: by which the answer is known.
        """
        self._send(messages.TellHistory(self._number, number))

    def take_checkpoint(self) -> None:
        """Ask for the lab's whole state in a file that another engine can go on from; answered by CheckpointTaken."""
        self._ask(messages.TakeCheckpoint(self._number))

    @property
    def closed(self) -> bool:
        """Whether the lab was closed, could not be opened, or failed."""
        return self._lab.closing

    @property
    def last_checkpoint(self) -> messages.Checkpoint | None:
        """The last good state, of about a second ago; None if there is none yet."""
        with self._supervisor.lock:
            return self._lab.checkpoint

    @property
    def values(self) -> dict[str, Any]:
        """What was asked for and not refused: the last known values, with those that are not yet applied.

        The same object until one of them changes, and not to be changed.
        """
        with self._supervisor.lock:
            return self._union.of(self._lab.values, *(values for _, values in self._lab.unapplied))

    @property
    def confirmed(self) -> Mapping[str, Any]:
        """The last known values, without those that the engine has not yet applied and may refuse.

        The same object until one of them changes, and not to be changed.
        """
        return self._lab.values

    def record(self, folder: str, every: int, pixels: tuple[int, int], most: int, done: int | None = None) -> None:
        """Record a frame of the whole lab, at most `pixels` (height, width), now and after every `every` steps.

        Frames go into the empty or new `folder`, `most` at most, shown or not; answered by RecordingProgress.
        every 0: for a lab that ends, its complete pictures only; they are recorded with any other `every` too. done:
        to go on with what another engine has recorded there, its `steps` at the snapshot that this lab goes on from.
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
        """End the recording, if there is one; answered by the last RecordingProgress."""
        with self._supervisor.lock:
            if self._lab.recording:
                self._lab.recording.stopping = True
                self._send(messages.StopRecording(self._number))

    @property
    def recording(self) -> bool:
        """Whether the lab is being recorded, or is about to be."""
        return self._lab.recording is not None

    def close(self) -> None:
        """Give the lab's memory back; answered by LabClosed, the last event."""
        self._supervisor.close_lab(self._lab)

    def _send(self, request: messages.Request) -> None:
        self._supervisor.send(self._lab, request)

    def _ask(self, question: messages.AnsweredRequest) -> None:
        """Send a request that has an answer; it is sent again if the engine dies before."""
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
    """The union of mappings that nobody changes, kept until one of them is another object."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[Mapping[str, Any], ...], dict[str, Any]] = ((), {})

    def of(self, *parts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of all, those of a later one before those of an earlier one; not to be changed."""
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
