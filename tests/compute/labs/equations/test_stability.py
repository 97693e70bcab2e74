"""The bound of the time step: the values of theory, and what happens on both sides of them."""

from __future__ import annotations

import numpy as np
import pytest

from compute.labs.equations.language import read
from compute.labs.equations.reference import Reference, initial
from compute.labs.equations.stability import stability

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


def test_on_a_large_grid_the_rows_of_the_extreme_values_count():
    u = np.zeros((1000, 500))
    u[501, 77] = -4.0
    assert stability(read("u_t = -u^3"), {"u": u}).limit == pytest.approx(2 / 48)


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
