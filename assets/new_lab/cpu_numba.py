"""The steps of the lab in Numba: rows in parallel over all cores."""

from numba import njit, prange

from compute.devices import numba_threads

numba_threads.choose_layer()


def step(u, v, spare, s, damping, steps):
    """Advance u and v by `steps` >= 1 steps with s = C²; return u and the other of the two arrays u and spare.

    u, v, spare: (ny, nx) float32 or float64 of one dtype; each step writes u' to the spare array.
    """
    real = u.dtype.type
    for _ in range(steps):
        _step(u, v, spare, real(s), real(1 - damping))
        u, spare = spare, u
    return u, spare


@njit(parallel=True, cache=True, nogil=True)
def _step(u, v, out, s, keep):
    """Advance v by one step, and write u' to `out`."""
    ny, nx = u.shape
    for i in prange(ny):
        for j in range(nx):
            here = u[i, j]
            rows = (u[i - 1, j] - here) + (u[(i + 1) % ny, j] - here)  # row -1 is the last one
            columns = (u[i, j - 1] - here) + (u[i, (j + 1) % nx] - here)
            v[i, j] = keep * v[i, j] + s * (rows + columns)
            out[i, j] = here + v[i, j]
