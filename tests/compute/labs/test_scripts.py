"""A lab as an object in a script: `with`, a second close, its printed form, and a class outside any package."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from compute.lab.lab import HOME
from compute.labs.crossover import Crossover
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot
from tests.sources import ROOT

GRID = {"ny": 8, "nx": 8}
SMALL = {Diffusion: GRID, Mandelbrot: GRID, LCurve: {"problem": "shaw", "n": 16}, Crossover: {}}


@pytest.mark.parametrize("make", SMALL, ids=lambda make: make.LAB)
def test_a_with_block_closes_a_lab_which_may_be_closed_again(make):
    with make(**SMALL[make], backend="cpu_numba") as lab:
        lab.advance(1)
    assert str(lab).endswith(", closed")
    lab.close()
    lab.close()


def test_an_external_lab_may_be_closed_twice(wave):
    with wave(ny=8, nx=8) as lab:
        lab.advance(2)
        assert str(lab) == repr(lab) == "Wave(nx=8, ny=8), step 2"
    lab.close()


def test_print_shows_values_that_differ_from_the_defaults():
    assert str(Diffusion()) == "Diffusion()"
    lab = Diffusion(ny=8, r=0.1, preset="ring")
    lab.advance(3)
    assert str(lab) == "Diffusion(ny=8, preset='ring', r=0.1), step 3"
    long = str(LCurve(problem="own", options={"matrix": [[1.0] * 30] * 30, "rhs": [1.0] * 30}))
    assert len(long) < 300
    assert "problem='own'" in long


SCRIPT = '''
import numpy as np
import param
from compute.lab.lab import Lab, variants

class RandomWalk(Lab):
    """A walker on a line."""

    n = param.Integer(default=5, bounds=(1, 100))

    def begin(self):
        return {"place": np.zeros((1, self.n))}

    def advance(self, steps=1):
        with self.stepping(steps) as done:
            self.arrays["place"] += steps
        return done.timing

    def frame(self, view=None, pixels=(512, 512)):
        return self.framed({"place": self.raster("place", view, pixels)}, {"mean": float(self.field().mean())})

with RandomWalk(n=7) as lab:
    lab.advance(4)
    print(lab, lab.LAB, lab.TITLE, lab.frame().facts["mean"], lab.field().sum(), lab.about())
    print([backend.name for backend in RandomWalk.backends()], variants(RandomWalk, "cpu_numpy"))
    lab.update(backend="cpu_numpy")
    lab.load(np.ones((1, 7)))
    print(lab.field().sum())
    try:
        lab.kernels
    except ValueError as error:
        print(error)
'''


@pytest.mark.parametrize("where", ["script", "module", "cell"])
def test_a_lab_outside_any_package_computes_with_its_own_methods(where, tmp_path):
    path = tmp_path / "walk.py"
    path.write_text(SCRIPT)
    run = {
        "script": [str(path)],
        "module": ["-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import walk"],
        "cell": ["-c", f"exec(compile({SCRIPT!r}, '<ipython-input-1>', 'exec'))"],
    }[where]
    done = subprocess.run(
        [sys.executable, *run], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "RandomWalk(n=7), step 4 random_walk Random walk 4.0 28.0 A walker on a line.",
        "['cpu_numpy', 'cpu_numba'] ('',)",
        "7.0",
        f"random_walk has no kernels in files: its class must be in a package, {HOME}",
    ]
