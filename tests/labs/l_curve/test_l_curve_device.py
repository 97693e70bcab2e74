"""The whole lab on a GPU: curve, solutions, room that grows, the probe and pictures, against the dense truth."""

from __future__ import annotations

import numpy as np
import pytest

from compute.backends import backend
from compute.labs.l_curve import LCurve
from tests.labs.l_curve.test_l_curve import CASES, Dense, require_contained, require_contained_at_every_step

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["gpu_cupy", "gpu_numba"])
def gpu(request):
    missing = backend(request.param).missing
    if missing:
        pytest.skip(f"{request.param}: {missing}")
    return request.param


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_the_truth_is_between_the_bounds_at_every_step(gpu, case, dtype):
    require_contained_at_every_step(gpu, dtype, case)


@pytest.mark.parametrize("case", ["random_sparse", "shaw, noise", "paralleltomo, noise", "wide", "low rank"])
def test_curve_and_solutions_are_those_of_the_cpu(gpu, case):
    labs = [LCurve(backend=name, tolerance=1e-8, **CASES[case]) for name in ("cpu_numpy", gpu)]
    curves = [lab.solve() for lab in labs]
    np.testing.assert_allclose(curves[1].residual_norms, curves[0].residual_norms, rtol=1e-7)
    np.testing.assert_allclose(curves[1].solution_norms, curves[0].solution_norms, rtol=1e-7)
    lam = float(curves[0].lambdas[curves[0].lambdas.size // 2])
    x, y = (lab.solution(lam) for lab in labs)
    assert np.linalg.norm(x - y) <= 1e-6 * np.linalg.norm(x)


def test_room_grows_and_the_steps_go_on(gpu):
    lab = LCurve(backend=gpu, problem="random_sparse", n=150, steps_at_most=20, tolerance=1e-6)
    assert not lab.solve().converged
    lab.steps_at_most = 200
    whole = lab.solve()
    assert whole.converged
    require_contained(whole, Dense(lab).norms(whole.lambdas))


def test_the_probe_and_the_pictures(gpu):
    labs = [LCurve(backend=name, problem="blur", n=24, noise=0.02, tolerance=1e-4) for name in ("cpu_numpy", gpu)]
    answers = [lab.solve().corners for lab in labs]
    assert answers[0]["gcv"] is not None
    for name, lam in answers[0].items():
        assert answers[1][name] == (None if lam is None else pytest.approx(lam, rel=1e-3)), name
    pictures = [lab.frame().rasters["solution"].levels.astype(int) for lab in labs]
    assert np.abs(pictures[0] - pictures[1]).max() <= 1
