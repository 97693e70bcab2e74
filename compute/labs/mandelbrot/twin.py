"""A second lab beside the live one, under measurement: a step is a whole picture, its result are the counts."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.schedule import Schedule
from compute.timings import Timing

SLICE = 0.02  # seconds after which a picture lets others in
PATIENCE = 6.0  # seconds after which a picture is given up: the live lab waits meanwhile, three quarters of the time
LONGEST_SLICE = 2**14  # of the lab's slices in one


class Pictures:
    """Computes the picture of a lab's view again and again, all pixels in one pass, in slices of about SLICE seconds.

    A cell of a timing is an iteration that was done; its seconds are the device's for all slices of a picture, without
    the reference orbit. A picture that takes longer than PATIENCE raises ValueError.
    """

    def __init__(self, lab: Mandelbrot) -> None:
        self._lab = lab
        self._pieces = 1  # of the lab's slices in one of ours
        self._used = self._short = 0.0  # wall seconds of this picture and of the last
        self._launch = 0.0
        self._again()

    def warm(self) -> None:
        """A picture that does not count, if it is short and none is under way."""
        if self._used == 0.0 and 0.0 < self._short < SLICE:
            while not self._piece():
                pass

    def advance(self, steps: int) -> Timing:
        """Up to `steps` pictures, as many as are finished within a slice; one that is not goes on next time."""
        start, done, launch, compute = perf_counter(), 0, 0.0, 0.0
        while True:
            finished = self._piece()
            if finished:
                launch, compute, done = launch + finished.launch, compute + finished.compute, done + 1
            if done == steps or perf_counter() - start >= SLICE:
                break
        lab = self._lab
        return Timing(lab.backend, lab.painting.name, done, max(1, self._iterations), launch, compute)

    def begin(self, seed: int) -> None:
        """Nothing: a picture starts from fresh pixels, whatever the seed."""

    def result(self) -> NDArray[np.int32]:
        """(ny, nx) counts."""
        return self._lab.counts()

    def close(self) -> None:
        """Close the lab."""
        self._lab.close()

    def _piece(self) -> Timing | None:
        """Go on with the picture; its timing once it is finished."""
        lab, start = self._lab, perf_counter()
        if lab.finished:
            self._again()
        timing = lab.advance(self._pieces)
        seconds = perf_counter() - start
        self._launch += timing.launch
        compiling = timing.first_call and timing.compute > 0
        self._used += 0.0 if compiling else seconds
        if seconds < SLICE / 3 and timing.compute > 0 and self._pieces < LONGEST_SLICE:  # of pixels, not of the orbit
            self._pieces *= 2
        elif seconds > SLICE:
            self._pieces = max(1, self._pieces // 2)
        if lab.finished:
            self._short, self._used, self._iterations = self._used, 0.0, lab.iterations
            return Timing(lab.backend, "", 1, 1, self._launch, lab.painting.seconds)
        if self._used > PATIENCE:
            raise ValueError(f"a picture of this view takes longer than {PATIENCE:.0f} s; `fieldlab bench` may time it")
        return None

    def _again(self) -> None:
        """All pixels fresh, in one pass."""
        lab = self._lab
        lab.reset()
        lab.painting.schedule = Schedule(lab.ny, lab.nx, lab.max_iterations, lab.shortcuts, (1,))
        self._launch, self._iterations = 0.0, 0
