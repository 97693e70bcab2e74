"""A run of steps: chunks, continuation, its end, and rounding effects of an exhausted matrix."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from compute.devices.devices import Host
from compute.labs.l_curve import bidiagonal, cpu_numba, cpu_numpy
from compute.labs.l_curve.bidiagonal import Bidiagonalisation, room_for
from compute.labs.l_curve.problems import make
from compute.labs.l_curve.small_system import points

KERNELS = [cpu_numpy, cpu_numba]


@pytest.fixture(autouse=True, params=[0, 1], ids=["looks at once", "looks later"])
def ahead(request, monkeypatch):
    """Set the number of chunks launched ahead: 0 as on the host, 1 as on a GPU, before the last results are checked."""
    monkeypatch.setitem(bidiagonal.AHEAD, "cpu", request.param)
    return request.param


def begun(A, b, room, kernels=cpu_numpy, orthogonal=True):
    run = Bidiagonalisation(Host(), kernels, sp.csr_matrix(A), room, orthogonal)
    run.start(np.asarray(b, float))
    return run


def dense(rows, columns, seed=0, dtype="float64"):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, columns)).astype(dtype), rng.normal(size=rows)


def damped(A, b, lam):
    n = A.shape[1]
    return np.linalg.lstsq(np.vstack([A, lam * np.eye(n)]), np.r_[b, np.zeros(n)], rcond=None)[0]


@pytest.mark.parametrize("kernels", KERNELS)
def test_chunks_of_any_size_give_the_same_steps(kernels):
    A, b = dense(83, 47)
    whole, parts = (begun(A, b, 40, kernels) for _ in range(2))
    spent = whole.advance(40)
    for count in (1, 3, 17, 100):
        parts.advance(count)
    assert whole.k == parts.k == 40
    assert whole.finished
    assert not whole.exhausted
    assert whole.products == 81
    assert spent.compute <= whole.seconds
    np.testing.assert_allclose(whole.small.diagonal, parts.small.diagonal, rtol=1e-11)
    np.testing.assert_allclose(whole.small.below, parts.small.below, rtol=1e-11)
    assert whole.advance(5).compute == 0
    assert whole.k == 40


def test_steps_continue_after_growing_the_room():
    A, b = dense(60, 60)
    short, long_ = begun(A, b, 10), begun(A, b, 30)
    short.advance(10)
    short.grow(30)
    short.advance(20)
    long_.advance(30)
    np.testing.assert_array_equal(short.small.diagonal, long_.small.diagonal)
    np.testing.assert_array_equal(short.solve(0.3), long_.solve(0.3))
    short.grow(3)
    assert short.most == 30


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("orthogonal", [True, False])
def test_a_matrix_of_low_rank_closes_the_ribbons(kernels, orthogonal):
    """With orthogonal V, the run ends, too."""
    A = dense(37, 3)[0] @ dense(3, 29, 1)[0]
    run = begun(A, dense(37, 1, 2)[1], 37, kernels, orthogonal)
    run.advance(37)
    at = points(run.small, np.array([1e-3, 1.0]))
    assert run.exhausted == orthogonal
    assert not orthogonal or run.k <= 4
    np.testing.assert_allclose(at.widths, 0, atol=1e-12)
    x = damped(A, dense(37, 1, 2)[1], 1e-3)
    assert at.solution[0] == pytest.approx(np.linalg.norm(x), rel=1e-9)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["shaw", "wing", "baart", "foxgood", "i_laplace"])
def test_steps_of_rounding_errors_are_discarded(name, dtype, kernels):
    """They would amplify themselves: in float32 alpha overflows after some forty of them."""
    A, b, _ = make(name, n=64)
    run = begun(A.astype(dtype), b, 64, kernels)
    run.advance(64)
    assert run.exhausted
    assert run.k < 30
    V = run.work.V[: run.k].astype(float)
    assert np.abs(V @ V.T - np.eye(run.k)).max() < 0.01
    assert max(run.small.diagonal.max(), run.small.below[1:].max()) <= np.linalg.norm(A, 2) * (1 + 1e-5)


class Repeating:
    """Kernels whose V[2:] all equal V[0], with zeros from `end` on, as for an exhausted matrix."""

    end: int | None = None
    index_types, start, project = map(staticmethod, (cpu_numpy.index_types, cpu_numpy.start, cpu_numpy.project))

    @classmethod
    def steps(cls, work, first, count, orthogonal, tiny):
        cpu_numpy.steps(work, first, count, orthogonal, tiny)
        work.V[2:] = work.V[0]
        if cls.end:
            work.alpha[cls.end :], work.V[cls.end :] = 0, 0


@pytest.mark.parametrize("end", [4, None])
def test_a_repeated_vector_ends_the_run_even_before_zeros(end, monkeypatch):
    monkeypatch.setattr(Repeating, "end", end)
    run = begun(*dense(20, 15), 8, Repeating)
    run.advance(8)
    assert (run.k, run.exhausted) == (2, True)
    assert run.small.diagonal[2] == 0


def test_the_check_of_v_ends_the_run(monkeypatch):
    """The consequences of real rounding errors depend on the processor: alpha overflows, or becomes 0."""
    monkeypatch.setattr("compute.labs.l_curve.bidiagonal.LOST", 2.0)  # larger than the overlap of two unit vectors
    run = begun(*dense(20, 15), 8, Repeating)
    run.advance(8)
    assert (run.k, run.exhausted) == (8, False)


def test_an_overflow_is_reported():
    class Overflowing(Repeating):
        @classmethod
        def steps(cls, work, first, count, orthogonal, tiny):
            cpu_numpy.steps(work, first, count, orthogonal, tiny)
            work.alpha[5] = np.inf

    run = begun(*dense(20, 15), 8, Overflowing)
    with pytest.raises(ValueError, match="overflow"):
        run.advance(8)
    A = np.diag([1e30, 1.0]).astype("float32")
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(ValueError, match="small enough for float32"):
        begun(A, [1e39, 1.0], 2)


def test_b_orthogonal_to_all_columns_is_refused():
    with pytest.raises(ValueError, match="b must not be orthogonal to every column of A; in float64 it is"):
        begun(np.diag([1.0, 0.0]), [0.0, 1.0], 2)


@pytest.mark.parametrize(("orthogonal", "steps", "room"), [(True, 100, 28), (False, 100, 100), (True, 5, 5)])
def test_orthogonal_steps_need_no_more_room_than_the_matrix_allows(orthogonal, steps, room):
    assert room_for((50, 20), steps, orthogonal=orthogonal) == room
