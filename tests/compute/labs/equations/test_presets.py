"""The presets: their files, and what theory expects of each."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from compute.labs.equations import Equations
from compute.labs.equations.language import read
from compute.labs.equations.presets import preset, presets
from compute.labs.equations.reference import Reference, initial
from compute.labs.equations.stability import stability

NAMES = {
    *("heat", "wave", "gray_scott", "fitzhugh_nagumo", "excitable", "schroedinger", "cahn_hilliard"),
    *("swift_hohenberg", "burgers", "porous_medium", "fisher_maze", "chemotaxis"),
}
EPSILON = 1e-7  # amplitude of modes, small enough for linear theory


def simulate(name, ny, nx, *, start=(), dt=None, replace=(), **parameters):
    text = presets()[name].text
    for old, new in replace:
        assert old in text
        text = text.replace(old, new)
    return Reference(read(text), ny, nx, start=dict(start), dt=dt, parameters=parameters)


def mode(ny, nx, q, p, edges):
    """A mode of the Laplacian, and minus its eigenvalue on a grid of width 1."""
    around = 1 if edges == "zero-flux" else 2
    angles = [around * np.pi * number / size for number, size in ((q, ny), (p, nx))]
    y, x = (np.cos(angle * (np.arange(size) + 0.5)) for angle, size in zip(angles, (ny, nx), strict=True))
    return np.outer(y, x), sum(4 * np.sin(angle / 2) ** 2 for angle in angles)


def test_all_presets_are_there():
    assert presets().keys() >= NAMES
    assert next(iter(presets())) == "gray_scott"
    assert all(each.sources and each.hints and "#" not in each.text for each in presets().values())


@pytest.mark.parametrize("name", presets())
def test_a_preset_begins_stable_and_stays_finite(name):
    system = read(presets()[name].text)
    start = initial(system, 33, 47)
    found = stability(system, start)
    assert system.dt is None or system.dt <= found.limit
    assert found.advice == ""
    simulation = Reference(system, 33, 47, dt=system.dt or found.dt)
    simulation.advance(200)
    assert all(np.isfinite(simulation.arrays[field]).all() for field in system.fields)
    assert any(not np.array_equal(simulation.arrays[field], start[field]) for field in system.fields)


def test_a_new_preset_is_one_text_file(tmp_path):
    head = "# title: Decay\n# source: E. Rutherford (1900)\n# try: Move a.\n"
    (tmp_path / "decay.txt").write_text(head + "u_t = -a*u\na = 1 in [0, 2]\n")
    (found,) = presets(tmp_path).values()
    assert (found.name, found.title, found.text) == ("decay", "Decay", "u_t = -a*u\na = 1 in [0, 2]\n")
    assert (found.sources, found.hints) == (("E. Rutherford (1900)",), ("Move a.",))
    with closing(Equations(backend="cpu_numpy", ny=3, nx=4, text=found.text, time_step=0.5, dtype="float64")) as lab:
        lab.load("u", np.full((3, 4), 8.0))
        lab.set(a=1.5)
        lab.advance(2)
        np.testing.assert_array_equal(lab.field(), 8 * (1 - 0.5 * 1.5) ** 2)
    (tmp_path / "broken.txt").write_text(head + "u_t = -a*u\n")
    with pytest.raises(ValueError, match=r"broken.txt: line 1, column 8: unknown name 'a'"):
        preset(tmp_path / "broken.txt")
    (tmp_path / "bare.txt").write_text("u_t = -u\n")
    with pytest.raises(ValueError, match=r"bare.txt: a preset begins with"):
        preset(tmp_path / "bare.txt")


def test_heat_decays_by_the_modes_rate():
    u, lam = mode(30, 41, 2, 3, "zero-flux")
    simulation = simulate("heat", 30, 41, start={"u": u}, dt=1)
    simulation.advance(100)
    np.testing.assert_allclose(simulation.arrays["u"], (1 - 0.2 * lam) ** 100 * u, atol=1e-14)
    k_squared = (2 * np.pi / 30) ** 2 + (3 * np.pi / 41) ** 2
    assert (1 - 0.2 * lam) ** 100 == pytest.approx(np.exp(-0.2 * k_squared * 100), rel=0.02)


def test_a_standing_wave_has_the_frequency_of_its_mode():
    """Symplectic Euler is the leapfrog scheme: cos(omega dt) = 1 - dt^2 lam / 2."""
    u, lam = mode(30, 41, 2, 3, "zero-flux")
    simulation = simulate("wave", 30, 41, start={"u": u, "wall": np.zeros_like(u)}, dt=0.5)
    simulation.advance(1000)
    theta = np.arccos(1 - 0.5**2 * lam / 2)
    expected = np.cos((1000 + 0.5) * theta) / np.cos(theta / 2)
    np.testing.assert_allclose(simulation.arrays["u"], expected * u, atol=1e-10)


def test_gray_scott_rests_at_its_steady_states():
    """(1, 0), and u v = F + k with v the larger root of (F + k) v^2 - F v + F (F + k) = 0."""
    F, k = 0.04, 0.055
    v = F / (2 * (F + k)) * (1 + np.sqrt(1 - 4 * (F + k) ** 2 / F))
    for start in ((1.0, 0.0), ((F + k) / v, v)):
        arrays = {name: np.full((5, 6), value) for name, value in zip("uv", start, strict=True)}
        simulation = simulate("gray_scott", 5, 6, start=arrays, F=F, k=k)
        simulation.advance(100)
        for name, value in arrays.items():
            np.testing.assert_allclose(simulation.arrays[name], value, atol=1e-12)


def test_fitzhugh_nagumo_cells_oscillate_as_the_ordinary_differential_equation():
    def cell(_, state):
        u, v = state
        return u - u**3 / 3 - v + 0.5, 0.08 * (u + 0.7 - 0.8 * v)

    exact = solve_ivp(cell, (0, 100), (-1, 0.5), rtol=1e-9, atol=1e-9, dense_output=True)
    start, rk3 = {"u": [[-1.0]], "v": [[0.5]]}, [("edges:", "scheme: rk3\nedges:")]
    simulation = simulate("fitzhugh_nagumo", 1, 1, start=start, dt=0.1, replace=rk3)
    for time in (20, 40, 60, 80, 100):
        simulation.advance(200)
        np.testing.assert_allclose([simulation.arrays[name].item() for name in "uv"], exact.sol(time), atol=1e-3)


def test_an_excitation_front_has_the_speed_of_a_bistable_medium():
    """(1 - 2 b / a) / sqrt(2 e) while v has not yet risen."""
    nx, dx = 900, 0.05
    arrays = {"u": (np.arange(nx) < 100)[None].astype(float), "v": np.zeros((1, nx))}
    simulation = simulate("excitable", 1, nx, start=arrays, dt=0.0005, replace=[("dx = 0.5", f"dx = {dx}")], e=0.02)
    places = []
    for _ in range(2):
        simulation.advance(2400)
        places.append(np.argmin(simulation.arrays["u"][0] > 0.5) * dx)  # the first cell ahead of the front
    speed = (1 - 2 * 0.02 / 0.75) / np.sqrt(2 * 0.02)
    assert (places[1] - places[0]) / 1.2 == pytest.approx(speed, rel=0.05)


def test_a_cell_needs_a_stimulus_above_the_threshold():
    for factor, excited in ((0.5, False), (6, True)):
        arrays = {"u": np.full((2, 2), factor * 0.02 / 0.75), "v": np.zeros((2, 2))}
        simulation = simulate("excitable", 2, 2, start=arrays)
        largest = 0.0
        for _ in range(300):
            simulation.advance(1)
            largest = max(largest, simulation.arrays["u"].max())
        assert (largest > 0.9) == excited


def test_a_quantum_packet_keeps_its_norm_and_moves_with_the_group_velocity():
    """Visscher conserves the sum of u(t)^2 + v(t - dt/2) v(t + dt/2); the grid's dispersion is 1 - cos(k)."""
    simulation = simulate("schroedinger", 51, 201, dt=0.1, V0=0.0, k=0.7)

    def norm():
        u, v = (np.pad(simulation.arrays[name], 1, mode="edge") for name in "uv")
        u[[0, -1]], u[:, [0, -1]] = -u[[0, -1]], -u[:, [0, -1]]  # fixed 0
        lap = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        now = v[1:-1, 1:-1]
        return (u[1:-1, 1:-1] ** 2 + now * (now - 0.1 * lap / 2)).sum()

    def place():
        density = simulation.show()
        return (density * np.arange(201)).sum() / density.sum()

    before, start = norm(), place()
    simulation.advance(500)
    assert norm() == pytest.approx(before, rel=1e-11)
    assert (place() - start) / 50 == pytest.approx(np.sin(0.7), rel=0.01)


def test_cahn_hilliard_conserves_its_mean_and_separates_at_the_rate_of_the_mode():
    c, lam = mode(24, 31, 1, 2, "periodic")
    simulation = simulate("cahn_hilliard", 24, 31, start={"c": EPSILON * c}, g=1.5)
    simulation.advance(500)
    growth = (1 + 0.01 * (lam - 1.5 * lam**2)) ** 500
    np.testing.assert_allclose(simulation.arrays["c"], EPSILON * growth * c, atol=1e-6 * EPSILON)
    noise = simulate("cahn_hilliard", 24, 31, m=0.2)
    mean = noise.arrays["c"].mean()
    noise.advance(2000)
    assert noise.arrays["c"].mean() == pytest.approx(mean, abs=1e-14)
    assert noise.arrays["c"].max() - noise.arrays["c"].min() > 1.2


def test_swift_hohenberg_grows_rolls_of_its_wavelength():
    u, lam = mode(36, 24, 5, 8, "zero-flux")
    simulation = simulate("swift_hohenberg", 36, 24, start={"u": EPSILON * u})
    simulation.advance(100)
    growth = (1 + 0.03 * (0.3 - (1 - lam) ** 2)) ** 100
    np.testing.assert_allclose(simulation.arrays["u"], EPSILON * growth * u, atol=1e-6 * EPSILON)
    noise = simulate("swift_hohenberg", 64, 64)
    noise.advance(2000)
    u = noise.arrays["u"]
    squares = (np.diff(u, axis=0) ** 2).sum() + (np.diff(u, axis=1) ** 2).sum()
    assert squares / (u**2).sum() == pytest.approx(1, abs=0.05)  # the mean eigenvalue: wavenumber 1


def test_burgers_agrees_with_the_solution_of_cole_and_hopf():
    """u = -2 nu w_x / w with w = 2 + cos(k x) exp(-nu k^2 t), on two grids: the error falls as dx^2."""

    def error(nx):
        dx, nu, t = 32 / nx, 0.5, 4.0
        k = 2 * np.pi / 32
        x = (np.arange(nx) + 0.5) * dx

        def exact(t):
            decay = np.exp(-nu * k**2 * t)
            return 2 * nu * k * np.sin(k * x) * decay / (2 + np.cos(k * x) * decay)

        start = {"u": np.tile(exact(0), (3, 1)), "v": np.zeros((3, nx))}
        simulation = simulate("burgers", 3, nx, start=start, dt=0.02, replace=[("nu =", f"dx = {dx}\nnu =")])
        simulation.advance(round(t / 0.02))
        return abs(simulation.arrays["u"] - exact(t)).max()

    assert error(32) / error(64) == pytest.approx(4, rel=0.05)


def test_a_gas_spreads_in_a_porous_medium_as_barenblatt_found():
    """u = s^(-1/3) sqrt(b - r^2 / (18 s^(1/3))) with s = t / 3: of u_t = lap(u^3) / 3 in two dimensions."""
    n, b = 51, 4.0
    r2 = (np.arange(n) - n // 2) ** 2 + ((np.arange(n) - n // 2) ** 2)[:, None]

    def exact(s):
        return s ** (-1 / 3) * np.sqrt(np.maximum(b - r2 / (18 * s ** (1 / 3)), 0))

    simulation = simulate("porous_medium", n, n, start={"u": exact(8)}, dt=0.2)
    simulation.advance(840)  # from s = 8 to s = 64
    u = simulation.arrays["u"]
    assert u.sum() == pytest.approx(exact(8).sum(), rel=1e-13)
    assert np.sqrt(r2[u > 0.02].max()) == pytest.approx(np.sqrt(18 * b) * 64 ** (1 / 6), abs=1)
    assert abs(u - exact(64)).sum() / u.sum() < 0.02


def test_an_advantageous_gene_spreads_with_fishers_speed():
    """2 sqrt(r D), in its form for the grid, with Bramson's delay of 3 / (2 s) log t."""
    D, r, dt, nx = 1.0, 0.1, 0.2, 480
    simulation = simulate("fisher_maze", 1, nx, start={"wall": np.zeros((1, nx))}, dt=dt)
    places = []
    for _ in range(2):
        simulation.advance(1500)
        places.append(simulation.arrays["u"].sum())
    s = np.linspace(0.05, 1, 2000)
    speeds = np.log(1 + dt * (2 * D * (np.cosh(s) - 1) + r)) / (dt * s)
    speed, steepness = speeds.min(), s[speeds.argmin()]
    assert speed == pytest.approx(2 * np.sqrt(r * D), rel=0.02)
    assert places[1] - places[0] == pytest.approx(speed * 300 - 1.5 / steepness * np.log(2), rel=0.005)


def test_the_gene_finds_its_way_through_the_maze():
    simulation = simulate("fisher_maze", 48, 48, dt=0.2)
    wall = simulation.arrays["wall"] == 1
    start = simulation.arrays["u"].copy()
    assert 0.05 < wall.mean() < 0.3
    simulation.advance(2500)
    assert np.array_equal(simulation.arrays["u"][wall], start[wall])
    assert simulation.arrays["u"][~wall].min() > 0.99


def test_chemotaxis_keeps_its_cells_and_gathers_them_at_the_rate_of_the_mode():
    wave, lam = mode(20, 27, 2, 4, "zero-flux")
    m, D, chi, dt = 0.4, 0.1, 1.2, 0.1
    start = {"n": m + EPSILON * wave, "c": np.full_like(wave, m)}
    simulation = simulate("chemotaxis", 20, 27, start=start, dt=dt)
    simulation.advance(400)
    rates = np.array([[-D * lam, chi * m * (1 - m) * lam], [1, -lam - 1]])
    expected = np.linalg.matrix_power(np.eye(2) + dt * rates, 400) @ (EPSILON, 0)
    assert expected[0] > 2 * EPSILON
    for name, amplitude in zip("nc", expected, strict=True):
        np.testing.assert_allclose(simulation.arrays[name] - m, amplitude * wave, atol=1e-5 * amplitude)
    simulation = simulate("chemotaxis", 30, 31)
    cells = simulation.arrays["n"].sum()
    simulation.advance(2000)
    assert simulation.arrays["n"].sum() == pytest.approx(cells, rel=1e-13)
    assert simulation.arrays["n"].max() - simulation.arrays["n"].min() > 0.9
