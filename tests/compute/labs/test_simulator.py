"""The Numba-CUDA kernels in Numba's CUDA simulator on the CPU: small grids, in a separate process."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from compute.display import cpu_numpy as raster_reference
from compute.labs.diffusion import cpu_numpy
from compute.labs.diffusion.scheme import EDGES
from tests.simulator import simulate

SHAPES = [(1, 1), (1, 9), (9, 1), (3, 7), (5, 34)]
CASES = [(shape, edges, "float32", 1 + i % 2) for i, (shape, edges) in enumerate(product(SHAPES, EDGES))]
CASES += [((3, 35), "periodic", "float64", 2), ((34, 3), "zero-flux", "float64", 1)]

PROGRAM = """
import sys
import numpy as np
from compute.devices.backends import backend
chosen = backend("gpu_numba")
if chosen.missing:
    sys.exit("gpu_numba: " + chosen.missing)
device = chosen.open_device()
diffusion, raster = chosen.kernels("compute.labs.diffusion"), chosen.display()
given, made = np.load(sys.argv[1]), {}

def new(like):
    return device.upload(np.full_like(like, np.nan) if like.dtype.kind == "f" else np.zeros_like(like))

for name, u in given.items():
    variant, edges, steps = name.split("|")[1:]
    field, out = device.upload(u), new(u)
    if variant == "laplacian":
        diffusion.laplacian(field, out, edges)
    else:
        diffusion.VARIANTS[variant](field, out, 0.23, edges, int(steps))
    made[name] = device.download(out)
    assert steps != "1" or np.array_equal(device.download(field), u)

u = next(u for name, u in given.items() if "survey" in name).copy()
u[2, 3], u[1, 1] = np.nan, np.inf
field = device.upload(u)
for name, like, function, arguments in [
    ("means", np.zeros((1, 7), np.float32), raster.reduce, (0, 0, 5)),
    ("window", np.zeros((2, 3)), raster.window, (1, 4)),
    ("levels", np.zeros(u.shape, np.uint8), raster.levels, (0.25, 0.75)),
]:
    out = new(like)
    function(field, out, *arguments)
    made[name] = device.download(out)
seen = new(np.zeros(4))
raster.survey(field, device.allocate((1024, 4), np.float64), seen)
made["seen"] = device.download(seen)
raster.disc(field, 2.5, 30.0, 2.2, 9.0)
made["disc"] = device.download(field)
np.savez(sys.argv[2], **made)
"""


@pytest.fixture(scope="module")
def given():
    """The input fields, by a name that contains variant, edges and steps."""
    fields = {}
    for i, (shape, edges, dtype, steps) in enumerate(CASES):
        fields[f"{i}|tile|{edges}|{steps}"] = np.random.default_rng(i).random(shape).astype(dtype)
    fields["survey|laplacian|periodic|0"] = np.random.default_rng(50).random((5, 34)).astype(np.float32)
    fields["r|racing|zero-flux|1"] = np.random.default_rng(51).random((4, 20)).astype(np.float32)
    return fields


@pytest.fixture(scope="module")
def made(given, tmp_path_factory):
    """The outputs of the simulated kernels."""
    folder = tmp_path_factory.mktemp("simulator")
    np.savez(folder / "given.npz", **given)
    simulate(PROGRAM, folder / "given.npz", folder / "made.npz")
    return dict(np.load(folder / "made.npz"))


def test_every_case_equals_numpy(given, made):
    for name, u in given.items():
        variant, edges, steps = name.split("|")[1:]
        truth = np.empty(u.shape)
        if variant == "tile":
            cpu_numpy.step(u.astype(np.float64), truth, 0.23, edges, int(steps))
        elif variant == "laplacian":
            cpu_numpy.laplacian(u.astype(np.float64), truth, edges)
        else:
            continue
        assert made[name].dtype == u.dtype
        small = {"float32": 2e-6, "float64": 4e-15}[u.dtype.name]
        np.testing.assert_allclose(made[name], truth, rtol=0, atol=small, err_msg=f"{name} {u.shape}")


def test_the_racing_kernel_races_in_the_simulator_too(given, made):
    u = given["r|racing|zero-flux|1"]
    truth = np.empty(u.shape)
    cpu_numpy.step(u.astype(np.float64), truth, 0.23, "zero-flux", 1)
    wrong = np.abs(made["r|racing|zero-flux|1"] - truth) > 1e-6
    assert wrong[:, 16].any()  # the second block reads cells written by the first
    assert not wrong[:, :15].any()


def test_raster_kernels_equal_numpy(given, made):
    u = given["survey|laplacian|periodic|0"].copy()
    u[2, 3], u[1, 1] = np.nan, np.inf
    seen, means, window = np.empty(4), np.empty((1, 7), np.float32), np.empty((2, 3))
    levels = np.empty(u.shape, np.uint8)
    raster_reference.survey(u, seen, seen)
    raster_reference.reduce(u, means, 0, 0, 5)
    raster_reference.levels(u, levels, 0.25, 0.75)
    raster_reference.window(u, window, 1, 4)
    np.testing.assert_allclose(made["seen"], seen, rtol=1e-12)
    np.testing.assert_allclose(made["means"], means, rtol=1e-6)
    assert np.abs(made["levels"].astype(int) - levels).max() <= 1
    np.testing.assert_array_equal(made["window"], window)
    raster_reference.disc(u, 2.5, 30.0, 2.2, 9.0)
    np.testing.assert_array_equal(made["disc"], u)
