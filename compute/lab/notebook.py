"""A lab in a notebook: a picture of its state; with the extra `notebook`, after `play`, a canvas in which it runs.

The output of a cell keeps the picture of its state. A cell with a canvas has two outputs: a picture, which the canvas
hides while it is connected, and the canvas. So a saved notebook, opened without its kernel or converted, shows a
picture everywhere. The picture is at most KEPT seconds older than the last frame; `pause` and `close` replace the
canvas by the state as text.

There is no engine process and no thread. The browser's acknowledgements drive a playing lab: frame n is sent, the
browser reports that it has painted it, and only then the lab advances to frame n + 1. So one frame is in flight, a slow
browser gets fewer frames instead of a queue, a hidden notebook computes nothing, and between two frames the notebook's
own cells run: they may change the lab's parameters, load a field, or read one.

`NotebookStream` is that protocol, independent of any notebook. Messages to the browser: {"frame": n, "kind", "width",
"height", "words", "playing"} with the picture as bytes, either levels (one byte a pixel, row 0 the lowest, after one
message with the colours) or a PNG of a panel without a picture. From it: {"ready": true} from a new canvas,
{"painted": n}, {"do": "play" | "pause" | "step" | "reset"}. `fieldlab serve` draws the lab's other views.
"""

from __future__ import annotations

import base64
import io
import secrets
import time
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from compute.display.palettes import table
from compute.export.figures import pixels
from compute.export.packages import Package
from compute.export.scene import NOT_COMPUTED, Scene, Style
from compute.lab.frames import Frame
from compute.lab.lab import ClosedLabError, Lab
from compute.lab.plot_text import sentences

ANYWIDGET = Package("anywidget", "notebook", "a lab that plays in a notebook needs")
FRAME = 0.04  # s of computing between two frames, if no number of steps is set
MOST_STEPS = 100_000  # between two frames
GROWTH = 4  # largest growth of the steps from one frame to the next
SIZE = (480, 640)  # of a drawing, (height, width) in pixels
PICTURE = (512, 512)  # largest size of a picture
KEPT = 10.0  # s between two pictures of a playing lab in the notebook's file
NO_CANVAS = "To play, run this cell again."  # shown in place of a canvas without its kernel

Send = Callable[[dict[str, Any], list[bytes]], object]


def still(lab: Lab) -> bytes:
    """Return the lab's first panel, drawn with its axes, as a PNG."""
    return png(pixels(lab, lab.frame(None, PICTURE), Scene(lab.LAB, {}, size=SIZE)))


def png(colours: np.ndarray[Any, Any]) -> bytes:
    """Encode a picture (height, width, 3) as a PNG."""
    file = io.BytesIO()
    Image.fromarray(colours).save(file, "PNG")
    return file.getvalue()


def mimebundle(lab: Lab) -> dict[str, Any]:
    """Return a cell's output for a lab: a picture of the current state, and the canvas while it plays.

    A closed lab is shown as text.
    """
    try:
        bundle: dict[str, Any] = {"image/png": still(lab), "text/plain": str(lab)}
    except ClosedLabError:
        return {"text/plain": str(lab)}
    if plays(lab):
        given = lab.canvas._repr_mimebundle_()
        bundle = {**(given[0] if isinstance(given, tuple) else given or {}), **bundle}
    return bundle


def plays(lab: Lab) -> bool:
    """Whether the lab runs in a canvas."""
    return lab.canvas is not None and lab.canvas.stream.playing


class CanvasOutput(NamedTuple):
    """The outputs of a cell that shows a canvas, as handles of IPython: the picture for the file, and the canvas."""

    picture: Any
    canvas: Any


def show_in_cell(lab: Lab) -> None:
    """Show a lab as the output of the current cell of IPython. `settle` replaces a canvas there by text."""
    from IPython.display import display  # every notebook has it

    if not plays(lab):
        display(mimebundle(lab), raw=True)
        return
    keep(lab)
    picture = display(hidden_picture(lab), raw=True, display_id=True)
    bundle, metadata = lab.canvas._repr_mimebundle_()  # the metadata are Colab's, which shows no widget without
    view = {**bundle, "text/plain": NO_CANVAS}
    canvas = display(view, metadata=metadata, raw=True, display_id=True)
    lab.canvas.outputs.append(CanvasOutput(picture, canvas))


def hidden_picture(lab: Lab) -> dict[str, Any]:
    """Return the bundle of the canvas's picture; the canvas hides elements of the class `mark` of its page."""
    canvas = lab.canvas
    image = f'<img class="{canvas.mark}" src="{canvas.still}" alt="{escape(canvas.words)}">'
    return {
        "text/html": image,
        "image/png": base64.b64decode(canvas.still.partition(",")[2]),
        "text/plain": canvas.words,
    }


def keep(lab: Lab) -> None:
    """Replace the pictures of the canvases by that of the current state."""
    lab.canvas.still, lab.canvas.words = f"data:image/png;base64,{base64.b64encode(still(lab)).decode()}", str(lab)
    for output in lab.canvas.outputs:
        output.picture.update(hidden_picture(lab), raw=True)


def settle(lab: Lab) -> None:
    """Replace the canvases of a lab by its current state as text, below a picture of it.

    A canvas needs its kernel: in a reopened notebook an error would replace it.
    """
    if lab.canvas is None:
        return
    keep(lab)
    lab.canvas.stream.playing = False
    outputs, lab.canvas.outputs = lab.canvas.outputs, []
    picture = {kind: part for kind, part in hidden_picture(lab).items() if kind != "text/html"}
    for output in outputs:
        output.picture.update(picture, raw=True)
        output.canvas.update({"text/plain": lab.canvas.words}, raw=True)


def displayed(lab: Lab) -> Any:
    """Return an object for marimo to show: the lab's canvas with the picture for the file, or a still picture."""
    if not plays(lab):
        return Image.open(io.BytesIO(still(lab)))
    keep(lab)
    import marimo  # which calls this

    return marimo.vstack([marimo.Html(hidden_picture(lab)["text/html"]), lab.canvas])


class NotebookStream:
    """Runs `lab` for browsers that `send(message, buffers)` reaches, which must not block.

    playing: whether the lab advances as soon as a frame is painted; sent, painted: numbers of the last frames.
    """

    def __init__(self, lab: Lab, send: Send, clock: Callable[[], float] = time.perf_counter) -> None:
        self.lab, self._send, self._clock = lab, send, clock
        self.playing = False
        self.sent = self.painted = 0
        self._asked = 0  # steps a frame; 0: as many as take FRAME
        self._fitting = 1

    def play(self, steps: int = 0) -> None:
        """Run with `steps` steps a frame, 0 for as many as take some 40 ms; ValueError for a number out of bounds."""
        if not 0 <= steps <= MOST_STEPS:
            raise ValueError(f"steps must be from 0 to {MOST_STEPS}, not {steps}")
        self._asked, self.playing = steps, True
        if self.painted == self.sent:
            self._go_on()

    def pause(self) -> None:
        """Stop; the current picture stays."""
        self.playing = False
        self.show()

    def hear(self, message: object) -> None:
        """Process a message of a browser; unknown messages are ignored."""
        match message:
            case {"ready": True}:
                more = bytes((*self.lab.APART, *NOT_COMPUTED))
                self._send({"colours": True}, [table(Style().palette).tobytes() + more])
                self.show()
            case {"painted": int(number)} if self.painted < number == self.sent:
                self.painted = number
                if self.playing:
                    self._go_on()
            case {"do": "play"}:
                self.play(self._asked)
            case {"do": "pause"}:
                self.pause()
            case {"do": "step"}:
                self.playing = False
                self._advance(max(self._asked, 1))
                self.show()
            case {"do": "reset"}:
                self.lab.act("reset")
                self.show()

    def show(self) -> None:
        """Send the current state as the latest frame; acknowledgements of earlier frames are then ignored."""
        frame = self.lab.frame(None, PICTURE)
        self.sent += 1
        head, picture = drawing(self.lab, frame)
        words = " ".join(sentences(type(self.lab), frame)[:1])
        about = {"frame": self.sent, "words": words, "playing": self.playing, "step": frame.facts.get("step")}
        self._send({**head, **about}, [picture])

    def _go_on(self) -> None:
        if self.lab.status.resting:
            self.playing = False
        else:
            self._advance(self._asked or self._fitting)
        self.show()

    def _advance(self, steps: int) -> None:
        """Run the steps, and estimate how many fit between two frames."""
        begun = self._clock()
        self.lab.advance(steps)
        took = self._clock() - begun
        if steps == self._fitting and took > 0:
            self._fitting = int(min(max(1, steps * min(FRAME / took, GROWTH)), MOST_STEPS))


def drawing(lab: Lab, frame: Frame) -> tuple[dict[str, Any], bytes]:
    """Return the first panel of a frame and its description for the browser: levels of a picture, or a PNG of lines."""
    panel = next(iter(lab.panels(frame).values()))
    if panel.image:
        raster = frame.rasters[panel.image]
        levels = np.ascontiguousarray(raster.levels)
        about = {"width": levels.shape[1], "height": levels.shape[0], "waiting": raster.waiting}
        return {"kind": "levels", **about}, levels.tobytes()
    return {"kind": "png", "width": SIZE[1], "height": SIZE[0]}, png(pixels(lab, frame, Scene(lab.LAB, {}, size=SIZE)))


def canvas_of(lab: Lab) -> Any:
    """Return the canvas of a lab, the same in every cell; SceneError with the install command without the extra."""
    if lab.canvas is None:
        lab.canvas = canvas_class()(lab)
    return lab.canvas


@cache
def canvas_class() -> Any:
    """Return the widget class, made on first use, since its base class belongs to an extra."""
    anywidget = ANYWIDGET.load()
    import traitlets  # comes with anywidget

    class LabCanvas(anywidget.AnyWidget):  # type: ignore[misc, name-defined]
        """A canvas with a lab in it, and buttons to run, step and reset it. `stream` controls the lab.

        still: the picture as a data URL, which the canvas shows before its first frame, as in a file without a kernel;
        words: the state of that picture; mark: class of the elements that a connected canvas hides.
        """

        _esm = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
        still = traitlets.Unicode().tag(sync=True)
        words = traitlets.Unicode().tag(sync=True)
        mark = traitlets.Unicode().tag(sync=True)

        def __init__(self, lab: Lab) -> None:
            super().__init__(mark=f"fieldlab-{secrets.token_hex(8)}")
            self.stream = NotebookStream(lab, self.send)
            self.outputs: list[CanvasOutput] = []
            self._kept = time.monotonic()
            self.on_msg(self._heard)

        def _heard(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
            """Process a message of a browser; keep a picture when the lab stops, and every KEPT seconds."""
            playing = self.stream.playing
            self.stream.hear(content)
            due = playing and (not self.stream.playing or time.monotonic() > self._kept + KEPT)
            match content:
                case {"do": _} if not self.stream.playing:
                    due = True
            if due:
                self._kept = time.monotonic()
                keep(self.stream.lab)

    return LabCanvas
