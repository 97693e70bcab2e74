"""Which picture or drawing of a lab a film shows, as it is or with axes."""

from __future__ import annotations

from typing import Any

import panel_material_ui as pmui

from app.export.fields import choose
from app.export.subject import Subject, slide
from app.widgets import FULL

AXES = "with axes"


class What:
    """A drop-down; its values are (name of the panel, whether with axes)."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.field: Any = pmui.Select(label="What", options=[], size="small", **FULL)

    def tick(self) -> bool:
        """Offer what there is now; whether there is anything."""
        subject, drawings = self._subject, self._subject.drawings()
        panels = subject.panels()
        pictures = subject.pictures().values()
        plain = {title: (name, False) for title, name in drawings.items() if panels[name].image in pictures}
        choose(self.field, plain | {f"{title}, {AXES}": (name, True) for title, name in drawings.items()})
        return bool(drawings)

    @property
    def axes(self) -> bool:
        """Whether a drawing with axes is meant."""
        return bool(self.field.value[1])

    @property
    def part(self) -> str:
        """The picture that is meant, or the drawing."""
        name, axes = self.field.value
        panel = self._subject.panels().get(name)
        return str(name if axes or panel is None else panel.image)

    def size(self, height: int) -> tuple[int, int]:
        """(height, width) in pixels, both even: in the shape of the picture, or of a slide for a drawing."""
        return slide(height) if self.axes else self._subject.size(height)
