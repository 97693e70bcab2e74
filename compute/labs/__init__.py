"""The labs, in the order of the tabs: an explicit list of the built-in ones, then those from outside (plugins.py)."""

from __future__ import annotations

from compute.kernel_cache import allow_uncached

allow_uncached()  # before the kernels of a lab are loaded

from compute import plugins
from compute.arguments import named
from compute.lab import Lab
from compute.labs.crossover import Crossover
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot

LABS: tuple[type[Lab], ...] = (Diffusion, Mandelbrot, LCurve, Crossover)


def outside() -> plugins.FoundLabs:
    """The labs from outside, which must not have the name of one of LABS, and what is wrong with others."""
    return plugins.found([lab.LAB for lab in LABS])


def labs() -> tuple[type[Lab], ...]:
    """LABS, then the labs from outside."""
    return (*LABS, *outside().labs)


def lab_class(name: str) -> type[Lab]:
    """The lab called `name` (its LAB); ValueError names the labs there are."""
    return named("lab", name, {lab.LAB: lab for lab in labs()})
