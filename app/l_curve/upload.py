"""Files that people bring: an own A and b, or a picture. What is wrong with one stands below its field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.file_field import FileField
from app.markup import filled
from app.session import Session
from app.theme import stylesheet
from app.widgets import FULL
from compute.images import MAX_BYTES

KINDS = {  # label, label once a file was chosen, what a file may be called
    "matrix": ("A, or A and b [.npz, .mtx]", "A: {filename}", ".npz,.mtx"),
    "rhs": ("b [.npy, .mtx]", "b: {filename}", ".npy,.mtx"),
    "image": ("Picture [.png, .jpg]", "Picture: {filename}", ".png,.jpg,.jpeg"),
}
WITHOUT_B, ASK_FOR_B = "rhs must be given", "This A comes without a b: choose its b."
WRONG = "<div class='wrong' role='alert'>{words}</div>"
LOOK = ".wrong { color: var(--bad); font-size: var(--small, 14px); line-height: 1.4; }"


class Upload:
    """One field; take(data) is called with the bytes of a file that is not too large."""

    def __init__(self, kind: str, take: Callable[[bytes], object]) -> None:
        self.kind, self._take = kind, take
        label, chosen, accept = KINDS[kind]
        look = {"variant": "outlined", "size": "small", **FULL}
        self.field = FileField(label=label, uploaded_label=chosen, accept=accept, max_file_size=MAX_BYTES, **look)
        self.field.param.watch(self._arrived, "value")
        self.words = pn.pane.HTML(
            "", stylesheets=[stylesheet(), LOOK], sizing_mode="stretch_width", margin=(0, 8), visible=False
        )
        self.panel = pmui.Column(self.field, self.words, margin=0, sizing_mode="stretch_width")

    def say(self, words: str) -> None:
        """What is wrong with the file; "" for nothing."""
        self.words.param.update(object=filled(WRONG, words=words) if words else "", visible=bool(words))

    def _arrived(self, event: Any) -> None:
        data = event.new
        if not data:
            return
        self.say("")
        if not isinstance(data, bytes) or len(data) > MAX_BYTES:
            self.say(f"It must be one file of at most {MAX_BYTES // 2**20} MB.")
        else:
            self._take(data)
        self.field.clear()


class Uploads:
    """All of a problem's files. A file of A without b waits for its b."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._files: dict[str, bytes] = {}
        self._sent: tuple[str, ...] = ()
        self.fields = {kind: Upload(kind, partial(self._arrived, kind)) for kind in KINDS}
        self.phantom = pmui.Button(
            label="Phantom again", icon="restart_alt", variant="outlined", size="small", visible=False, **FULL
        )
        self.phantom.on_click(lambda event: self._without_picture())
        self.panel = pmui.Column(
            *(field.panel for field in self.fields.values()), self.phantom, margin=0, sizing_mode="stretch_width"
        )

    def show(self, problem: str, pictured: bool) -> None:
        """Only the fields that `problem` needs."""
        for kind, field in self.fields.items():
            field.panel.visible = pictured if kind == "image" else problem == "own"
        self.phantom.visible = pictured and "image" in self.session.values["options"]

    @property
    def waiting(self) -> bool:
        """Whether the engine has not yet said what it thinks of a file."""
        return bool(self._sent)

    def complain(self, words: str) -> bool:
        """The engine refused what was sent last; whether it was a file."""
        sent, self._sent = self._sent, ()
        if sent == ("matrix",) and words.startswith(WITHOUT_B):
            self.fields["rhs"].say(ASK_FOR_B)
        elif sent:
            name = next((kind for kind in sent if words.startswith(kind)), None)
            name = name or ("rhs" if words.startswith("b ") and "rhs" in sent else sent[0])
            self.fields[name].say(words)
            self._files.pop(name, None)
        return bool(sent)

    def settled(self) -> None:
        """The engine has taken what was sent last."""
        self._sent = ()

    def _arrived(self, kind: str, data: bytes) -> None:
        if kind == "image":
            self._sent = ("image",)
            self.phantom.visible = True
            self.session.change(options={**self.session.values["options"], "image": data})
            return
        self._files[kind] = data
        if kind == "matrix":
            self._files.pop("rhs", None)
        if "matrix" not in self._files:
            self.fields[kind].say("Choose A first, then its b.")
            return
        self._sent = tuple(self._files)
        self.session.change(problem="own", options=dict(self._files))

    def _without_picture(self) -> None:
        options: Mapping[str, Any] = self.session.values["options"]
        self.phantom.visible = False
        self.session.change(options={name: value for name, value in options.items() if name != "image"})
