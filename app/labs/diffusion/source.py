"""What the field begins as: a preset, or an image that somebody brought. The list names the one that is shown.

Which it is, frames say: they tell an image by its fingerprint, whose file name is remembered here. So the list is right
after a reset, a checkpoint, an undo, a link and a restart of the engine alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import panel_material_ui as pmui

from app.session import Session
from app.upload import Upload
from app.widgets import FULL
from compute.engine import messages
from compute.frames import Frame
from compute.images import MAX_BYTES, Kept, fingerprint

IMAGE = ""  # in the list of presets: none of them
LABEL = f"Image as field [PNG, JPEG, {MAX_BYTES // 2**20} MB]"
RESTARTED = "The engine was restarted before it had read the file. Choose it again."
SKETCH = 44  # px: the longer side of the drawing of what was kept


class Source:
    """The list `choice` and the field `upload`; changed(preset) hears what is shown, "" for an image."""

    def __init__(self, session: Session, changed: Callable[[str], object]) -> None:
        self.session, self._changed = session, changed
        parameter = session.lab.param["preset"]
        self._presets = list(parameter.objects)
        self.choice = pmui.Select(
            label=parameter.label, value=session.values["preset"], options=self._presets, size="small", **FULL
        )
        self.choice.param.watch(lambda event: self._choose(event.new), "value")
        self.upload = Upload(LABEL, ".png,.jpg,.jpeg", "Image", self._take)
        self._names: dict[str, str] = {}  # of the files that were brought here, by their fingerprints
        self._image = ""  # the fingerprint of the one that is shown, "" for a preset
        self._awaited = ""  # of the one that was sent last, until the lab has answered
        self._kept = ""
        self._undone = ""  # names the last undo
        self._following = False

    # -- what people do

    def _choose(self, preset: str) -> None:
        if self._following or preset == IMAGE:
            return
        self._changed(preset)
        if preset != self.session.values["preset"]:
            self.session.change(preset=preset)
        elif self._image:
            self.session.act("forget_image")

    def _take(self, data: bytes, name: str) -> None:
        self._awaited = fingerprint(data)
        self._names[self._awaited] = name
        self.session.act("load_image", data=data)

    # -- what the lab says

    def hear(self, event: messages.Event) -> bool:
        """An engine event; whether it is about the file, whose field says so now."""
        if not self._awaited or not isinstance(event, (messages.Refused, messages.Restarted)):
            return False
        if isinstance(event, messages.Restarted):
            self._awaited = ""
            self.upload.refuse(RESTARTED)
            return False  # the restart itself is told, too
        if event.change is not None or not event.text.startswith("image "):
            return False
        self._awaited = ""
        self.upload.refuse(event.text)
        return True

    def tick(self, frame: Frame) -> dict[str, Any]:
        """Show what a frame began as. Returns the parameters that an undo has set since the last frame, else {}."""
        notes = frame.notes
        if (notes["image"], notes["kept"]) != (self._image, self._kept) or notes["image"] == self._awaited != "":
            self._image, self._kept = notes["image"], notes["kept"]
            if self._image == self._awaited:
                self._awaited = ""
            self._show()
        if notes["undone"] == self._undone:
            return {}
        self._undone = notes["undone"]
        initial: dict[str, Any] = json.loads(notes["initial"]) if self._undone else {}
        return initial

    def follow(self, values: Mapping[str, Any]) -> None:
        """Show a preset that the session took by itself."""
        if "preset" in values and not self._image:
            self._put(values["preset"])

    def _show(self) -> None:
        if not self._image:
            self._put(self.session.values["preset"])
            if not self._awaited:
                self.upload.reset()
            return
        name = self._names.get(self._image, "")
        kept = Kept(*map(int, self._kept.split()))
        cells = f"{self.session.values['nx']} × {self.session.values['ny']} cells"
        self._put(IMAGE, f"Your image ({name})" if name else "Your image")
        if not self._awaited:
            self.upload.name = name
            self.upload.taken(f"Shown: {kept.words}, in grey, as {cells}.", "" if kept.whole else sketch(kept))

    def _put(self, preset: str, words: str = "") -> None:
        """Let the list show `preset`, or an image under these words, without choosing it."""
        options = {words: IMAGE} | {name: name for name in self._presets} if words else list(self._presets)
        self._following = True
        self.choice.param.update(options=options, value=preset)
        self._following = False
        self._changed(preset)


def sketch(kept: Kept) -> str:
    """A small drawing as HTML: the outline of the picture, and the part of it that was kept."""
    scale = SKETCH / max(kept.width, kept.height)
    width, height = (max(2, round(side * scale)) for side in (kept.width, kept.height))
    x, y, across, down = (
        round(value * scale, 1) for value in (kept.x0, kept.y0, kept.x1 - kept.x0, kept.y1 - kept.y0)
    )
    return (
        f"<svg class='kept' width='{width}' height='{height}' role='img' aria-label='The part that was kept'>"
        f"<rect width='{width}' height='{height}' class='cut'/>"
        f"<rect x='{x}' y='{y}' width='{across}' height='{down}' class='in'/></svg>"
    )
