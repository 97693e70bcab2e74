"""How a scene is computed under the clock of `fieldlab bench`: its picture in one launch, or a frame after a pan."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np

from compute.bench.workload import Checked, Way
from compute.devices import Device
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.painting import ALL
from compute.labs.mandelbrot.scenes import PAN, OneLaunch, Right, Scene, lab_of
from compute.labs.mandelbrot.state import FRESH, State
from compute.timings import Timing

COARSE = 16  # pixels between those of the first call, which must not take minutes

__all__ = ["PaintingRig", "PanRig"]


class PaintingRig:
    """The kernels of a scene's whole picture, in one launch on fresh pixels; making them fresh is not timed.

    Pictures of one sample are launched one after the other, each with counts of its own: a GPU then never waits for the
    host, whose launch may take as long as the picture.
    """

    def __init__(self, device: Device, scene: Scene, right: Right) -> None:
        self.device, self._scene, self._right = device, scene, right
        self._lab: Mandelbrot | None = None
        self._states: list[State] = []

    def first(self, way: Way) -> tuple[Timing, float]:
        """A coarse picture, which may compile, and another one to tell what a full one will take."""
        first = self._paint(way, stride=COARSE)
        again = self._paint(way, stride=COARSE)
        rows, columns = (-(-side // COARSE) for side in self._scene.shape)
        return first, again.compute * self._scene.cells / (rows * columns)

    def check(self, way: Way) -> Checked:
        """One picture, and its counts against the right ones."""
        timing = self._paint(way)
        return Checked(*self._right.error(self.device.download(self._states[0].count)), timing)

    def run(self, way: Way, steps: int) -> Timing:
        """`steps` pictures; a cell of the timing is an iteration that was done."""
        return self._paint(way, steps)

    def _paint(self, way: Way, pictures: int = 1, stride: int = 1) -> Timing:
        lab = self._open(way)
        states = self._fresh(way, lab, pictures)
        part = OneLaunch(lab.painting.task, stride).part(ALL)
        deep = (lab.painting.guide.at(lab.place),) if lab.painting.guide else ()
        self.device.synchronise()
        stopwatch = self.device.stopwatch()
        with self.device.lock, stopwatch:
            for state in states:
                way.kernel(state, part, *deep)
        seconds = stopwatch.seconds()
        done = int(self.device.download(states[0].totals)[0]) // pictures
        return Timing(way.backend.name, way.variant, pictures, max(1, done), stopwatch.launch, seconds)

    def _fresh(self, way: Way, lab: Mandelbrot, pictures: int) -> list[State]:
        """So many states with no pixel begun; all but the counts is the same memory."""
        raster, shape = way.backend.kernels("compute.raster"), self._scene.shape
        while len(self._states) < pictures:
            self._states.append(replace(lab.state, count=self.device.allocate(shape, np.int32)))
        for state in self._states[:pictures]:
            raster.gather(state.count, state.count, 1, 1, -shape[0], 0, FRESH)  # from outside of it: all are filled
        self.device.write(np.zeros(2, np.int64), lab.state.totals)
        return self._states[:pictures]

    def _open(self, way: Way) -> Mandelbrot:
        if self._lab is None:
            self._lab = lab_of(self._scene, way.backend.name)
            guide = self._lab.painting.guide
            while guide and not guide.ready:
                guide.advance(1000, 0)
        return self._lab


class PanRig:
    """A live lab that is moved to and fro: the new centre, the strips that this uncovers, and the frame."""

    def __init__(self, device: Device, scene: Scene, right: Right) -> None:
        self.device, self._scene, self._right = device, scene, right
        self._lab: Mandelbrot | None = None

    def first(self, way: Way) -> tuple[Timing, float]:
        """The first picture and the first pan."""
        start = perf_counter()
        self._move(self._open(way), self._scene.view.center)
        again = self.run(way, 2)
        return Timing(way.backend.name, way.variant, 1, 1, 0.0, perf_counter() - start), again.step_seconds

    def check(self, way: Way) -> Checked:
        """There and back again: counts that were kept and counts of the strip that came back, all against the right."""
        timing = self.run(way, 2)
        return Checked(*self._right.error(self._open(way).counts()), timing)

    def run(self, way: Way, steps: int) -> Timing:
        """`steps` pans, rounded up to as many forth as back; wall time, a cell is an iteration that was done."""
        lab, away, done = self._open(way), PAN[0], 0
        pairs = -(-steps // 2)
        start = perf_counter()
        for _ in range(pairs):
            for center in (away, self._scene.view.center):
                self._move(lab, center)
                done += lab.iterations
        seconds = perf_counter() - start
        return Timing(way.backend.name, way.variant, 2 * pairs, max(1, done // (2 * pairs)), 0.0, seconds)

    def _move(self, lab: Mandelbrot, center: tuple[str, str]) -> None:
        lab.update(center=center)
        while not lab.finished:
            lab.advance()
        lab.frame(pixels=self._scene.shape)

    def _open(self, way: Way) -> Mandelbrot:
        if self._lab is None:
            self._lab = lab_of(self._scene, way.backend.name, center=PAN[0], reuse=True)
        return self._lab
