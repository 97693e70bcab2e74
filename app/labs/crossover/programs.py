"""The programs of one or two ways, side by side: the text of the files that run."""

from __future__ import annotations

import panel as pn
import panel_material_ui as pmui

from app.labs.crossover.code import STYLE, program
from app.labs.crossover.sight import Sight
from app.theme import stylesheet
from compute.labs.crossover.catalogue import Way

NONE = "nothing beside it"
CHOOSER = 56  # px
SIZE = {"size": "small", "width": 264, "sizing_mode": "fixed", "margin": (8, 8, 8, 24)}


class Programs:
    """Two lists to choose from, and the texts below. A tap on a line of the plot puts its way in front."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self.first = pmui.Select(label="Program", **SIZE)
        self.second = pmui.Select(label="beside", **SIZE)
        self._text = pn.pane.HTML("", stylesheets=[stylesheet(), STYLE], sizing_mode="stretch_width", margin=0)
        self._scroll = pn.Column(self._text, scroll="y-auto", margin=0, sizing_mode="stretch_width")
        row = pn.Row(self.first, self.second, margin=0)
        self.panel = pn.Column(row, self._scroll, margin=0, sizing_mode="stretch_width")
        self._shown: tuple[str, ...] = ()
        for field in (self.first, self.second):
            field.param.watch(lambda event: self._chosen(), "value")

    def fit(self, width: int, height: int) -> None:
        """Take that many px."""
        self._scroll.height = max(120, height - CHOOSER)

    def put(self, way: str) -> None:
        """Show the program of `way` in front, and the one that was there beside it."""
        code = self._sight.choice.code
        if not code or code[0] != way:
            self._sight.choice.code = (way, *code[:1])
        self.show()

    def show(self) -> None:
        """Offer the ways of the workload, and show what is chosen; at first the best of each device."""
        ways = {way.label: way.name for way in self._sight.ways}
        code = tuple(way for way in self._sight.choice.code if way in ways.values()) or self._usual()
        self._sight.choice.code = code
        self.first.param.update(options=ways, value=code[0])
        self.second.param.update(options={NONE: "", **ways}, value=code[1] if len(code) > 1 else "")
        self._write()

    def _usual(self) -> tuple[str, ...]:
        """The first way on each device."""
        ways = self._sight.ways
        kinds = {way.kind: way.name for way in reversed(ways)}
        return tuple(kinds[name] for name in ("cpu", "gpu") if name in kinds)

    def _chosen(self) -> None:
        self._sight.choice.code = tuple(name for name in (self.first.value, self.second.value) if name)
        self._write()

    def _write(self) -> None:
        code = (self._sight.workload.name, *self._sight.choice.code)
        if code != self._shown:
            self._shown = code
            ways = {way.name: way for way in self._sight.ways}
            texts = "".join(_article(ways[name]) for name in self._sight.choice.code if name in ways)
            self._text.object = f"<div class='programs'>{texts}</div>"


def _article(way: Way) -> str:
    return program(way, way.kind)
