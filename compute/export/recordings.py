"""Convert a recording to a file: a film in chosen colours, its last picture, or its levels.

The engine has written the frames (engine.recording_store), at exactly the requested steps.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
from msgspec import structs
from PIL import Image

from compute.devices.devices import cpu_count
from compute.engine.recording_store import RecordingError, RecordingStore
from compute.export import render
from compute.export.data_files import OnCount, write_npz_levels, write_zarr_levels
from compute.export.film import RATES
from compute.export.formats import FOLDER_ZARR, NPZ, PNG, describe, film_format
from compute.export.render import Pixels
from compute.export.render_pool import LocalPool, MadePart, MakePart
from compute.export.scene import Scene, SceneError, Style, coloured, scene_of
from compute.files.files import whole_file
from compute.lab.frames import Frame
from compute.lab.lab import Lab
from compute.labs import lab_class

DRAWN = (720, 1280)  # default (height, width) of a drawing
FEW = 20  # drawn frames that are not worth another process, which starts in two seconds


@dataclass(frozen=True)
class Recording:
    """A recording in a folder. about: lab, values at the start, every, pixels, most, began; numbers, steps: of frames.

    changes: {"frame", "step", "values"} of changed lab values; parts: pictures, panels: drawings, of the first and the
    last frame.
    """

    store: RecordingStore
    about: Mapping[str, Any]
    numbers: tuple[int, ...]
    steps: tuple[int, ...]
    changes: tuple[Mapping[str, Any], ...]
    parts: tuple[str, ...]
    panels: tuple[str, ...]

    @property
    def frames(self) -> int:
        """Return the number of frames."""
        return len(self.numbers)

    @property
    def kind(self) -> type[Lab]:
        """Return the lab's class."""
        return lab_class(self.about["lab"])

    def plain(self) -> dict[str, Any]:
        """Return the description of the recording, as values for JSON."""
        steps = {"first_step": self.steps[0], "last_step": self.steps[-1], "changes": len(self.changes)}
        return {**self.about, "frames": self.frames, **steps}


def recorded(folder: Path) -> Recording:
    """Return the recording in `folder`. Raise SceneError for a missing, empty or damaged one."""
    store = RecordingStore(folder)
    try:
        about, numbers = store.about(), store.numbers()
        kind = _kind(about)
        if not numbers:
            raise SceneError("nothing was recorded: there is no frame")
        heads = [store.head(number) for number in numbers]
        ends = [store.get(number).frame for number in (numbers[0], numbers[-1])]
    except RecordingError as error:
        raise SceneError(str(error)) from error
    steps = tuple(head.step for head in heads)
    changes = [
        {"frame": number, "step": head.step, "values": head.values}
        for number, head in enumerate(heads) if head.values
    ]  # fmt: skip
    parts = tuple(dict.fromkeys(name for frame in ends for name in frame.rasters))
    panels = tuple(dict.fromkeys(name for frame in ends for name in kind.panels(frame)))
    return Recording(store, about, tuple(numbers), steps, tuple(changes), parts, panels)


def _kind(about: Mapping[str, Any]) -> type[Lab]:
    """Return the class of the recorded lab. Raise SceneError for an unknown lab or an invalid size."""
    pixels = about.get("pixels", DRAWN)
    if not (isinstance(pixels, list | tuple) and len(pixels) == 2 and all(type(one) is int for one in pixels)):
        raise SceneError(f"pixels of a recording must be two whole numbers, not {pixels!r:.100}")
    try:
        return lab_class(about.get("lab", ""))
    except ValueError as error:
        raise SceneError(str(error)) from error


def write(  # noqa: PLR0913 - the options of a film, each with a default
    folder: Path,
    path: Path,
    look: Style | None = None,
    part: str = "",
    size: tuple[int, int] | None = None,
    rate: float = 30.0,
    progress: OnCount = lambda _done, _of: None,
    *,
    command: str = "",
    axes: bool = False,
) -> None:
    """Convert the recording in `folder` to `path`, and write `<name>.json` next to it.

    The suffix selects the format: `.png` the last frame, `.npz` or `.zarr` the levels, otherwise a film of `rate`
    frames per second. part: a picture of the lab, or a drawing of lines; "" for the first picture. size: (height,
    width), frames are scaled to it; None for the size of the picture, times the largest integer that fits into the
    requested pixels. axes: draw a picture with axes. progress: called with (finished, total) frames. Raise SceneError
    naming the error.
    """
    start, found = perf_counter(), recorded(folder)
    if not RATES[0] <= rate <= RATES[1]:
        raise SceneError(f"rate must be from {RATES[0]:g} to {RATES[1]:g} frames a second, not {rate}")
    about = found.plain()
    if path.suffix.lower() == FOLDER_ZARR.ending:  # a folder with this description in its attributes
        write_zarr_levels(found, path, about, progress)
        return
    with whole_file(path) as made:
        if path.suffix.lower() == NPZ.ending:
            write_npz_levels(found, made, about, progress)
        else:
            about |= _painted(found, _painter(found, look or Style(), part, size, axes), made, rate, progress)
        description = {**about, "changes": list(found.changes)}
        describe(description, path, command, perf_counter() - start, made)


def _painted(found: Recording, painter: Painter, path: Path, rate: float, progress: OnCount) -> dict[str, Any]:
    """Write the film or the picture; return the display settings used."""
    shown = _shown(painter, path, rate)
    comment = json.dumps(found.plain() | shown, ensure_ascii=False)
    if path.suffix.lower() == PNG.ending:
        path.write_bytes(render.png(next(_pictures(painter, found.numbers[-1:], path, progress)), comment))
    else:
        film_format(path).write(path, _pictures(painter, found.numbers, path, progress), rate, comment)
    return shown


@dataclass(frozen=True)
class Painter:
    """Renders recorded frames to pixels of `scene.size`."""

    found: Recording
    scene: Scene

    @property
    def coloured(self) -> bool:
        """Return whether it shows a coloured picture without a drawing."""
        return not self.scene.axes and self.scene.part in self.found.parts

    def pixels(self, number: int) -> Pixels | None:
        """Return the picture of a frame; None if the frame lacks the part. Raise SceneError for a damaged frame."""
        try:
            frame = self.found.store.get(number).frame
        except RecordingError as error:
            raise SceneError(str(error)) from error
        if self.coloured and self.scene.part not in frame.rasters:
            return None
        if self.coloured:
            raster = frame.rasters[self.scene.part]
            shades = coloured(raster.levels, self.scene.colours, self.found.kind.APART, raster.waiting)
            return render.fitted(shades, self.scene.size)
        return self._drawn(frame)

    def _drawn(self, frame: Frame) -> Pixels | None:
        from compute.export import figures  # slow to import, rarely needed

        if self.scene.part not in self.found.kind.panels(frame):
            return None
        return figures.pixels(cast(Lab, self.found.kind), frame, self.scene)  # only class attributes are used


def _painter(found: Recording, look: Style, part: str, size: tuple[int, int] | None, axes: bool) -> Painter:
    name = part or next(iter(found.parts or found.panels), "")
    if name not in (found.panels if axes else (*found.parts, *found.panels)):
        known = ", ".join(dict.fromkeys((*found.parts, *found.panels)))
        raise SceneError(f"part must be one of {known} for this recording, not {part!r}")
    if size is None:
        size = DRAWN if axes or name not in found.parts else _natural(found, name)
    return Painter(found, Scene(found.about["lab"], {}, size, 0, name, look, axes=axes))


def _natural(found: Recording, name: str) -> tuple[int, int]:
    """Return the size of the first picture, times the largest integer that fits into the requested pixels."""
    heads = (found.store.head(number).parts.get(name) for number in found.numbers)
    rows, columns = next(head.raster for head in heads if head and head.raster)
    height, width = found.about["pixels"]
    factor = max(1, min(height // rows, width // columns))
    return factor * rows, factor * columns


def _shown(painter: Painter, path: Path, rate: float) -> dict[str, Any]:
    """Return the display settings, for JSON."""
    scene = painter.scene
    about = {"part": scene.part, "look": structs.asdict(scene.colours), "size": list(scene.size), "axes": scene.axes}
    if path.suffix.lower() == PNG.ending:
        return about
    padded = _padding(scene.size, path)
    film_format(path).require((scene.size[0] + padded[0], scene.size[1] + padded[1]), rate)
    words = {"padded": "the last row or column is repeated, since width and height must be even"} if any(padded) else {}
    return {**about, "rate": rate, **words}


def _padding(size: tuple[int, int], path: Path) -> tuple[int, int]:
    """Return the rows and columns to add to `size` for this film format. Raise SceneError for an unknown suffix."""
    if path.suffix.lower() == PNG.ending or not film_format(path).even:
        return 0, 0
    return size[0] % 2, size[1] % 2


def _pictures(painter: Painter, numbers: tuple[int, ...], path: Path, progress: OnCount) -> Iterator[Pixels]:
    """Yield the pictures of frames that have the part. Raise SceneError if none has."""
    rows, columns = _padding(painter.scene.size, path)
    made = 0
    for done, picture in enumerate(_painted_in_turn(painter, numbers), start=1):
        if picture is not None:
            yield np.pad(picture, ((0, rows), (0, columns), (0, 0)), mode="edge") if rows or columns else picture
            made += 1
        progress(done, len(numbers))
    if not made:
        raise SceneError(f"no frame of the recording shows {painter.scene.part}")


def _painted_in_turn(painter: Painter, numbers: tuple[int, ...]) -> Iterator[Pixels | None]:
    """Yield the pictures in order. A drawing needs a tenth of a second; many are drawn by several processes."""
    workers = min(cpu_count() // 2, len(numbers) // FEW)
    if painter.coloured or workers < 2:
        yield from map(painter.pixels, numbers)
        return
    with closing(LocalPool(workers).make(Drawings(painter), numbers)) as coming:
        early: dict[int, bytes] = {}
        for number in numbers:
            while number not in early:
                early.update([next(coming)])
            data = early.pop(number)
            yield np.asarray(Image.open(io.BytesIO(data))) if data else None


@dataclass(frozen=True)
class Drawings:
    """Drawn frames as a RenderWork for a render pool."""

    painter: Painter
    sequential = False

    @property
    def task(self) -> MakePart:
        """Return the function that draws a frame."""
        return drawing

    @property
    def count(self) -> int:
        """Return the number of frames."""
        return self.painter.found.frames

    def plain(self) -> dict[str, Any]:
        """Return the folder of the frames and the scene that selects their display."""
        return {"folder": str(self.painter.found.store.folder), "scene": self.painter.scene.plain()}


def drawing(plain: Mapping[str, Any], number: int) -> MadePart:
    """Draw one frame of `Drawings` as PNG; return no bytes if the frame lacks the part."""
    picture = _drawer(plain["folder"], json.dumps(plain["scene"])).pixels(number)
    return number, b"" if picture is None else render.png(picture)


@lru_cache(maxsize=1)
def _drawer(folder: str, scene: str) -> Painter:
    return Painter(recorded(Path(folder)), scene_of(json.loads(scene)))
