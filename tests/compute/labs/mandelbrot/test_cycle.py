"""The interior of the set: the multiplier of the attracting cycle, and deep views of the interior.

In each backend, the multiplier is compared with formulas for periods 1 to 3 and with roots for others; a periodic
reference orbit lets pixels stop early without changing a count.
"""

from __future__ import annotations

import gmpy2
import numpy as np
import pytest

from compute.labs.mandelbrot import Mandelbrot, formula
from compute.labs.mandelbrot import cpu_numpy as reference
from compute.labs.mandelbrot.reference_orbit import LOOK, NEVER
from tests.compute.labs.mandelbrot.test_deep import reference_of

TOP = 77  # count of a pixel that did not escape
RINGS = [0.001, 0.3, 0.9, 0.99, 0.9999, 1.0]


@pytest.fixture
def kernel(way):
    """Return the kernel of each backend in turn, as returned by `eased`."""
    return eased(way.device, way.kernels.multiplier)


def eased(device, run):
    """Return a function that computes |multiplier| of points c; its `.grid` computes that of a grid (re, im, count)."""

    def multiplier(re, im, count, settle, longest):
        out = device.upload(np.full(count.shape, 7, np.float32))
        arrays = [device.upload(np.asarray(a)) for a in (re, im, count.astype(np.int32))]
        run(*arrays, out, TOP, settle, longest)
        return device.download(out)

    def of(points, settle=1000, longest=64):
        """Use one row and one column of a grid for each point; only the diagonal is inside the set."""
        points = np.atleast_1d(points).astype(complex)
        count = np.where(np.eye(points.size, dtype=bool), TOP, 3)
        made = multiplier(points.real.copy(), points.imag.copy(), count, settle, longest)
        assert np.isnan(made[count == 3]).all()
        return made.diagonal()

    of.grid = multiplier
    return of


def multipliers(radius, number=41):
    return radius * np.exp(2j * np.pi * np.arange(number) / (number - 1))


def returns(c, period):
    """Return f^period(0) and its derivative by c."""
    z, slope = 0 * c, 0 * c
    for _ in range(period):
        z, slope = z * z + c, 2 * z * slope + 1
    return z, slope


def centres(period):
    """Return the 2^(period - 1) roots c of f^period(0): centres of components of that period or a divisor of it."""
    z = np.polynomial.Polynomial([0])
    for _ in range(period):
        z = z**2 + np.polynomial.Polynomial([0, 1])
    c = z.roots().astype(complex)
    for _ in range(8):  # roots() returns few correct digits
        value, slope = returns(c, period)
        c = c - value / slope
    return c


@pytest.mark.float64
@pytest.mark.parametrize("radius", RINGS)
def test_in_the_cardioid_and_the_disc(kernel, radius):
    lam = multipliers(radius)
    np.testing.assert_allclose(kernel(lam / 2 - lam**2 / 4), radius, atol=1e-6)  # lam = 1 - sqrt(1 - 4 c)
    np.testing.assert_allclose(kernel(lam / 4 - 1), radius, atol=1e-6)  # lam = 4 (1 + c)


@pytest.mark.float64
@pytest.mark.parametrize("radius", RINGS)
def test_in_the_components_of_period_three(kernel, radius):
    """Here c^3 + 2 c^2 + (1 - m) c + (1 - m)^2 = 0 with m = lam / 8: the resultant of f^3(z) = z and lam."""
    points = np.array([np.roots([1, 2, 1 - m, (1 - m) ** 2]) for m in multipliers(radius, 21) / 8])
    np.testing.assert_allclose(kernel(points.ravel()), radius, atol=1e-5)


@pytest.mark.float64
@pytest.mark.parametrize("period", [4, 5, 6])
def test_the_centre_of_a_component_has_multiplier_zero(kernel, period):
    points = centres(period)
    assert np.unique(points.round(9)).size == 2 ** (period - 1)
    np.testing.assert_allclose(kernel(points), 0, atol=1e-6)


@pytest.mark.float64
def test_near_a_centre_the_multiplier_grows_as_its_derivative_says(kernel):
    """Of the largest island, period 3 at -1.7549: d lam / dc = 2^3 z1 z2 d(f^3(0))/dc at the centre."""
    centre = min(centres(3), key=lambda c: c.real)
    rate = 8 * centre * (centre**2 + centre) * returns(centre, 3)[1]
    np.testing.assert_allclose(kernel(centre + 1e-6 * np.exp(1j * np.arange(5))), abs(rate) * 1e-6, rtol=1e-3)


@pytest.mark.float64
def test_in_an_island_of_period_39_the_multiplier_equals_that_of_300_bits(kernel):
    """Near the seahorses: iterates the orbit until it has reached the cycle, then multiplies along the cycle."""
    points = -0.7436423016578859 + 0.13182651981259472j + 2e-7 * np.array([0, 1, 1j, -1, 0.5 - 1j])
    truth = []
    with gmpy2.context(precision=300):
        for point in points:
            z, c, product = gmpy2.mpc(0), gmpy2.mpc(complex(point)), gmpy2.mpc(1)
            for _ in range(39 * 300):
                z = z * z + c
            for _ in range(39):
                product, z = 2 * z * product, z * z + c
            truth.append(float(abs(product)))
    np.testing.assert_allclose(kernel(points, settle=4096, longest=64), truth, rtol=1e-6, atol=1e-7)
    assert 0.01 < max(truth) < 0.9


@pytest.mark.float64
def test_without_a_cycle_the_multiplier_is_nan(kernel):
    assert np.isnan(kernel([1j, -2, 0.26, 2 + 2j, -1.401155189])).all()  # repelling cycles, outside, Feigenbaum's point
    centre = min(centres(5), key=lambda c: c.real)
    assert np.isnan(kernel(centre, longest=4)).all()
    assert kernel(centre, longest=5) < 1e-3
    assert np.isnan(kernel([0.1], settle=0)).all()
    assert np.isnan(kernel(centre, settle=4)).all()  # periods longer than the orbit are not tried


def test_a_multiple_of_the_period_gives_the_multiplier_of_the_cycle_itself():
    for c in (0.1 + 0.2j, -0.1 - 0.6j):
        w = (1 - np.sqrt(1 - 4 * c)) / 2
        for period in (1, 2, 6):
            assert formula.strength(w.real, w.imag, c.real, c.imag, period) == pytest.approx(abs(2 * w), rel=1e-12)
            assert reference.strength(np.array([w]), np.array([c]), period) == pytest.approx(abs(2 * w), rel=1e-12)
    assert formula.strength(0.5, 1.5, -2.0, 0.0, 1) == formula.NOTHING


@pytest.mark.float64
def test_every_backend_agrees_with_numpy_on_a_view(kernel):
    re, im = np.linspace(-2.1, 0.6, 173), np.linspace(-1.2, 1.2, 131)
    c, z = re + 1j * im[:, None], 0
    for _ in range(1000):
        z = np.where(np.abs(z) <= 2, z * z + c, 9)
    count, truth = np.where(np.abs(z) <= 2, TOP, 5), np.empty((131, 173), np.float32)
    reference.multiplier(re, im, count, truth, TOP, 300, 32)
    got = kernel.grid(re, im, count, 300, 32)
    assert np.isnan(got[count == 5]).all()
    differ = ~np.isclose(got, truth, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert differ.sum() <= 3  # pixels on the boundary, where rounding decides
    assert np.isfinite(truth).sum() > 0.97 * (count == TOP).sum()


# -- deep views

PERIOD_3 = ("-1.75487766624669276", "0")  # its nucleus to 17 digits
INSIDE = ("-1.757", "0")  # in the same component
BUD = ("-0.15652016683375508", "1.0322471089228318")  # a nucleus of period 4, 16 digits
EDGE = ("-1.757", "0.001")  # from zoom 300 down, the edge is in view
FEIGENBAUM = ("-1.40115518909331471", "0")


def lab_of(backend, center, zoom, shortcuts=True, **values):
    return Mandelbrot(**{"backend": backend, "center": center, "zoom": zoom, "ny": 12, "nx": 16, "max_iterations": 3000,
                         "precision": "perturbation", "shortcuts": shortcuts, **values})  # fmt: skip


@pytest.mark.parametrize(("center", "period"), [(PERIOD_3, 3), (INSIDE, 3), (BUD, 4)])
def test_the_cycle_of_the_reference_is_found(center, period):
    made = reference_of(lab_of("cpu_numba", center, "1e12"))
    settled, cycle = made.settled, made.cycle
    assert LOOK <= cycle < 4 * LOOK
    assert cycle % period == 0
    orbit = made.orbit
    np.testing.assert_array_equal(orbit[settled:-cycle], orbit[settled + cycle :])
    assert settled == 0 or (orbit[settled - 1] != orbit[settled - 1 + period]).any()


@pytest.mark.parametrize("center", [FEIGENBAUM, ("0.3", "0.6"), ("-0.743643887037158704", "0.131825904205311970")])
def test_an_aperiodic_or_escaping_orbit_has_no_cycle(center):
    assert reference_of(lab_of("cpu_numba", center, "1e20")).cycle == NEVER


def test_a_repelling_cycle_is_found_but_ends_no_pixel():
    """c = i: the orbit is i, -1 + i, -i, -1 + i, … exactly, and all pixels around it escape."""
    lab = lab_of("cpu_numba", ("0", "1"), "1e30")
    made = reference_of(lab)
    assert (made.settled, made.cycle) == (2, LOOK)
    assert lab.counts().max() < 300


@pytest.mark.float64
@pytest.mark.parametrize(("center", "zoom"), [(PERIOD_3, "1e12"), (INSIDE, "1e8"), (BUD, "1e6")])
def test_pixels_inside_a_component_end_early_and_count_as_inside(any_backend, center, zoom):
    lab = lab_of(any_backend.name, center, zoom)
    assert (lab.counts() == 3000).all()
    steps = lab.iterations / (lab.ny * lab.nx)
    assert steps <= (3000 if any_backend.name == "cpu_numpy" else 600)


@pytest.mark.float64
@pytest.mark.parametrize(("center", "zoom"), [(EDGE, "100"), (EDGE, "200"), (BUD, "200"), (("-1.75", "0"), "1e4")])
def test_shortcuts_change_no_count_at_the_edge_of_a_component(any_backend, center, zoom):
    on, off = (lab_of(any_backend.name, center, zoom, shortcuts, max_iterations=6000) for shortcuts in (True, False))
    np.testing.assert_array_equal(on.counts(), off.counts())
    assert len(np.unique(off.counts())) > 3
    assert (off.counts() == 6000).mean() > 0.1
    assert on.iterations <= off.iterations
