"""The columns behind the plot of time against n: pure functions from what is known to what Bokeh draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from app.labs.crossover.looks import Look
from app.labs.crossover.times import count, duration
from compute.labs.crossover.cited import Cited
from compute.labs.crossover.finding import Finding, Line
from compute.timings import Spread

LINES = ("xs", "ys", "hue", "dash", "width", "key")
BARS = ("x", "q1", "q3", "hue")
DOTS = ("x", "y", "marker", "hue", "fill", "size", "alpha", "key", "name", "words")
CITED = ("x", "y", "hue", "name", "words", "text")
LEADERS = ("x", "y", "x1", "y1", "hue")
NAMES = ("x", "y", "text", "hue")
DOT, HOLLOW = 9, 11  # px
WIDTHS = {"measured": 2.5, "recorded": 1.5, "chosen": 4.5}  # px of a line
NOISY_ALPHA = 0.35  # of a mark whose time scatters too much

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Picture:
    """What is drawn. lines: in the order of the workload's ways; chosen: the key of the one that is emphasised.

    looks: by the names of the ways; sizes: the least and the largest n of the axis; axis: what it is called; scale: of
    marks and lines.
    """

    lines: Sequence[Line]
    looks: Mapping[str, Look]
    cited: Sequence[Cited] = ()
    finding: Finding | None = None
    sizes: tuple[int, int] = (10, 10**6)
    chosen: str = ""
    axis: str = "n"
    scale: float = 1.0

    @property
    def drawn(self) -> list[Line]:
        """The lines that have a point."""
        return [line for line in self.lines if line.series]


def table(columns: Sequence[str]) -> Columns:
    """Empty columns of these names."""
    return {column: [] for column in columns}


def append(columns: Columns, *values: Any) -> None:
    """Add a row."""
    for column, value in zip(columns.values(), values, strict=True):
        column.append(value)


def name(line: Line) -> str:
    """What stands at the end of a line."""
    return f"{line.label}, recorded" if line.machine else line.label


def lines(picture: Picture, scheme: Mapping[str, str]) -> Columns:
    """A row for each line; scheme: colours by "cpu", "gpu" and the theme's other names."""
    columns = table(LINES)
    for line in picture.drawn:
        medians = [spread.median for spread in line.series.values()]
        width = WIDTHS["chosen" if line.key == picture.chosen else "recorded" if line.machine else "measured"]
        dash = picture.looks[line.way.name].dash
        append(columns, list(line.series), medians, scheme[line.kind], dash, picture.scale * width, line.key)
    return columns


def bars(picture: Picture, scheme: Mapping[str, str]) -> Columns:
    """A row for each point: its quartiles."""
    columns = table(BARS)
    for line in picture.drawn:
        for n, spread in line.series.items():
            append(columns, n, spread.q1, spread.q3, scheme[line.kind])
    return columns


def dots(picture: Picture, scheme: Mapping[str, str]) -> Columns:
    """A row for each point: full if it was measured here, hollow if it was recorded elsewhere, pale if noisy."""
    columns = table(DOTS)
    for line in picture.drawn:
        marker, hue = picture.looks[line.way.name].marker, scheme[line.kind]
        fill, size = (scheme["paper"], HOLLOW) if line.machine else (hue, DOT)
        size = round(picture.scale * size)
        for n, spread in line.series.items():
            alpha = NOISY_ALPHA if n in line.noisy else 1.0
            words = told(line, n, spread)
            append(columns, n, spread.median, marker, hue, fill, size, alpha, line.key, line.label, words)
    return columns


def cited(picture: Picture, scheme: Mapping[str, str]) -> Columns:
    """A row for each figure of others that lies on the axis."""
    columns = table(CITED)
    least, most = picture.sizes
    for figure in picture.cited:
        if least <= figure.n <= most:
            words = f"n = {count(figure.n)}: {duration(figure.seconds)}, {escape(figure.machine)}"
            words += f"<br>cited from {escape(figure.source)}"
            name_ = figure.name
            append(columns, figure.n, figure.seconds, scheme["muted"], name_, words, f"{name_}, cited")
    return columns


def told(line: Line, n: int, spread: Spread) -> str:
    """What is said of a point under the pointer, as HTML."""
    words = f"n = {count(n)}: {duration(spread.median)} ({duration(spread.q1)} to {duration(spread.q3)})"
    words += f", {spread.n} samples" if spread.n else ""
    words += "<br><b>noisy</b>" if n in line.noisy else ""
    return f"{words}<br>{escape(line.place or 'measured here')}"
