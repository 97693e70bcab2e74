"""Theory first: exact modes, invariants, symmetry. Then every backend against the float64 reference."""

from __future__ import annotations

import io
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from compute.backends import BackendUnavailable, backend
from compute.lab import OutOfMemory
from compute.labs import LABS, lab_class
from compute.labs.diffusion import Diffusion, modes
from compute.labs.diffusion.cpu_numpy import laplacian, step
from compute.labs.diffusion.edges import EDGES
from compute.labs.diffusion.presets import PRESETS

SHAPES = [(1, 1), (1, 9), (9, 1), (2, 2), (3, 7), (65, 130), (128, 96)]
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}  # relative L2 after 1000 steps


def relative(value, truth):
    return np.linalg.norm(value.astype(np.float64) - truth) / np.linalg.norm(truth)


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("ny", "nx", "p", "q"), [(131, 201, 2, 1), (65, 130, 3, 2), (1, 200, 5, 0), (77, 3, 1, 4), (64, 64, 1, 1)]
)
def test_a_single_mode_shrinks_by_its_factor(diffusion, edges, dtype, ny, nx, p, q):
    """The truth is worked out here, from the sines, not taken from the lab."""
    q = max(q, 1) if edges == "zero-dirichlet" else q
    theta = {"zero-flux": (np.pi / nx, np.pi / ny), "periodic": (2 * np.pi / nx, 2 * np.pi / ny)}.get(
        edges, (np.pi / (nx + 1), np.pi / (ny + 1))
    )
    i, j = np.arange(ny)[:, None], np.arange(nx)
    shift = {"zero-flux": 0.5, "periodic": 0.0}.get(edges, 1.0)
    wave = np.sin if edges == "zero-dirichlet" else np.cos
    start = wave(theta[1] * q * (i + shift)) * wave(theta[0] * p * (j + shift))
    g = 1 - 4 * 0.2 * (np.sin(theta[0] * p / 2) ** 2 + np.sin(theta[1] * q / 2) ** 2)
    # until a tenth is left: below that, the rounding of the start, which shrinks more slowly, is all there is to see
    steps = max(1, min(1000, int(np.log(0.1) / np.log(abs(g)))))
    lab = diffusion(ny=ny, nx=nx, r=0.2, edges=edges, dtype=dtype)
    lab.load(start)
    lab.advance(steps)
    assert relative(lab.field(), g**steps * start) <= TOLERANCE[dtype]


@pytest.mark.parametrize("edges", EDGES)
def test_the_live_exact_solution_is_the_theory(edges):
    lab = Diffusion(ny=40, nx=60, edges=edges, preset="single mode", mode_p=2, mode_q=3, dtype="float64")
    lab.advance(50)
    lab.update(r=0.1)
    lab.advance(50)
    assert relative(lab.field(), lab.exact()) < 1e-12
    assert lab.frame().facts["exact_error"] < 1e-12
    lab.paint([(5, 5)], 1.0, 2.0)
    assert lab.exact() is None


@pytest.mark.parametrize(("edges", "dtype"), list(product(EDGES, ["float32", "float64"])))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_backend_equals_the_reference(diffusion, edges, dtype, shape):
    u = np.random.default_rng(7).random(shape)
    for steps in (1, 2, 5, 33):
        truth = np.empty(shape)
        step(u.copy(), truth, 0.23, edges, steps)
        lab = diffusion(ny=shape[0], nx=shape[1], r=0.23, edges=edges, dtype=dtype)
        lab.load(u)
        lab.advance(steps)
        error = np.linalg.norm(lab.field() - truth) / np.linalg.norm(u)  # against the start: 1 x 1 decays to nothing
        assert error < {"float32": 1e-6, "float64": 1e-14}[dtype]


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_laplacian_equals_a_sum_over_padded_neighbours(diffusion, edges, shape):
    u = np.random.default_rng(8).random(shape)
    if edges == "zero-dirichlet":
        padded = np.pad(u, 1)
    else:
        padded = np.pad(u, 1, mode="wrap" if edges == "periodic" else "symmetric")
    truth = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] - 4 * u
    lab = diffusion(ny=shape[0], nx=shape[1], edges=edges, dtype="float64")
    lab.load(u)
    np.testing.assert_allclose(lab.laplacian(), truth, atol=1e-15)
    np.testing.assert_array_equal(lab.field(), u)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_splitting_the_steps_changes_no_bit(diffusion, dtype):
    u = np.random.default_rng(9).random((70, 45))
    at_once, one_by_one = (diffusion(ny=70, nx=45, dtype=dtype) for _ in range(2))
    for lab in (at_once, one_by_one):
        lab.load(u)
    at_once.advance(37)
    for _ in range(37):
        one_by_one.advance(1)
    np.testing.assert_array_equal(at_once.field(), one_by_one.field())


def test_a_constant_is_a_fixed_point_bit_for_bit(diffusion):
    for edges in ("zero-flux", "periodic"):
        lab = diffusion(ny=33, nx=50, r=0.25, edges=edges)
        lab.load(np.full((33, 50), 0.3))
        before = lab.field()
        lab.advance(100)
        np.testing.assert_array_equal(lab.field(), before)


def test_maximum_principle_and_conservation(diffusion):
    u = np.random.default_rng(10).random((64, 80)).astype(np.float32)
    for edges in EDGES:
        lab = diffusion(ny=64, nx=80, r=0.25, edges=edges)
        lab.load(u)
        start = lab.frame().facts["heat"]
        lab.advance(1000)
        after = lab.frame().facts
        assert min(u.min(), 0) <= after["minimum"] <= after["maximum"] <= u.max()
        if edges != "zero-dirichlet":
            assert abs(after["heat"] - start) <= 3e-7 * start
            assert after["heat_drift"] == pytest.approx((after["heat"] - start) / start)
        else:
            assert after["heat"] < 0.9 * start


def test_flips_commute_with_stepping(diffusion):
    u = np.random.default_rng(11).random((31, 52))
    plain, flipped = (diffusion(ny=31, nx=52, dtype="float64") for _ in range(2))
    plain.load(u)
    flipped.load(u[::-1, ::-1])
    for lab in (plain, flipped):
        lab.advance(20)
    np.testing.assert_allclose(flipped.field()[::-1, ::-1], plain.field(), rtol=1e-13)


@given(shape=st.tuples(st.integers(1, 20), st.integers(1, 20)), edges=st.sampled_from(EDGES), steps=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_numba_equals_numpy_bit_for_bit(shape, edges, steps):
    from compute.labs.diffusion import cpu_numba

    u = np.random.default_rng(12).random(shape).astype(np.float32)
    ours, reference = np.empty_like(u), np.empty_like(u)
    cpu_numba.step(u.copy(), ours, 0.2, edges, steps)
    step(u.copy(), reference, 0.2, edges, steps)
    np.testing.assert_array_equal(ours, reference)
    cpu_numba.laplacian(u, ours, edges)
    laplacian(u, reference, edges)
    np.testing.assert_array_equal(ours, reference)


def test_beyond_the_limit_it_blows_up_and_says_so(diffusion):
    lab = diffusion(ny=40, nx=40, unstable=True, r=0.4, preset="noise")
    assert lab.healthy
    with np.errstate(over="ignore", invalid="ignore"):
        lab.advance(2000)
        assert lab.frame().facts["nonfinite"] > 0
    assert not lab.healthy
    lab.reset()
    assert lab.frame().facts["nonfinite"] == 0
    assert lab.healthy


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_gives_a_finite_field_of_any_shape(preset):
    lab = Diffusion(ny=37, nx=61, preset=preset)
    assert np.isfinite(lab.field()).all()
    assert np.ptp(lab.field()) > 0
    lab.update(ny=1, nx=5)
    assert lab.field().shape == (1, 5)


def test_a_changed_preset_starts_anew_and_other_parameters_do_not():
    lab = Diffusion(ny=32, nx=32)
    lab.advance(10)
    before = lab.field()
    lab.update(r=0.1, edges="periodic", section="vertical")
    np.testing.assert_array_equal(lab.field(), before)
    lab.update(backend="cpu_numpy", dtype="float64")
    np.testing.assert_array_equal(lab.field(), before)
    assert lab.steps == 10
    lab.update(preset="ring")
    assert lab.steps == 0
    lab.advance(3)
    lab.update(ny=48)
    assert (lab.steps, lab.field().shape) == (0, (48, 32))


def test_checkpoint_and_rollback():
    lab = Diffusion(ny=32, nx=32)
    with pytest.raises(ValueError, match="checkpoint"):
        lab.act("rollback")
    lab.advance(5)
    lab.act("checkpoint")
    kept = lab.field()
    lab.advance(5)
    lab.act("reset")
    lab.act("rollback")
    np.testing.assert_array_equal(lab.field(), kept)
    assert lab.steps == 5


def test_a_snapshot_restores_the_state_elsewhere():
    lab = Diffusion(ny=32, nx=40, preset="single mode")
    lab.advance(7)
    other = Diffusion(backend="cpu_numpy", ny=32, nx=40)
    other.restore(lab.snapshot())
    for each in (lab, other):
        each.advance(5)
    np.testing.assert_array_equal(other.field(), lab.field())
    np.testing.assert_array_equal(other.exact(), lab.exact())


def test_painting_sets_the_disc_and_nothing_else(any_backend):
    lab = Diffusion(backend=any_backend.name, ny=50, nx=80, preset="step")
    before = lab.field()
    lab.act("paint", points=[(20.0, 10.0), (60.0, 10.0)], value=3.0, radius=4.0)
    y, x = np.mgrid[:50, :80] + 0.5
    inside = (np.abs(y - 10) <= 3) & (x >= 20) & (x <= 60)
    outside = np.hypot(np.maximum(np.maximum(20 - x, x - 60), 0), y - 10) > 4
    assert (lab.field()[inside] == 3).all()
    np.testing.assert_array_equal(lab.field()[outside], before[outside])


@pytest.mark.parametrize("file_type", ["PNG", "JPEG"])
def test_an_image_becomes_the_initial_field_upright(file_type):
    picture = Image.new("L", (64, 64))
    picture.paste(255, (0, 0, 64, 32))  # bright above
    file = io.BytesIO()
    picture.save(file, file_type)
    lab = Diffusion(ny=32, nx=32)
    lab.act("load_image", data=file.getvalue())
    assert lab.field()[24:].min() > 0.95
    assert lab.field()[:8].max() < 0.05
    lab.update(ny=16, nx=48)
    assert lab.field()[12:].min() > 0.95


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"GIF89a" + bytes(100), "neither"), (b"\x89PNG\r\n\x1a\n" + bytes(50), "neither"), (bytes(17 * 2**20), "16 MB")],
    ids=["gif", "broken", "large"],
)
def test_a_bad_image_is_refused_in_words(data, words):
    lab = Diffusion(ny=16, nx=16)
    before = lab.field()
    with pytest.raises(ValueError, match=words):
        lab.act("load_image", data=data)
    np.testing.assert_array_equal(lab.field(), before)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"r": 0.3}, r"r' must be at most 0\.25, not 0\.3"),
        ({"r": float("nan")}, r"r' must be at most 0\.25, not nan"),
        ({"ny": 0}, "ny' must be at least 1, not 0"),
        ({"nx": 10**9}, "nx' must be at most 16384"),
        ({"edges": "open"}, "edges"),
        ({"dtype": "int8"}, "dtype"),
        ({"backend": "fortran"}, "backend"),
        ({"variant": "magic"}, "variant must be empty or one of one-step"),
        ({"unknown": 1}, "no parameter 'unknown'; it has"),
        ({"limits_field": (2.0, 1.0)}, "limits_field"),
        ({"limits_laplacian": (0.0, float("inf"))}, "limits_laplacian"),
        ({"text": "x" * 41}, "text"),
        ({"preset": "ring", "r": 9}, "r"),
    ],
)
def test_bad_values_change_nothing_and_are_named(values, words):
    lab = Diffusion(ny=16, nx=16)
    lab.advance(2)
    before = lab.values()
    with pytest.raises(ValueError, match=words):
        lab.update(**values)
    assert lab.values() == before
    assert lab.steps == 2
    with pytest.raises(ValueError, match=words):
        Diffusion(**{"ny": 16, "nx": 16, **values})


def test_unstable_widens_the_bound_for_one_lab_alone():
    lab, other = Diffusion(ny=8, nx=8), Diffusion(ny=8, nx=8)
    lab.update(unstable=True, r=0.26)
    with pytest.raises(ValueError, match="r must be at most"):
        lab.update(unstable=False)
    assert (lab.unstable, lab.r) == (True, 0.26)
    lab.update(unstable=False, r=0.2)
    for each in (lab, other):
        with pytest.raises(ValueError, match=r"0\.25"):
            each.update(r=0.26)


def test_a_grid_beyond_memory_is_refused_before_anything_is_allocated(monkeypatch):
    lab = Diffusion(ny=64, nx=64)
    before = lab.field()
    monkeypatch.setattr(type(lab.device), "free_bytes", lambda _: 10 * 2**20)
    with pytest.raises(OutOfMemory, match=r"needs 2\.02 GiB on host"):
        lab.update(ny=16384, nx=16384)
    assert lab.ny == 64
    np.testing.assert_array_equal(lab.field(), before)


def test_an_absent_backend_says_why_and_how_to_get_it():
    absent = [b for b in Diffusion.backends() if b.missing]
    for each in absent:
        with pytest.raises(BackendUnavailable, match="pip install 'fieldlab"):
            Diffusion(backend=each.name, ny=8, nx=8)
    assert backend("cpu_numba").missing is None
    assert backend("cpu_numba").install == ""


def test_actions_are_a_closed_list():
    lab = Diffusion(ny=8, nx=8)
    with pytest.raises(ValueError, match="action must be one of"):
        lab.act("close")
    with pytest.raises(ValueError, match="steps must be at least 1"):
        lab.advance(0)
    with pytest.raises(ValueError, match="shape"):
        lab.load(np.zeros((3, 3)))
    with pytest.raises(ValueError, match="finite"):
        lab.load(np.full((8, 8), np.nan))
    with pytest.raises(ValueError, match="radius"):
        lab.paint([(1, 1)], 1.0, 0.0)


def test_the_lab_is_found_by_its_name():
    assert lab_class("diffusion") is Diffusion
    assert Diffusion in LABS
    with pytest.raises(ValueError, match="lab must be one of"):
        lab_class("astrology")


def test_mode_factor_at_the_limit_is_minus_one():
    assert modes.factor(10, 10, 5, 5, "periodic", 0.25) == pytest.approx(-1)
