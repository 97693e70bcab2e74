"""Text alternatives for the plots of a tab: names, sentences for a screen reader, and tables on request.

The sentences are in an invisible region of the page that a screen reader speaks when it is idle. They are updated every
few seconds, as a listener could not follow a higher rate. Shift+N shows the numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import panel as pn
from bokeh.models import ColorBar
from bokeh.plotting import figure

from app.page.markup import filled
from app.tab.session import Session
from compute.lab.frames import Frame
from compute.lab.lab import Lab
from compute.lab.plot_text import NumberTable, sentences, tables

EVERY = 6.0  # s between two texts
UNSEEN = """:host { position: absolute !important; width: 1px !important; height: 1px !important; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; pointer-events: none; }"""
FOCUS = ".bk-events:focus-visible { outline: 3px solid var(--accent, #0b6a75) !important; outline-offset: -3px; }"
NOTHING = "<p>No numbers yet: run the lab first.</p>"


def name_plots(plots: Iterable[figure]) -> None:
    """Set the name of each plot for a screen reader, and an outline for keyboard focus."""
    for plot in plots:
        plot.html_attributes = {"role": "figure", "aria-label": name_of(plot)}
        plot.stylesheets = [*plot.stylesheets, FOCUS]


def rename(plot: figure) -> None:
    """Update the name of a plot for a screen reader, after its titles have changed."""
    plot.html_attributes = {**plot.html_attributes, "aria-label": name_of(plot)}


def name_of(plot: figure) -> str:
    """Return a plot's name, from the titles of its colour bar or its axes, or from its own name."""
    if bars := [bar.title for bar in plot.select({"type": ColorBar}) if bar.title]:
        return f"Picture: {bars[0]}"
    titles = [axis[0].axis_label for axis in (plot.yaxis, plot.xaxis) if axis and axis[0].axis_label]
    return f"Plot: {' against '.join(titles) or plot.name or 'lines'}"


class PlotWords:
    """The sentences of one tab. `panel` belongs in its page and is invisible."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock = session, clock
        self._written = -EVERY
        self._frame: Frame | None = None  # the frame of the current text
        self.panel: Any = pn.pane.HTML("", stylesheets=[UNSEEN], width=1, height=1, margin=0)

    def tick(self) -> None:
        """Write the sentences of the latest frame, unless the previous ones are younger than EVERY."""
        frame, now = self._session.latest, self._clock()
        if frame is None or frame is self._frame or now - self._written < EVERY:
            return
        self._frame, self._written = frame, now
        lab = self._session.lab
        said = "".join(filled("<p>{it}</p>", it=it) for it in (f"{lab.TITLE}.", *sentences(lab, frame)))
        self.panel.object = f"<div class='plot-words' aria-live='polite'>{said}</div>"


def numbers_html(lab: type[Lab], frame: Frame | None) -> str:
    """Return the numbers of all plots of a frame as HTML tables."""
    found = tables(lab, frame) if frame is not None else ()
    return "".join(table_html(table) for table in found) or NOTHING


def table_html(table: NumberTable) -> str:
    """Return one table with row and column headings."""
    head = "".join(filled("<th scope='col'>{it}</th>", it=column) for column in table.columns)
    first, cell = "<th scope='row'>{it}</th>", "<td>{it}</td>"
    rows = "".join(
        f"<tr>{filled(first, it=row[0])}{''.join(filled(cell, it=it) for it in row[1:])}</tr>" for row in table.rows
    )
    caption = filled("<caption><b>{title}</b> {note}</caption>", title=table.title, note=table.note)
    return f"<table class='numbers'>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
