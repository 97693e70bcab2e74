"""The race for a picture: the whole view in one launch on fresh pixels, as `fieldlab bench mandelbrot` times a scene.

The work is that of the live readout (PictureRules.sampled): the same view in few enough pixels for NumPy, the lesson's
scene at its own size. Intermediate pictures show the lower rows of the finished picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.devices.backends import Backend
from compute.labs.mandelbrot.comparison import RULES, arithmetic
from compute.labs.mandelbrot.scenes import BenchScene, apart, lab_of
from compute.labs.mandelbrot.views import VIEWS, Landmark
from compute.measure.course import Course, turns

LESSON = VIEWS["lesson"]
RACED: Mapping[str, Mapping[str, Any]] = {
    "the lesson's scene": {
        "center": LESSON.center, "zoom": LESSON.zoom, "max_iterations": LESSON.max_iterations, "precision": "float64",
    }
}  # fmt: skip
COLOURED = ("colouring", "scale", "limits")  # values of the lab, in addition to the view, that determine its picture
TIMED = "the kernels of the whole picture in one launch on fresh pixels, without the reference orbit of a deep view"
NOT_YET = 255  # level of a pixel that is not computed yet: as in the set


class LanePicture:
    """The reference counts of a race, from one of its lanes, and their picture. `error` as in CountsReference."""

    def __init__(
        self, scene: BenchScene, made_by: Backend, values: Mapping[str, Any], picture: tuple[int, int]
    ) -> None:
        look = {name: values[name] for name in COLOURED}
        with closing(lab_of(scene, made_by.name, **look)) as lab:
            self.counts = lab.counts()
            self.levels = np.array(lab.frame(None, picture).rasters["escape"].levels)
        self.name = made_by.label

    def error(self, counts: NDArray[np.int32]) -> tuple[float, float]:
        """Return (share of pixels that differ by more than 1, largest difference) for the counts of a whole picture."""
        return apart(self.counts, counts)


def scene_of(values: Mapping[str, Any]) -> BenchScene:
    """Return the bench's scene for these values; raise ValueError if it lacks their arithmetic."""
    given = {**values, **RULES.sampled(values)}
    view = Landmark(given["center"], given["zoom"], given["max_iterations"])
    precision = arithmetic(given)
    dtype = "float64" if precision.deep else precision.name
    scene = BenchScene("race", view, (given["ny"], given["nx"]), dtype, given["shortcuts"])
    if scene.arithmetic.deep != precision.deep:
        raise ValueError(f"precision must be what this view needs, {scene.arithmetic.name}, not {precision.name}")
    return scene


def course_of(scene: BenchScene, right: LanePicture, kernel: Callable[[Backend], Any]) -> Course:
    """Return the race for a picture. kernel: returns a backend's kernel for it."""
    marks = turns(scene.shape[0])
    pictures = tuple(rows_done(right.levels, mark / marks[-1]) for mark in marks)
    return Course(scene, right, kernel, TIMED, differs, "row", marks, pictures)


def differs(share: float) -> str:
    """Return a description of the difference."""
    return f"{100 * share:.2g} % of pixels differ"


def rows_done(levels: NDArray[np.uint8], part: float) -> NDArray[np.uint8]:
    """Return the picture with only its lowest rows, a fraction `part` of all, computed."""
    shown = levels.copy()
    shown[round(part * levels.shape[0]) :] = NOT_YET
    return shown


def words_of(scene: BenchScene) -> str:
    """Return a description of the work."""
    (ny, nx), switched = scene.shape, "on" if scene.shortcuts else "off"
    most = f"{scene.view.max_iterations} iterations at most"
    return f"one picture, {nx} × {ny} pixels, {most}, {scene.arithmetic.name}, shortcuts {switched}"
