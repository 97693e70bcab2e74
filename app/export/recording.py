"""Recording what runs: every k-th step from now on, whatever the screen shows, and then a film of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from app.controls import column
from app.export.exports import Exports
from app.export.fields import ExportSection, IntegerField, PartSelect, button, file_name, film_formats, heights, row
from app.export.source import ExportSource, Moment
from app.markup import quiet
from app.theme import html_pane
from compute import scratch
from compute.engine.messages import RecordingProgress
from compute.export import tasks
from compute.export.film import RATES
from compute.export.jobs import Job
from compute.files import size

MOST = 20_000  # frames


class RecordSection(ExportSection):
    """The fields for a recording of one lab. Frames lie in a folder of the server until the film is there.

    changed() is called when a recording begins or ends.
    """

    TITLE = "Record"

    def __init__(self, source: ExportSource, exports: Exports, changed: Callable[[], object]) -> None:
        self._source, self._exports, self._changed = source, exports, changed
        ends = source.lab.ENDS
        hint = "0: complete pictures only" if ends else ""
        self.every = IntegerField("Every k-th step", 0 if ends else 20, 0 if ends else 1, 10**6, hint)
        self.height = heights(720, source.lab, most=1080)
        self.rate = IntegerField("Frames a second", 30, int(RATES[0]), int(RATES[1]))
        self.form, self.what = film_formats(), PartSelect(source)
        self.button = button("Record", "fiber_manual_record", self.toggle)
        self._words = html_pane("", margin=(0, 8))
        numbers, shape = row(self.every.panel, self.rate.panel), row(self.height, self.form)
        self.panel = column(self.what.field, numbers, shape, row(self.button), self._words)
        self._folder: Path | None = None
        self._rate = self.rate.value  # of what is being recorded
        self._say("What runs is kept from the moment of the press, at exactly these steps.")

    @property
    def recording(self) -> bool:
        """Whether frames are being kept."""
        return self._folder is not None

    def tick(self) -> None:
        """Allow recording from the first frame on; end one that the engine refused, which it has said elsewhere."""
        self.button.disabled = not self.what.tick()
        if self.recording and not self._source.session.recording:
            self._finish(0)

    def toggle(self) -> None:
        """Begin, or stop and make the film."""
        session = self._source.session
        if self.recording:
            session.stop_recording()
            return
        try:
            every, self._rate = self.every.value, self.rate.value
        except ValueError as error:
            self._say(str(error))
            return
        self._folder = scratch.folder("recording")
        high, wide = self._source.size(self.height.value)
        # twice as large, so that what is reduced by a whole factor is still as large as the film
        session.record(str(self._folder), every, (2 * high, 2 * wide), MOST)
        self.button.param.update(label="Stop", icon="stop")
        self._changed()
        self._say("recording" if session.playing else "recording begins as soon as the lab runs")

    def on_event(self, event: Any) -> None:
        """Show how far the recording is; at its end, make the film."""
        if not isinstance(event, RecordingProgress) or self._folder is None:
            return
        words = f"{event.frames} frames, {size(event.bytes)}"
        if not event.ended:
            self._say(f"recording: {words}")
            return
        self._say(f"{words}; {event.ended}")
        self._finish(event.frames)

    def close(self) -> None:
        """Delete the frames: the page is gone."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _finish(self, frames: int) -> None:
        folder, self._folder = self._folder, None
        self.button.param.update(label="Record", icon="fiber_manual_record")
        self._changed()
        if folder is None:
            return
        if not frames:
            shutil.rmtree(folder, ignore_errors=True)
            return
        name = file_name(self._source.lab, "recording", self.form.value)
        export, rate, part, axes = self._exports.add(name), float(self._rate), self.what.part, self.what.axes
        pixels = self.what.size(self.height.value)
        kept = export.folder / "frames"
        shutil.move(folder, kept)

        def job(moment: Moment) -> Job:
            """Return the job that makes the film, in the colours at `moment`."""
            return Job(partial(tasks.recorded, kept, export.path, moment.scene.colours, part, axes, pixels, rate))

        export.order(self._source, part, job)

    def _say(self, words: str) -> None:
        self._words.object = quiet(words)
