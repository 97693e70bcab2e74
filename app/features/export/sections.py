"""The small sections of the card: link, picture, numbers, table over parameters, and recording of a running lab."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import panel_material_ui as pmui
import param
from msgspec import structs

from app.features.export.download import FileDownload
from app.features.export.exports import Exports
from app.features.export.fields import (
    ExportSection,
    IntegerField,
    PartSelect,
    button,
    choose,
    file_name,
    film_formats,
    format_field,
    heights,
    row,
)
from app.features.export.link_code import LinkCode
from app.features.export.source import ExportSource, Moment, parameters_of, slide
from app.page.markup import quiet
from app.page.theme import html_pane
from app.page.widgets import FULL
from app.readout.readout import SaveButtons
from app.server.builder import builder
from app.tab.controls import column
from compute.engine.messages import RecordingProgress
from compute.engine.recording_store import RecordingStore
from compute.export import tasks
from compute.export.film import RATES
from compute.export.formats import NPZ, PNG, STILLS, TABLES, ZIPPED_ZARR
from compute.export.jobs import FILE, Job
from compute.export.link import NAME, packed
from compute.export.notebook_file import ENDING, notebook_of
from compute.export.packages import PYARROW, ZARR
from compute.export.parameter_texts import axes_of
from compute.export.render_pool import on_gpu
from compute.export.scene import Scene, SceneError
from compute.export.sweep import ParameterSweep
from compute.files.files import size
from compute.lab.history import StepHistory, plain_history
from compute.machine import scratch
from compute.process.tasks import ChildTask

NOTEBOOK_HEIGHT = 480  # pixels of a picture that the notebook computes: the lab may have one cell a pixel
NONE = ""  # a table without a second parameter
COLOURS_ALONE = {"refit"}  # actions that leave a lab's state unchanged
GAPS = re.compile(r"\s*([,:])\s*")  # blanks around separators of values
HOW = "a, b, c or low:high:5, by equal factors low:high:x5"
ABOUT_LINK = (
    "<p class='quiet'>A picture (PNG) or JSON that was saved here brings its state back: drop it on the page. "
    "The notebook computes the same state in Jupyter, VS Code or Colab, without the page.</p>"
)
ABOUT_NUMBERS = """<p class='quiet'>The arrays behind the picture, in full precision, with their parameters.</p>"""
ABOUT_TIMINGS = """<p class='quiet'>The timings behind the comparison on the right, every sample included.</p>"""
ABOUT_TABLE = """<h3 class='along'>A table over parameters</h3>
<p class='quiet'>A row for every combination: the facts of the status bar and what it took.</p>"""


class LinkSection(ExportSection):
    """The link to the lab's current state with its QR code, JSON and notebook; all restore the same state."""

    TITLE = "Link"

    def __init__(self, source: ExportSource, exports: Exports, download: FileDownload) -> None:
        self._source, self._exports, self._download = source, exports, download
        self.address: Any = pmui.TextInput(label="Address", value="", size="small", visible=False, **FULL)
        self.copy = button("Copy the link", "link", self._copy)
        self.save = button("Save as JSON", "download", self._save, filled=False)
        self.notebook = button("Open in Jupyter", "menu_book", self._save_notebook, filled=False)
        self.code = LinkCode()
        self._words = html_pane("", margin=(0, 8))
        about = html_pane(ABOUT_LINK, margin=(0, 8))
        files = row(self.copy, self.save), row(self.notebook)
        self.panel = column(*files, self._words, self.address, self.code, about)

    def tick(self) -> None:
        """Enable links after the first frame."""
        self.copy.disabled = self.save.disabled = self.notebook.disabled = self._source.frame is None

    def _part(self) -> str:
        return next(iter(self._source.pictures().values()), "")

    def _copy(self) -> None:
        self._source.ask(self._part(), self._linked, self._refuse)

    def _linked(self, moment: Moment) -> None:
        try:
            query = f"{NAME}={packed(moment.scene)}"
        except SceneError as error:
            self._refuse(str(error))
            return
        self._download.copy_link(query, lambda address, copied: self._copied(moment, address, copied))

    def _copied(self, moment: Moment, address: str, copied: bool) -> None:
        self.address.param.update(value=address, visible=True)
        words = "The link is on the clipboard" if copied else "The browser does not allow the clipboard: copy it here"
        lost = f"; it does not include: {moment.scene.missing}" if moment.scene.missing else ""
        self._say(f"{words}{lost}.")
        builder().queue_or_call(self._exports.document, partial(self.code.show, address))  # takes 0.3 s for a long one

    def _refuse(self, words: str) -> None:
        """Show why no link can be made, and remove the previous link."""
        self._say(words)
        self.address.param.update(value="", visible=False)
        builder().queue_or_call(self._exports.document, self.code.clear)  # queued after a code that is still being made

    def _save(self) -> None:
        self._write(".json", Scene.plain)

    def _save_notebook(self) -> None:
        size = self._source.size(NOTEBOOK_HEIGHT)
        self._write(ENDING, lambda scene: notebook_of(structs.replace(scene, size=size)))

    def _write(self, ending: str, content: Callable[[Scene], Mapping[str, Any]]) -> None:
        """Save a file with content(scene) as JSON; no computation is needed."""
        export = self._exports.add(file_name(self._source.lab, "", ending))

        def write(moment: Moment) -> None:
            """Write the file."""
            text = json.dumps(content(moment.scene), indent=1, ensure_ascii=False)
            export.path.write_text(text, encoding="utf-8")
            export.made()

        export.ask(self._source, self._part(), write)

    def _say(self, words: str) -> None:
        self._words.object = quiet(words)


class PictureSection(ExportSection):
    """A picture of the lab rendered at any size: PNG without or with axes, SVG, PDF."""

    TITLE = "Picture"

    def __init__(self, source: ExportSource, exports: Exports) -> None:
        self._source, self._exports = source, exports
        self._formats = {one.name: one for one in STILLS}
        self.what = pmui.Select(label="What", options=[], size="small", **FULL)
        self.what.param.watch(lambda event: self._offer(), "value")
        self.form = pmui.Select(label="Format", options=list(self._formats), value=PNG.name, size="small", **FULL)
        self.form.param.watch(lambda event: self._suit(), "value")
        self.height = heights(1080, source.lab)
        self.transparent = pmui.Switch(label="Transparent background", value=False, visible=False, **FULL)
        self.save = button("Save the picture", "download", self._save)
        self.panel = column(self.what, row(self.form, self.height), self.transparent, self.save)

    def tick(self) -> None:
        """Update the choices."""
        titles = self._source.drawings()
        choose(self.what, titles)
        self.save.disabled = not titles

    def _offer(self) -> None:
        """Offer formats without axes for pictures only; line plots always have axes."""
        pictures = self._source.pictures().values()
        panel = self._panel()
        drawn = panel is not None and panel.image in pictures
        choose(self.form, [one.name for one in STILLS if drawn or one.axes])

    def _suit(self) -> None:
        self.transparent.visible = self.form.value not in (None, PNG.name)

    def _panel(self) -> Any:
        return self._source.panels().get(self.what.value)

    def _save(self) -> None:
        panel = self._panel()
        if panel is None:
            return
        form, height, transparent = self._formats[self.form.value], self.height.value, self.transparent.value
        size = slide(height) if form.axes else self._source.size(height)
        part = self.what.value if form.axes else panel.image
        export = self._exports.add(file_name(self._source.lab, self.what.value, form.ending))

        def job(moment: Moment) -> Job:
            """Return the job that makes the file from the lab's state at `moment`."""
            scene = structs.replace(moment.scene, size=size)
            return file_job(partial(tasks.still, form, scene, export.path, moment.current, transparent), scene)

        export.order(self._source, part, job)


class NumbersSection(ExportSection):
    """The arrays of the current state in full precision, and a table over parameters."""

    TITLE = "Numbers"

    def __init__(self, source: ExportSource, exports: Exports) -> None:
        self._source, self._exports = source, exports
        self.form: Any = format_field("Format", (NPZ, ZIPPED_ZARR), f"Zarr: {ZARR.install}")
        self.save = button("Save the numbers", "download", self._save)
        self.series = button("", "download", self._save_series, filled=False)
        self.series.visible = False
        words = html_pane(ABOUT_NUMBERS, margin=(0, 8))
        self.table = TableSection(source, exports)
        self.panel = column(words, self.form, self.save, self.series, self.table.panel)

    def tick(self) -> None:
        """Enable saving after the first frame."""
        self.save.disabled = self.table.save.disabled = self._source.frame is None
        self.table.tick()
        name, _ = self._source.series()
        label = f"Save the {name} over time (CSV)" if name else ""
        if label != self.series.label:
            self.series.param.update(label=label, visible=bool(name))

    def _save_series(self) -> None:
        name, text = self._source.series()
        export = self._exports.add(file_name(self._source.lab, name, ".csv"))
        if export.over:
            return
        try:
            export.path.write_text(text, encoding="utf-8")
        except OSError as error:
            export.fail(f"it cannot be written: {error.strerror}")
        else:
            export.made()

    def _save(self) -> None:
        form = next(one for one in (NPZ, ZIPPED_ZARR) if one.ending == self.form.value)
        export = self._exports.add(file_name(self._source.lab, "", form.ending))

        def job(moment: Moment) -> Job:
            """Return the job that makes the file from the lab's state at `moment`."""
            return file_job(partial(tasks.arrays, form, moment.scene, export.path, moment.current), moment.scene)

        export.order(self._source, "", job)


class TimingsSection(ExportSection):
    """The timings of the readout as files, for labs with a readout that has `saves`."""

    TITLE = "Timings"

    def __init__(self, saves: SaveButtons) -> None:
        self.panel = column(html_pane(ABOUT_TIMINGS, margin=(0, 8)), saves.panel)


def file_job(task: ChildTask, scene: Scene) -> Job:
    """Return the job that makes one file of `scene`.

    Its process is reused for the next file unless it uses a GPU, as it would keep the GPU's memory.
    """
    return Job(task, FILE, keeps=not on_gpu(scene.kind, [scene.values.get("backend")]))


class TableSection:
    """A table of results and timings over one or two parameters, computed like `fieldlab sweep`."""

    def __init__(self, source: ExportSource, exports: Exports) -> None:
        self._source, self._exports = source, exports
        names = varied(source)
        first = next(iter(names.values()))
        self.names = [
            pmui.Select(label="Over", options=names, value=first, size="small", **FULL),
            pmui.Select(label="and over", options={"nothing else": NONE, **names}, value=NONE, size="small", **FULL),
        ]
        self.values = [pmui.TextInput(label="Values", value="", size="small", **FULL) for _ in self.names]
        self.values[0].helper_text = HOW
        self.steps = IntegerField("Steps of each row", 1000, 1, 10**6)
        self.steps.panel.visible = not source.lab.ENDS
        self.form: Any = format_field("Format of the table", TABLES, f"Parquet: {PYARROW.install}")
        self.save = button("Make the table", "table_chart", self._save)
        words = html_pane(ABOUT_TABLE, margin=(8, 8, 0, 8))
        axes = (row(name, values) for name, values in zip(self.names, self.values, strict=True))
        self.panel = column(words, *axes, row(self.steps.panel, self.form), self.save)

    def tick(self) -> None:
        """Update the choices."""
        names = varied(self._source)
        for field, more in zip(self.names, ({}, {"nothing else": NONE}), strict=True):
            choose(field, {**more, **names})

    def _texts(self) -> list[str]:
        """Return the axes in the syntax of the command line."""
        pairs = zip(self.names, self.values, strict=True)
        return [f"{name.value}={_close(values.value)}" for name, values in pairs if name.value != NONE]

    def _save(self) -> None:
        texts = self._texts()
        export = self._exports.add(file_name(self._source.lab, "table", self.form.value))

        def job(moment: Moment) -> Job:
            """Return the job that makes the file from the lab's state at `moment`."""
            return Job(partial(tasks.table, self.sweep(moment, texts), export.path))

        export.order(self._source, "", job, not_made)

    def sweep(self, moment: Moment, texts: Sequence[str]) -> ParameterSweep:
        """Return the sweep over the axes in `texts`; other parameters keep their values at `moment`.

        Raise SceneError if the state cannot be reproduced from parameters alone: the rows would describe another state.
        """
        lab = self._source.lab
        axes = axes_of(lab, texts)
        others = {*axes, *lab.PICTURE_SIZE, *lab.LOCAL}
        now = {name: value for name, value in moment.current.values.items() if name not in others}
        rest = plain_history(lab, now)
        if lost := rest.missing or beyond_parameters(moment):
            raise SceneError(f"a table's rows are made from parameters alone, without {lost}")
        return ParameterSweep(lab.LAB, rest.values, axes, 0 if lab.ENDS else self.steps.value)


def beyond_parameters(moment: Moment) -> str:
    """Describe the causes of a lab's state at `moment` other than its parameters; return "" without any.

    Parameter changes in the history and the number of steps do not count.
    """
    history: StepHistory | None = (moment.current.snapshot or {}).get("history")
    if history is None:
        return ""
    if history.missing:
        return f"what happened here: {history.missing}"
    done = {entry["do"] for entry in history.entries if "do" in entry} - COLOURS_ALONE
    return f"what was done by hand ({', '.join(sorted(done))})" if done else ""


def not_made(counts: Mapping[str, int]) -> str:
    """Return a remark on rows that were not made, from the number of rows by status; "" if all were made."""
    others = [f"{count} {status}" for status, count in counts.items() if status != "made"]
    return f"of {sum(counts.values())} rows {' and '.join(others)}: column why says the reason" if others else ""


def _close(text: str) -> str:
    return GAPS.sub(r"\1", text.strip())


def varied(source: ExportSource) -> dict[str, str]:
    """Return the names of the parameters that a table can vary, numbers and choices, by label."""
    return parameters_of(source, param.Number, param.Selector)


# -- recording: every k-th step from now on, independent of the frames on screen, followed by a film

MOST = 20_000  # frames
LAST_WORDS = 40  # ticks to wait for the message about a recording's end: the engine writes frames until then


class RecordSection(ExportSection):
    """The fields for a recording of one lab. Frames are stored in a folder of the server until the film is made.

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
        self._kept = 0  # frames of a finished recording that waits for its film
        self._rate = self.rate.value  # of the current recording
        self._refused = False  # the engine refused the recording
        self._silent = 0  # ticks since its end without a message
        self._say("What runs is kept from the moment of the press, at exactly these steps.")

    @property
    def recording(self) -> bool:
        """Whether a recording exists for which no film was started."""
        return self._folder is not None

    def tick(self) -> None:
        """Enable recording after the first frame; finish a recording without a final message from the engine.

        The engine refused it, it waits for other exports, or it ended silently. The session knows about its end before
        the message arrives.
        """
        self.button.disabled = not self.what.tick() or self._kept > 0
        if not self.recording or self._source.session.recording:
            self._silent = 0
            return
        self._silent += 1
        if self._kept or self._silent > (1 if self._refused else LAST_WORDS):
            self._finish(self._kept)

    def toggle(self) -> None:
        """Start recording, or stop and make the film."""
        session = self._source.session
        if self.recording:
            if refusal := self._exports.refusal:  # the film could not be made, and the frames would be lost
                self._say(f"still recording: {refusal}")
            else:
                session.stop_recording()
            return
        try:
            every, self._rate = self.every.value, self.rate.value
        except ValueError as error:
            self._say(str(error))
            return
        self._folder = scratch.folder("recording")
        high, wide = self._source.size(self.height.value)
        # Twice the film's size, so that a frame reduced by an integer factor is still at least as large as the film.
        session.record(str(self._folder), every, (2 * high, 2 * wide), MOST)
        self._refused, self._silent = not session.recording, 0
        self.button.param.update(label="Stop", icon="stop")
        self._changed()
        self._say("recording" if session.playing else "recording begins as soon as the lab runs")

    def on_event(self, event: Any) -> None:
        """Show the progress of the recording; make the film when it has ended."""
        if not isinstance(event, RecordingProgress) or self._folder is None:
            return
        words = f"{event.frames} frames, {size(event.bytes)}"
        if not event.ended:
            self._say(f"recording: {words}")
            return
        self._say(f"{words}; {event.ended}")
        self._finish(event.frames)

    def close(self) -> None:
        """Delete the frames; called when the lab is closed."""
        if self._folder is not None:  # thousands of files: deleting them would block the event loop
            threading.Thread(target=shutil.rmtree, args=(self._folder, True), name="recording", daemon=True).start()

    def _finish(self, frames: int) -> None:
        """Make the film. frames: number of frames in the last message of the engine."""
        if not frames and self._folder is not None:
            frames = len(RecordingStore(self._folder).numbers())
        if frames and self._exports.refusal:
            if not self._kept:
                self._kept = frames
                self._say(f"{frames} frames are kept, and made a film as soon as that can be: {self._exports.refusal}")
            return
        folder, self._folder, self._kept = self._folder, None, 0
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
