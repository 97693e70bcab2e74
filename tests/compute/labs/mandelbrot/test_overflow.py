"""Overflow of float64: for c far outside, z overflows within a block of steps, and must count as escaped."""

from __future__ import annotations

import json

import numpy as np
import pytest

from compute.labs.mandelbrot.state import LaunchPart
from tests.simulator import simulate

ULP = 2.0**-52
EDGE = [1e154 * (1 - ULP), 1e154, 1e154 * (1 + ULP)]  # the square of a slightly larger number overflows in float64
RE = np.array([*EDGE, -1e154, 2.0**511, 3.0, -0.1])
IM = np.array([*EDGE, 3.0, 0.1, 0.0])
TOP = 300
COUNTS = np.where(np.hypot(*np.meshgrid(RE, IM)) > 2, 1, TOP)  # z_1 = c; -0.1 and -0.1 + 0.1i are in the cardioid
SHAPE = {"ny": len(IM), "nx": len(RE), "max_iterations": TOP, "precision": "float64"}
KERNELS = ("direct", "counts_only")


def counts(lab, name, shortcuts):
    """Return the counts of the pixels RE + i IM."""
    lab.reset()
    lab.device.write(RE, lab.state.re)
    lab.device.write(IM, lab.state.im)
    lab.state.forget_totals(lab.device)
    getattr(lab.kernels, name)(lab.state, LaunchPart(0, len(IM), 1, TOP, TOP, TOP, shortcuts))
    return lab.device.download(lab.state.count)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of the overflow
@pytest.mark.parametrize("shortcuts", [True, False])
def test_overflowing_pixels_have_escaped(make, shortcuts):
    lab = make(**SHAPE)
    for name in KERNELS:
        if getattr(lab.kernels, name) is not None:
            np.testing.assert_array_equal(counts(lab, name, shortcuts), COUNTS)


PROGRAM = """
import json, sys
from compute.labs.mandelbrot import Mandelbrot
from tests.compute.labs.mandelbrot.test_overflow import SHAPE, counts
lab = Mandelbrot(backend="gpu_numba", **SHAPE)
with open(sys.argv[1], "w") as out:
    json.dump([counts(lab, "direct", shortcuts).tolist() for shortcuts in (True, False)], out)
"""


def test_overflowing_pixels_have_escaped_in_the_simulator(tmp_path):
    simulate(PROGRAM, tmp_path / "counts.json")
    for found in json.loads((tmp_path / "counts.json").read_text()):
        np.testing.assert_array_equal(found, COUNTS)
