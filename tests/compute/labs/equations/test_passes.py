"""Lowering: each operator, edge, wall and scheme against independent NumPy or theory."""

from __future__ import annotations

import numpy as np
import pytest

from compute.labs.equations.language import read
from compute.labs.equations.passes import lower
from compute.labs.equations.reference import Reference, initial
from compute.labs.equations.tree import EquationError, words

NY, NX, H = 9, 13, 0.5


def rate(expression, u, edges="periodic", **options):
    """The value of a right side: one Euler step of dt = 1 from u, less u."""
    text = f"u_t = {expression}; edges: {edges}; dx = {H}; dt = 1" + "".join(f"\n{line}" for line in options.values())
    simulation = Reference(read(text), *u.shape, start={"u": u})
    simulation.advance(1)
    return simulation.arrays["u"] - u


def rolled(u, dx, dy):
    """The values dx columns to the right and dy rows above, periodic."""
    return np.roll(u, (-dy, -dx), (0, 1))


@pytest.fixture
def u():
    return np.random.default_rng(1).uniform(0.5, 1.5, (NY, NX))


def test_derivatives_are_central_differences(u):
    lap = sum(rolled(u, *side) for side in ((1, 0), (-1, 0), (0, 1), (0, -1))) - 4 * u
    diagonal = rolled(u, 1, 1) + rolled(u, -1, -1) - rolled(u, -1, 1) - rolled(u, 1, -1)
    expected = {
        "lap(u)": lap / H**2,
        "dx(u)": (rolled(u, 1, 0) - rolled(u, -1, 0)) / (2 * H),
        "dy(u)": (rolled(u, 0, 1) - rolled(u, 0, -1)) / (2 * H),
        "dxx(u)": (rolled(u, 1, 0) + rolled(u, -1, 0) - 2 * u) / H**2,
        "dyy(u)": (rolled(u, 0, 1) + rolled(u, 0, -1) - 2 * u) / H**2,
        "dxy(u)": diagonal / (4 * H**2),
        "div(grad(u))": lap / H**2,
        "div(3*grad(u))": 3 * lap / H**2,
    }
    for expression, value in expected.items():
        np.testing.assert_allclose(rate(expression, u), value, atol=1e-12, err_msg=expression)


def test_derivatives_of_expressions_use_the_neighbours_values(u):
    np.testing.assert_allclose(rate("lap(sin(u)*u)", u), rate("lap(u)", np.sin(u) * u), atol=1e-12)
    np.testing.assert_allclose(rate("dx(2*u)", u), 2 * rate("dx(u)", u), atol=1e-12)


@pytest.mark.parametrize("edges", ["periodic", "zero-flux", "fixed 0"])
def test_nested_derivatives_are_applied_one_after_the_other(u, edges):
    lap = rate("lap(u)", u, edges)
    np.testing.assert_allclose(rate("lap(lap(u))", u, edges), rate("lap(u)", lap, edges), atol=1e-11)
    named = rate("lap(q)", u, edges, name="q = lap(u)*u")
    np.testing.assert_allclose(named, rate("lap(u)", lap * u, edges), atol=1e-11)
    both = rate("dx(lap(u)) + dy(dx(lap(u)))", u, edges)
    expected = rate("dx(u)", lap, edges) + rate("dy(u)", rate("dx(u)", lap, edges), edges)
    np.testing.assert_allclose(both, expected, atol=1e-10)


def test_derivatives_with_a_varying_coefficient_are_differences_of_face_fluxes(u):
    right, above = rolled(u, 1, 0), rolled(u, 0, 1)
    flux_x, flux_y = (u + right) / 2 * (right - u), (u + above) / 2 * (above - u)
    expected = (flux_x - rolled(flux_x, -1, 0) + flux_y - rolled(flux_y, 0, -1)) / H**2
    np.testing.assert_allclose(rate("div(u*grad(u))", u), expected, atol=1e-12)


@pytest.mark.parametrize("edges", ["periodic", "zero-flux"])
@pytest.mark.parametrize("flux", ["grad(u)", "u*grad(u)", "(2 + sin(2*pi*x/Lx)*y)*grad(u)", "lap(u)*grad(u^2)"])
def test_divergences_conserve_the_sum(u, edges, flux):
    assert abs(rate(f"div({flux})", u, edges).sum()) < 1e-10


def test_edges(u):
    inside = np.s_[1:-1, 1:-1]
    periodic = rate("lap(u)", u)
    for edges, ghosts in (
        ("zero-flux", u),
        ("fixed 0.3", 0.6 - u),
    ):
        found = rate("dx(u)", u, edges)
        np.testing.assert_allclose(found[:, 0], (u[:, 1] - ghosts[:, 0]) / (2 * H), atol=1e-12)
        np.testing.assert_allclose(found[:, -1], (ghosts[:, -1] - u[:, -2]) / (2 * H), atol=1e-12)
        np.testing.assert_allclose(rate("lap(u)", u, edges)[inside], periodic[inside], atol=1e-12)
    corner = rate("dxy(u)", u, "zero-flux")[0, 0]
    np.testing.assert_allclose(corner, (u[1, 1] - u[1, 0] - u[0, 1] + u[0, 0]) / (4 * H**2))


def test_coordinates_are_those_of_the_cells_centres(u):
    x, y = np.broadcast_arrays((np.arange(NX) + 0.5) * H, ((np.arange(NY) + 0.5) * H)[:, None])
    value = rate("100*x + 10*y + Lx + Ly/1000 + t", u)
    np.testing.assert_allclose(value, 100 * x + 10 * y + NX * H + NY * H / 1000)
    np.testing.assert_allclose(rate("dx(x^2)", u, "zero-flux"), 2 * x)


def test_initial_values_do_not_depend_on_the_blocks_of_rows(monkeypatch):
    text = "u_t = 1; q = x + 2*y; u(0) = q*a + noise(3); wall = q - 9; a = 1 in [0, 5]"
    whole = initial(read(text), NY, NX, {"a": 3})
    monkeypatch.setattr("compute.labs.equations.reference.BLOCK", 2 * NX)
    blocks = initial(read(text), NY, NX, {"a": 3})
    assert all(np.array_equal(whole[name], blocks[name]) for name in ("u", "wall"))
    q = np.add.outer(2 * np.arange(NY) + 1, np.arange(NX) + 0.5)
    noise = whole["u"] - 3 * q
    assert (abs(noise) <= 1).all()
    assert np.ptp(noise) > 1.5
    assert np.unique(noise.round(9)).size == NY * NX
    assert np.array_equal(whole["wall"], q > 9)


def test_a_coordinate_jumps_where_a_periodic_grid_closes(u):
    slope = rate("dx(x) + y", u) - (np.arange(NY)[:, None] + 0.5) * H
    np.testing.assert_allclose(slope[:, 1:-1], 1)
    np.testing.assert_allclose(slope[:, [0, -1]], 1 - NX / 2)


def test_a_periodic_coefficient_wraps_around(u):
    shifted = rate("div((2 + cos(2*pi*x/Lx))*grad(u))", u, show="show = 1")
    moved = rate(f"div((2 + cos(2*pi*(x - {3 * H})/Lx))*grad(u))", np.roll(u, 3, 1))
    np.testing.assert_allclose(moved, np.roll(shifted, 3, 1), atol=1e-12)


@pytest.mark.parametrize("power", [-9, -8, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 8, 9, 10, 17, 63, 64])
def test_powers(u, power):
    np.testing.assert_allclose(rate(f"u^{power}", u), u**power, rtol=1e-12, atol=1e-15 * 2.0 ** abs(power))
    negative = rate(f"(-u)^{power}", u)
    if float(power).is_integer():
        np.testing.assert_allclose(negative, (-u) ** power, rtol=1e-12, atol=1e-15 * 2.0 ** abs(power))


def test_a_repeated_term_is_computed_once():
    step = lower(read("u_t = lap(u) - u*v^2; v_t = u*v^2 + dx(u*v^2)")).passes[0]
    values = [words(statement.value) for statement in step.statements]
    assert "".join(values).count("u*v^2") == 1
    assert "u_v2" in [statement.name for statement in step.statements]


def test_the_same_text_gives_the_same_passes():
    text = "c_t = lap(mu) + lap(c); mu = c^3 - c - lap(c); d_t = dx(lap(d)) + dy(lap(d)) + c*mu"
    assert lower(read(text)) == lower(read(text))


def test_auxiliary_arrays_that_need_no_other_share_a_pass():
    passes = lower(read("u_t = lap(lap(u)) + dx(dy(v)); v_t = lap(lap(lap(u)))")).passes
    assert [len(each.targets) for each in passes] == [1, 2, 2]
    made = {"u", "v"}
    for each in passes:
        assert set(each.sources) <= made
        made |= set(each.targets)


def test_symplectic_euler_uses_the_new_values_in_as_few_passes_as_possible():
    wave = lower(read("u_t = v; v_t = lap(u); scheme: symplectic")).passes
    assert [each.targets for each in wave] == [("v", "u")]
    schroedinger = lower(read("u_t = -lap(v); v_t = lap(u); scheme: symplectic")).passes
    assert [each.targets for each in schroedinger] == [("u",), ("v",)]
    simulation = Reference(read("q = u*v; u_t = -v + q; v_t = u + q; dt = 0.5; scheme: symplectic; u(0) = 1"), 1, 1)
    simulation.advance(1)
    assert (simulation.arrays["u"].item(), simulation.arrays["v"].item()) == (1.0, 0.5)


@pytest.mark.parametrize(("scheme", "order"), [("euler", 1), ("rk3", 3), ("symplectic", 1)])
def test_orders_of_the_schemes(scheme, order):
    """u_t = t^2 - u v, v_t = u: the error at t = 1 against a step that is much smaller."""

    def end(steps):
        text = f"u_t = t^2 - u*v; v_t = u; scheme: {scheme}; dt = {1 / steps}; u(0) = 1"
        simulation = Reference(read(text), 1, 1)
        simulation.advance(steps)
        return simulation.arrays["u"].item()

    exact = end(1024)
    assert np.log2(abs(end(16) - exact) / abs(end(32) - exact)) == pytest.approx(order, abs=0.12)


@pytest.mark.parametrize("scheme", ["euler", "rk3", "symplectic"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_walls_keep_their_first_value_exactly(scheme, dtype):
    text = f"u_t = lap(u) + 1; v_t = u; wall = step(x - y); u(0) = noise(1)/3; scheme: {scheme}; dt = 0.1"
    simulation = Reference(read(text), 7, 8, dtype=dtype)
    start = simulation.arrays["u"].copy()
    simulation.advance(20)
    wall = simulation.arrays["wall"] == 1
    assert 0 < wall.sum() < wall.size
    assert np.array_equal(simulation.arrays["u"][wall], start[wall])
    assert (simulation.arrays["u"][~wall] != start[~wall]).all()


@pytest.mark.parametrize("edges", ["periodic", "zero-flux"])
def test_nothing_flows_through_closed_walls(edges):
    text = f"u_t = div((1 + u)*grad(u)) + dxx(u); edges: {edges}; wall = sin(x) + sin(y); wall: zero-flux; dt = 0.1"
    simulation = Reference(read(text + "; u(0) = 1 + noise(1)"), 16, 17)
    free = simulation.arrays["wall"] == 0
    before = simulation.arrays["u"][free].sum()
    simulation.advance(50)
    assert simulation.arrays["u"][free].sum() == pytest.approx(before, rel=1e-13)


def test_a_zero_coefficient_in_a_wall_leaves_half_the_flux(u):
    """The coefficient at a face is the mean of both cells: walls without flux need `wall: zero-flux`."""
    text = "u_t = div(D*grad(u)); D = where(x < 3, 1, 0); wall = x - 3; dt = 0.1; edges: zero-flux"
    simulation = Reference(read(text), 1, 6, start={"u": np.array([[0.0, 0, 0, 1, 1, 1]])})
    simulation.advance(1)
    np.testing.assert_allclose(simulation.arrays["u"], [[0, 0, 0.05, 1, 1, 1]])


def test_the_second_picture_may_have_derivatives(u):
    simulation = Reference(read("u_t = 0; show = lap(lap(u)) + x; dt = 1"), NY, NX, start={"u": u})
    lap = sum(rolled(u, *side) for side in ((1, 0), (-1, 0), (0, 1), (0, -1))) - 4 * u
    lap2 = sum(rolled(lap, *side) for side in ((1, 0), (-1, 0), (0, 1), (0, -1))) - 4 * lap
    np.testing.assert_allclose(simulation.show(), lap2 + np.arange(NX) + 0.5, atol=1e-12)


def test_equations_that_become_too_long_are_refused():
    names = "\n".join(f"a{number} = a{number - 1}*a{number - 1} + u" for number in range(1, 12))
    with pytest.raises(EquationError, match="too long once their derivatives are written out") as caught:
        lower(read(f"a0 = u\n{names}\nu_t = lap(a11)"))
    assert caught.value.line == 13
