"""Fields that py-pde computes: `python -m tests.compute.labs.equations.py_pde_fields OUT.npz`.

py-pde (D. Zwicker, J. Open Source Softw. 5 (2020) 2158) discretises independently. It runs in a process without
Numba's compiler, which needs minutes for its operators; on these small grids the interpreter needs seconds.
"""

from __future__ import annotations

import sys

import numpy as np

NY, NX, DX, STEPS, WALL_STEPS = 31, 45, 0.7, 100, 10
EDGES = {"periodic": "periodic", "zero-flux": {"derivative": 0}, "fixed 0.3": {"value": 0.3}}
SYSTEMS = {  # our text, py-pde's right sides, time step
    "heat": ("u_t = D*lap(u); D = 0.2 in [0, 1]", {"u": "0.2*laplace(u)"}, 0.4),
    "gray_scott": (
        "u_t = 0.16*lap(u) - u*v^2 + 0.037*(1 - u); v_t = 0.08*lap(v) + u*v^2 - 0.097*v",
        {"u": "0.16*laplace(u) - u*v**2 + 0.037*(1 - u)", "v": "0.08*laplace(v) + u*v**2 - 0.097*v"},
        0.5,
    ),
    "fitzhugh_nagumo": (
        "u_t = lap(u) + u - u^3/3 - v + 0.5; v_t = 0.08*(u + 0.7 - 0.8*v)",
        {"u": "laplace(u) + u - u**3/3 - v + 0.5", "v": "0.08*(u + 0.7 - 0.8*v)"},
        0.05,
    ),
    "cahn_hilliard": ("c_t = lap(mu); mu = c^3 - c - lap(c)", {"c": "laplace(c**3 - c - laplace(c))"}, 0.002),
    "swift_hohenberg": (
        "u_t = 0.3*u - u^3 - (u + 2*q + lap(q)); q = lap(u)",
        {"u": "0.3*u - u**3 - u - 2*laplace(u) - laplace(laplace(u))"},
        0.002,
    ),
    "burgers": (
        "u_t = -u*dx(u) - v*dy(u) + 0.5*lap(u); v_t = -u*dx(v) - v*dy(v) + 0.5*lap(v)",
        {"u": "-u*d_dx(u) - v*d_dy(u) + 0.5*laplace(u)", "v": "-u*d_dx(v) - v*d_dy(v) + 0.5*laplace(v)"},
        0.05,
    ),
}
WALL = np.random.default_rng(3).uniform(size=(NY, NX)) < 0.1


def beginning(name):
    """The fields at the start, (ny, nx) by name."""
    rng = np.random.default_rng(2)
    return {field: 0.5 + 0.3 * rng.uniform(-1, 1, (NY, NX)) for field in SYSTEMS[name][1]}


def fields(name, edges, wall):
    """The fields after forward Euler steps, (field, ny, nx). py-pde has no walls: their cells do not take the step."""
    import pde

    _, sides, dt = SYSTEMS[name]
    grid = pde.CartesianGrid([[0, NX * DX], [0, NY * DX]], [NX, NY], periodic=edges == "periodic")
    parts = [pde.ScalarField(grid, each.T.copy()) for each in beginning(name).values()]
    state = pde.FieldCollection(parts) if len(parts) > 1 else parts[0]
    equation = pde.PDE(sides, bc=EDGES[edges])
    for _ in range(STEPS if wall is None else WALL_STEPS):
        change = dt * equation.evolution_rate(state, 0).data
        state.data = state.data + (change if wall is None else np.where(wall.T, 0, change))
    return np.asarray(state.data).reshape(len(parts), NX, NY).transpose(0, 2, 1)


if __name__ == "__main__":
    found = {f"{name} {edges}": fields(name, edges, None) for name in SYSTEMS for edges in EDGES}
    found |= {f"{name} wall": fields(name, "zero-flux", WALL) for name in SYSTEMS}
    np.savez(sys.argv[1], **found)
