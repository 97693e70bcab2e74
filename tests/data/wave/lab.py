"""Waves on a membrane, live: u_tt = c² ∇²u - d u_t by leapfrog steps, from a standing wave."""

import numpy as np
import param
from fieldlab_labs.wave.cpu_numpy import laplacian

from compute.lab import Lab


class Wave(Lab):
    """(1 + d/2) u' = 2 u - (1 - d/2) u_before + C² ∇²u on ny x nx cells of unit size, stable for C <= sqrt(1/2)."""

    STRUCTURAL = (*Lab.STRUCTURAL, "ny", "nx", "dtype")
    INITIAL = ("edges", "mode_p", "mode_q")

    ny = param.Integer(default=256, bounds=(1, 4096), label="Rows [cells]")
    nx = param.Integer(default=256, bounds=(1, 4096), label="Columns [cells]")
    dtype = param.Selector(default="float32", objects=["float32", "float64"], label="Number type")
    courant = param.Number(default=0.5, bounds=(0, 0.7), label="Courant number C = c Δt / Δx")
    damping = param.Number(default=0.0, bounds=(0, 1), label="Damping d Δt")
    edges = param.Selector(default="fixed", objects=["fixed", "free"], label="Edges")
    mode_p = param.Integer(default=3, bounds=(1, 64), label="Mode p, along x")
    mode_q = param.Integer(default=2, bounds=(1, 64), label="Mode q, along y")

    def begin(self):
        """Return the initial mode, at rest: the field half a step earlier equals the field half a step later."""
        u = np.outer(self._mode(self.ny, self.mode_q), self._mode(self.nx, self.mode_p)).astype(self.dtype)
        return {"u": u, "before": u}

    def _mode(self, size, number):
        cell = np.arange(size)
        if self.edges == "free":
            return np.cos(np.pi * number / size * (cell + 0.5))
        return np.sin(np.pi * number / (size + 1) * (cell + 1))

    def advance(self, steps=1):
        """Advance `steps` >= 1 leapfrog steps; return their timing."""
        values = self.courant**2, self.damping, self.edges == "free", steps
        with self.stepping(steps) as done:
            u, before = self.kernels.step(self.arrays["u"], self.arrays["before"], *values)
        self.arrays = {"u": u, "before": before}
        return done.timing

    def frame(self, view=None, pixels=(512, 512)):
        """Return a frame with the displacement and the energy."""
        return self.framed({"displacement": self.raster("u", view, pixels, (-1.0, 1.0))}, {"energy": self.energy()})

    def energy(self):
        """Return (|u - before|² - C² <u, ∇²before>) / 2, which an undamped step conserves exactly."""
        u, before = (array.astype(float) for array in self.data().values())
        tension = np.sum(u * laplacian(before, self.edges == "free"))
        return float(np.sum((u - before) ** 2) - self.courant**2 * tension) / 2
