"""A lab as an object in a script: `with`, a second close, its printed form, and a class outside any package."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from compute.lab.lab import HOME, ClosedLabError
from compute.lab.notebook import mimebundle
from compute.labs import LABS
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from tests.sources import ROOT

GRID = {"ny": 8, "nx": 8}
SMALL = {"crossover": {}, "l_curve": {"problem": "shaw", "n": 16}}  # all others have a grid
USES = {
    "advance": lambda lab: lab.advance(1),
    "reset": lambda lab: lab.reset(),
    "snapshot": lambda lab: lab.snapshot(),
    "field": lambda lab: lab.field(),
    "update": lambda lab: lab.update(backend="cpu_numpy"),
    "assignment": lambda lab: setattr(lab, "backend", "cpu_numpy"),
    "play": lambda lab: lab.play(),
}


@pytest.fixture(params=[*LABS, None], ids=lambda lab: lab.LAB if lab else "wave")
def small(request, wave):
    """A small lab of each class."""
    make = request.param or wave
    with make(**SMALL.get(make.LAB, GRID), backend="cpu_numba") as lab:
        yield lab


def test_a_closed_lab_may_be_closed_again_and_refuses_every_use(small):
    with small as lab:
        lab.advance(1)
    lab.close()
    assert str(lab).endswith("), closed")
    reason = r"^\w+\(.*\) is closed: its state was released, create another"
    for use in USES.values():
        with pytest.raises(ClosedLabError, match=reason) as refused:
            use(lab)
        assert refused.value.__context__ is None  # one error, without a second one that occurred on the way
    assert not hasattr(lab, "device")
    assert lab.backend == "cpu_numba"
    assert mimebundle(lab).keys() >= {"text/plain"}  # the last line of a cell


def test_repr_is_an_expression_that_creates_the_lab(small):
    again = eval(repr(small), {type(small).__name__: type(small)})
    assert again.values() == small.values()
    again.close()


def test_str_shows_values_that_differ_from_the_defaults_and_the_step(wave):
    assert str(Diffusion()) == "Diffusion()"
    lab = Diffusion(ny=8, r=0.1, preset="ring")
    lab.advance(3)
    assert repr(lab) == "Diffusion(ny=8, preset='ring', r=0.1)"
    assert str(lab) == f"{lab!r}, step 3"
    assert str(wave(ny=8, nx=8)) == "Wave(nx=8, ny=8)"
    assert str(LCurve(problem="shaw", n=16)) == "LCurve(n=16, problem='shaw')"  # its default options are a dict
    long = str(LCurve(problem="own", options={"matrix": [[1.0] * 30] * 30, "rhs": [1.0] * 30}))
    assert len(long) < 300
    assert "problem='own'" in long


def test_an_error_in_a_property_of_a_lab_keeps_its_text():
    class Faulty(Diffusion):
        @property
        def exact(self):
            return self.missing

    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = Faulty(**GRID).exact


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
        "cell": ["-m", "IPython", "--no-banner", "--colors=NoColor", "-c", SCRIPT],
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
