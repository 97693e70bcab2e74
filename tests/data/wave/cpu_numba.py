"""The wave equation in Numba, rows in parallel over all cores."""

from numba import njit, prange

from compute.devices import numba_threads

numba_threads.choose_layer()


def step(u, before, s, damping, free, steps):
    """Advance `steps` >= 1 leapfrog steps with s = C²; return the final (u, before), whose memory is reused.

    u, before: (ny, nx) float32 or float64 of one dtype; free: if false, the field is 0 beyond the edges.
    """
    real = u.dtype.type
    for _ in range(steps):
        _step(u, before, real(s), real(1 - damping / 2), real(1 + damping / 2), free)
        u, before = before, u
    return u, before


@njit(parallel=True, cache=True, nogil=True)
def _step(u, out, s, keep, gain, free):
    """Write one step to `out`, which contains the field before `u`."""
    ny, nx = u.shape
    for i in prange(ny):
        for j in range(nx):
            here = u[i, j]
            beside = here if free else here - here
            north = u[i - 1, j] if i > 0 else beside
            south = u[i + 1, j] if i < ny - 1 else beside
            west = u[i, j - 1] if j > 0 else beside
            east = u[i, j + 1] if j < nx - 1 else beside
            lap = (south + north) + (east + west) - 4 * here
            out[i, j] = (2 * here - keep * out[i, j] + s * lap) / gain
