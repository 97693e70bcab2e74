"""The table of export formats: name, suffix, required package, contents and writer of each file type.

The command line, the page's export card and the sweeps choose from FORMATS. A still or an array file is made directly
from a scene; a film is encoded from finished frames (film_renderer.py, recordings.py); a table from rows (sweep.py).
`describe` writes `<name>.json` next to each file.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from compute.export import data_files, film_files, render
from compute.export.data_files import TableRows
from compute.export.film import Film
from compute.export.film_files import Frames
from compute.export.packages import AV, PYARROW, ZARR, Package
from compute.export.render import LiveState, OnProgress
from compute.export.scene import Scene, SceneError
from compute.files.documents import readable
from compute.files.files import whole, whole_file
from compute.machine import machine

EVEN = "colour is stored for every second pixel, so that width and height must be even"


SCENE = frozenset({"steps", "backend"})  # options of `fieldlab render` that change the state of the lab
LOOK = frozenset({"size", "palette", "part", "axes"})  # options for drawing a state
MOMENTS = frozenset({"to", "frames", "every", "easing"})  # options that select the sequence of states


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """One file format. name: on the page; ending: suffix in lower case; package: optional library that it needs.

    options: those of `fieldlab render` with an effect on such a file; the command refuses all others.
    """

    name: str
    ending: str
    package: Package | None = None
    options: frozenset[str] = frozenset()

    @property
    def installed(self) -> bool:
        """Return whether the required package is installed."""
        return self.package is None or self.package.installed


@dataclass(frozen=True, kw_only=True)
class StillFormat(FileFormat):
    """One picture of a scene. axes: it is a drawing with axes.

    write(scene, path, command, current, progress, transparent): see `write_picture` and `write_drawing`.
    """

    axes: bool
    options: frozenset[str] = SCENE | LOOK
    write: Callable[[Scene, Path, str, LiveState | None, OnProgress, bool], None]


@dataclass(frozen=True, kw_only=True)
class ArrayFormat(FileFormat):
    """Raw results of a lab. write(film, path, command, current, progress): see `write_npz`."""

    options: frozenset[str] = SCENE
    write: Callable[[Film, Path, str, LiveState | None, OnProgress], None]


@dataclass(frozen=True, kw_only=True)
class FilmFormat(FileFormat):
    """A film. largest: pixels per side; fastest: frames per second; even: width and height must be even.

    encode(path, frames, rate, comment): see film_files.py.
    """

    largest: int
    fastest: float = inf
    even: bool = False
    options: frozenset[str] = SCENE | LOOK | MOMENTS | {"rate", "workers", "scheduler"}
    encode: Callable[[Path, Frames, float, str], None]

    def require(self, size: tuple[int, int], rate: float = 1.0) -> None:
        """Raise SceneError, before hours of work, if a film of that (height, width) and rate cannot be written."""
        if self.package:
            self.package.load()
        if self.even and (size[0] % 2 or size[1] % 2):
            raise SceneError(f"{self.ending} cannot be {size[1]} x {size[0]}: {EVEN}")
        if max(size) > self.largest:
            raise SceneError(f"{self.ending} has at most {self.largest} pixels a side, not {size[1]} x {size[0]}")
        self._require_rate(rate)

    def write(self, path: Path, frames: Frames, rate: float, comment: str) -> None:
        """Write `frames`, each (height, width, 3) uint8 of one size, to the film `path`, atomically.

        Raise SceneError for a rate beyond the format's limit, or a missing library.
        """
        self._require_rate(rate)
        with whole_file(path) as made:
            self.encode(made, frames, rate, comment)

    def _require_rate(self, rate: float) -> None:
        if rate > self.fastest:
            raise SceneError(f"rate must be at most {self.fastest:g} frames a second for {self.ending}, not {rate:g}")


@dataclass(frozen=True, kw_only=True)
class TableFormat(FileFormat):
    """Rows with named columns. write_rows(path, rows, names, about): see data_files.py."""

    write_rows: Callable[[Path, TableRows, list[str], str], None]

    def require(self) -> None:
        """Raise SceneError, before hours of work, if a library is missing."""
        if self.package:
            self.package.load()

    def write(self, path: Path, rows: TableRows, about: str) -> None:
        """Write `rows`, with a column for every name in any of them. about: JSON stored in Parquet files."""
        self.require()
        self.write_rows(path, rows, list(dict.fromkeys(name for row in rows for name in row)), about)


# -- files made directly from a scene


def write_picture(
    scene: Scene,
    path: Path,
    command: str = "",
    current: LiveState | None = None,
    progress: OnProgress = lambda _: None,
    _transparent: bool = False,
) -> None:
    """Write `scene` as a PNG; the PNG and `<name>.json` contain everything needed to make it again.

    command: command line that makes it; current: see render.opened_at; progress: receives the finished fraction.
    """
    text = json.dumps({**scene.plain(), "made": {"command": command}}, ensure_ascii=False)
    with _described(scene, path, command, current) as made:
        made.write_bytes(render.png(render.pixels(scene, current, progress), text))


def write_drawing(
    scene: Scene,
    path: Path,
    command: str = "",
    current: LiveState | None = None,
    progress: OnProgress = lambda _: None,
    transparent: bool = False,
) -> None:
    """Write a panel of `scene` with axes as SVG, PDF or PNG; transparent: without background. See write_picture."""
    from compute.export import figures  # slow to import, rarely needed

    with _described(scene, path, command, current) as made:
        with render.opened_at(scene, current, progress) as lab:
            figure = figures.drawn(lab, lab.frame(scene.view, scene.size), scene)
        figures.save(figure, scene, made, transparent)


def write_npz(
    film: Film,
    path: Path,
    command: str = "",
    current: LiveState | None = None,
    progress: OnProgress = lambda _: None,
) -> None:
    """Write the raw results at the film's first moment as NPZ. See write_picture."""
    with _described(film, path, command, current) as made:
        data_files.write_npz(film.scene, made, current, progress)


def write_zarr(
    film: Film,
    path: Path,
    command: str = "",  # noqa: ARG001 - Zarr attributes replace `<name>.json`
    current: LiveState | None = None,
    progress: OnProgress = lambda _: None,
) -> None:
    """Write the raw results at all moments of the film as Zarr; current: only for films of one frame."""
    if current is None:
        film.check()
    data_files.write_zarr(film, path, lambda done: progress(done / film.frames), current)


def write_zipped_zarr(
    film: Film,
    path: Path,
    command: str = "",
    current: LiveState | None = None,
    progress: OnProgress = lambda _: None,
) -> None:
    """Write Zarr in a ZIP file, which zarr opens directly."""
    with whole_file(path) as made:
        inner = made.with_name(f"{made.name}.folder")  # among the user's files it could replace one
        write_zarr(film, inner, command, current, progress)
        shutil.make_archive(str(made.with_suffix("")), "zip", inner)
        describe(film.scene.plain(), path, command, 0.0, made)


@contextmanager
def _described(plan: Scene | Film, path: Path, command: str, current: LiveState | None) -> Iterator[Path]:
    """Yield a temporary path for a file of one moment; rename it afterwards and write `<name>.json`."""
    if current is None:  # a live state needs no check
        plan.check()
    with whole_file(path) as made:
        yield made
        describe((plan.scene if isinstance(plan, Film) else plan).plain(), path, command, 0.0, made)


# -- the description next to a file


def describe(plain: dict[str, Any], path: Path, command: str, seconds: float, made: Path | None = None) -> None:
    """Write `<name>.json` next to the file `path`; made: the file's temporary path, before it is renamed."""
    with whole(path.with_name(f"{path.name}.json")) as out:
        json.dump(described(plain, made or path, command, seconds), out, indent=1, ensure_ascii=False)


def described(plain: dict[str, Any], path: Path, command: str, seconds: float) -> dict[str, Any]:
    """Return the description of a file: everything needed to make it again, its origin and its checksum."""
    with path.open("rb") as data:
        checksum = hashlib.file_digest(data, "sha256").hexdigest()
    return {
        **plain,
        "made": {
            "file": readable(path.name),
            "sha256": checksum,
            "seconds": round(seconds, 3),
            "command": command,
            "date": machine.now(),
            "commit": machine.commit(),
            "machine": machine.machine(),
            "versions": machine.versions(),
        },
    }


# -- the table

PNG = StillFormat(name="PNG", ending=".png", axes=False, write=write_picture)
NPZ = ArrayFormat(name="NPZ (NumPy)", ending=".npz", write=write_npz)
FOLDER_ZARR = ArrayFormat(name="Zarr", ending=".zarr", package=ZARR, options=SCENE | MOMENTS, write=write_zarr)
ZIPPED_ZARR = ArrayFormat(
    name="Zarr, zipped", ending=".zarr.zip", package=ZARR, options=SCENE | MOMENTS, write=write_zipped_zarr
)
DRAWING = SCENE | LOOK | {"transparent"}
FORMATS: tuple[FileFormat, ...] = (
    PNG,
    StillFormat(name="PNG with axes", ending=".png", axes=True, options=DRAWING, write=write_drawing),
    NPZ,
    FOLDER_ZARR,
    ZIPPED_ZARR,
    StillFormat(name="SVG", ending=".svg", axes=True, options=DRAWING, write=write_drawing),
    StillFormat(name="PDF", ending=".pdf", axes=True, options=DRAWING, write=write_drawing),
    FilmFormat(name="MP4", ending=".mp4", package=AV, largest=16384, even=True, encode=film_files.mp4),
    FilmFormat(name="WebM", ending=".webm", package=AV, largest=16384, even=True, encode=film_files.webm),
    # browsers show GIF frames shorter than 1/50 s for 1/10 s
    FilmFormat(name="GIF", ending=".gif", largest=65535, fastest=50.0, encode=film_files.gif),
    # and WebP frames of at most 10 ms likewise
    FilmFormat(name="WebP", ending=".webp", largest=16383, fastest=90.0, encode=film_files.webp),
    TableFormat(name="CSV", ending=".csv", write_rows=data_files.write_csv),
    TableFormat(name="Parquet", ending=".parquet", package=PYARROW, write_rows=data_files.write_parquet),
)

STILLS = tuple(one for one in FORMATS if isinstance(one, StillFormat))
ARRAYS = tuple(one for one in FORMATS if isinstance(one, ArrayFormat))
FILMS = tuple(one for one in FORMATS if isinstance(one, FilmFormat))
TABLES = tuple(one for one in FORMATS if isinstance(one, TableFormat))
RENDERED = tuple(
    dict.fromkeys(one.ending for one in FORMATS if not isinstance(one, TableFormat) and one is not ZIPPED_ZARR)
)
"""Endings of what `fieldlab render` writes."""


def render_format(path: Path, axes: bool) -> StillFormat | ArrayFormat | FilmFormat:
    """Return the format for the suffix of a file name; axes: whether a PNG has axes.

    Raise SceneError, which lists the suffixes, for an unknown one.
    """
    ending = path.suffix.lower()
    for still in STILLS:
        if still.ending == ending and (still.axes or not axes):
            return still
    others: tuple[ArrayFormat | FilmFormat, ...] = (*ARRAYS, *FILMS)
    for one in others:
        if one.ending == ending:
            return one
    raise SceneError(f"a file must end in one of {', '.join(RENDERED)}, not {path.name!r}")


def film_format(path: Path) -> FilmFormat:
    """Return the film format for the suffix of a file name. Raise SceneError, which lists them, for an unknown one."""
    for one in FILMS:
        if one.ending == path.suffix.lower():
            return one
    raise SceneError(f"a film must end in one of {', '.join(one.ending for one in FILMS)}, not {path.name!r}")


def table_format(path: Path) -> TableFormat:
    """Return the table format for the suffix of a file name. Raise SceneError, which lists them, for an unknown one."""
    for one in TABLES:
        if one.ending == path.suffix.lower():
            return one
    raise SceneError(f"a table must end in one of {', '.join(one.ending for one in TABLES)}, not {path.name!r}")
