"""The parts of the time, for one n."""

from __future__ import annotations

import panel as pn

from app.labs.crossover.sight import Sight
from app.labs.crossover.sizes import SizeChoice
from app.labs.crossover.split import STYLE, split
from app.theme import stylesheet


class SplitView:
    """A slider for n, and bars."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self.size = SizeChoice(self.show)
        self._text = pn.pane.HTML("", stylesheets=[stylesheet(), STYLE], margin=0, sizing_mode="stretch_width")
        self.panel = pn.Column(self.size.panel, self._text, scroll="y-auto", margin=0, sizing_mode="stretch_width")

    def fit(self, width: int, height: int) -> None:
        """Take that many px."""
        self.panel.height = height

    def show(self) -> None:
        """Write what is known."""
        self.size.offer(self._sight.common)
        transfers = bool(self._sight.session.values["split"])
        html = split(self._sight.measured.values(), self.size.n, transfers)
        if html != self._text.object:
            self._text.object = html
