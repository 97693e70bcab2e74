"""The labs in tab order: an explicit list of the built-in labs, followed by plug-ins (plugins.py)."""

from __future__ import annotations

from compute.devices.kernel_cache import allow_uncached

allow_uncached()  # must run before the kernels of a lab are imported

from compute.cli.arguments import named
from compute.lab import plugins
from compute.lab.lab import Lab
from compute.labs.crossover import Crossover
from compute.labs.diffusion import Diffusion
from compute.labs.equations import Equations
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot

LABS: tuple[type[Lab], ...] = (Diffusion, Mandelbrot, LCurve, Crossover, Equations)


def outside() -> plugins.FoundLabs:
    """Return the plug-in labs, whose names must differ from those of LABS, and the errors of plug-ins that failed."""
    return plugins.found([lab.LAB for lab in LABS])


def labs() -> tuple[type[Lab], ...]:
    """Return LABS followed by the plug-in labs."""
    return (*LABS, *outside().labs)


def lab_class(name: str) -> type[Lab]:
    """Return the lab class whose LAB is `name`. Raise ValueError, with the known labs, for an unknown name."""
    return named("lab", name, {lab.LAB: lab for lab in labs()})
