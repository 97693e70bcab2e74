"""The colour of the set itself: |multiplier| of the cycle that attracts an orbit, 0 at a centre, 1 at an edge."""

from __future__ import annotations

import numpy as np

from compute.backends import Backend
from compute.devices import Array, Device
from compute.labs.mandelbrot.painting import Painting

DEEPEST = -44.0  # log2 of the pixel spacing down to which float64 tells the interior's pixels apart
SETTLE = 16384  # iterations within which a cycle is looked for
LONGEST = 1024  # period that is looked for
PACKAGE = "compute.labs.mandelbrot.interior"


class Inner:
    """Computes them once a picture is finished, and keeps them until it changes."""

    def __init__(self, device: Device, backend: Backend) -> None:
        self._device, self._backend = device, backend
        self._values: Array = None
        self._known = False

    def restart(self) -> None:
        """Another picture: what is known does not hold any more."""
        self._known = False

    def too_deep(self, painting: Painting) -> bool:
        """Whether float64 cannot do it for this view."""
        return painting.task.place.spacing.log2 < DEEPEST

    def values(self, painting: Painting) -> Array | None:
        """(ny, nx) float32 on the device, NaN outside the set; None if the view is too deep."""
        if self.too_deep(painting):
            return None
        if not self._known:
            self._compute(painting)
        return self._values

    def _compute(self, painting: Painting) -> None:
        shape = painting.task.key[0]
        if self._values is None or tuple(self._values.shape) != shape:
            self._values = self._device.allocate(shape, np.float32)
        re, im = (self._device.upload(axis) for axis in painting.task.place.axes())
        kernels = self._backend.kernels(PACKAGE)
        kernels.multiplier(re, im, painting.state.count, self._values, painting.task.max_iterations, SETTLE, LONGEST)
        self._known = True
