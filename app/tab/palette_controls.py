"""The palettes of a lab's pictures: a list for each picture, and a switch that reverses all of them."""

from __future__ import annotations

from collections.abc import Mapping

import panel_material_ui as pmui

from app.page.widgets import FULL, Widget
from app.tab.plots import AMOUNTS, SIGNED, RasterPlots
from app.tab.session import Session
from compute.export.scene import Style


class PaletteControls:
    """The widgets `lists`, by picture, and `reverse`, which recolour `pictures`.

    labels: of the lists; defaults: the first palettes. Palettes of the default's kind come first in a list.
    """

    def __init__(
        self, session: Session, pictures: RasterPlots, labels: Mapping[str, str], defaults: Mapping[str, str]
    ) -> None:
        self._pictures = pictures
        self.lists = {
            name: pmui.Select(label=label, options=_ordered(defaults[name]), value=defaults[name], size="small", **FULL)
            for name, label in labels.items()
        }
        self.reverse = pmui.Switch(label="Reverse palettes", value=False, **FULL)
        for widget in (*self.lists.values(), self.reverse):
            widget.param.watch(lambda event: session.later(self._recolour), "value")

    def style(self, part: str) -> Style:
        """Return the style of the picture `part`; of the first picture for another name, such as ""."""
        return Style(self._list(part).value, self.reverse.value)

    def apply_style(self, style: Style, part: str) -> None:
        """Apply a style to the picture `part`; to the first picture for another name, such as ""."""
        self._list(part).value = style.palette
        self.reverse.value = style.reverse

    def _list(self, part: str) -> Widget:
        return self.lists.get(part, next(iter(self.lists.values())))

    def _recolour(self) -> None:
        for name, widget in self.lists.items():
            self._pictures.colour(name, widget.value, self.reverse.value)


def _ordered(default: str) -> list[str]:
    """Return all palettes, those for signed values first if the default is one of them."""
    return [*SIGNED, *AMOUNTS] if default in SIGNED else [*AMOUNTS, *SIGNED]
