"""A file field for an image that a lab begins with, by its action `load_image`.

A frame identifies its image by a fingerprint (compute/lab/image_history.py), and this module stores the file name for
each fingerprint. Thus the field is correct after a reset, a checkpoint, an undo, a link and a restart of the engine.
"""

from __future__ import annotations

from collections.abc import Callable

from app.tab.session import Session
from app.tab.session_states import FellBack
from app.tab.upload import Upload, sketch
from compute.cli.settings import current
from compute.engine import messages
from compute.export import decoding
from compute.files.images import Kept, LoadedPicture
from compute.lab.frames import Frame
from compute.lab.image_history import LOAD

RESTARTED = "The engine was restarted twice before it showed the image. Choose it again."
MOST_NAMES = 100  # stored file names, the latest: undo does not reach further


class ImageUpload:
    """The file field `field`, labelled `label` and the size limit; its owner calls its `tick` and `close`.

    prepare() is called before an image is sent, and returns why it cannot be used, or "". An image that the engine lost
    at a restart is sent once more. fingerprint: of the visible image, "" without one.
    """

    def __init__(self, session: Session, label: str, prepare: Callable[[], str] = str) -> None:
        self.session, self._prepare = session, prepare
        self.field = Upload(f"{label} [≤ {current().upload} MiB]", "Image", decoding.picture, self.take)
        self.fingerprint = self._kept = ""
        self._names: dict[str, str] = {}  # fingerprint -> name of an uploaded file
        self._pending: LoadedPicture | None = None  # the image sent last, until the lab answers
        self._lost = self._sent_again = False  # engine restarted since; sent again since

    @property
    def name(self) -> str:
        """The file name of the visible image, "" if it is not known."""
        return self._names.get(self.fingerprint, "")

    @property
    def waiting(self) -> bool:
        """Whether a file is being read, or an image waits for the lab's answer."""
        return self.field.busy or self._pending is not None

    def take(self, picture: LoadedPicture, name: str) -> None:
        """Send a decoded image to the lab."""
        if reason := self._prepare():
            self.field.refuse(reason)
            return
        self._names[picture.fingerprint] = name
        for old in list(self._names)[:-MOST_NAMES]:
            del self._names[old]
        self._pending, self._lost, self._sent_again = picture, False, False
        self.session.act(LOAD, data=picture)

    # -- answers of the lab

    def on_event(self, event: messages.Event) -> bool:
        """Handle an engine event; return True if it concerns the file and its field shows it."""
        if self._pending is None:
            return False
        match event:
            case messages.EngineRestarting():
                self._lost = True
            case messages.EngineRestarted() if self._lost:
                self._send_again(self._pending)
            case FellBack():
                self._send_again(self._pending)
            case messages.Refused(change=None, request=messages.Act | None, text=text):
                self._pending = None
                self.field.refuse(text)
                return text.startswith("image ")
        return False

    def _send_again(self, picture: LoadedPicture) -> None:
        self._lost = False
        if self._sent_again:
            self._pending = None
            self.field.refuse(RESTARTED)
        else:
            self._sent_again = True
            self.session.act(LOAD, data=picture)

    def tick(self, frame: Frame) -> bool:
        """Show the image of a frame; return True if that has changed."""
        notes = frame.notes
        came = self._pending is not None and notes["image"] == self._pending.fingerprint
        if (notes["image"], notes["kept"]) == (self.fingerprint, self._kept) and not came:
            return False
        self.fingerprint, self._kept = notes["image"], notes["kept"]
        self._pending = None if came else self._pending
        self._show()
        return True

    def _show(self) -> None:
        if self._pending is not None or self.field.busy:
            return
        if not self.fingerprint:
            self.field.reset()
            return
        kept = Kept(*map(int, self._kept.split()))
        cells = f"{self.session.values['nx']} × {self.session.values['ny']} cells"
        self.field.name = self.name
        self.field.taken(f"Shown: {kept.words}, in grey, as {cells}.", "" if kept.whole else sketch(kept))
