"""Overflow: for c far outside, z overflows within a block of steps, and must count as escaped."""

from __future__ import annotations

import json

import numpy as np
import pytest

from compute.labs.mandelbrot.state import LaunchPart
from tests.simulator import simulate

TOP = 300
LARGE = {"float32": (1.8e19, 2.0**-23, 2.0**63), "float64": (1e154, 2.0**-52, 2.0**511)}  # near the root of the largest


def parts(dtype):
    """Return the real and imaginary parts: the square of a slightly larger number than the first three overflows."""
    large, ulp, square_root = LARGE[dtype]
    edge = [large * (1 - ulp), large, large * (1 + ulp)]
    return np.array([*edge, -large, square_root, 3.0, -0.1], dtype), np.array([*edge, 3.0, 0.1, 0.0], dtype)


RE, IM = parts("float64")
COUNTS = np.where(np.hypot(*np.meshgrid(RE, IM)) > 2, 1, TOP)  # z_1 = c; -0.1 and -0.1 + 0.1i are in the cardioid
SHAPE = {"ny": len(IM), "nx": len(RE), "max_iterations": TOP, "precision": "float64"}
KERNELS = ("direct", "counts_only")


def counts(lab, name, shortcuts):
    """Return the counts of the pixels of `parts`."""
    lab.reset()
    re, im = parts(lab.precision)
    lab.device.write(re, lab.state.re)
    lab.device.write(im, lab.state.im)
    lab.state.forget_totals(lab.device)
    getattr(lab.kernels, name)(lab.state, LaunchPart(0, len(IM), 1, TOP, TOP, TOP, shortcuts))
    return lab.device.download(lab.state.count)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of the overflow
@pytest.mark.parametrize("shortcuts", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_overflowing_pixels_have_escaped(make, shortcuts, dtype):
    lab = make(**SHAPE | {"precision": dtype})
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
