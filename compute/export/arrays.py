"""Raw results in files: NPZ of one moment, Zarr (version 3) of one or many. Row 0 is the lowest, as in the lab."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.export.film import Film
from compute.export.render import TEXT, LiveState, OnProgress, Replay, opened_at
from compute.export.scene import Scene, SceneError
from compute.files import whole_file
from compute.lab import Lab

DATA_INSTALL = "pip install 'fieldlab[data]'"

Arrays = dict[str, NDArray[Any]]


def results(lab: Lab) -> Arrays:
    """The lab's data; SceneError if it has none."""
    found = lab.data()
    if not found:
        raise SceneError(f"{lab.LAB} has no raw data to be written")
    return found


def write_npz(
    scene: Scene, path: Path, current: LiveState | None = None, progress: OnProgress = lambda _: None
) -> None:
    """Write the data of `scene` as a compressed NPZ, its plan as JSON in the entry "fieldlab".

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
    """The data of every frame as a Zarr group: an array a name, frames first; its attributes hold the plan.

    current: of a film of one frame, see render.opened_at. ValueError where frames have data of different shapes;
    SceneError if the package zarr is missing.
    """
    if current and film.frames > 1:
        raise SceneError(f"what a lab holds now is one moment, not {film.frames}")
    try:
        zarr = import_module("zarr")
    except ModuleNotFoundError as error:
        raise SceneError(f"Zarr needs the package zarr: {DATA_INSTALL}") from error
    with whole_file(path) as made:
        group = zarr.open_group(str(made), mode="w", attributes={TEXT: film.plain()})
        for number, found in enumerate(_moments(film, current)):
            for name, values in found.items():
                _store(group, film.frames, number, name, values)
            progress(number + 1)
        if path.exists():  # a folder cannot take the place of another one
            shutil.move(path, made.with_name("older"))


def _moments(film: Film, current: LiveState | None) -> Any:
    """The data of each frame in turn; a lab that goes on is not made anew."""
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
