"""Input of the lab: every bad value is reported with its bound, and leaves the lab unchanged."""

from __future__ import annotations

import io
from importlib import import_module

import numpy as np
import pytest
from PIL import Image

from compute.export.scene import Scene
from compute.lab.lab import OutOfMemory
from compute.labs.l_curve import LCurve
from compute.labs.l_curve.problems import NAMES, PROBLEMS
from compute.labs.l_curve.problems.own import own as opened
from compute.labs.l_curve.system import TYPICAL, typical

A0 = np.diag([3.0, 2.0, 1.0]) + 0.1
B0 = np.array([1.0, 2.0, 3.0])


def own(matrix=A0, rhs=B0, **others):
    return {"problem": "own", "options": {"matrix": matrix, "rhs": rhs}, **others}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"lambdas": (0.0, 1.0, 10)}, r"lambdas must be \(lowest, highest, count\) with 0 < lowest < highest, not"),
        ({"lambdas": (2.0, 1.0, 10)}, "0 < lowest < highest"),
        ({"lambdas": (1.0, float("inf"), 10)}, "0 < lowest < highest"),
        ({"lambdas": (float("nan"), 1.0, 10)}, "0 < lowest < highest"),
        ({"lambdas": ("a", 1.0, 10)}, "0 < lowest < highest"),
        ({"lambdas": (0.1, 1.0, 2)}, "lambdas must hold 3 to 1000 λ, not 2"),
        ({"lambdas": (0.1, 1.0, 10.5)}, r"lambdas must hold 3 to 1000 λ, not 10\.5"),
        ({"lambdas": (0.1, 1.0)}, "lambdas"),
        ({"lambdas": (1e-200, 1.0, 10)}, r"lambdas must be from 1e-50 to 1e\+50, not \(1e-200, 1.0, 10\)"),
        ({"lambdas": (1.0, 1e160, 10)}, r"lambdas must be from 1e-50 to 1e\+50"),
        ({"lam": 1e-200}, r"lam must be from 1e-50 to 1e\+50, not 1e-200"),
        ({"lam": 1e160}, r"lam must be from 1e-50 to 1e\+50, not 1e\+160"),
        ({"lam": 0.0}, "lam"),
        ({"lam": float("nan")}, "lam' must be greater than 0"),
        ({"lam": float("inf")}, "lam must be a finite number above 0"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"noise": float("nan")}, "noise"),
        ({"problem": "nothing"}, "problem"),
        ({"problem": "shaw", "n": 7}, "n must be a multiple of 2 for shaw, not 7"),
        ({"problem": "shaw", "options": {"width": 3}}, "shaw has no option 'width'; it has none"),
        ({"problem": "paralleltomo", "n": 9, "rays": 2.5}, "rays must be a whole number from 0 to 32768, not 2.5"),
        ({"problem": "tomo", "n": 9, "rays": 0.0}, "rays must be a number from 0.001 to 100, not 0"),
        ({"rule": "guess"}, "rule"),
        ({"steps_at_most": 0}, "steps_at_most"),
        ({"problem": "own"}, "options must hold a matrix for the problem 'own'"),
        (own(rhs=B0[:2]), r"b must have the shape \(3,\), as A has 3 rows, not \(2,\)"),
        (own(matrix=1e60 * A0, dtype="float32"), "A must have entries that float32 can hold; its largest is 3.1e"),
        (own(matrix=1e-60 * A0, dtype="float32"), "orthogonal"),
        (own(matrix=1e-160 * A0), r"A must have a norm from 1e-44 to 1e\+50 .* its largest entry is 3.1e-160"),
        (own(matrix=1e60 * A0), r"A must have a norm from 1e-44 to 1e\+50 .* its largest entry is 3.1e\+60"),
    ],
)
def test_invalid_values_are_refused_by_name(values, words):
    with pytest.raises((ValueError, TypeError), match=words):
        LCurve(**values)


@pytest.mark.parametrize("values", [{"lam": 1e160}, {"lambdas": (1e-200, 1.0, 10)}])
def test_a_link_with_a_lambda_that_cannot_be_squared_is_refused(values):
    with pytest.raises(ValueError, match="from 1e-50 to 1e"):
        Scene("l_curve", {"problem": "shaw", "n": 20, **values}).check()


@pytest.mark.parametrize("matrix", [1e-43 * A0, A0, 1e48 * A0])
@pytest.mark.parametrize("values", [{"lam": 1e-50}, {"lam": 1e50}, {"lambdas": (1e-50, 1e50, 30)}, {}])
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_curves_at_the_bounds_are_finite(matrix, values):
    lab = LCurve(**own(matrix), **values)
    curve = lab.complete()
    assert np.isfinite([curve.residual_norms, curve.solution_norms]).all()
    assert lab.frame().curves


def test_refused_values_change_nothing():
    lab = LCurve(problem="shaw", n=40, noise=0.01, lam=0.1)
    lab.solve()
    before, curve = lab.values(), lab.curve()
    bad = [
        {"lambdas": (0.0, 1.0, 10)}, {"n": 41}, {"problem": "own"}, {"problem": "blur", "n": 10**6}, {"n": 10**6},
        {"lam": -1.0, "noise": 0.5}, {"lam": 1e-170}, {"lambdas": (1e-200, 1.0, 10)},
        {"dtype": "float16"}, {"problem": "own", "options": {"matrix": b"junk"}},
        {"problem": "own", "options": {"matrix": A0, "rhs": [1.0]}}, {"options": {"width": 3}},
    ]  # fmt: skip
    for values in bad:
        with pytest.raises(ValueError, match=r"\w"):
            lab.update(**values)
        assert lab.values() == before
        np.testing.assert_array_equal(lab.curve().residual_norms, curve.residual_norms)
        lab.frame()
    for lam in (0, -1.0, float("nan"), float("inf"), "1", True, None):
        with pytest.raises(ValueError, match="lam must be a finite number above 0"):
            lab.solution(lam)
    with pytest.raises(ValueError, match="lam must be a finite number above 0, not -2"):
        lab.curve([1.0, -2])


@pytest.mark.parametrize(
    "values", [{"problem": "shaw", "n": 10**6}, {"n": 10**6}, {"problem": "blur", "n": 60_000}, {"n": 2**31 - 1}]
)
def test_n_beyond_memory_is_refused_before_allocation(values):
    with pytest.raises(OutOfMemory, match=r"this needs [\d.]+ GiB on host, but [\d.]+ GiB can be used"):
        LCurve(**values)


def test_a_compressed_matrix_is_measured_by_its_unpacked_size(monkeypatch):
    data = stored(np.savez_compressed, A=np.ones((1500, 1500)), b=np.ones(1500))
    assert len(data) < 2**16
    lab = LCurve(problem="shaw", n=40)
    monkeypatch.setattr(type(lab.device), "free_bytes", lambda self: 60 * 2**20)
    with pytest.raises(OutOfMemory, match=r"this needs 0\.\d+ GiB on host"):
        lab.update(problem="own", options={"matrix": data})
    assert lab.problem == "shaw"
    lab.solve()


def test_room_for_steps_beyond_memory_is_refused(monkeypatch):
    lab = LCurve(problem="random_sparse", n=100, reorthogonalise=False, steps_at_most=10)
    monkeypatch.setattr(type(lab.device), "free_bytes", lambda self: 2**20)
    with pytest.raises(OutOfMemory, match="this needs"):
        lab.steps_at_most = 100_000
    with pytest.raises(OutOfMemory, match="this needs"):
        lab.update(steps_at_most=90_000)
    lab.update(reorthogonalise=True)
    assert (lab.steps_at_most, lab.bidiagonal.most) == (10, 10)
    lab.advance(5)


def stored(save, *args, **kwargs):
    buffer = io.BytesIO()
    save(buffer, *args, **kwargs)
    return buffer.getvalue()


def test_a_picture_from_a_file_is_blurred():
    data = stored(Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).save, format="PNG")
    lab = LCurve(problem="blur", n=16, options={"image": data})
    np.testing.assert_allclose(lab.system.x.reshape(16, 16)[::-1] * 255, np.arange(256).reshape(16, 16))
    with pytest.raises(ValueError, match="image must be a PNG or JPEG file"):
        LCurve(problem="blur", n=16, options={"image": b"junk"})


def test_choosing_a_problem_sets_its_typical_size():
    assert set(TYPICAL) < set(NAMES)
    lab = LCurve(problem="shaw")
    for name in PROBLEMS:
        lab.update(problem=name)
        assert lab.n == typical(name)
        assert lab.system.shape[1] == PROBLEMS[name].unknowns(lab.n)
    lab.update(**own())
    assert lab.n == 3
    lab.update(problem="deriv2", n=33)
    assert (lab.n, lab.options) == (33, {})
    lab.close()


def test_options_are_parameters_or_in_the_dictionary():
    assert LCurve(problem="tomo", n=9, rays=2.0).system.shape == (162, 81)
    assert LCurve(problem="paralleltomo", n=9, rays=7.0, angles=5).system.shape == (35, 81)
    assert LCurve(problem="paralleltomo", n=9, options={"rays": 7, "angles": (0.0, 30.0)}).system.shape == (14, 81)
    deep, shallow = (LCurve(problem="gravity", n=20, depth=depth).system.A for depth in (1.0, 0.1))
    assert abs(deep).max() < abs(shallow).max()


@pytest.mark.parametrize("apart", [",", ";", "\t", "  ", ", "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_dense_matrix_is_read_from_rows_of_numbers(apart, end):
    matrix = A0.tolist()
    text = "# a comment" + end + end.join(apart.join(map(repr, row)) for row in matrix) + end
    for data in (text.encode(), b"\xef\xbb\xbf" + text.encode(), text.rstrip().encode()):
        A, b, _ = opened(None, data, "\n".join(map(repr, B0.tolist())).encode())
        np.testing.assert_array_equal(A, A0)
        np.testing.assert_array_equal(b, B0)


def test_a_dense_matrix_is_read_from_an_npy_file():
    for dtype in (np.float64, np.float32, np.int16, np.bool_):
        A, b, _ = opened(None, stored(np.save, np.asfortranarray(A0.astype(dtype))), stored(np.save, B0))
        np.testing.assert_array_equal(A, A0.astype(dtype))
        np.testing.assert_array_equal(b, B0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"1,2\n3\n", "its rows must have as many numbers as the first, 2: the number of columns changed from 2 to 1"),
        (b"x,y\n1,2\n", "it must hold nothing but numbers, a row a line: could not convert string 'x'"),
        (b"# nothing\n\n", "it must hold numbers, a row a line, and holds comments alone"),
        (b"1,nan\n2,3\n", "A must be finite"),
        (stored(np.save, np.ones(3)), r"A must be a matrix with rows and columns, not of the shape \(3,\)"),
        (
            stored(np.save, np.ones((2, 2, 2))),
            r"A must be a matrix with rows and columns, not of the shape \(2, 2, 2\)",
        ),
        (stored(np.save, np.full((2, 2), np.inf)), "A must be finite"),
        (stored(np.save, np.ones((2, 2), complex)), "its arrays must hold real numbers, not complex128"),
        (b"1," * 3_000_000 + b"1", "a matrix in a file must have at most 2000000 rows and columns, not 1 x 3000001"),
        (b"1\n" * 3_000_000, "a matrix in a file must have at most 2000000 rows and columns, not 3000001 x 1"),
        ("1,2\n3,4".encode("utf-16"), "matrix must be an .npz file .* this file is none of these"),
    ],
)
def test_a_file_without_a_matrix_is_refused(data, words):
    with pytest.raises(ValueError, match=words):
        LCurve(**own(matrix=data, rhs=np.ones(2)))


def test_a_text_of_too_many_numbers_is_refused_before_parsing(monkeypatch):
    monkeypatch.setattr(import_module("compute.labs.l_curve.problems.own"), "MAX_BYTES", 2**20)
    monkeypatch.setattr(np, "loadtxt", lambda *given, **options: pytest.fail("it was read"))
    row = b",".join([b"1"] * 400) + b"\n"
    with pytest.raises(ValueError, match=r"matrix cannot be read: it would need 1 MiB; at most 1 MiB are taken"):
        opened(None, row * 400, B0)
