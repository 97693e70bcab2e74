"""The three edge conditions, as ghost cells beside the first and the last cell of a row or column.

zero-flux: half-sample mirror, u[-1-k] = u[k]. zero-dirichlet: u = 0 one cell outside, odd about that point. periodic.
"""

from __future__ import annotations

EDGES = ("zero-flux", "zero-dirichlet", "periodic")
PERIODIC, ZERO_FLUX, ZERO_DIRICHLET = 0, 1, 2
_CODES = {"periodic": PERIODIC, "zero-flux": ZERO_FLUX, "zero-dirichlet": ZERO_DIRICHLET}


def edge_code(edges: str) -> int:
    """The kernels' number for an edge condition; ValueError names the three there are."""
    if edges not in _CODES:
        raise ValueError(f"edges must be one of {', '.join(EDGES)}, not {edges!r}")
    return _CODES[edges]
