"""Which arithmetic a view needs: direct iteration as long as float64 tells its pixels apart well, then perturbation."""

from __future__ import annotations

from dataclasses import dataclass

from compute.labs.mandelbrot.place import Place


@dataclass(frozen=True)
class Precision:
    """An arithmetic: `kernel` names its function in a backend's file, `dtype` the type of z and of the pixels' parts.

    finest: log2 of the least pixel spacing it can draw; below that neighbouring pixels fall together.
    """

    name: str
    kernel: str
    dtype: str
    finest: float
    deep: bool = False


PRECISIONS = {
    each.name: each
    for each in (
        Precision("float32", "direct", "float32", -22),
        Precision("float64", "direct", "float64", -50),
        Precision("perturbation", "perturbed", "float64", -963, deep=True),  # 2^-963 = 1e-290
        Precision("extended", "far", "float64", -(2.0**30), deep=True),
    )
}
CHOICES = ("auto", "float32", "float64", "perturbation")  # extended is what perturbation becomes below 1e-290


def choose(wanted: str, place: Place) -> Precision:
    """The arithmetic for `place` when the lab's precision is `wanted`, one of CHOICES."""
    if wanted == "auto":
        wanted = "float64" if enough("float64", place) else "perturbation"
    if wanted == "perturbation" and not enough(wanted, place):
        wanted = "extended"
    return PRECISIONS[wanted]


def enough(name: str, place: Place) -> bool:
    """Whether arithmetic `name` can draw `place`."""
    return place.spacing.log2 >= PRECISIONS[name].finest
