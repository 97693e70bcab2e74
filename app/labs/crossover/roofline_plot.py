"""Operations a second against operations a byte: the measured roofs of each device, and a dot for each way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import isfinite
from typing import Any, ClassVar, TypeAlias

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool

from app.apart import spread
from app.labs.crossover.columns import append, table
from app.labs.crossover.log_plot import LogPlot
from app.labs.crossover.looks import Look
from app.labs.crossover.times import rate
from app.labs.crossover.tip import TIP
from app.plot_type import type_size
from app.theme import FAMILY, colours
from compute.labs.crossover.picture import Line, Spot
from compute.labs.crossover.roofline import Roof

ROOM = 0.26  # of the width, for the names
FLOPS = """
const sizes = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [0, '']];
const [size, prefix] = sizes.find(([least]) => tick >= 0.999 * least);
return `${Number((tick / (size || 1)).toPrecision(3))} ${prefix}FLOP/s`;
"""
ROOFS = ("xs", "ys", "hue")
DOTS = ("x", "y", "marker", "hue", "name", "words")
NAMES = ("x", "y", "text", "hue")
DECADES = 2.0  # shown on each side of what there is

Why: TypeAlias = Callable[[Line, Spot], str]


def _unknown(line: Line, spot: Spot) -> str:
    """Nothing is known."""
    return ""


class RooflinePlot(LogPlot):
    """One figure."""

    AROUND: ClassVar = {False: (104, 56), True: (136, 72)}
    TICK: ClassVar = {False: (64, 36), True: (88, 48)}

    def __init__(self) -> None:
        self._shown: tuple[Any, ...] | None = None
        self._why: Why = _unknown
        words = "operations a byte", "operations a second"
        super().__init__("roofline plot", words, ((1e-2, 1e2), (1e9, 1e12)), (6, 6), FLOPS)
        self.x.room = ROOM

    def _add_glyphs(self) -> None:
        columns = {"roofs": ROOFS, "dots": DOTS, "names": NAMES}
        self.roofs, self.dots, self.names = (
            ColumnDataSource({column: [] for column in named}, name=f"roofline {name}")
            for name, named in columns.items()
        )
        draw = self.figure
        draw.multi_line("xs", "ys", source=self.roofs, line_color="hue", line_width=3, line_join="round")
        dots = draw.scatter(
            "x", "y", source=self.dots, marker="marker", size=14, line_color="hue", line_width=2, fill_color="hue"
        )
        type_: dict[str, Any] = {"text_color": "hue", "text_baseline": "middle", "text_font": {"value": FAMILY}}
        self._texts = [draw.text("x", "y", "text", source=self.names, **type_)]
        self.figure.add_tools(HoverTool(renderers=[dots], tooltips=TIP, point_policy="snap_to_data", visible=False))

    def _again(self) -> None:
        if self._shown is not None:
            (lines, looks, roofs, n), self._shown = self._shown, None
            self.show(lines, looks, roofs, n, self._why)

    def show(
        self, lines: Sequence[Line], looks: Mapping[str, Look], roofs: Mapping[str, Roof], n: int, why: Why = _unknown
    ) -> int:
        """Draw the ways that have a time at n, below the roofs by "host" and "cuda"; returns how many there are.

        why: of what is more than 100 %.
        """
        self._why = why
        found = [(line, spot) for line in lines for spot in line.points
                 if spot.n == n and spot.step is not None and spot.flops > 0]  # fmt: skip
        state = lines, looks, roofs, n
        if state == self._shown:
            return len(found)
        self._shown = state
        scheme = colours(self._look[0])
        self._fit([spot.intensity for _, spot in found], [spot.flops for _, spot in found], roofs)
        dots = table(DOTS)
        for line, spot in found:
            share = f"{spot.percent:.3g} % of the roof" if isfinite(spot.percent) else "roof not yet measured"
            above = why(line, spot)
            words = f"{rate(spot.flops, 'FLOP/s')}, {rate(spot.moved, 'B/s')}<br>{share}"
            words += f"<br>{escape(above)}" if above else ""
            look = looks[line.way]
            append(dots, spot.intensity, spot.flops, look.marker, scheme[look.kind], line.label, words)
        self.dots.data = dots
        self._draw_roofs(roofs)
        self._draw_names(dots)
        return len(found)

    def _fit(self, intensities: Sequence[float], flops: Sequence[float], roofs: Mapping[str, Roof]) -> None:
        ridges = [roof.ridge for roof in roofs.values() if isfinite(roof.ridge)]
        x = np.array([*intensities, *ridges] or [1.0])
        self.x.fit(np.array([x.min() * 10**-DECADES, x.max() * 10**DECADES]))
        tops = [roof.flops for roof in roofs.values() if isfinite(roof.flops)]
        lows = [roof.flops_at(float(x.min())) for roof in roofs.values()]
        y = np.array([*flops, *tops, *lows] or [1e9])
        self.y.fit(np.array([y.min() / 3, y.max() * 3]))

    def _draw_roofs(self, roofs: Mapping[str, Roof]) -> None:
        scheme, drawn = colours(self._look[0]), table(ROOFS)
        low, high = (10.0**decade for decade in self.x.shown)
        for device, roof in roofs.items():
            bends = [low, *([roof.ridge] if low < roof.ridge < high else []), high]
            append(drawn, bends, [roof.flops_at(x) for x in bends], scheme["cpu" if device == "host" else "gpu"])
        self.roofs.data = drawn

    def _draw_names(self, dots: Mapping[str, list[Any]]) -> None:
        """Right of the dots, apart from each other."""
        names = table(NAMES)
        height = self.inner[1]
        order = sorted(range(len(dots["x"])), key=lambda i: dots["y"][i])
        places = spread([self.y.part(dots["y"][i]) * height for i in order], 1.25 * type_size(self._look[1]))
        for i, place in zip(order, places, strict=True):
            x = self.x.value(self.x.part(dots["x"][i]) + 0.025)
            append(names, x, self.y.value(place / height), dots["name"][i], dots["hue"][i])
        self.names.data = names
