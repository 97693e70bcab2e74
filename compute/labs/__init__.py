"""The labs, in the order of the tabs: an explicit list, so that a folder under work does not appear by itself."""

from __future__ import annotations

from compute.lab import Lab
from compute.labs.crossover import Crossover
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot

LABS: tuple[type[Lab], ...] = (Diffusion, Mandelbrot, LCurve, Crossover)


def lab_class(name: str) -> type[Lab]:
    """The lab called `name` (its LAB); ValueError names the labs there are."""
    for lab in LABS:
        if name == lab.LAB:
            return lab
    raise ValueError(f"lab must be one of {', '.join(lab.LAB for lab in LABS)}, not {name!r}")
