"""A recording's raw levels in files: NPZ, or Zarr (version 3), frames first. Row 0 is the lowest, as in the lab.

They are what the screen got: one byte a pixel, 0 … 254 for the values from `low` to `high` of that frame, 255 for what
is no number. For the field in full precision, write the results of a lab (arrays.py).
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from compute.engine.recording_store import RecordingError
from compute.export.arrays import DATA_INSTALL
from compute.export.render import TEXT
from compute.export.scene import SceneError
from compute.files import whole_file

if TYPE_CHECKING:
    from compute.export.recording import Recording

NOTE = "8-bit levels: value = low + level / 254 * (high - low) of that frame; level 255 is no number; row 0 is lowest"

Progress = Callable[[int, int], None]
Columns = dict[str, NDArray[Any]]


def write(found: Recording, path: Path, about: Mapping[str, Any], progress: Progress) -> None:
    """Write every picture of the recording: its levels (frames, height, width) by its name, `<name>.low` and
    `<name>.high` (frames,), the `step` of each frame, and the lab's facts as `fact.<name>`.

    SceneError for a recording of lines alone, or where frames have different sizes or parts.
    """
    heads = [found.tape.head(number) for number in found.numbers]
    shapes = {name: _shape(found, heads, name) for name in found.parts}
    if not shapes:
        raise SceneError(f"a recording of {found.about['lab']} has no pictures, and so no levels")
    WRITERS[path.suffix.lower()](
        found, path, {**about, "levels": NOTE}, _columns(heads, list(shapes)), shapes, progress
    )


def _shape(found: Recording, heads: list[dict[str, Any]], name: str) -> tuple[int, int, int]:
    seen = [head["parts"].get(name, {}).get("raster") for head in heads]
    for number, shape in zip(found.numbers, seen, strict=True):
        if shape != seen[0]:
            raise SceneError(f"{name} of frame {number} has the shape {shape}, that of the first {seen[0]}")
    return len(heads), *seen[0]


def _columns(heads: list[dict[str, Any]], names: list[str]) -> Columns:
    """What is one number a frame."""
    facts = dict.fromkeys(fact for head in heads for fact in head["facts"])
    columns = {"step": np.array([head["step"] for head in heads], np.int64)}
    for name in names:
        for limit in ("low", "high"):
            columns[f"{name}.{limit}"] = np.array([head["parts"][name][limit] for head in heads], np.float64)
    return columns | {f"fact.{n}": np.array([head["facts"].get(n, nan) for head in heads], float) for n in facts}


def _frames(found: Recording, name: str) -> Iterator[NDArray[np.uint8]]:
    for number in found.numbers:
        try:
            yield found.tape.get(number).frame.rasters[name].levels
        except RecordingError as error:
            raise SceneError(str(error)) from error


def _npz(
    found: Recording, path: Path, about: Mapping[str, Any], columns: Columns, shapes: Mapping[str, Any],
    progress: Progress,
) -> None:  # fmt: skip
    """Frame by frame: a recording may be larger than the memory."""
    every, done = len(shapes) * found.frames, 0
    with whole_file(path) as made, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        for name, values in {**columns, TEXT: np.array(json.dumps(about, ensure_ascii=False))}.items():
            with out.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, values, allow_pickle=False)
        for name, shape in shapes.items():
            with out.open(f"{name}.npy", "w", force_zip64=True) as entry:
                head = {"descr": "|u1", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(entry, head)
                for levels in _frames(found, name):
                    entry.write(levels.tobytes())
                    done += 1
                    progress(done, every)


def _zarr(
    found: Recording, path: Path, about: Mapping[str, Any], columns: Columns, shapes: Mapping[str, Any],
    progress: Progress,
) -> None:  # fmt: skip
    try:
        zarr = import_module("zarr")
    except ModuleNotFoundError as error:
        raise SceneError(f"Zarr needs the package zarr: {DATA_INSTALL}") from error
    every, done = len(shapes) * found.frames, 0
    with whole_file(path) as made:
        group = zarr.open_group(str(made), mode="w", attributes={TEXT: dict(about)})
        for name, values in columns.items():
            group.create_array(name, data=values)
        for name, shape in shapes.items():
            array = group.create_array(name, shape=shape, chunks=(1, *shape[1:]), dtype=np.uint8)
            for number, levels in enumerate(_frames(found, name)):
                array[number] = levels
                done += 1
                progress(done, every)
        if path.exists():  # a folder cannot take the place of another one
            shutil.move(path, made.with_name("older"))


FOLDER = ".zarr"  # not a file; its attributes say what it is
WRITERS: dict[str, Callable[..., None]] = {".npz": _npz, FOLDER: _zarr}
