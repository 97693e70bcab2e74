"""The plot of the second panel: a profile of one quantity, its value at the probe over time, or its integral over time.

The quantity is a field, or the expression of the second picture. All values come from the frames, which contain those
of every field, so that another quantity has its past values too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.page.markup import plain
from app.tab.curve_plots import CurvePlot
from app.tab.plot_words import rename
from app.tab.samples import Samples
from compute.lab.frames import Frame
from compute.labs.equations.picture import SECOND, across_section

TIME = "t"  # title of the abscissa over time: units are those of the text
FLAT = 1e-4  # share of its magnitude by which a quantity must change to be drawn as a change
MOST_AXIS = 24  # characters of an axis title
INTEGRAL = "integral_"  # before the name, in the facts of a frame


class SecondPlot:
    """The plot `curves` of one tab, and the samples of all quantities. title: above the plot, "" before a frame."""

    def __init__(self) -> None:
        self.curves = CurvePlot(TIME, "u", ("values",), shortest=0.0, flat=FLAT)
        self.title = ""
        self._probed, self._integrals = Samples(), Samples()
        self._names: tuple[str, ...] = ()  # of the quantities, as in the facts

    def record(self, frame: Frame) -> None:
        """Store the values of a frame at the probe, and its integrals."""
        facts, notes = frame.facts, frame.notes
        names = tuple(name.removeprefix(INTEGRAL) for name in facts if name.startswith(INTEGRAL))
        origin = notes["run"], names, frame.rasters[SECOND].label
        moment, cell = (facts["step"], facts["t"]), (int(facts["probe_x"]), int(facts["probe_y"]))
        self._names = names
        self._probed.add((*origin, cell), (*moment, *cell, *(facts[f"probe_{name}"] for name in names)))
        self._integrals.add(origin, (*moment, *(facts[INTEGRAL + name] for name in names)))

    def show(self, frame: Frame, values: Mapping[str, Any]) -> None:
        """Draw the plot that `values` of the lab select, up to a frame. The frame is the last one recorded."""
        name = values["plotted"] or values["first_picture"] or self._names[0]
        if name not in self._names:  # of a new text, before its first frame
            return
        label = frame.rasters[SECOND].label if name == SECOND else name
        kind, index = values["second_panel"], self._names.index(name)
        if kind == "profile":
            profile = frame.curves["profile"]
            self._head(f"{profile.label} along {frame.notes['section']}", across_section(frame), profile.label)
            self.curves.show([(profile.x, profile.y)])
        elif kind == "probe":
            column, row = (int(frame.facts[each]) for each in ("probe_x", "probe_y"))
            self._head(f"{label} at cell ({column}, {row})", TIME, label)
            self._draw(self._probed, 4 + index)
        else:
            short = label if label.isalnum() else name
            self._head(f"Integral of {label} [{short}·length²]", TIME, f"Σ {short} Δx Δy")
            self._draw(self._integrals, 2 + index)

    def csv(self, kind: str) -> tuple[str, str]:
        """Return the name and the CSV of the samples of a second panel: the integrals, or the values at the probe."""
        if kind == "integral":
            text = self._integrals.csv(("step", "t", *self._names))
            return (kind, text) if text else ("", "")
        text = self._probed.csv(("step", "t", "x_cell", "y_cell", *self._names))
        return ("probe", text) if text else ("", "")

    def _draw(self, samples: Samples, column: int) -> None:
        self.curves.show([(samples.column(1), samples.column(column))])

    def _head(self, title: str, x: str, y: str) -> None:
        self.title = title
        plot = self.curves.figure
        if (x, plain(y, MOST_AXIS)) != (plot.xaxis[0].axis_label, plot.yaxis[0].axis_label):
            self.curves.name_axes(x, plain(y, MOST_AXIS))
            rename(plot)
