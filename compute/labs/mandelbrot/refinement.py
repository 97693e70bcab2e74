"""Refinement of a finished picture: further samples per pixel, and the colour of the set.

Supersampling runs while the lab is otherwise idle. It repeats the picture with its pixels moved by fractions of a
pixel. A pixel becomes the geometric mean of its samples' smooth counts (an arithmetic mean would follow the few samples
that escape late), or part of the set if most of its samples are.

The set is coloured by |multiplier| of the cycle that attracts an orbit: 0 at a centre, 1 at an edge.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import ModuleType

import numpy as np

from compute.devices.backends import Backend, best_of_host
from compute.devices.devices import Array, Device
from compute.labs.mandelbrot.painting import Painting
from compute.labs.mandelbrot.place import Place
from compute.measure.timing import Timing

STEPS = Fraction(2**16), (Fraction(49472), Fraction(37345))  # 2^16 over the plastic number, and over its square
NOTHING = -1  # number of samples of pixels without samples

DEEPEST = -44.0  # log2 of the smallest pixel spacing at which float64 distinguishes the interior's pixels
SETTLE = 16384  # maximum iterations of the search for a cycle
LONGEST = 1024  # maximum period of a cycle
PACKAGE = "compute.labs.mandelbrot"


class Supersampler:
    """Supersampling passes over a finished picture. `samples`: in `smooth` so far, 1 before the first pass."""

    def __init__(self, device: Device, painting: Painting, colour: ModuleType, raster: ModuleType) -> None:
        self._device, self._painting, self._colour, self._raster = device, painting, colour, raster
        self._sums: Array = None
        self.smooth: Array = None
        self.samples = 1
        self._under_way = False

    def restart(self) -> None:
        """Reset, because the picture changes; the passes restart after it is finished."""
        self.samples, self._under_way = 1, False

    def advance(self, picture: Painting, budget: int) -> Timing:
        """Run about `budget` iterations of the next pass over `picture`; `smooth` changes when `samples` grows."""
        if not self._under_way:
            self._begin(picture)
        timing = self._painting.advance(budget)
        if self._painting.finished:
            self._under_way = False
            self.samples += 1
            self._fold(self._painting)
            self._colour.resolve(self._sums, self._hits, self.samples, self.smooth)
        return timing

    def _begin(self, picture: Painting) -> None:
        if self.samples == 1:
            self._clear(picture.task.key[0])
            self._fold(picture)
        place = moved(picture.task.place, self.samples)
        self._painting.begin(replace(picture.task, place=place), picture.builder, strides=(1,))
        self._under_way = True

    def _fold(self, painting: Painting) -> None:
        self._colour.blend(painting.state.smooth, self._sums, self._hits)

    def _clear(self, shape: tuple[int, int]) -> None:
        if self._sums is None or tuple(self._sums.shape) != shape:
            self._sums, self.smooth = (self._device.allocate(shape, np.float32) for _ in range(2))
            self._hits = self._device.allocate(shape, np.int32)
        for array in (self._sums, self._hits):
            self._raster.fill(array, 0)


def moved(place: Place, sample: int) -> Place:
    """Return the view of pass `sample` >= 1: moved by less than half a pixel along the R2 sequence.

    Source: M. Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018.
    """
    size, steps = STEPS
    right, up = ((sample * step % size + size / 2) % size / size - Fraction(1, 2) for step in steps)
    return replace(place, re=place.re + right * place.step, im=place.im + up * place.step)


# -- the colour of the set itself


class InteriorStrength:
    """Computes the interior's |multiplier| after a picture is finished, and caches it until the picture changes.

    The search for cycles needs float64: a backend of the host computes it for a backend that lacks float64.
    """

    def __init__(self, device: Device, backend: Backend) -> None:
        self._device, self._backend = device, backend
        self._values: Array = None
        self._known = False

    def restart(self) -> None:
        """Discard the values, because the picture changes."""
        self._known = False

    def too_deep(self, painting: Painting) -> bool:
        """Return whether this view is too deep for float64."""
        return painting.task.place.spacing.log2 < DEEPEST

    def values(self, painting: Painting) -> Array | None:
        """Return the (ny, nx) float32 values on the device, NaN outside the set; None if the view is too deep."""
        if self.too_deep(painting):
            return None
        if not self._known:
            self._compute(painting)
        return self._values

    def _compute(self, painting: Painting) -> None:
        shape = painting.task.key[0]
        if self._values is None or tuple(self._values.shape) != shape:
            self._values = self._device.allocate(shape, np.float32)
        axes, count, numbers = (
            painting.task.place.axes(),
            painting.state.count,
            (painting.task.max_iterations, SETTLE, LONGEST),
        )
        if "float64" in self._backend.dtypes:
            re, im = (self._device.upload(axis) for axis in axes)
            self._backend.kernels(PACKAGE).multiplier(re, im, count, self._values, *numbers)
        else:
            host, values = best_of_host().kernels(PACKAGE), np.empty(shape, np.float32)
            host.multiplier(*axes, self._device.download(count), values, *numbers)
            self._device.write(values, self._values)
        self._known = True
