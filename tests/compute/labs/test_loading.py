"""Arrays and numbers from a user: values outside a lab's dtype are refused with name, value and bound."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy

from compute.labs.crossover import Crossover
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot

SIDE = 4
GRID = np.arange(SIDE * SIDE, dtype=float).reshape(SIDE, SIDE)
MASKED = np.ma.masked_array(GRID, GRID == 5)
WIDE = np.finfo(np.longdouble).max > np.finfo(np.float64).max
BAD = [
    (GRID * 1j, "must hold real numbers, not complex128"),
    (GRID.astype(object), "must hold real numbers, not object"),
    (GRID.astype("M8[s]"), "must hold real numbers, not datetime64[s]"),
    (GRID.astype("m8[s]"), "must hold real numbers, not timedelta64[s]"),
    (np.zeros((SIDE, SIDE), [("a", float), ("b", int)]), "must hold real numbers, not [('a'"),
    (GRID.astype(str), "must hold real numbers, not <U"),
    ("a", "must hold real numbers, not <U1"),
    (None, "must hold real numbers, not object"),
    ([[1.0], [1.0, 2.0]], "must be an array of real numbers"),
    (MASKED, "must have no masked entries, and has 1"),
    (GRID[:2], "must have the shape (4, 4), not (2, 4)"),
    (np.where(GRID == 5, np.nan, GRID), "must be finite; it holds NaN or inf"),
    (np.where(GRID == 5, np.inf, GRID), "must be finite; it holds NaN or inf"),
    (np.full((SIDE, SIDE), np.iinfo(np.int64).max), "not 9,223,372,036,854,775,807"),
    (np.full((SIDE, SIDE), np.iinfo(np.int64).min), "not -9,223,372,036,854,775,808"),
    (np.full((SIDE, SIDE), np.iinfo(np.uint64).max), "not 18,446,744,073,709,551,615"),
    pytest.param(
        np.longdouble("1e4000" if WIDE else 0) + GRID, "the range of float",
        marks=pytest.mark.skipif(not WIDE, reason="long double is float64 here"),
    ),
]  # fmt: skip
BAD_IN_FLOAT32 = [
    (np.where(GRID == 3, 1e300, GRID), "must be within ±3.403e+38, the range of float32, not 1e+300"),
    (np.where(GRID == 3, -3.5e38, GRID), "must be within ±3.403e+38, the range of float32, not -3.5e+38"),
    (np.full((SIDE, SIDE), 2**24 + 1), "within ±16,777,216, which float32 represents exactly, not 16,777,217"),
    (np.full((SIDE, SIDE), 1e-50), "must reach 1.175e-38, the least of float32: its largest entry is 1e-50"),
]


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture
def field(dtype):
    with_field = Diffusion(ny=SIDE, nx=SIDE, dtype=dtype)
    yield with_field
    with_field.close()


def refused(lab, array, says):
    """Check that loading is refused and the lab is unchanged."""
    before, steps = lab.field(), lab.steps
    with pytest.raises(ValueError, match=f"^array .*{re.escape(says)}"):
        lab.load(array)
    np.testing.assert_array_equal(lab.field(), before)
    assert lab.steps == steps


@pytest.mark.parametrize(("array", "says"), BAD)
def test_an_array_that_cannot_be_represented_is_refused(field, array, says):
    field.advance(1)
    refused(field, array, says)


@pytest.mark.parametrize(("array", "says"), BAD_IN_FLOAT32)
def test_an_array_beyond_the_range_of_float32_is_refused_in_float32_only(field, dtype, array, says):
    if dtype == "float32":
        refused(field, array, says)
    else:
        field.load(array)
        np.testing.assert_array_equal(field.field(), array)


@pytest.mark.parametrize(("array", "says"), BAD + BAD_IN_FLOAT32)
def test_an_external_lab_refuses_the_same_arrays(wave, array, says):
    lab = wave(ny=SIDE, nx=SIDE)
    refused(lab, array, says)
    lab.close()


@pytest.mark.parametrize(
    "array",
    [
        GRID, GRID.tolist(), GRID.astype(np.float16), GRID.astype(int), GRID.astype(np.uint8), GRID > 3, GRID.T,
        np.ma.masked_array(GRID), np.full((SIDE, SIDE), 2**24), np.full((SIDE, SIDE), -(2**24)), np.zeros((SIDE, SIDE)),
    ],
)  # fmt: skip
def test_other_arrays_are_loaded(field, array):
    field.load(array)
    np.testing.assert_array_equal(field.field(), np.asarray(array, float))


def test_numbers_far_below_the_largest_may_become_zero(field, dtype):
    """For example, the tail of a Gaussian."""
    tail = np.exp(-np.square(GRID))
    field.load(tail)
    np.testing.assert_array_equal(field.field(), tail.astype(dtype))


@pytest.mark.parametrize("make", [Mandelbrot, LCurve, Crossover])
def test_a_lab_without_a_field_says_so(make):
    values = {"problem": "shaw", "n": 16} if make is LCurve else {"ny": 8, "nx": 8} if make is Mandelbrot else {}
    lab = make(**values, backend="cpu_numba")
    for ask in (lab.field, lambda: lab.load(GRID)):
        with pytest.raises(ValueError, match=f"{make.LAB} has no field to read or load"):
            ask()
    lab.close()


@pytest.mark.parametrize(
    ("value", "in_float64"),
    [(10**400, False), (1e39, True), (-1e300, True), (float("nan"), False), (1j, False), (True, False)],
)  # fmt: skip
def test_a_stroke_beyond_the_range_of_the_field_is_refused(field, dtype, value, in_float64):
    field.advance(1)
    before = field.field()
    if in_float64 and dtype == "float64":
        field.paint([(1, 1)], value, 2)
        assert value in field.field()
        return
    with pytest.raises(ValueError, match="finite"):
        field.paint([(1, 1)], value, 2)
    np.testing.assert_array_equal(field.field(), before)


@pytest.mark.parametrize(
    ("points", "radius"), [([(10**400, 1)], 2), ([(1, 1)], 10**400), ([(-1e308, 0), (1e308, 0)], 2)]
)
def test_a_stroke_of_no_finite_length_is_refused(field, points, radius):
    with pytest.raises(ValueError, match=r"must be|needs"):
        field.paint(points, 1, radius)


def test_limits_beyond_every_float_are_refused(field):
    with pytest.raises(ValueError, match="limits_field must be two finite numbers"):
        field.update(limits_field=(0, 10**400))
    lab = Mandelbrot(ny=8, nx=8)
    for values in ({"limits": (0, 10**400)}, {"pointer": (10**400, 0)}, {"pointer": (float("nan"), 0)}):
        with pytest.raises(ValueError, match=r"must be two"):
            lab.update(**values)
    lab.close()


# -- a user's A and b


A = np.eye(SIDE) + 0.1 * GRID
B = np.arange(1.0, SIDE + 1)


def test_masked_entries_of_a_matrix_or_right_hand_side_are_refused():
    for name, values in {"A": np.ma.masked_array(A, A > 1.9), "b": np.ma.masked_array(B, B == 2)}.items():
        with pytest.raises(ValueError, match=f"{name} must have no masked entries, and has [12]: "):
            LCurve(problem="own", options={"matrix": A, "rhs": B, {"A": "matrix", "b": "rhs"}[name]: values})


def test_integers_of_a_matrix_are_exact_or_refused():
    whole = np.eye(SIDE, dtype=np.int64) * (2**24 + 1)
    for matrix in (whole, scipy.sparse.csr_matrix(whole)):
        with pytest.raises(ValueError, match=r"A must have whole numbers within ±16,777,216.*not 16,777,217"):
            LCurve(problem="own", options={"matrix": matrix, "rhs": B}, dtype="float32")
        lab = LCurve(problem="own", options={"matrix": matrix, "rhs": B})
        assert lab.system.A[0, 0] == 2**24 + 1
        lab.close()


def test_a_number_beyond_every_float_is_refused_everywhere():
    for values in ({"options": {"density": 10**400}}, {"lam": 10**400}, {"lambdas": (1e-6, 10**400, 5)}):
        with pytest.raises(ValueError, match="must be"):
            LCurve(n=16, **values)


# -- counts above the exact range of float32


def test_smooth_counts_inside_the_set_equal_the_iterations_exactly():
    lab = Mandelbrot(ny=3, nx=3, center=("-0.1", "0.0"), zoom="1e3", max_iterations=20_000_001)
    assert lab.smooth().dtype == np.float64
    assert set(lab.smooth().ravel().tolist()) == {20_000_001.0}
    assert set(lab.counts().ravel().tolist()) == {20_000_001}
    assert set(lab.data()["smooth"].ravel().tolist()) == {20_000_001.0}
    lab.close()
