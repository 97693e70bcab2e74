"""Six systems against py-pde, in float64, on odd sizes, with three edges and with walls."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from compute.labs.equations.language import read
from compute.labs.equations.reference import Reference
from tests.compute.labs.equations.py_pde_fields import DX, EDGES, NX, NY, STEPS, SYSTEMS, WALL, WALL_STEPS, beginning

ROOT = Path(__file__).parents[4]
pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(find_spec("pde") is None, reason="py-pde is not installed"),
]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The fields of py-pde, (field, ny, nx) by system and edges."""
    path = tmp_path_factory.mktemp("py_pde") / "fields.npz"
    command = [sys.executable, "-m", "tests.compute.labs.equations.py_pde_fields", str(path)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, check=True)
    with np.load(path) as found:
        return dict(found)


def ours(name, edges, steps, text="", **arrays):
    start = beginning(name)
    system = read(f"{SYSTEMS[name][0]}; edges: {edges}; dx = {DX}{text}")
    simulation = Reference(system, NY, NX, start=start | arrays, dt=SYSTEMS[name][2])
    simulation.advance(steps)
    return np.stack([simulation.arrays[field] for field in start])


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_fields_equal_those_of_py_pde(theirs, name, edges):
    expected = theirs[f"{name} {edges}"]
    np.testing.assert_allclose(ours(name, edges, STEPS), expected, rtol=0, atol=1e-12)
    assert abs(expected - np.stack(list(beginning(name).values()))).max() > 0.1


@pytest.mark.parametrize("name", SYSTEMS)
def test_cells_around_walls_equal_those_of_py_pde(theirs, name):
    found = ours(name, "zero-flux", WALL_STEPS, "; wall = 1", wall=WALL.astype(float))
    np.testing.assert_allclose(found, theirs[f"{name} wall"], rtol=0, atol=1e-12)
