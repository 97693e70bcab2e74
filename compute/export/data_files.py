"""Numbers in files: raw results of a lab, levels of a recording, rows of a sweep. The formats are in formats.py.

Arrays are written as NPZ or Zarr (version 3), with the frames on the first axis; row 0 is the lowest, as in the lab.
Rows are written as CSV, or as Parquet by pyarrow.
"""

from __future__ import annotations

import csv
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from compute.engine.recording_store import FrameHead, RecordingError
from compute.export.film import Film
from compute.export.packages import PYARROW, ZARR
from compute.export.render import TEXT, LiveState, OnProgress, Replay, opened_at
from compute.export.scene import Scene, SceneError
from compute.files.files import whole, whole_file
from compute.lab.lab import Lab

if TYPE_CHECKING:
    from compute.export.recordings import Recording

GROUP, CHUNKS = "zarr.json", "c"  # of Zarr 3: metadata file of a group or an array; folder of an array's chunks
NOTE = "8-bit levels: value = low + level / 254 * (high - low) of that frame; level 255 is no number; row 0 is lowest"

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # prefixes of cells that a spreadsheet may run as formulas

NamedArrays = dict[str, NDArray[Any]]
TableRows = Sequence[Mapping[str, Any]]
OnCount = Callable[[int, int], None]  # called with (finished, total)


@contextmanager
def _zarr_group(path: Path, about: Mapping[str, Any]) -> Iterator[Any]:
    """Yield a new Zarr group with `about` as attributes; it replaces an older group at `path` after the block.

    Raise SceneError if `path` contains other files.
    """
    zarr = ZARR.load()
    require_zarr(path)
    with whole_file(path) as made:
        yield zarr.open_group(str(made), mode="w", attributes={TEXT: dict(about)})
        require_zarr(path)  # `path` may have changed in minutes of work
        if path.exists():  # a folder cannot be renamed over another one
            shutil.move(path.resolve(), made.with_name("older"))


def require_zarr(path: Path) -> None:
    """Raise SceneError unless `path` is free, an empty folder or a Zarr group: other files must not be deleted."""
    if not path.exists():
        return
    if not path.is_dir():
        raise SceneError(f"{path} is a file, not a Zarr folder: take another name, or delete it")
    if not (path / GROUP).is_file() and (found := next(path.iterdir(), None)):
        raise SceneError(f"{path} is a folder without {GROUP}, which holds {found.name}: take another name")
    for entry in path.rglob("*"):
        parts = entry.relative_to(path).parts
        array = path / parts[0] / GROUP  # with chunks in files such as field/c/0/0/0
        chunk = array.is_file() and parts[1:2] in ((), (CHUNKS,)) and "".join(parts[2:]).isdecimal() == bool(parts[2:])
        if entry.name != GROUP and not chunk:
            raise SceneError(f"{path} also holds {'/'.join(parts)}, no part of Zarr: take another name, or move it")


# -- results of a lab


def results(lab: Lab) -> NamedArrays:
    """Return the lab's data. Raise SceneError if the lab has none."""
    found = lab.data()
    if not found:
        raise SceneError(f"{lab.LAB} has no raw data to be written")
    return found


def write_npz(
    scene: Scene, path: Path, current: LiveState | None = None, progress: OnProgress = lambda _: None
) -> None:
    """Write the data of `scene` as a compressed NPZ, with the scene as JSON in the entry "fieldlab".

    current: see render.opened_at.
    """
    with opened_at(scene, current, progress) as lab:
        found = results(lab)
    with whole_file(path) as made, made.open("wb") as out:
        entries: dict[str, Any] = {**found, TEXT: np.array(json.dumps(scene.plain()))}
        np.savez_compressed(out, **entries)


def write_zarr(
    film: Film, path: Path, progress: Callable[[int], None] = lambda _: None, current: LiveState | None = None
) -> None:
    """Write the data of every frame as a Zarr group: one array per name, frames first; its attributes contain the plan.

    current: for films of one frame, see render.opened_at. Raise ValueError if the shapes of frames differ, SceneError
    if the package zarr is missing.
    """
    if current and film.frames > 1:
        raise SceneError(f"frames must be 1 for the current state of a lab, not {film.frames}")
    with _zarr_group(path, film.plain()) as group:
        for number, found in enumerate(_moments(film, current)):
            for name, values in found.items():
                _store(group, film.frames, number, name, values)
            progress(number + 1)


def _moments(film: Film, current: LiveState | None) -> Any:
    """Yield the data of each frame; a sequential film uses one lab for all frames."""
    if not film.sequential:
        for number in range(film.frames):
            with opened_at(film.at(number), current) as lab:
                yield results(lab)
        return
    with closing(Replay.of(film.scene)) as run:
        for number in range(film.frames):
            run.to(film.at(number).steps)
            yield results(run.lab)


def _store(group: Any, frames: int, number: int, name: str, values: NDArray[Any]) -> None:
    if not number:
        shape = (frames, *values.shape)
        group.create_array(name, shape=shape, chunks=(1, *values.shape), dtype=values.dtype)
    if group[name].shape[1:] != values.shape:
        raise ValueError(
            f"{name} of frame {number} has the shape {values.shape}, that of the first {group[name].shape[1:]}"
        )
    group[name][number] = values


# -- levels of a recording
#
# They are the frames of the screen: one byte per pixel, 0 … 254 for the values from `low` to `high` of that frame, 255
# for NaN and infinity. For the field in full precision, write the results of a lab. A file contains, by name of each
# picture, its levels (frames, height, width), `<name>.low` and `<name>.high` (frames,), the `step` of each frame, and
# the lab's facts as `fact.<name>`.


def write_npz_levels(found: Recording, path: Path, about: Mapping[str, Any], progress: OnCount) -> None:
    """Write every picture of the recording as NPZ, frame by frame: a recording may exceed the memory.

    Raise SceneError for a recording that contains only lines, or frames of different sizes or parts.
    """
    columns, shapes = _columns_and_shapes(found)
    every, done = len(shapes) * found.frames, 0
    text = np.array(json.dumps({**about, "levels": NOTE}, ensure_ascii=False))
    with whole_file(path) as made, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        for name, values in {**columns, TEXT: text}.items():
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


def write_zarr_levels(found: Recording, path: Path, about: Mapping[str, Any], progress: OnCount) -> None:
    """Write every picture of the recording as a Zarr group; see write_npz_levels."""
    columns, shapes = _columns_and_shapes(found)
    every, done = len(shapes) * found.frames, 0
    with _zarr_group(path, {**about, "levels": NOTE}) as group:
        for name, values in columns.items():
            group.create_array(name, data=values)
        for name, shape in shapes.items():
            array = group.create_array(name, shape=shape, chunks=(1, *shape[1:]), dtype=np.uint8)
            for number, levels in enumerate(_frames(found, name)):
                array[number] = levels
                done += 1
                progress(done, every)


def _columns_and_shapes(found: Recording) -> tuple[NamedArrays, dict[str, tuple[int, int, int]]]:
    """Return the arrays with one number per frame, (frames,), by name; and each picture's (frames, height, width)."""
    heads = [found.store.head(number) for number in found.numbers]
    shapes = {name: _shape(found, heads, name) for name in found.parts}
    if not shapes:
        raise SceneError(f"a recording of {found.about['lab']} has no pictures, and so no levels")
    facts = dict.fromkeys(fact for head in heads for fact in head.facts)
    columns: NamedArrays = {"step": np.array([head.step for head in heads], np.int64)}
    for name in shapes:
        columns[f"{name}.low"] = np.array([head.parts[name].low for head in heads], np.float64)
        columns[f"{name}.high"] = np.array([head.parts[name].high for head in heads], np.float64)
    columns |= {f"fact.{name}": np.array([head.facts.get(name, nan) for head in heads], float) for name in facts}
    return columns, shapes


def _shape(found: Recording, heads: list[FrameHead], name: str) -> tuple[int, int, int]:
    seen = [head.parts[name].raster if name in head.parts else None for head in heads]
    height, width = seen[0] or (0, 0)
    for number, shape in zip(found.numbers, seen, strict=True):
        if shape != (height, width):
            now = list(shape or ())
            raise SceneError(f"{name} of frame {number} has the shape {now}, that of the first {[height, width]}")
    return len(heads), height, width


def _frames(found: Recording, name: str) -> Iterator[NDArray[np.uint8]]:
    for number in found.numbers:
        try:
            yield found.store.get(number).frame.rasters[name].levels
        except RecordingError as error:
            raise SceneError(str(error)) from error


# -- rows of a table


def write_csv(path: Path, rows: TableRows, names: list[str], _about: str) -> None:
    """Write `rows` as CSV with the columns `names`."""
    with whole(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_cell(row.get(name)) for name in names] for row in rows)


def write_parquet(path: Path, rows: TableRows, names: list[str], about: str) -> None:
    """Write `rows` as Parquet with the columns `names`, each of one type; `about` is JSON metadata of its schema."""
    arrow = PYARROW.load()
    columns = {name: arrow.array(_column([row.get(name) for row in rows])) for name in names}
    table = arrow.table(columns).replace_schema_metadata({TEXT: about})
    with whole_file(path) as made:
        import_module("pyarrow.parquet").write_table(table, str(made))


def _cell(value: Any) -> Any:
    """Return a CSV cell: strings as text, None as "", booleans and lists as JSON."""
    if value is None or isinstance(value, str):
        return plain_cell(value or "")
    return repr(value) if isinstance(value, float) else json.dumps(value)


def plain_cell(text: str) -> str:
    """Return the text for a CSV file, prefixed by an apostrophe if a spreadsheet would run it as a formula."""
    if text[:1] not in FORMULA or _is_number(text):
        return text
    return f"'{text}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _column(values: list[Any]) -> list[Any]:
    """Convert a column to one type: bool, str, int or float, otherwise strings."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in present) or all(isinstance(value, str) for value in present):
        return values
    if all(isinstance(value, int) and not isinstance(value, bool) for value in present):
        return values
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return [None if value is None else float(value) for value in values]
    return [value if value is None or isinstance(value, str) else str(_cell(value)) for value in values]
