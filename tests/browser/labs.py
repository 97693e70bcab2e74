"""The labs of the page, for tests that visit each of them."""

from __future__ import annotations

from compute.labs import LABS

NAMES = tuple(lab.LAB for lab in LABS)
TITLES = tuple(lab.TITLE for lab in LABS)
# A group of controls of each lab.
GROUPS = {
    "Diffusion": "Physics",
    "Mandelbrot": "Place",
    "L-curve": "Problem",
    "Crossover": "Workload",
    "Equations": "Physics",
}
