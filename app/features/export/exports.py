"""The exports of one page: each runs as a job with progress, pause and cancel, followed by a download."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import panel as pn
from bokeh.document import Document

from app.features.export.download import FileDownload
from app.features.export.source import ExportSource, Moment
from app.page.notices import Notices
from app.page.theme import html_pane
from app.page.widgets import icon
from compute.cli.settings import MIB, current
from compute.export.film_renderer import seconds_words
from compute.export.jobs import OVER, Job, internal_error
from compute.files.files import size
from compute.machine import scratch

LIST = {  # always visible below the fields
    "position": "sticky", "bottom": "0", "z-index": "1", "max-height": "216px", "overflow-y": "auto",
    "padding": "0 8px 8px", "background": "var(--paper)", "border-top": "1px solid var(--line)",
}  # fmt: skip
TICK = 250  # ms
PATIENCE = 15  # s to wait for a killed process to end
MOST = 6  # finished exports in the list; the oldest is removed
LOOKS = 4  # ticks between two measurements of disk usage
WORDS = {
    "asking": "asking the engine how the lab stands", "paused": "paused", "cancelled": "cancelled", "done": "saved",
}  # fmt: skip


class Export:
    """One file and its job. `name`: file name in the browser; each export has a separate folder on the server.

    note: remark on the finished file.
    """

    def __init__(self, name: str, exports: Exports) -> None:
        self.name, self._exports = name, exports
        self.folder = scratch.folder("export")
        self.path = self.folder / name
        self.job: Job | None = None
        self.trouble = self.note = ""
        self._there = self._cancelled = self._announced = False
        self._source: ExportSource | None = None
        self._note: Callable[[Any], str] = lambda result: ""
        self._words = html_pane("")
        self._hold = icon("pause", "Pause", self._toggle)
        self._again = icon("download", f"Save {name} again", partial(self._send, ""), visible=False)
        self._about = icon("data_object", "Save what made it, as JSON", partial(self._send, ".json"), visible=False)
        self._drop = icon("close", "Cancel", self._close)
        self.panel = pn.Row(
            self._words, self._hold, self._about, self._again, self._drop, margin=0, sizing_mode="stretch_width"
        )
        self.show()

    @property
    def state(self) -> str:
        """The state of its job, "asking" before the job starts."""
        if self.trouble or self._there:
            return "failed" if self.trouble else "done"
        if self._cancelled:
            return "cancelled"
        return self.job.state if self.job else "asking"

    @property
    def over(self) -> bool:
        """Whether the export is finished, failed or cancelled."""
        return self.state in OVER

    @property
    def announced(self) -> bool:
        """Whether the page has shown that the export is over."""
        return self._announced

    def order(
        self,
        source: ExportSource,
        part: str,
        job: Callable[[Moment], Job],
        note: Callable[[Any], str] = lambda result: "",
    ) -> None:
        """Make the file with job(moment). note(result): returns a remark on the finished file. See `ask`."""

        def begin(moment: Moment) -> None:
            """Start the job."""
            self.job = job(moment)
            self.job.client = self._exports
            self.job.start()

        self._note = note
        self.ask(source, part, begin)

    def ask(self, source: ExportSource, part: str, act: Callable[[Moment], object]) -> None:
        """Request the lab's state from the engine and call act(moment); part: as for ExportSource.ask.

        The export fails if the engine does not answer or `act` raises; a ValueError reports an invalid request. If the
        export is over before, `act` is not called.
        """

        def heard(moment: Moment) -> None:
            """Call `act` unless the export is over; report its errors."""
            if self.over:
                return
            try:
                act(moment)
            except ValueError as error:
                self.fail(str(error))
            except Exception as error:
                self.fail(internal_error(f"{type(error).__name__}: {error}"))
                raise

        if not self.over:
            self._source = source
            source.ask(part, heard, self.fail)

    def made(self) -> None:
        """Mark the file as complete without a job."""
        self._there = True

    def fail(self, text: str) -> None:
        """Mark the export as failed, with the reason."""
        if not self.over:
            self.trouble = text

    def stop(self, text: str) -> None:
        """Fail an unfinished export for an external reason: cancel its job and delete its files."""
        if self.over:
            return
        self.fail(text)
        if self.job is not None:
            self.job.cancel()
        threading.Thread(target=self._clean, name="export", daemon=True).start()

    def bytes_on_disk(self) -> int:
        """Return the disk usage in bytes; files deleted during the count are left out."""
        total = 0
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with suppress(OSError):
                    total += os.stat(os.path.join(folder, name)).st_size  # noqa: PTH116, PTH118 - a thousand frames
        return total

    def show(self) -> None:
        """Show the progress; when the export is done, send the file to the browser.

        The job's thread may change the state at any time, so everything shown is based on a single reading.
        """
        if self.state == "asking" and self._source is not None:
            self._source.tick()
        state = self.state
        if state == "done" and self.job is not None:
            self.note = self._note(self.job.result)
        self._words.object = self._html(state)
        self._hold.param.update(
            visible=state in ("running", "paused"),
            icon="play_arrow" if state == "paused" else "pause",
            description="Go on" if state == "paused" else "Pause",
        )
        self._drop.description = "Remove from the list" if state in OVER else "Cancel"
        if state in OVER and not self._announced:
            self._announced = True
            if state == "done":
                self._again.visible, self._about.visible = True, self._sidecar.is_file()
                self._send("")
            elif state == "failed":
                self._exports.notices.tell("error", f"{self.name} was not made: {self._why}")

    def cancel(self) -> None:
        """Cancel the job and delete its files."""
        self._cancelled = self._announced = True
        if self.job is not None:
            self.job.cancel()
        threading.Thread(target=self._clean, name="export", daemon=True).start()

    # -- internal

    def _clean(self) -> None:
        """Delete the files after the job's process has ended."""
        if self.job is not None:
            self.job.join(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _why(self) -> str:
        return self.trouble or (self.job.text if self.job else "")

    @property
    def _sidecar(self) -> Path:
        return self.path.with_name(f"{self.name}.json")

    def _html(self, state: str) -> str:
        part = self.job.part if self.job else 0.0
        words = WORDS.get(state, "")
        if state == "waiting" and self.job is not None:
            words = waiting_for_turn(self.job)
        elif state == "running" and self.job is not None:
            words = f"{self.job.words or 'beginning'}{time_left(self.job)}"
        elif state == "failed":
            words = self._why
        elif state == "done":
            words = f"saved, {size(self.path.stat().st_size)}{self.note and f'; {self.note}'}"
        name, bar = escape(self.name), ""
        if state not in OVER:
            bar = f"<progress max='1' value='{part:.3f}' aria-label='{name}'></progress>"
        return f"<div class='job {state}'><b>{name}</b>{bar}<span>{escape(words)}</span></div>"

    def _toggle(self) -> None:
        if self.job is not None:
            self.job.resume() if self.job.state == "paused" else self.job.pause()
            self.show()

    def _send(self, suffix: str) -> None:
        self._exports.download.send(Path(f"{self.path}{suffix}"), f"{self.name}{suffix}", lambda: None)

    def _close(self) -> None:
        self._exports.drop(self)


class Exports:
    """The exports of one page; `panel` lists them on the card."""

    def __init__(self, document: Document, download: FileDownload, notices: Callable[[], Notices]) -> None:
        self.document, self.download, self._notices = document, download, notices
        self.panel = pn.Column(margin=0, styles=LIST, sizing_mode="stretch_width", visible=False)
        self._exports: list[Export] = []
        self._ticking: Any = None
        self._ticks = 0
        self._settings = current()

    @property
    def notices(self) -> Notices:
        """The page's notices, for error messages."""
        return self._notices()

    def add(self, name: str) -> Export:
        """Return a new export at the top of the list; it has failed already if `refusal` is not empty."""
        refusal = self.refusal
        export = Export(name, self)
        if refusal:
            export.fail(refusal)
        self._exports.insert(0, export)
        for old in [old for old in self._exports if old.over][MOST - 1 :]:
            self.drop(old)
        self._arrange()
        if self._ticking is None:
            self._ticking = self.document.add_periodic_callback(self._tick, TICK)
        return export

    @property
    def refusal(self) -> str:
        """The reason why no further export can be made now, "" if none."""
        most = self._settings.exports
        if sum(not export.over for export in self._exports) >= most:
            return f"{most} exports are under way, as many as one page may have: wait for one, or cancel one"
        return self._full if self._too_full() else ""

    def drop(self, export: Export) -> None:
        """Cancel an export and remove it from the list."""
        if export in self._exports:
            self._exports.remove(export)
            export.cancel()
            self._arrange()

    def close(self) -> None:
        """Cancel all exports; called when the page is closed."""
        for export in self._exports:
            export.cancel()
        self._exports.clear()

    def _arrange(self) -> None:
        self.panel.param.update(objects=[one.panel for one in self._exports], visible=bool(self._exports))

    @property
    def _full(self) -> str:
        most = f"{self._settings.disk} MiB"
        return f"the files of one page may take {most} on this server (its setting disk): remove one from the list"

    def _too_full(self) -> bool:
        """Return whether the files of this page, including finished ones, have reached the disk limit."""
        most = self._settings.disk * MIB
        return bool(most) and sum(export.bytes_on_disk() for export in self._exports) >= most

    def _tick(self) -> None:
        self._ticks += 1
        if self._ticks % LOOKS == 0 and self._too_full():
            for export in self._exports:
                export.stop(self._full)
        for export in self._exports:
            export.show()
        if all(export.announced for export in self._exports) and self._ticking is not None:
            self.document.remove_periodic_callback(self._ticking)
            self._ticking = None


def waiting_for_turn(job: Job) -> str:
    """Return the status text of a waiting job, with the number of jobs before it."""
    before = job.before
    return f"waiting for its turn, {before} before it" if before else "waiting for its turn"


def time_left(job: Job) -> str:
    """Return the estimated remaining time of a job as text, from its progress; "" during its first 2 s or 2 %."""
    if job.part < 0.02 or job.seconds < 2:
        return ""
    return f", about {seconds_words(job.seconds * (1 - job.part) / job.part)} left"
