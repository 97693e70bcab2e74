"""The exact solution that runs beside the single-mode preset."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from compute.labs.diffusion import modes


@dataclass
class ExactMode:
    """amplitude times mode (p, q) on ny x nx cells: what the scheme gives without rounding.

    begun: the amplitude where the diffusion number became `r`; steps: done since. So it does not depend on the slices
    in which a lab was advanced.
    """

    ny: int
    nx: int
    p: int
    q: int
    edges: str
    begun: float = 1.0
    r: float = 0.0
    steps: int = 0

    @property
    def amplitude(self) -> float:
        """Of the mode now; inf where a float cannot hold it."""
        factor = modes.factor(self.ny, self.nx, self.p, self.q, self.edges, self.r)
        with np.errstate(over="ignore", under="ignore"):
            return float(np.float64(self.begun) * np.float64(factor) ** self.steps)

    def advance(self, r: float, steps: int) -> None:
        """`steps` steps with the diffusion number r."""
        if r != self.r:
            self.begun, self.r, self.steps = self.amplitude, r, 0
        self.steps += steps

    def field(self) -> NDArray[np.float64]:
        """(ny, nx) exact field."""
        return self.amplitude * modes.mode(self.ny, self.nx, self.p, self.q, self.edges)

    def line(self, horizontal: bool, index: int) -> NDArray[np.float64]:
        """Row or column number `index` of the field, without making the field."""
        across = modes.profile(self.nx, self.p, self.edges)
        upward = modes.profile(self.ny, self.q, self.edges)
        return self.amplitude * (upward[index] * across if horizontal else across[index] * upward)

    def copy(self) -> ExactMode:
        """An independent copy."""
        return replace(self)
