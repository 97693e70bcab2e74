"""Controls of the field's source: preset and uploaded image.

The drop-down of initial fields shows the source of the visible frame, as the file field does (app/tab/image_upload.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import panel_material_ui as pmui

from app.page.widgets import FULL, set_options
from app.tab.image_upload import ImageUpload
from app.tab.session import Session
from compute.engine import messages
from compute.lab.frames import Frame
from compute.labs.diffusion.lab import Diffusion

IMAGE = ""  # value in the list of presets


class InitialField:
    """The drop-down `choice` and the file field `upload`.

    changed(preset) is called with the visible source, "" for an image.
    """

    def __init__(self, session: Session, changed: Callable[[str], object]) -> None:
        self.session, self._changed = session, changed
        parameter = session.lab.param["preset"]
        self._presets = list(parameter.objects)
        self.choice = pmui.Select(
            label=parameter.label, value=session.values["preset"], options=self._presets, size="small", **FULL
        )
        self.choice.param.watch(lambda event: self._choose(event.new), "value")
        self.image = ImageUpload(session, "Image as field")
        self.upload = self.image.field
        self._undone = ""  # identifies the last undo
        self._following = False

    def _choose(self, preset: str) -> None:
        if self._following or preset == IMAGE:
            return
        self._changed(preset)
        if preset != self.session.values["preset"]:
            self.session.change(preset=preset)
        elif self.image.fingerprint:
            self.session.act("forget_image")

    def on_event(self, event: messages.Event) -> bool:
        """Handle an engine event; return True if the file field shows it."""
        return self.image.on_event(event)

    def tick(self, frame: Frame) -> dict[str, Any]:
        """Show the source of a frame; return the parameters set by an undo since the previous frame, else {}.

        Their values are the session's, which may be newer than the frame.
        """
        if self.image.tick(frame):
            self._show()
        if frame.notes["undone"] == self._undone:
            return {}
        self._undone = frame.notes["undone"]
        return {name: self.session.values[name] for name in Diffusion.INITIAL}

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show a preset that was set without this drop-down."""
        if "preset" in values and not self.image.fingerprint:
            self._put(values["preset"])

    def _show(self) -> None:
        name = self.image.name
        if self.image.fingerprint:
            self._put(IMAGE, f"Your image ({name})" if name else "Your image")
        else:
            self._put(self.session.values["preset"])

    def _put(self, preset: str, words: str = "") -> None:
        """Select `preset`, or an image with this label, without changing the session."""
        options = {words: IMAGE} | {name: name for name in self._presets} if words else list(self._presets)
        self._following = True
        set_options(self.choice, options, preset)
        self._following = False
        self._changed(preset)
