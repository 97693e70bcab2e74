"""A field for one file, which shows the state of the file and the reason for a refusal.

The browser's own label changes to "Uploaded x.png" after the transfer, even for files that are refused later, so the
label is set here. A file arrives in pieces. Their total size is limited here, because the client may run foreign
JavaScript.

    chosen ──► Reading … (a job of the lane DECODE) ──► sent to the lab ──► accepted | refused
                   └── refused, too late, or no memory        another file replaces one that is being read

A child process decodes the file, and the lab receives the result: neither the page nor an engine parses its bytes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import panel as pn
import panel_material_ui as pmui

from app.page.markup import filled, plain
from app.page.theme import html_pane
from app.page.widgets import FULL
from compute.cli.settings import MIB, current
from compute.export.jobs import DECODE, Job
from compute.files.images import Kept
from compute.lab.loaded import LoadedFile, loaded_bytes
from compute.process.tasks import ChildTask

PIECE = 2**20  # bytes of a file in one message, which app.server.message_bounds limits
MOST_NAME = 255  # characters


class FileField(pmui.FileInput):
    """The library's field for one file, with server-side limits: pieces beyond `max_file_size` are dropped.

    The limit is the constructor's argument, because the page's messages may set the parameter of that name.
    """

    def __init__(self, max_file_size: int, **options: Any) -> None:
        super().__init__(max_file_size=max_file_size, chunk_size=PIECE, **options)
        self._most = max_file_size
        self._name, self._pieces, self._came = "", 0, 0

    def _handle_msg(self, msg: Any) -> None:
        """Handle a piece or the end of a file; a malformed message discards the pieces received so far."""
        if not isinstance(msg, dict) or msg.get("status") not in ("initializing", "upload_event", "finished"):
            return
        if msg["status"] == "upload_event" and not self._fits(msg):
            self._begin("")
            return
        super()._handle_msg(msg)
        if msg["status"] != "upload_event":
            self._begin("")

    def _fits(self, piece: dict[str, Any]) -> bool:
        """Return True if `piece` is the next one of a file within the size limit."""
        name, number, data = piece.get("name"), piece.get("chunk"), piece.get("data")
        if not isinstance(name, str) or len(name) > MOST_NAME or not isinstance(data, bytes | bytearray | memoryview):
            return False
        if number == 1:
            self._begin(name)
        whole = piece.get("total_chunks")
        self._pieces += 1
        self._came += len(data)
        return (
            (name, number) == (self._name, self._pieces)
            and type(whole) is int
            and whole >= self._pieces
            and self._came <= self._most
            and isinstance(piece.get("mime_type"), str)
        )

    def _begin(self, name: str) -> None:
        """Discard the pieces of a previous file."""
        self._name, self._pieces, self._came = name, 0, 0
        self._file_buffer.clear()
        self._buffer.clear()


IDLE, READING, TAKEN, WRONG = "cloud_upload", "hourglass_empty", "check_circle", "error"  # icons
LONGEST = 32  # characters of a file's name on the page
SKETCH = 44  # px: the longer side of the drawing of the kept part
STYLE = """
.wrong, .said { font-size: var(--small, 14px); line-height: 1.4; overflow-wrap: anywhere; }
.wrong { color: var(--bad); }
.said { color: var(--muted); }
.kept { float: left; margin: 4px 8px 4px 0; }
.kept .cut { fill: none; stroke: var(--muted); stroke-dasharray: 3 2; }
.kept .in { fill: var(--accent); fill-opacity: 0.35; stroke: var(--accent); stroke-width: 1.5; }
"""


Read = TypeVar("Read", bound=LoadedFile)


class Upload(Generic[Read]):
    """The upload field `panel`, with the initial label `label`.

    The label names the permitted kinds of files; the browser does not filter them, because it would not report a file
    that it excludes. what: the label of an accepted file, as in "A: shaw.npz"; task: decodes the bytes of a file, a
    function of compute.export.decoding; take(file, name) receives the result. The owner calls `tick` a few times a
    second and `close` with its page; it calls `taken` or `refuse` after the lab has answered.
    """

    def __init__(self, label: str, what: str, task: Callable[..., Read], take: Callable[[Read, str], object]) -> None:
        self._label, self._what, self._task, self._take = label, what, task, take
        self.name = ""  # of the latest file
        self._job: Job | None = None
        self._most = current().upload * MIB  # bytes
        style = {"variant": "outlined", "size": "small", **FULL}
        self.field = FileField(
            label=label, uploaded_label=label, max_file_size=self._most, **style
        )  # the browser shows uploaded_label from its first file on
        self.field.param.watch(self._arrived, "value")
        self.words = html_pane("", STYLE, margin=(0, 8), visible=False)
        self.panel = pn.Column(self.field, self.words, margin=0, sizing_mode="stretch_width")

    @property
    def busy(self) -> bool:
        """Whether a file is being read. `reset`, `prompt` and `taken`, for an older file, have no effect then."""
        return self._job is not None

    def reset(self) -> None:
        """Show that no file is chosen."""
        if not self.busy:
            self._show(self._label, IDLE)
            self._say("")

    def prompt(self, words: str) -> None:
        """Request a further file, without an error of this one."""
        if not self.busy:
            self._show(f"{self._what}: {self.name}" if self.name else self._label, IDLE)
            self._say(words, wrong=True)

    def taken(self, remark: str = "", picture: str = "") -> None:
        """Show that the lab uses the file; remark: the used part. picture: trusted HTML that illustrates it."""
        if not self.busy:
            self._show(f"{self._what}: {self.name}" if self.name else self._label, TAKEN)
            self._say(remark, more=picture)

    def refuse(self, reason: str) -> None:
        """Show the reason why the file was refused."""
        self._show(f"Rejected: {self.name}" if self.name else self._label, WRONG)
        self._say(reason, wrong=True)

    def tick(self) -> None:
        """Pass on a decoded file, or show the error."""
        job = self._job
        if job is None or not job.over:
            return
        self._job = None
        if job.state != "done":
            self.refuse(f"The file was not read: {job.text}" if job.late else job.text)
        elif full := _no_room():
            self.refuse(full)
        else:
            self._take(job.result, self.name)

    def stop(self) -> None:
        """Cancel the decoding, for a field that is hidden."""
        if self._job is not None:
            self._job.cancel()
            self._job = None
            self.reset()

    def close(self) -> None:
        """Cancel the decoding when the page closes."""
        if self._job is not None:
            self._job.cancel()
            self._job = None

    def _arrived(self, event: Any) -> None:
        data = event.new
        if not data:
            return
        name = self.field.filename
        self.name = short_name(name if isinstance(name, str) else "")
        self.field.clear()
        self.close()  # replaces a file that is still being decoded
        if not isinstance(data, bytes) or len(data) > self._most:
            self.refuse(f"Select one file of at most {self._most // MIB} MiB.")
            return
        self._show(f"Reading {self.name} …", READING)
        self._say("")
        task: ChildTask = partial(self._task, data)
        self._job = Job(task, DECODE, client=id(self), keeps=True)
        self._job.start()

    def _show(self, words: str, icon: str) -> None:
        """Set label and icon.

        An icon is always set: the browser's default is a tick after each transfer, and an icon that was set cannot be
        unset.
        """
        colour = "error" if icon == WRONG else "primary"
        self.field.param.update(label=words, uploaded_label=words, icon=icon, color=colour)

    def _say(self, words: str, wrong: bool = False, more: str = "") -> None:
        kind, role = ("wrong", "alert") if wrong else ("said", "note")
        text = filled("<div class='{kind}' role='{role}'>{words}</div>", kind=kind, role=role, words=words)
        html = text.replace(">", f">{more}", 1) if words else ""
        self.words.param.update(object=html, visible=bool(words))


def _no_room() -> str:
    """Return an error text if the loaded files of all pages exceed the server's limit, else ""."""
    most = current().memory * MIB
    if loaded_bytes() <= most:
        return ""
    gc.collect()  # reference cycles may keep files of closed pages
    held = loaded_bytes()
    if held <= most:
        return ""
    allowed = f"{most // MIB:,} MiB are allowed on this server (its setting memory)"
    return f"The loaded files of all pages would need {held // MIB:,} MiB; {allowed}."


def short_name(name: str) -> str:
    """Return a file's name for the page, shortened to keep its end: a number in a series, and the extension."""
    name = plain(name.replace("\\", "/").rpartition("/")[2])
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 3]}…{name[-(LONGEST - LONGEST // 3 - 1) :]}"


def sketch(kept: Kept) -> str:
    """Return a small drawing as HTML: the outline of the picture, and the part of it that was kept."""
    scale = SKETCH / max(kept.width, kept.height)
    width, height = (max(2, round(side * scale)) for side in (kept.width, kept.height))
    x, y, across, down = (round(value * scale, 1) for value in (kept.x0, kept.y0, kept.x1 - kept.x0, kept.y1 - kept.y0))
    return (
        f"<svg class='kept' width='{width}' height='{height}' role='img' aria-label='The part that was kept'>"
        f"<rect width='{width}' height='{height}' class='cut'/>"
        f"<rect x='{x}' y='{y}' width='{across}' height='{down}' class='in'/></svg>"
    )
