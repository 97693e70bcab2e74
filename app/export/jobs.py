"""The exports of one page: each in a process of its own, with progress, pause and cancel, and then a download."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import panel as pn
from bokeh.document import Document

from app.export.courier import Courier
from app.export.subject import Moment, Subject
from app.notices import Notices
from app.theme import stylesheet
from app.widgets import icon
from compute import scratch
from compute.export.errand import Errand
from compute.export.runner import Runner, ours
from compute.files import size

TICK = 250  # ms
PATIENCE = 10  # s that a process which was killed may take to be gone
MOST = 6  # jobs that are listed; the oldest that is over gives way
WORDS = {
    "asking": "asking the engine how the lab stands", "waiting": "waiting for its turn", "paused": "paused",
    "cancelled": "cancelled", "done": "saved",
}  # fmt: skip


class Job:
    """One file on its way. `name` is what the browser saves it as; made in a folder of its own."""

    def __init__(self, name: str, jobs: Jobs) -> None:
        self.name, self._jobs = name, jobs
        self.folder = scratch.folder("export")
        self.path = self.folder / name
        self.runner: Runner | None = None
        self.trouble, self._there = "", False
        self._began, self._told, self._tried = time.monotonic(), False, ""
        self._words = pn.pane.HTML("", stylesheets=[stylesheet()], margin=0, sizing_mode="stretch_width")
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
        """As a Runner's; "asking" before there is one."""
        if self.trouble or self._there:
            return "failed" if self.trouble else "done"
        return self.runner.state if self.runner else "asking"

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed", "cancelled")

    def order(self, subject: Subject, part: str, errand: Callable[[Moment], Errand]) -> None:
        """Have it made by errand(how the lab stands), in a process of its own. See `ask`."""

        def begin(moment: Moment) -> None:
            """Start the process."""
            self.runner = Runner(errand(moment))
            self.runner.start()

        self.ask(subject, part, begin)

    def ask(self, subject: Subject, part: str, act: Callable[[Moment], object]) -> None:
        """Call act(how the lab stands), once the engine has said that; part: as of Subject.ask.

        An error of `act` is why it failed; a ValueError is the request's fault. Nothing is done if it is cancelled
        before.
        """

        def heard(moment: Moment) -> None:
            """The engine has answered."""
            if self.over:
                return
            try:
                act(moment)
            except ValueError as error:
                self.fail(str(error))
            except Exception as error:
                self.fail(ours(f"{type(error).__name__}: {error}"))
                raise

        subject.ask(part, heard)

    def made(self) -> None:
        """The file is there already."""
        self._there = True

    def fail(self, text: str) -> None:
        """It cannot be made at all."""
        self.trouble = text

    def show(self) -> None:
        """Write down how it is; once it is done, hand it over."""
        state = self.state
        self._words.object = self._html(state)
        self._hold.param.update(
            visible=state in ("running", "paused"),
            icon="play_arrow" if state == "paused" else "pause",
            description="Go on" if state == "paused" else "Pause",
        )
        self._drop.description = "Remove from the list" if self.over else "Cancel"
        if self.over and not self._told:
            self._told = True
            if state == "done":
                self._again.visible, self._about.visible = True, self._sidecar.is_file()
                self._send("")
            elif state == "failed":
                self._jobs.notices.tell("error", f"{self.name} was not made: {self._why}")

    def cancel(self) -> None:
        """End it, and delete what there is of it."""
        if self.runner is not None:
            self.runner.cancel()
        elif not self.trouble:
            self.trouble = WORDS["cancelled"]
            self._told = True
        threading.Thread(target=self._clean, name="export", daemon=True).start()

    # -- inside

    def _clean(self) -> None:
        """Delete the files, once nobody writes any more."""
        if self.runner is not None:
            self.runner.join(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _why(self) -> str:
        return self.trouble or (self.runner.text if self.runner else "")

    @property
    def _sidecar(self) -> Path:
        return self.path.with_name(f"{self.name}.json")

    def _html(self, state: str) -> str:
        part = self.runner.part if self.runner else 0.0
        words = WORDS.get(state, "")
        if state == "running" and self.runner is not None:
            words = f"{self.runner.words or 'beginning'}{self._left(part)}"
        elif state == "failed":
            words = self._why
        elif state == "done":
            words = f"saved, {size(self.path.stat().st_size)}"
        bar = "" if self.over else f"<progress max='1' value='{part:.3f}' aria-label='{escape(self.name)}'></progress>"
        return f"<div class='job {state}'><b>{escape(self.name)}</b>{bar}<span>{escape(words)}</span></div>"

    def _left(self, part: float) -> str:
        seconds = time.monotonic() - self._began
        if part < 0.02 or seconds < 2:
            return ""
        return f", about {seconds_words(seconds * (1 - part) / part)} left"

    def _toggle(self) -> None:
        if self.runner is not None:
            self.runner.go() if self.runner.state == "paused" else self.runner.pause()
            self.show()

    def _send(self, suffix: str) -> None:
        self._jobs.courier.send(Path(f"{self.path}{suffix}"), f"{self.name}{suffix}", lambda: None)

    def _close(self) -> None:
        self._jobs.drop(self)


class Jobs:
    """The list of one page. `panel` is shown on the card."""

    def __init__(self, document: Document, courier: Courier, notices: Callable[[], Notices]) -> None:
        self._document, self.courier, self._notices = document, courier, notices
        self.panel = pn.Column(margin=0, sizing_mode="stretch_width")
        self._jobs: list[Job] = []
        self._ticking: Any = None

    @property
    def notices(self) -> Notices:
        """Where to say what went wrong."""
        return self._notices()

    def add(self, name: str) -> Job:
        """A new job at the top of the list."""
        job = Job(name, self)
        self._jobs.insert(0, job)
        for old in [old for old in self._jobs if old.over][MOST - 1 :]:
            self.drop(old)
        self._arrange()
        if self._ticking is None:
            self._ticking = self._document.add_periodic_callback(self._tick, TICK)
        return job

    def drop(self, job: Job) -> None:
        """Cancel it, and take it from the list."""
        if job in self._jobs:
            self._jobs.remove(job)
            job.cancel()
            self._arrange()

    def close(self) -> None:
        """The page is gone: end everything."""
        for job in self._jobs:
            job.cancel()
        self._jobs.clear()

    def _arrange(self) -> None:
        self.panel.objects = [job.panel for job in self._jobs]

    def _tick(self) -> None:
        for job in self._jobs:
            job.show()
        if all(job.over for job in self._jobs) and self._ticking is not None:
            self._document.remove_periodic_callback(self._ticking)
            self._ticking = None


def seconds_words(seconds: float) -> str:
    """A time to wait, for the eye."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
