"""Files that people bring: an own A and b, or a picture. What became of one stands at its field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import panel_material_ui as pmui

from app.session import Session
from app.upload import Upload
from app.widgets import FULL
from compute.frames import Frame
from compute.labs.l_curve.system import OWN, files_of

KINDS = {  # label, what a file may be called, what it is called once it was taken
    "matrix": ("A, or A and b [.npz, .mtx]", ".npz,.mtx", "A"),
    "rhs": ("b [.npy, .mtx]", ".npy,.mtx", "b"),
    "image": ("Picture [.png, .jpg]", ".png,.jpg,.jpeg", "Picture"),
}
WITHOUT_B, ASK_FOR_B = "rhs must be given", "This A comes without a b: choose its b."


class Uploads:
    """All of a problem's files. A file of A without b waits for its b.

    load(files) makes one's own problem of them, picture(data) puts a picture in the place of the phantom, None for the
    phantom again. What the lab says of it comes as `complain`, or with its next frame.
    """

    def __init__(
        self, session: Session, load: Callable[[Mapping[str, bytes]], object], picture: Callable[[bytes | None], object]
    ) -> None:
        self.session, self._load, self._picture = session, load, picture
        self._files: dict[str, bytes] = {}
        self._sent: tuple[str, ...] = ()
        self._awaited = self._shown = ""  # fingerprints: of what was sent last, of what the lab shows
        self._names: dict[str, dict[str, str]] = {}  # of the files with a fingerprint, by kind
        self.fields = {kind: Upload(*words, partial(self._arrived, kind)) for kind, words in KINDS.items()}
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
            field.panel.visible = pictured if kind == "image" else problem == OWN
        self.phantom.visible = pictured and "image" in self.session.values["options"]

    @property
    def waiting(self) -> bool:
        """Whether the engine has not yet said what it thinks of a file."""
        return bool(self._sent)

    def complain(self, words: str) -> bool:
        """The engine refused what was sent last; whether it was a file."""
        sent, self._sent = self._sent, ()
        if sent == ("matrix",) and words.startswith(WITHOUT_B):
            self.fields["rhs"].ask(ASK_FOR_B)
            self.fields["matrix"].taken()
        elif sent:
            name = next((kind for kind in sent if words.startswith(kind)), None)
            name = name or ("rhs" if words.startswith("b ") and "rhs" in sent else sent[0])
            self.fields[name].refuse(words)
            self._files.pop(name, None)
            self._names.pop(self._awaited, None)
        return bool(sent)

    def tick(self, frame: Frame) -> None:
        """What the lab shows says which files were taken: those that were sent last, or older ones again."""
        shown = frame.notes["files"]
        if self._sent and shown == self._awaited:
            self._sent = ()
        elif shown == self._shown:
            return
        self._shown = shown
        for kind, name in self._names.get(shown, {}).items():
            self.fields[kind].name = name
            self.fields[kind].taken(f"Taken: {frame.notes['kept']}." if kind == "image" else "")
        if frame.notes["problem"] == OWN:
            options = self.session.values["options"]
            self._files = {kind: options[kind] for kind in ("matrix", "rhs") if isinstance(options.get(kind), bytes)}
            if "rhs" not in self._files:
                self.fields["rhs"].reset()

    def again(self) -> bool:
        """Load the files once more that were taken before another problem was chosen; False if there are none."""
        if "matrix" not in self._files or files_of(self._files) not in self._names:
            return False
        self._send(tuple(self._files), self._files)
        self._load(dict(self._files))
        return True

    def _send(self, kinds: tuple[str, ...], files: Mapping[str, bytes]) -> None:
        self._sent, self._awaited = kinds, files_of(files)
        self._names[self._awaited] = {kind: self.fields[kind].name for kind in kinds}

    def _arrived(self, kind: str, data: bytes, name: str) -> None:
        if kind == "image":
            self._send(("image",), {"image": data})
            self.phantom.visible = True
            self._picture(data)
            return
        self._files[kind] = data
        if kind == "matrix":
            self._files.pop("rhs", None)
            self.fields["rhs"].reset()
        if "matrix" not in self._files:
            self.fields[kind].ask("Choose A first, then its b.")
            return
        self._send(tuple(self._files), self._files)
        self._load(dict(self._files))

    def _without_picture(self) -> None:
        self.phantom.visible = False
        self.fields["image"].reset()
        self._picture(None)
