"""The measured growth factor against the von Neumann factors of the five-point Laplacian."""

from __future__ import annotations

from itertools import product
from math import log, sqrt

import numpy as np
import pytest

from compute.lab.growth import fitted_growth
from compute.labs.diffusion import Diffusion
from compute.labs.diffusion.scheme import fastest_growth, growth_factor


def probed(lab, count, every=1):
    """Return steps and values of `count` samples at the probe."""
    samples = []
    for _ in range(count):
        facts = lab.frame(pixels=(16, 16)).facts
        samples.append((facts["step"], facts["probe"]))
        lab.advance(every)
    return map(np.array, zip(*samples, strict=True))


@pytest.mark.parametrize(
    ("edges", "r", "p", "q", "every"),
    [("zero-flux", 0.2, 3, 2, 7), ("zero-dirichlet", 0.1, 5, 1, 3), ("periodic", 0.25, 4, 2, 1),
     ("periodic", 0.24, 12, 10, 1)],
)  # fmt: skip
def test_a_mode_has_its_eigenvalue_s_factor(edges, r, p, q, every):
    """The factor is 1 + r times the eigenvalue of the Laplacian, found here by applying it to the mode."""
    lab = Diffusion(backend="cpu_numpy", ny=24, nx=32, dtype="float64", preset="single mode", mode_p=p, mode_q=q,
                    edges=edges, r=r, probe_x=0.3, probe_y=0.7)  # fmt: skip
    u = lab.field()
    eigenvalue = float(np.vdot(u, lab.laplacian()) / np.vdot(u, u))
    growth = fitted_growth(*probed(lab, 30, every))
    assert growth is not None
    assert growth.factor == pytest.approx(abs(1 + r * eigenvalue), rel=1e-9)
    assert growth.residual < 1e-6
    assert lab.frame().facts["mode_growth"] == pytest.approx(1 + r * eigenvalue, rel=1e-12)
    lab.close()


def test_float32_measures_a_slow_mode_to_a_millionth():
    lab = Diffusion(backend="cpu_numpy", ny=64, nx=64, preset="single mode", mode_p=3, mode_q=2, probe_x=0.3)
    growth = fitted_growth(*probed(lab, 20, 20))
    assert growth is not None
    assert growth.factor == pytest.approx(growth_factor(64, 64, 3, 2, "zero-flux", 0.2), rel=1e-6)
    lab.close()


@pytest.mark.parametrize("edges", ["zero-flux", "zero-dirichlet", "periodic"])
@pytest.mark.parametrize("shape", [(8, 8), (7, 10)])
def test_no_mode_grows_faster_than_the_finest(edges, shape):
    first = 1 if edges == "zero-dirichlet" else 0
    numbers = product(*(range(first, first + size) for size in shape))  # as many modes as cells
    factors = [abs(growth_factor(*shape, p, q, edges, 0.3)) for q, p in numbers]
    assert fastest_growth(*shape, edges, 0.3) == pytest.approx(max(factors), rel=1e-12)


def test_the_chequerboard_grows_as_fast_as_the_facts_say():
    """At r = 0.26, in a field of noise."""
    lab = Diffusion(backend="cpu_numpy", ny=32, nx=32, dtype="float64", unstable=True, r=0.26, edges="periodic")
    rng = np.random.default_rng(1)
    lab.load(rng.standard_normal((32, 32)))
    lab.advance(3000)  # the next mode, with 1.07, is 1e-12 of it then
    growth = fitted_growth(*probed(lab, 10, 5))
    assert growth is not None
    assert growth.factor == pytest.approx(1.08, rel=1e-6)  # 8 r - 1
    assert lab.frame().facts["fastest_growth"] == pytest.approx(1.08, rel=1e-12)
    lab.close()


def test_the_residual_tells_how_far_the_samples_are_from_one_exponential():
    steps = np.arange(0.0, 40.0)
    wobble = 0.03 * (-1) ** steps
    growth = fitted_growth(steps, np.exp(-0.1 * steps + wobble))
    assert growth is not None
    assert growth.residual == pytest.approx(0.03, rel=0.01)
    assert growth.factor == pytest.approx(np.exp(-0.1), rel=1e-3)
    two = fitted_growth(steps, 0.5**steps + 1e-3)
    assert two is not None
    assert two.residual > 0.5


def test_the_line_passes_through_an_exact_exponential_far_from_the_first_step():
    steps = 1e9 + np.array([0.0, 1.0, 5.0, 9.0])
    growth = fitted_growth(steps, -3.0 * 0.5 ** (steps - 1e9))
    assert growth is not None
    assert growth.factor == pytest.approx(0.5, rel=1e-9)
    assert growth.log10(steps)[-1] == pytest.approx((log(3) - 9 * log(2)) / log(10), abs=1e-5)


@pytest.mark.parametrize(
    ("steps", "values"),
    [([], []), ([0, 1], [1, 2]), ([0, 1, 2], [1, 0, 2]), ([5, 5, 5], [1, 2, 3]), ([0, 1, 2], [1, np.nan, np.inf]),
     ([0, 1e-3, 2e-3], [1e-300, 1.0, 1e300])],
)  # fmt: skip
def test_too_few_samples_have_no_factor(steps, values):
    assert fitted_growth(np.array(steps, float), np.array(values, float)) is None


def test_zeros_are_left_out():
    steps = np.arange(6.0)
    values = np.where(steps == 3, 0.0, 2.0**steps)
    growth = fitted_growth(steps, values)
    assert growth is not None
    assert (growth.factor, growth.samples) == (pytest.approx(2.0), 5)
    assert growth.residual < sqrt(np.finfo(float).eps)
