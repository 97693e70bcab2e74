"""The growth factor of a quantity that is multiplied by about the same factor in each step, from samples over time.

ln |value| of such a quantity is a straight line over the steps. The slope of the line with the least squares of its
distances gives the factor, and the distances tell how far the samples are from one exponential.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isfinite, log, sqrt

import numpy as np
from numpy.typing import NDArray

FEWEST = 3  # samples: two give a line without a residual


@dataclass(frozen=True)
class Growth:
    """A fitted exponential scale * factor**step.

    factor: per step, of the magnitude; residual: root mean square of ln |value| about the line, which for a small one
    is the relative distance of the samples from the exponential; log_scale: ln of the scale; first, last: the steps of
    the fit; samples: their number.
    """

    factor: float
    residual: float
    log_scale: float
    first: float
    last: float
    samples: int

    def log10(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log10 of the exponential at these steps."""
        return (self.log_scale + log(self.factor) * steps) / log(10)


def fitted_growth(steps: NDArray[np.float64], values: NDArray[np.float64]) -> Growth | None:
    """Return the exponential through samples (n,), whose steps need no constant distance.

    Samples that are 0 or not finite are left out. None if fewer than FEWEST remain, if all have the same step, or if
    the factor exceeds the range of a float.
    """
    usable = np.isfinite(values) & (values != 0)
    steps, logs = steps[usable], np.log(np.abs(values[usable]))
    if steps.size < FEWEST or steps.min() == steps.max():
        return None
    middle, level = float(steps.mean()), float(logs.mean())
    from_middle = steps - middle
    slope = float(from_middle @ (logs - level) / (from_middle @ from_middle))
    distances = logs - level - slope * from_middle
    if not abs(slope) < 700 or not isfinite(slope):  # e^710 overflows
        return None
    residual = sqrt(float(distances @ distances) / distances.size)
    scale = level - slope * middle
    return Growth(exp(slope), residual, scale, float(steps.min()), float(steps.max()), int(steps.size))
