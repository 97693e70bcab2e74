"""Drawings with axes, as SVG, PDF or PNG: a picture with its colour bar, or lines."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray
from PIL.PngImagePlugin import PngInfo

from compute.export.scene import APART, NOT_COMPUTED, Scene, SceneError, coloured
from compute.lab.frames import NOT_FINITE, WAITING, Frame, Raster
from compute.lab.lab import Lab
from compute.lab.panels import Foreign, Line, Panel

HEIGHT = 6.0  # inches of any drawing: fonts and lines scale with the pixels
LOOKS: dict[str, dict[str, Any]] = {
    "line": {},
    "dashed": {"linestyle": "--", "linewidth": 1},
    "dotted": {"linestyle": ":", "linewidth": 1.2},
    "points": {"linestyle": "none", "marker": "o", "markersize": 4},
    "marked": {"marker": "o", "markersize": 5},
    "spot": {"linestyle": "none", "marker": "o", "markersize": 9},
}
HUES = {"cpu": "#2f6db5", "gpu": "#c2570c"}  # as on the page
WIDE = 36  # characters per line of a legend
MOST_INSIDE = 5  # maximum entries of a legend inside the axes
MARKERS, STROKES = ("o", "s", "^", "D", "v", "h", "*", "P"), ("-", "--", ":", "-.")
STEADY: dict[Any, Any] = {
    "svg.hashsalt": "fieldlab",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 11,
}


def save(figure: Figure, scene: Scene, path: Path, transparent: bool) -> None:
    """Write the figure of `scene` as SVG, PDF or PNG, by the suffix of `path`; the output is reproducible."""
    with mpl.rc_context(STEADY):
        figure.savefig(path, transparent=transparent, **_about(path.suffix.lower(), json.dumps(scene.plain())))


def pixels(lab: Lab | type[Lab], frame: Frame, scene: Scene) -> NDArray[np.uint8]:
    """Return the panel as (height, width, 3) uint8, exactly in the scene's size."""
    canvas = FigureCanvasAgg(drawn(lab, frame, scene))
    with mpl.rc_context(STEADY):
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def drawn(lab: Lab | type[Lab], frame: Frame, scene: Scene) -> Figure:
    """Return the panel as a figure of the scene's size. Raise SceneError for an unknown part."""
    panels = lab.panels(frame)
    name = scene.part or next(iter(panels), "")
    if name not in panels:
        raise SceneError(f"part must be one of {', '.join(panels)} for {scene.lab}, not {scene.part!r}")
    panel = panels[name]
    with mpl.rc_context(STEADY):
        dpi = scene.size[0] / HEIGHT
        # "compressed" keeps a picture and its colour bar together, centred
        layout: Literal["compressed", "constrained"] = "compressed" if panel.image else "constrained"
        figure = Figure((scene.size[1] / dpi, HEIGHT), dpi=dpi, layout=layout)
        axes = figure.add_subplot()
        axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        if panel.image:
            _picture(figure, axes, frame.rasters[panel.image], scene, lab.APART)
            x0, y0, x1, y1 = panel.extent or frame.rasters[panel.image].extent
            axes.images[0].set_extent((x0, x1, y0, y1))
        else:
            _lines(figure, axes, panel, frame)
        if panel.note:
            figure.supxlabel(panel.note, fontsize=9, color="0.35")
    return figure


def _picture(figure: Figure, axes: Axes, raster: Raster, scene: Scene, apart: tuple[int, int, int]) -> None:
    x0, y0, x1, y1 = raster.extent
    shades = coloured(raster.levels, scene.colours, apart, raster.waiting)
    axes.imshow(shades[::-1], extent=(x0, x1, y0, y1), origin="lower")
    handles = []
    if apart == APART and (raster.levels == NOT_FINITE).any():
        handles.append(_patch(apart, "not finite"))
    if raster.waiting and (raster.levels == WAITING).any():
        handles.append(_patch(NOT_COMPUTED, "not computed yet"))
    if handles:
        axes.legend(handles=handles, loc="upper left")
    ramp = coloured(np.arange(255, dtype=np.uint8)[None], scene.colours)[0] / 255
    scale = ScalarMappable(Normalize(raster.low, raster.high), ListedColormap(list(map(tuple, ramp))))
    figure.colorbar(scale, ax=axes, label=f"{raster.label} {f'[{raster.unit}]' if raster.unit else ''}".strip())


def _patch(colour: tuple[int, int, int], words: str) -> Patch:
    red, green, blue = (part / 255 for part in colour)
    return Patch(color=(red, green, blue), label=words)


def _lines(figure: Figure, axes: Axes, panel: Panel, frame: Frame) -> None:
    number = dict.fromkeys(HUES, 0)  # lines so far, by device
    for line in panel.lines:
        if line.curve in frame.curves:
            curve, look = frame.curves[line.curve], LOOKS[line.look]
            if line.device:
                look = {**look, **_hue(line, number[line.device])}
                number[line.device] += "marker" in look
            (drawn,) = axes.plot(*line.points(frame), label=line.label or None, **look)
            if line.bars:
                x = frame.curves[line.against].y if line.against else curve.x
                low, high = (frame.curves[name].y for name in line.bars)
                axes.vlines(x, low, high, drawn.get_color(), linewidth=4, alpha=0.4)
    _foreign(axes, panel, number)
    for mark in panel.marks:
        axes.axvspan(mark.low, mark.high, color="0.5", alpha=0.13, linewidth=0)
        axes.axvline(mark.x, color="0.1", linestyle="--", linewidth=1.5, label=fill(mark.label, WIDE))
    if "x" in panel.log:
        axes.set_xscale("log")
    if "y" in panel.log:
        axes.set_yscale("log")
    axes.grid(visible=True, alpha=0.3)
    labels = len(axes.get_legend_handles_labels()[1])
    if labels > MOST_INSIDE:
        figure.legend(frameon=False, loc="outside right upper")
    elif labels:
        axes.legend(frameon=False)


def _foreign(axes: Axes, panel: Panel, number: dict[str, int]) -> None:
    """Draw recorded and cited figures. number: lines so far, by device; updated."""
    for figures in panel.foreign:
        if figures.cited:
            _cited(axes, figures)
        else:
            _recorded(axes, figures, number[figures.device])
            number[figures.device] += 1


def _cited(axes: Axes, figures: Foreign) -> None:
    """Draw a cited figure as a hatched square with its name next to it."""
    axes.scatter(figures.x, figures.y, 110, marker="s", facecolors="none", edgecolors="0.35", hatch="////")
    for place in zip(figures.x, figures.y, strict=True):
        axes.annotate(figures.label, place, (-10, 0), textcoords="offset points", ha="right", va="center", size=9)


def _recorded(axes: Axes, curve: Foreign, number: int) -> None:
    """Draw a recorded line thinner than measured ones, with hollow markers. number: of the line on its device."""
    hue, mark = HUES[curve.device], MARKERS[number % len(MARKERS)]
    axes.plot(
        curve.x, curve.y, color=hue, linewidth=1, marker=mark, markersize=6, markerfacecolor="white", label=curve.label
    )  # fmt: skip
    if curve.bars:
        low, high = zip(*curve.bars, strict=True)
        axes.vlines(curve.x, low, high, hue, linewidth=4, alpha=0.25, zorder=1)


def _hue(line: Line, number: int) -> dict[str, Any]:
    """Return colour, marker and stroke of the `number`-th line of a device."""
    marked = LOOKS[line.look].get("marker") is not None
    mark = {"marker": MARKERS[number % len(MARKERS)]} if marked else {}
    stroke = {"linestyle": STROKES[number % len(STROKES)]} if line.look == "marked" else {}
    return {"color": HUES[line.device], **mark, **stroke}


def _about(ending: str, plan: str) -> dict[str, Any]:
    """Return savefig options that embed the plan and omit the date, so that the output is reproducible."""
    if ending == ".png":  # Matplotlib would write a tEXt chunk; the page reads iTXt
        text = PngInfo()
        text.add_itxt("fieldlab", plan)
        return {"pil_kwargs": {"pnginfo": text}}
    about = {"Description": plan, "Date": None} if ending == ".svg" else {"Subject": plan, "CreationDate": None}
    return {"metadata": about}
