"""Controls of the field's source: preset and uploaded image.

The drop-down of initial fields shows the source of the visible frame. A frame identifies its image by a fingerprint,
and this module stores the file name for each fingerprint. Thus the drop-down is correct after a reset, a checkpoint, an
undo, a link and a restart of the engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import panel_material_ui as pmui

from app.page.widgets import FULL
from app.tab.session import Session
from app.tab.session_states import FellBack
from app.tab.upload import Upload, sketch
from compute.cli.settings import current
from compute.engine import messages
from compute.export import decoding
from compute.files.images import Kept, LoadedPicture
from compute.lab.frames import Frame

IMAGE = ""  # value in the list of presets
RESTARTED = "The engine was restarted twice before it showed the image. Choose it again."
MOST_NAMES = 100  # stored file names, the latest: undo does not reach further


class InitialField:
    """The drop-down `choice` and the file field `upload`.

    changed(preset) is called with the visible source, "" for an image. An image that the engine lost at a restart is
    sent once more.
    """

    def __init__(self, session: Session, changed: Callable[[str], object]) -> None:
        self.session, self._changed = session, changed
        parameter = session.lab.param["preset"]
        self._presets = list(parameter.objects)
        self.choice = pmui.Select(
            label=parameter.label, value=session.values["preset"], options=self._presets, size="small", **FULL
        )
        self.choice.param.watch(lambda event: self._choose(event.new), "value")
        label = f"Image as field [≤ {current().upload} MiB]"
        self.upload = Upload(label, "Image", decoding.picture, self._take)
        self._names: dict[str, str] = {}  # fingerprint -> name of an uploaded file
        self._image = ""  # fingerprint of the visible image, "" for a preset
        self._pending: LoadedPicture | None = None  # the image sent last, until the lab answers
        self._lost = self._sent_again = False  # engine restarted since; sent again since
        self._kept = ""
        self._undone = ""  # identifies the last undo
        self._following = False

    # -- user actions

    def _choose(self, preset: str) -> None:
        if self._following or preset == IMAGE:
            return
        self._changed(preset)
        if preset != self.session.values["preset"]:
            self.session.change(preset=preset)
        elif self._image:
            self.session.act("forget_image")

    def _take(self, picture: LoadedPicture, name: str) -> None:
        self._names[picture.fingerprint] = name
        for old in list(self._names)[:-MOST_NAMES]:
            del self._names[old]
        self._pending, self._lost, self._sent_again = picture, False, False
        self.session.act("load_image", data=picture)

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
                self.upload.refuse(text)
                return text.startswith("image ")
        return False

    def _send_again(self, picture: LoadedPicture) -> None:
        self._lost = False
        if self._sent_again:
            self._pending = None
            self.upload.refuse(RESTARTED)
        else:
            self._sent_again = True
            self.session.act("load_image", data=picture)

    def tick(self, frame: Frame) -> dict[str, Any]:
        """Show the source of a frame; return the parameters set by an undo since the previous frame, else {}."""
        notes = frame.notes
        came = self._pending is not None and notes["image"] == self._pending.fingerprint
        if (notes["image"], notes["kept"]) != (self._image, self._kept) or came:
            self._image, self._kept = notes["image"], notes["kept"]
            self._pending = None if came else self._pending
            self._show()
        if notes["undone"] == self._undone:
            return {}
        self._undone = notes["undone"]
        initial: dict[str, Any] = json.loads(notes["initial"]) if self._undone else {}
        return initial

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show a preset that was set without this drop-down."""
        if "preset" in values and not self._image:
            self._put(values["preset"])

    def _show(self) -> None:
        if not self._image:
            self._put(self.session.values["preset"])
            if self._pending is None:
                self.upload.reset()
            return
        name = self._names.get(self._image, "")
        kept = Kept(*map(int, self._kept.split()))
        cells = f"{self.session.values['nx']} × {self.session.values['ny']} cells"
        self._put(IMAGE, f"Your image ({name})" if name else "Your image")
        if self._pending is None and not self.upload.busy:
            self.upload.name = name
            self.upload.taken(f"Shown: {kept.words}, in grey, as {cells}.", "" if kept.whole else sketch(kept))

    def _put(self, preset: str, words: str = "") -> None:
        """Select `preset`, or an image with this label, without changing the session."""
        options = {words: IMAGE} | {name: name for name in self._presets} if words else list(self._presets)
        self._following = True
        self.choice.param.update(options=options, value=preset)
        self._following = False
        self._changed(preset)
