"""The image of the user that a text uses: the file field, and the choice of the field or the wall that begins with it.

An image has an effect if the text has the name `image`. In a text without it, `u(0) = image` replaces the initial value
of the chosen field, or `wall = 0.5 - image` the wall: dark pixels are walls. A link carries the text, and an image of a
few thousand characters; a file carries larger ones.
"""

from __future__ import annotations

from collections.abc import Callable

import panel_material_ui as pmui

from app.page.widgets import FULL
from app.tab.controls import column
from app.tab.image_upload import ImageUpload
from app.tab.session import Session
from compute.lab.frames import Frame
from compute.labs.equations.programs import names_at_start
from compute.labs.equations.rewriting import with_image
from compute.labs.equations.tree import IMAGE, EquationError, System

MISSING = "The text uses image, which is 0 until you choose one."
WALL = "wall"


class TextImage:
    """The widgets of one tab; `panel` is part of the group "Field".

    use(text) applies a text; it raises EquationError for an invalid one.
    """

    def __init__(self, session: Session, use: Callable[[str], object]) -> None:
        self._use = use
        self._text = ""
        self._showing = False  # whether the choice is set from outside, not by the user
        self._missing = False
        self.upload = ImageUpload(session, "Image", self._prepare)
        self.target = pmui.Select(label="Image as", size="small", **FULL)
        self.target.param.watch(lambda event: self._choose(), "value")
        self.panel = column(self.upload.field.panel, self.target)

    def show(self, text: str, system: System) -> None:
        """Offer the fields of a text, and the wall; keep the choice if possible."""
        self._text = text
        options = {f"Initial value of {field}": field for field in system.fields} | {"Wall (dark pixels)": WALL}
        chosen = self.target.value if self.target.value in options.values() else system.fields[0]
        self._showing = True
        self.target.param.update(options=options, value=chosen)
        self._showing = False

    def tick(self, frame: Frame) -> None:
        """Show the image of a frame, or that the text lacks one."""
        changed = self.upload.tick(frame)
        missing = self._uses and not frame.notes["image"] and not self.upload.waiting
        if missing and (changed or not self._missing):
            self.upload.field.prompt(MISSING)
        elif self._missing and not self.upload.fingerprint:
            self.upload.field.reset()
        self._missing = missing

    @property
    def _uses(self) -> bool:
        return IMAGE in names_at_start(self._text)

    def _choose(self) -> None:
        """Use the visible image for another array."""
        if not self._showing and self.upload.fingerprint and (reason := self._change_text()):
            self.upload.field.prompt(reason)

    def _prepare(self) -> str:
        """Make the text use the image that is about to be sent; return why it cannot, or ""."""
        return "" if self._uses else self._change_text()

    def _change_text(self) -> str:
        try:
            self._use(with_image(self._text, self.target.value))
        except EquationError as error:
            return f"image cannot be used in this text: {error.message}"
        return ""
