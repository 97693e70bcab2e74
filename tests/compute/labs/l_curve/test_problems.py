"""The test problems: published values, independent quadrature, geometry by sampling; and refusal of bad input."""

from __future__ import annotations

import io
import sys
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from scipy.integrate import quad

from compute.lab.lab import OutOfMemory
from compute.labs.l_curve.problems import NAMES, PROBLEMS, make
from compute.labs.l_curve.problems.own import own
from compute.labs.l_curve.problems.pictures import matrix, shepp_logan
from compute.labs.l_curve.system import noisy
from tests import hostile_files

# n = 64: largest singular value, |x|, |b| from Regularization Tools
PUBLISHED = {
    "shaw": (2.9933097, 7.9856369, 18.649192),
    "phillips": (5.8022447, 2.9983953, 15.286489),
    "gravity": (6.4594956, 6.3245553, 37.411083),
    "deriv2": (0.10130084, 0.57733265, 0.045999458),
}
SIZES = {"blur": 12, "tomo": 10, "paralleltomo": 11}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values_are_reproduced(name):
    A, b, x = make(name, n=64)
    values = np.linalg.norm(A, 2), np.linalg.norm(x), np.linalg.norm(b)
    for value, published in zip(values, PUBLISHED[name], strict=True):
        assert f"{value:.8g}" == f"{published:.8g}"


def nystrom(kernel, low, high, count=400):
    """Return the largest singular value of an integral operator, by another method: Gauss-Legendre quadrature."""
    at, weight = np.polynomial.legendre.leggauss(count)
    (s, ws), (t, wt) = [((a + b) / 2 + (b - a) / 2 * at, (b - a) / 2 * weight) for a, b in (low, high)]
    return np.linalg.norm(np.sqrt(ws)[:, None] * kernel(s[:, None], t) * np.sqrt(wt), 2)


def phillips_kernel(s, t):
    return np.where(np.abs(s - t) < 3, 1 + np.cos(np.pi * (s - t) / 3), 0.0)


def green(s, t):
    return np.where(s < t, s * (t - 1), t * (s - 1))


UNIT = (0.0, 1.0)
OPERATORS = {
    "shaw": (
        lambda s, t: ((np.cos(s) + np.cos(t)) * np.sinc(np.sin(s) + np.sin(t))) ** 2,
        *[(-np.pi / 2, np.pi / 2)] * 2,
        1e-6,
    ),
    "phillips": (phillips_kernel, (-6.0, 6.0), (-6.0, 6.0), 1e-4),
    "gravity": (lambda s, t: 0.25 * (0.0625 + (s - t) ** 2) ** -1.5, UNIT, UNIT, 1e-4),
    "deriv2": (green, UNIT, UNIT, 1e-4),
    "baart": (lambda s, t: np.exp(s * np.cos(t)), (0.0, np.pi / 2), (0.0, np.pi), 1e-5),
    "foxgood": (np.hypot, UNIT, UNIT, 1e-4),
    "wing": (lambda s, t: t * np.exp(-s * t**2), UNIT, UNIT, 1e-4),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_the_largest_singular_value_is_that_of_the_operator(name):
    kernel, s, t, tolerance = OPERATORS[name]
    A, _, _ = make(name, n=200)
    assert np.linalg.norm(A, 2) == pytest.approx(nystrom(kernel, s, t), rel=tolerance)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"own", "random_sparse"}))
def test_b_is_a_times_x(name):
    """Exact if b is computed as A x; otherwise up to the discretisation of an integral: worst for the jump of wing."""
    A, b, x = make(name, n=SIZES.get(name, 64))
    exact = name in {"shaw", "gravity", "heat", "blur", "tomo", "paralleltomo", "deriv2", "i_laplace"}
    allowed = 1e-10 if exact else {"wing": 0.05}.get(name, 2e-3)
    assert np.linalg.norm(A @ x - b) <= allowed * np.linalg.norm(b)
    assert A.shape == (b.size, x.size)
    assert b.dtype == x.dtype == np.float64


def test_right_hand_sides_are_integrals_by_quadrature():
    for n in (8, 40):
        _, b, _ = make("foxgood", n=n)
        s = (np.arange(n) + 0.5) / n
        np.testing.assert_allclose(b, [quad(lambda t, s=s: np.hypot(s, t) * t, 0, 1)[0] for s in s], rtol=1e-10)
        s = np.pi / (2 * n) * np.arange(n + 1)
        _, b, _ = make("baart", n=n)
        cells = [quad(lambda s: 2 * np.sinh(s) / s if s else 2.0, *s[i : i + 2])[0] for i in range(n)]
        np.testing.assert_allclose(b, np.array(cells) / np.sqrt(np.pi / (2 * n)), rtol=2e-7)  # it has Simpson's rule
        _, b, _ = make("phillips", n=n)
        edges = -6 + 12 / n * np.arange(n + 1)
        cells = [quad(phillips_rhs, *edges[i : i + 2])[0] for i in range(n)]
        np.testing.assert_allclose(b, np.array(cells) / np.sqrt(12 / n), rtol=1e-10, atol=1e-14)


def phillips_rhs(s):
    s = abs(s)
    return (6 - s) * (1 + np.cos(np.pi * s / 3) / 2) + 9 / (2 * np.pi) * np.sin(np.pi * s / 3)


def test_heat_is_a_convolution_with_its_kernel():
    n, kappa = 50, 2.0
    A, _, x = make("heat", n=n, kappa=kappa)
    i, j = 30, 12
    t = (i - j + 0.5) / n
    assert A[i, j] == pytest.approx(t**-1.5 / (2 * kappa * np.sqrt(np.pi)) * np.exp(-1 / (4 * kappa**2 * t)) / n)
    assert not A[j, i]
    assert x[4] == pytest.approx(0.75)  # the point between its parabola and its hump, t = 2
    assert not x[n // 2 :].any()


def test_laplace_weights_integrate_polynomials():
    A, _, _ = make("i_laplace", n=40)
    s = 10 * np.arange(1, 41) / 40
    t = np.polynomial.laguerre.laggauss(40)[0]
    for power, factorial in ((0, 1), (1, 1), (3, 6)):
        np.testing.assert_allclose(A[3:5] @ t**power, factorial / s[3:5] ** (power + 1), rtol=1e-9)
    assert np.isfinite(make("i_laplace", n=600)[0]).all()


def test_random_sparse_draws_the_tutorial_s_numbers():
    rng = np.random.default_rng(1234)
    A = sp.random(m=300, n=300, density=0.1, dtype=np.float32, random_state=rng)
    b = rng.normal(loc=3.0, scale=1.0, size=(300, 1))
    ours, rhs, truth = make("random_sparse", n=300)
    assert (ours != A.tocsr()).nnz == 0
    np.testing.assert_array_equal(rhs, b[:, 0])
    assert ours.dtype == np.float32
    assert ours.nnz == 9000
    assert truth is None


def test_blur_is_a_separable_convolution():
    _, b, x = make("blur", n=9, band=3, sigma=0.9)
    picture = x.reshape(9, 9)
    reach = np.arange(-2, 3)
    mask = np.exp(-(reach[:, None] ** 2 + reach**2) / (2 * 0.81)) / (2 * np.pi * 0.81)
    padded = np.pad(picture, 2)
    direct = [[(mask * padded[i : i + 5, j : j + 5]).sum() for j in range(9)] for i in range(9)]
    np.testing.assert_allclose(b.reshape(9, 9), direct, rtol=1e-12)


def test_lengths_in_pixels_equal_fine_sampling():
    n, rng = 7, np.random.default_rng(3)
    through, along = rng.uniform(-3, 3, (20, 2)), rng.normal(size=(20, 2))
    A = matrix(n, through, along).toarray()
    step = 1e-4
    at = np.arange(-10, 10, step) + step / 2
    for ray in range(20):
        unit = along[ray] / np.linalg.norm(along[ray])
        x, y = np.floor(through[ray, :, None] + unit[:, None] * at + n / 2).astype(int)
        inside = (x >= 0) & (x < n) & (y >= 0) & (y < n)
        sampled = step * np.bincount(y[inside] * n + x[inside], minlength=n * n)
        np.testing.assert_allclose(A[ray], sampled, atol=3 * step)


def test_rays_along_the_grid_and_outside_it():
    through = np.array([[0.5, 9.0], [9.0, 0.0], [-2.0, 0.0], [5.0, 5.0]])
    A = matrix(4, through, np.array([[0, 2.0], [1, 0], [0, 1], [1, 0]]))
    lengths = A.toarray().reshape(4, 4, 4)
    assert (lengths[0] == np.array([0, 0, 1, 0])).all()  # upwards through column 2
    assert (lengths[1] == np.array([0, 0, 1, 0])[:, None]).all()  # between rows 1 and 2: the upper one
    assert (lengths[2] == np.array([1, 0, 0, 0])).all()  # along the left edge
    assert not lengths[3].any()


def test_projections_at_right_angles_are_sums_of_rows_and_columns():
    picture = np.random.default_rng(4).random((5, 5))
    _, b, x = make("paralleltomo", n=5, angles=[0.0, 90.0], rays=5, image=picture)
    np.testing.assert_allclose(b, np.r_[picture.sum(axis=0), picture.sum(axis=1)])
    np.testing.assert_array_equal(x, picture.ravel())


def test_the_phantom_is_a_head():
    picture = shepp_logan(101)
    assert picture.min() == 0
    assert picture.max() == pytest.approx(1)
    assert picture[50, 50] == pytest.approx(0.2)  # brain
    assert picture[50, 0] == picture[0, 50] == 0  # air
    assert picture[3:6, 50].max() == pytest.approx(1)  # skull, at the bottom too
    assert picture[68, 50] > picture[32, 50]  # the large ellipse is above the middle


def test_noise_has_its_size_and_its_seed():
    b = np.arange(1.0, 50)
    value, size = noisy(b, 0.01, 7)
    assert np.linalg.norm(value - b) == pytest.approx(size, rel=1e-12)
    assert size == pytest.approx(0.01 * np.linalg.norm(b), rel=1e-12)
    np.testing.assert_array_equal(value, noisy(b, 0.01, 7)[0])
    np.testing.assert_allclose((noisy(b, 0.02, 7)[0] - b) / 2, value - b, rtol=1e-12)  # larger, but the same noise
    assert (noisy(b, 0.01, 8)[0] != value).any()
    assert noisy(b, 0.0, 7) == (b, 0.0)


@pytest.mark.parametrize(
    ("name", "n", "options", "words"),
    [
        ("show", 8, {}, r"problem must be one of random_sparse, shaw, .*'show'"),
        ("shaw", 9, {}, "n must be a multiple of 2 for shaw, not 9"),
        ("phillips", 10, {}, "multiple of 4"),
        ("shaw", 0, {}, "n must be a whole number from 4"),
        ("shaw", 8.0, {}, "not 8.0"),
        ("shaw", True, {}, "not True"),
        ("shaw", None, {}, "not None"),
        ("shaw", 8, {"kappa": 1}, "shaw has no option 'kappa'; it has none"),
        ("heat", 8, {"kappa": float("nan")}, "kappa must be a number from 0.1 to 100, not nan"),
        ("random_sparse", 8, {"density": 2}, "density must be a number from 1e-09 to 1, not 2"),
        ("random_sparse", 8, {"seed": -1}, "seed must be a whole number"),
        ("random_sparse", 3, {"density": 1e-9}, "its rank is 0"),
        ("blur", 8, {"band": 0}, "band must be"),
        ("blur", 8, {"image": np.zeros((8, 7))}, r"image must have the shape \(8, 8\), not \(8, 7\)"),
        ("blur", 8, {"image": np.full((8, 8), np.nan)}, "image must be finite"),
        ("blur", 8, {"image": np.zeros((8, 8))}, "b must not be orthogonal"),
        ("paralleltomo", 8, {"angles": 0}, "angles must be a whole number from 1 to 3600, not 0"),
        ("paralleltomo", 8, {"angles": []}, "angles must be a count, or 1 to 3600 finite angles"),
        ("paralleltomo", 8, {"angles": (1, 10**400)}, "finite angles"),
        ("paralleltomo", 8, {"angles": "45"}, "angles must be a count"),
    ],
)
def test_invalid_values_are_refused_by_name(name, n, options, words):
    with pytest.raises(ValueError, match=words):
        make(name, n, **options)


@pytest.mark.parametrize("name", PROBLEMS)
def test_sizes_beyond_memory_are_refused_before_allocation(name):
    with pytest.raises(OutOfMemory, match=f"{name} of n = .* GiB of main memory, but .* GiB can be used"):
        make(name, 2**24 * 4)


def stored(save, *args, **kwargs):
    buffer = io.BytesIO()
    save(buffer, *args, **kwargs)
    return buffer.getvalue()


A0 = np.arange(12.0).reshape(4, 3)
B0 = np.array([1.0, 2, 3, 4])
S0 = sp.csr_matrix(A0)


@pytest.mark.parametrize(
    ("matrix_", "rhs"),
    [
        (A0, B0),
        (S0, B0[:, None]),
        (stored(np.savez, A=A0, b=B0), None),
        (stored(np.savez_compressed, A=A0), stored(np.save, B0)),
        (stored(sp.save_npz, S0), B0),
        (stored(sp.save_npz, S0.tocsc(), compressed=False), stored(np.save, B0[None, :])),
        (stored(scipy.io.mmwrite, S0), stored(scipy.io.mmwrite, B0[:, None])),
        (stored(scipy.io.mmwrite, A0), B0.astype(int)),
        (stored(scipy.io.savemat, {"A": A0, "b": B0, "s": {"A": 1}}), None),
        (stored(scipy.io.savemat, {"K": S0}, do_compression=True), stored(scipy.io.savemat, {"b": B0, "A": A0})),
    ],
)
def test_an_own_matrix_is_accepted_in_every_format(matrix_, rhs):
    A, b, x = make("own", matrix=matrix_, rhs=rhs, truth=[1, 2, 3])
    np.testing.assert_array_equal(A.toarray() if sp.issparse(A) else A, A0)
    np.testing.assert_array_equal(b, B0)
    np.testing.assert_array_equal(x, [1, 2, 3])


def archive(name, data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(name, data)
    return buffer.getvalue()


OBJECTS = stored(np.savez, A=np.array([{}, 1], dtype=object), b=B0)
MARKET = b"%%MatrixMarket matrix "


@pytest.mark.parametrize(
    ("matrix_", "rhs", "words"),
    [
        (None, None, "matrix must be given"),
        (A0, None, "rhs must be given"),
        (A0, B0[:3], r"b must have the shape \(4,\), as A has 4 rows, not \(3,\)"),
        (A0, np.ones((2, 2)), "b must be a vector"),
        (A0, [1, 2, np.nan, 4], "b must be finite"),
        (A0, 1j * B0, "b must hold real numbers"),
        (np.full((4, 3), np.inf), B0, "A must be finite"),
        (np.zeros((4, 3)), B0, "its rank is 0"),
        (sp.csr_matrix((4, 3)), B0, "its rank is 0"),
        (np.eye(4), np.zeros(4), "b must not be orthogonal"),
        (np.diag([1.0, 1, 0]), [0.0, 0, 5], "b must not be orthogonal"),
        (np.zeros((0, 3)), [], "A must be a matrix with rows"),
        (B0, B0, "A must be a matrix with rows"),
        (np.eye(4) * 1j, B0, "A must hold real numbers"),
        (A0.astype("M8[s]"), B0, "A must hold real numbers"),
        (A0, B0.astype(object), "b must hold real numbers"),
        (b"", B0, "this file is none of these"),
        (b"GIF89a\x01\x00", B0, "this file is none of these"),
        (stored(np.savez, C=A0), B0, "matrix must hold an array A; it holds C"),
        (stored(np.savez, A=A0, b=B0)[:-30], None, "this file is none of these"),
        (stored(sp.save_npz, S0)[:200] + stored(sp.save_npz, S0)[205:], B0, "matrix cannot be read"),
        (OBJECTS, None, "matrix cannot be read: its arrays must hold real numbers, not object"),
        (archive("A.npy", b"not an array"), B0, "matrix cannot be read: the magic string is not correct"),
        (MARKET + b"coordinate real general\n4 3\n", B0, "matrix cannot be read"),
        (MARKET + b"coordinate complex general\n1 1 1\n1 1 1.0 2.0\n", [1.0], "must be real, integer or pattern"),
        (MARKET + b"array real general\n99999 99999\n", B0, "holds 9999800001 entries, and has 53 bytes"),
        (A0, b"junk", "rhs cannot be read: it must hold nothing but numbers"),
    ],
)
def test_an_invalid_own_matrix_is_refused(matrix_, rhs, words):
    with pytest.raises(ValueError, match=words):
        make("own", matrix=matrix_, rhs=rhs)


def test_an_archive_is_measured_before_unpacking(monkeypatch):
    monkeypatch.setattr(sys.modules["compute.labs.l_curve.problems.own"], "MAX_BYTES", 2**20)
    with pytest.raises(ValueError, match="it would need 64 MiB; at most 1 MiB are taken"):
        make("own", matrix=archive("A.npy", bytes(2**26)), rhs=B0)


def test_a_header_that_crashes_the_tokenizer_is_refused(monkeypatch):
    """Found by a fuzz: some bytes after the literal cause a SystemError in Python 3.12's tokenizer."""

    def broken(opened):
        raise SystemError("returned a result with an exception set")

    monkeypatch.setitem(sys.modules["compute.labs.l_curve.problems.own"].READERS, (1, 0), broken)
    with pytest.raises(ValueError, match="matrix cannot be read: its head cannot be read"):
        make("own", matrix=stored(np.save, A0), rhs=B0)


def test_indices_of_a_sparse_file_are_checked():
    data = stored(np.savez, format=np.array(b"csr"), shape=[2, 2], data=[1.0], indices=[7], indptr=[0, 1, 1])
    with pytest.raises(ValueError, match="matrix cannot be read"):
        make("own", matrix=data, rhs=[1.0, 1.0])
    data = stored(np.savez, format=np.array(b"bsr"), shape=[2, 2], data=[1.0])
    with pytest.raises(ValueError, match="must be csr or csc, not bsr"):
        make("own", matrix=data, rhs=[1.0, 1.0])


KINDS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "bool")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_matlab_files_are_read_as_by_scipy(kind, compressed):
    """Full and sparse, with every class of numbers; SciPy's reader is the independent one."""
    numbers = np.random.default_rng(4).integers(0, 2 if kind == "bool" else 100, (5, 3)).astype(kind)
    some = {"A": numbers, "b": numbers[:, :1], "x": np.ones((1, 3))}
    if kind in ("f8", "bool"):
        some["A"] = sp.csc_matrix(numbers)
    data = stored(scipy.io.savemat, some, do_compression=compressed)
    right = scipy.io.loadmat(io.BytesIO(data), spmatrix=False)
    A, b, x = own(None, data)
    assert sp.issparse(A) == sp.issparse(right["A"])
    dense, same = (each.toarray() if sp.issparse(each) else each for each in (A, right["A"]))
    np.testing.assert_array_equal(dense, same)
    assert dense.dtype == same.dtype or kind == "bool"
    np.testing.assert_array_equal(b, right["b"][:, 0])
    np.testing.assert_array_equal(x, right["x"][0])


def test_a_matlab_file_of_the_other_byte_order_is_read():
    made = np.array([[1.5, -2.0], [3.0, 4.0], [0.0, 6.0]])
    number = hostile_files.element(9, made.astype(">f8").tobytes("F"), ">")
    data = hostile_files.matlab(hostile_files.matlab_matrix("A", 6, (3, 2), number, order=">"), order=">")
    np.testing.assert_array_equal(own(None, data, np.ones(3))[0], made)


def test_n_of_an_own_matrix_is_its_number_of_columns():
    assert make("own", 3, matrix=A0, rhs=B0)[0].shape == (4, 3)
    with pytest.raises(ValueError, match="n must be None or the number of columns of A, 3, not 4"):
        make("own", 4, matrix=A0, rhs=B0)
