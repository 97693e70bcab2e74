"""New lab, live: waves after drops, u_tt = c² ∇²u − d u_t, on a periodic domain."""

import numpy as np
import param

from compute.lab import Lab


class NewLab(Lab):
    """v' = (1 − d) v + C² ∇²u, u' = u + v' on ny x nx cells of unit size, stable for C² <= 1/2 − d/4."""

    STRUCTURAL = (*Lab.STRUCTURAL, "ny", "nx", "dtype")  # a change allocates the arrays again
    INITIAL = ("drops",)  # a change returns to step 0

    ny = param.Integer(default=512, bounds=(3, 4096), label="Rows [cells]")
    nx = param.Integer(default=512, bounds=(3, 4096), label="Columns [cells]")
    dtype = param.Selector(default="float32", objects=["float32", "float64"], label="Number type")
    courant = param.Number(default=0.5, bounds=(0, 0.7), label="Courant number C = c Δt / Δx")
    damping = param.Number(default=0.0, bounds=(0, 0.02), label="Damping d Δt")
    drops = param.Integer(default=3, bounds=(1, 50), label="Drops")

    def begin(self):
        """Return the arrays at step 0: the height u with drops at random places, its velocity v, and room for u'."""
        y, x = np.ogrid[: self.ny, : self.nx]
        u = np.zeros((self.ny, self.nx), self.dtype)
        for row, column in np.random.default_rng(1).random((self.drops, 2)):
            u += np.exp(-((y - row * self.ny) ** 2 + (x - column * self.nx) ** 2) / 100)
        return {"u": u, "v": np.zeros_like(u), "spare": np.zeros_like(u)}

    def advance(self, steps=1):
        """Advance `steps` >= 1 steps; return their timing."""
        with self.stepping(steps) as done:
            u, v, spare = self.arrays.values()
            u, spare = self.kernels.step(u, v, spare, self.courant**2, self.damping, steps)
        self.arrays = {"u": u, "v": v, "spare": spare}
        return done.timing

    def frame(self, view=None, pixels=(512, 512)):
        """Return a frame: the picture of u, and the mean of u, which every step conserves."""
        return self.framed({"u": self.raster("u", view, pixels, (-0.2, 0.2))}, {"mean": float(self.field().mean())})
