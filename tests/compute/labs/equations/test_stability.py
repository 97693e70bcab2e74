"""The bound of the time step: the values of theory, and what happens on both sides of them."""

from __future__ import annotations

import numpy as np
import pytest

from compute.labs.equations import stability as module
from compute.labs.equations.language import read
from compute.labs.equations.reference import Reference, initial
from compute.labs.equations.stability import SAFETY, stability

HEAT = "u_t = D*lap(u); D = 0.2 in [0, 9]"
WAVE = "u_t = v; v_t = c^2*lap(u); c = 1 in [0, 9]; scheme: symplectic"
VISSCHER = "u_t = -lap(v)/2; v_t = lap(u)/2; scheme: symplectic"


def limit(text, ny=12, nx=14, **parameters):
    system = read(text)
    return stability(system, initial(system, ny, nx), parameters).limit


@pytest.mark.parametrize(
    ("text", "theory"),
    [
        (HEAT, 1 / (4 * 0.2)),  # dx^2 / (4 D)
        (HEAT + "; dx = 0.5", 0.25 / (4 * 0.2)),
        (WAVE, 1 / np.sqrt(2)),  # dx / (c sqrt(2)): Courant, Friedrichs, Lewy
        (VISSCHER, 0.5),  # 2 / (largest energy 4)
        (HEAT + "; scheme: rk3", 1.732 / 1.6),
        ("u_t = -lap(lap(u))", 2 / 64),
        ("u_t = -3*u", 2 / 3),
        ("u_t = div((1 + x/Lx)*grad(u)); edges: zero-flux", 1 / (4 * (1 + 13.5 / 14))),
        ("u_t = -lap(q); q = lap(u) - u", 2 / 72),
        ("u_t = -7*w; v_t = -u; w = 0*u + v", 2 / np.sqrt(7)),
        (HEAT + "; wall = 1", np.inf),
        ("u_t = 1 + x", np.inf),
    ],
)
def test_the_bound_is_that_of_theory(text, theory):
    assert limit(text) == pytest.approx(theory, rel=1e-6)


def test_advection_restricts_forward_euler_more_than_diffusion():
    """2 D / c^2 (Hindmarsh, Gresho, Griffiths, Int. J. Numer. Meth. Fluids 4 (1984) 853)."""
    text = "u_t = D*lap(u) - dx(u); D = 0.1 in [0, 1]"
    assert limit(text) == pytest.approx(2 * 0.1, rel=0.1)
    system = read(text)
    for dt, grows in ((0.9 * limit(text), False), (1.5 * limit(text), True)):
        simulation = Reference(system, 4, 60, dt=dt, start={"u": np.random.default_rng(1).normal(size=(4, 60))})
        simulation.advance(3000)
        assert (abs(simulation.arrays["u"]).max() > 100) == grows
    assert limit(text + "; scheme: rk3") == pytest.approx(1.732 / (4 * 0.1 + 0.6 + 0.4 + 2 * 0.1))  # of the five cells


def test_the_bound_follows_parameters_and_state():
    assert limit(HEAT, D=0.4) == pytest.approx(0.625)
    system = read("u_t = -u^3")
    assert stability(system, {"u": np.full((2, 2), 2.0)}).limit == pytest.approx(2 / 12)


def test_on_a_large_grid_the_cells_with_extreme_values_count():
    u = np.zeros((1000, 500))
    u[501, 77] = -4.0
    assert stability(read("u_t = -u^3"), {"u": u}).limit == pytest.approx(2 / 48)


def noise(kind):
    return lambda shape: {name: getattr(np.random.default_rng(ord(name)), kind)(size=shape) for name in "uvw"}


def bump(shape):
    y, x = np.indices(shape) / shape[0]
    return {"u": np.exp(-100 * ((x - 0.3) ** 2 + (y - 0.7) ** 2))}


@pytest.mark.parametrize("operations", [1e8, 2e5])
@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("u_t = lap(u)/9 - u*v^2; v_t = u*v^2", noise("random")),
        ("u_t = -40*u*v^2; v_t = u*v - v^3", noise("normal")),
        ("u_t = -40*u*v^2; v_t = u*v - v^3", noise("exponential")),
        ("u_t = -(v - w)^2*u; v_t = 0; w_t = 0", noise("normal")),  # its extreme values are at other cells
        ("u_t = -u*(1 - u)*lap(u)", bump),
        ("u_t = (0.1 + where(abs(y - 300.5) < 0.6, 10, 0))*lap(u)", bump),  # layers of one row, and of one column
        ("u_t = (0.1 + where(abs(x - 300.5) < 0.6, 10, 0))*lap(u)", bump),
        ("u_t = (0.1 + where((x - 99)^2 + (y - 99)^2 < 300, 10, 0))*lap(u)", bump),
    ],
)
def test_an_estimate_from_some_cells_proposes_no_step_above_the_bound(text, state, operations, monkeypatch):
    system, fields = read(text), state((600, 500))
    monkeypatch.setattr(module, "MOST_OPERATIONS", operations)
    proposed = stability(system, fields).dt
    for name in ("MOST_CELLS", "MOST_OPERATIONS"):
        monkeypatch.setattr(module, name, 1e18)
    bound = stability(system, fields).limit
    assert 0.3 * SAFETY * bound < proposed < bound


@pytest.mark.parametrize("text", ["u_t = div(D*grad(u))", "u_t = D*q; q = lap(u)", "v_t = u; u_t = D*lap(u + v)"])
def test_a_single_cell_of_strong_diffusion_between_the_examined_ones_counts(text, monkeypatch):
    """The fields are constant, so that no value of them marks it."""
    spot = "step(0.3 - abs(x - 33.5) - abs(y - 20.5))"
    system = read(f"{text}; D = 0.1 + 9*{spot}; edges: periodic")
    state = {field: np.full((50, 60), 2.0) for field in system.fields}
    exact = stability(system, state).limit
    monkeypatch.setattr(module, "MOST_CELLS", 100)
    assert stability(system, state).limit == pytest.approx(exact)
    monkeypatch.setattr(module, "EVALUATIONS", 1e9)  # only the lattice
    assert stability(system, state).limit > 2 * exact


def test_an_estimate_from_some_cells_is_exact_for_constant_coefficients():
    assert limit(HEAT, 700, 600) == pytest.approx(1.25, rel=1e-6)


@pytest.mark.parametrize(("shape", "most"), [((600, 500), 5000), ((16, 9000), 2000), ((9000, 16), 2000)])
def test_each_rectangle_of_twice_the_cells_per_examined_cell_has_one(shape, most):
    (ny, nx), cells = shape, module._cells([np.zeros(shape)], most)
    lattice = np.zeros(shape)
    lattice[tuple(each[: cells.regular] for each in cells.where)] = 1
    sums = np.pad(lattice.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    assert sums[-1, -1] == most
    for height in range(1, ny + 1):
        width = int(np.ceil(2 * ny * nx / most / height)) + 1  # cells are whole
        if width <= nx:
            inside = sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width]
            assert inside.min() >= 1


@pytest.mark.parametrize("text", [HEAT, WAVE, VISSCHER, HEAT + "; scheme: rk3"])
def test_a_checkerboard_grows_beyond_the_bound_only(text):
    """On a periodic grid of even sizes it is the mode that the bound is about."""
    board = (-1.0) ** np.add.outer(np.arange(12), np.arange(14))
    # rk3 is stable up to 2.51 on the real axis; the bound 1.73 is that of the imaginary axis
    above = 1.5 if "rk3" in text else 1.02
    for factor, grows in ((0.98, False), (above, True)):
        simulation = Reference(read(text), 12, 14, dt=factor * limit(text), start={"u": board})
        simulation.advance(200)
        assert (abs(simulation.arrays["u"]).max() > 100) == grows


def test_enormous_slopes_give_a_tiny_step():
    system = read("u_t = -(1e30*u)^9 + dx(u)")
    assert 0 < stability(system, {"u": np.full((6, 7), 1e3)}).limit < 1e-20


@pytest.mark.parametrize("jump", ["where(u > 0.5, 1, -1)", "step(u - 0.5)", "step(0.5 - u)"])
def test_a_jump_does_not_restrict_the_step(jump):
    """Cells at the threshold have no derivative there; a difference across it would be arbitrarily large."""
    system = read(f"u_t = lap(u)/4 + {jump}")
    assert stability(system, {"u": np.full((4, 4), 0.5)}).limit == pytest.approx(1)


def test_a_rate_without_derivative_at_the_state_is_no_error():
    system = read("u_t = lap(u)/4 + sqrt(u)")
    assert stability(system, {"u": np.zeros((4, 4))}).limit == pytest.approx(2)  # of the neighbours alone


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (HEAT, ""),
        (WAVE, ""),
        (VISSCHER, ""),
        (WAVE.replace("lap(u)", "lap(u) - v/10"), ""),
        ("u_t = v; v_t = lap(u)", "use scheme: rk3 or symplectic"),
        ("u_t = v; v_t = lap(u); scheme: rk3", ""),
        ("u_t = -dx(u)", "use scheme: rk3 or symplectic"),
        ("u_t = -dx(u); scheme: symplectic", "use scheme: rk3."),
        ("u_t = -dx(u); scheme: rk3", ""),
        ("u_t = lap(u) + 3*u; scheme: symplectic", ""),
    ],
)
def test_a_scheme_that_amplifies_the_waves_gets_an_advice(text, advice):
    system = read(text)
    found = stability(system, initial(system, 8, 8))
    assert advice in found.advice
    assert bool(found.advice) == bool(advice)


def test_the_proposed_step_keeps_a_distance():
    system = read(HEAT)
    assert stability(system, initial(system, 8, 8)).dt == pytest.approx(0.9 * 1.25)
    system = read("u_t = 1")
    assert stability(system, initial(system, 8, 8)).dt == 1.0
