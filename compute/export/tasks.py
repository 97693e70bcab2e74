"""The tasks of jobs: each export as one function that reports progress and runs in a child process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from compute.export import recordings, render
from compute.export.film import Film
from compute.export.film_renderer import Estimate, FilmProgress, FilmRenderer, estimate
from compute.export.formats import ArrayFormat, StillFormat
from compute.export.render import LiveState
from compute.export.render_pool import LocalPool, on_gpu
from compute.export.scene import Scene, SceneError, Style
from compute.export.sweep import ParameterSweep, TableMaker
from compute.labs import lab_class
from compute.process.tasks import Report

COMMAND = "fieldlab, from the page"
ENCODING = 0.9  # fraction of a film's progress at which encoding starts


def still(form: StillFormat, scene: Scene, path: Path, current: LiveState, transparent: bool, report: Report) -> None:
    """Write one picture or drawing of the scene."""
    form.write(scene, path, COMMAND, current, lambda part: report(part, "computing"), transparent)


def arrays(form: ArrayFormat, scene: Scene, path: Path, current: LiveState, report: Report) -> None:
    """Write the raw results."""
    form.write(Film(scene, frames=1), path, COMMAND, current, lambda part: report(part, "computing"))


def film(film: Film, path: Path, report: Report) -> None:
    """Make the film `path` with the default number of local processes."""

    def show(now: FilmProgress) -> None:
        """Report frames as the first part of the progress, encoding as the rest."""
        part = now.done / now.frames
        if now.doing == "encoding":
            report(ENCODING + (1 - ENCODING) * part, "encoding")
        else:
            report(ENCODING * part, f"frame {now.done} of {now.frames}")

    FilmRenderer(film, path, COMMAND).run(_pool(film), show)


def guess(film: Film, path: Path, report: Report) -> Estimate:
    """Return an estimate of the time and the file size of `film`."""
    report(0.0, "trying a few frames")
    starting = 2 * time.thread_time()  # the film's process and its workers start as slowly as this one did
    return estimate(film, path, _pool(film).workers, starting=starting)


def recorded(
    folder: Path, path: Path, look: Style, part: str, axes: bool, size: tuple[int, int], rate: float, report: Report
) -> None:
    """Make the film `path` from the recording in `folder`."""
    recordings.write(
        folder, path, look, part, size, rate, command=COMMAND, axes=axes,
        progress=lambda done, of: report(done / max(1, of), f"frame {done} of {of}"),
    )  # fmt: skip


def table(sweep: ParameterSweep, path: Path, report: Report) -> dict[str, int]:
    """Make the table `path` of `sweep`; return the number of rows by status. Raise SceneError if no row succeeds."""
    gpu = on_gpu(lab_class(sweep.lab), (sweep.at(number).get("backend") for number in range(sweep.count)))
    making = TableMaker(sweep, path, COMMAND)
    counts = making.run(LocalPool(gpu=gpu), lambda done: report(done / sweep.count, f"row {done} of {sweep.count}"))
    if "made" not in counts:
        raise SceneError(f"none of its {sweep.count} rows could be made; the first: {making.why}")
    return counts


def pose(scene: Scene, report: Report) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values and the snapshot of a lab in the state of `scene`."""
    with render.opened_at(scene, progress=lambda part: report(part, "computing")) as lab:
        return lab.values(), lab.snapshot()


def check(scene: Scene, report: Report) -> tuple[dict[str, Any], None]:
    """Return the values of `scene` after checking them; its lab needs no snapshot."""
    report(0.0, "checking")
    scene.check()
    return dict(scene.values), None


def _pool(film: Film) -> LocalPool:
    """Return a pool of local processes for `film`."""
    return LocalPool(gpu=on_gpu(film.scene.kind, [film.scene.values.get("backend")]))
