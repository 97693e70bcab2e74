"""The benchmark of `fieldlab bench mandelbrot`: a scene's picture in one launch, or a frame after a pan.

scenes.py defines the scenes and their reference counts, comparison.py the comparison of the live readout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from time import perf_counter
from typing import Any, ClassVar

from compute.devices.backends import Backend
from compute.devices.devices import Device
from compute.labs.mandelbrot import plain_c
from compute.labs.mandelbrot.comparison import COUNTS_ONLY, RATE, RULES, PictureTarget, lacking
from compute.labs.mandelbrot.course import RACED, LanePicture, course_of, scene_of, words_of
from compute.labs.mandelbrot.lab import Mandelbrot
from compute.labs.mandelbrot.painting import ALL, kernel_of
from compute.labs.mandelbrot.place import Place, choose
from compute.labs.mandelbrot.scenes import (
    PACKAGE,
    PAN,
    REASONS,
    SCENES,
    BenchScene,
    CountsReference,
    OneLaunch,
    fitted_scene,
    kernels_of,
    lab_of,
    predicted_seconds,
    scenes,
)
from compute.labs.mandelbrot.state import FRESH
from compute.measure.benchmark import CaseBenchmark
from compute.measure.case import BenchmarkFixture, BenchPlan, Checked, Implementation, Option, Results
from compute.measure.course import Course
from compute.measure.run import BenchProgress, silent
from compute.measure.timing import Timing

LEAD = 3  # pictures of a sample of several that are not timed
COARSE = 16  # distance of the pixels of the first call, which must not take minutes

EVERY = {"cpu": ("lesson",), "gpu": ("lesson", "interior")}  # scenes on which slow kernels are timed too
MOST_STEPS = 48  # maximum pictures per sample
CHECKED = "cpu_numba"
OUTSIDE = 0.15  # of the budget, for the check against plain C++
INCLUDED = (
    "A time is that of the kernels of one whole picture in one launch on fresh pixels: between two CUDA events on a "
    "GPU, wall time on the host; without the reference orbit of a deep view. A pan is wall time: new centre, uncovered "
    "strip, frame. Giter/s count iterations that were done; a jump in a deep view counts as all that it spares."
)


class SceneFixture(BenchmarkFixture):
    """The kernels of a scene's whole picture, in one launch on fresh pixels; resetting the pixels is not timed.

    A launch can take as long as a picture. Therefore the pictures of a sample are launched without waiting, and the
    first LEAD of several are not timed: the host is then ahead, and the GPU does not wait for a launch.
    """

    def __init__(self, device: Device, scene: BenchScene, right: CountsReference) -> None:
        self.device, self._scene, self._right = device, scene, right
        self._lab: Mandelbrot | None = None

    def first(self, way: Implementation) -> tuple[Timing, float]:
        """Compute a coarse picture, which may compile; predict the time of a full one from this and a finer one.

        The prediction is a line through both, since the overhead of a launch does not grow with the pixels: NumPy's
        time is constant up to some thousand pixels, and from the coarse picture alone a picture of 0.1 s was predicted
        to take 2 s.
        """
        first = self._paint(way, stride=COARSE)
        times, pixels = [], []
        for stride in (COARSE, COARSE // 2):
            times.append(self._paint(way, stride=stride).compute)
            pixels.append(prod(-(-side // stride) for side in self._scene.shape))
        more = max(0.0, times[1] - times[0]) / max(1, pixels[1] - pixels[0])
        return first, times[1] + more * (self._scene.cells - pixels[1])

    def check(self, way: Implementation) -> Checked:
        """Compute one picture and compare its counts with the reference."""
        timing = self._paint(way)
        return Checked(*self._right.error(self.device.download(self._open(way).state.count)), timing)

    def run(self, way: Implementation, steps: int) -> Timing:
        """Compute `steps` pictures; a cell of the timing is an iteration that was done."""
        return self._paint(way, steps)

    def _paint(self, way: Implementation, pictures: int = 1, stride: int = 1) -> Timing:
        lab, raster = self._open(way), way.backend.display()
        count = lab.state.count
        part = OneLaunch(lab.painting.task, stride).part(ALL)
        deep = (lab.painting.builder.at(lab.place),) if lab.painting.builder else ()
        lead = LEAD if pictures > 1 else 0
        watches = [self.device.stopwatch() for _ in range(lead + pictures)]
        lab.state.forget_totals(self.device)
        with self.device.lock:
            for watch in watches:
                raster.fill(count, FRESH)
                with watch:
                    way.kernel(lab.state, part, *deep)
        seconds, launch = (sum(times) for times in zip(*((w.seconds(), w.launch) for w in watches[lead:]), strict=True))
        done = lab.state.sums(self.device)[0] // len(watches)
        return Timing(way.backend.name, way.variant, pictures, max(1, done), launch, seconds)

    def _open(self, way: Implementation) -> Mandelbrot:
        if self._lab is None:
            self._lab = lab_of(self._scene, way.backend.name)
            builder = self._lab.painting.builder
            while builder and not builder.ready:
                builder.advance(1000, 0)
        return self._lab


class PanFixture(BenchmarkFixture):
    """A live lab that pans between two centres. A time includes the new centre, the uncovered strips and the frame."""

    def __init__(self, device: Device, scene: BenchScene, right: CountsReference) -> None:
        self.device, self._scene, self._right = device, scene, right
        self._lab: Mandelbrot | None = None

    def first(self, way: Implementation) -> tuple[Timing, float]:
        """Compute the first picture and the first pan."""
        start = perf_counter()
        self._move(self._open(way), self._scene.view.center)
        again = self.run(way, 2)
        return Timing(way.backend.name, way.variant, 1, 1, 0.0, perf_counter() - start), again.step_seconds

    def check(self, way: Implementation) -> Checked:
        """Pan away and back, then compare all counts with the reference, both kept and recomputed ones."""
        timing = self.run(way, 2)
        return Checked(*self._right.error(self._open(way).counts()), timing)

    def run(self, way: Implementation, steps: int) -> Timing:
        """Time `steps` pans, rounded up to pairs of away and back; wall time, a cell is an iteration that was done."""
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

    def _open(self, way: Implementation) -> Mandelbrot:
        if self._lab is None:
            self._lab = lab_of(self._scene, way.backend.name, center=PAN[0], reuse=True)
        return self._lab


def _scene(text: str) -> str:
    if text not in SCENES:
        raise ValueError(f"must be some of {', '.join(repr(name) for name in SCENES)}, not {text!r}")
    return text


class MandelbrotBenchmark(CaseBenchmark):
    """Scenes, by every kernel of every backend; a pan and a deep view have one kernel per backend."""

    package = PACKAGE
    rate = RATE
    included = INCLUDED
    parameters: ClassVar[Mapping[str, Any]] = {"agreement": "share of pixels with counts that differ by more than 1"}
    lesser: ClassVar[Mapping[str, str]] = {COUNTS_ONLY: "smooth counts"}
    most_steps = MOST_STEPS
    options = (Option("scenes", _scene, f"some of {'; '.join(SCENES)}, separated by ; (default: all)"),)
    rules = RULES
    raced = RACED

    def run(self, plan: BenchPlan, progress: BenchProgress = silent) -> Results:
        """Check and time every case; then compare the CPU kernel with plain C++ if the plan contains its cases."""
        scenes = [case for case in plan.cases if case.plain] if CHECKED in plan.backends else []
        if not scenes:
            return super().run(plan, progress)
        results = super().run(replace(plan, budget=(1 - OUTSIDE) * plan.budget), progress)
        if results.interrupted is None:
            try:
                results.outside = plain_c.check(scenes, OUTSIDE * plan.budget, progress)
            except KeyboardInterrupt as stop:  # the rows are kept
                results.interrupted = stop
        return results

    def cases(self, chosen: Mapping[str, Sequence[Any]], dtypes: Sequence[str], gpu: bool) -> list[BenchScene]:
        """Return the scenes, in each dtype that they have."""
        return scenes(tuple(chosen["scenes"]), tuple(dtypes), gpu)

    def fitted(
        self,
        cases: Sequence[Any],
        chosen: Mapping[str, Sequence[Any]],  # noqa: ARG002
        gpu: bool,
        budget: float,
    ) -> tuple[Sequence[Any], tuple[str, ...]]:
        """Return smaller pictures if the machine has no GPU, halved until the predicted time fits the budget."""
        if gpu:
            return cases, ()
        fitting = [fitted_scene(case, budget / len(cases)) for case in cases]
        notes = [
            f"{case.name}: {small.shape[1]} x {small.shape[0]} pixels without a GPU; {case.shape[1]} x {case.shape[0]} "
            f"are predicted to take about {predicted_seconds(case):.2g} s a picture here"
            for case, small in zip(cases, fitting, strict=True) if small.shape != case.shape
        ]  # fmt: skip
        return fitting, tuple(dict.fromkeys(notes))

    def headline(self, cases: Sequence[BenchScene]) -> Sequence[BenchScene]:
        """Return one case of each scene in float64, the quick ones first."""
        names = ("lesson", "whole set, shortcuts", "pan", "e14", "e113", "whole set", "interior")
        first = [case for case in cases if case.dtype == "float64" and case.name in names]
        return sorted(first, key=lambda case: names.index(case.name))

    def variants(self, backend: Backend, case: BenchScene) -> Mapping[str, Any]:
        """Return the backend's kernels for this scene; none if it lacks the number type."""
        if lacking(backend, case.arithmetic):
            return {}
        if case.pan:
            return {"frame": None}
        kernels = backend.kernels(PACKAGE)
        if case.arithmetic.deep:
            return {case.arithmetic.name: kernel_of(kernels, case.arithmetic)}
        slow = case.name in EVERY[backend.kind]
        found = {name: kernel for name, kernel in kernels_of(backend).items() if slow or name not in REASONS}
        bare = kernels.counts_only
        return found | {COUNTS_ONLY: bare} if bare and case.name == "lesson" else found

    def reference(self, case: BenchScene) -> CountsReference:
        """Return the reference counts."""
        return CountsReference(case)

    def fixture(self, device: Device, case: BenchScene, right: CountsReference) -> SceneFixture | PanFixture:
        """Return the fixture that computes the scene."""
        return (PanFixture if case.pan else SceneFixture)(device, case, right)

    def disagreement(self, difference: float, tolerance: float) -> str:
        """Describe the share of differing pixels if it exceeds `tolerance`; otherwise return ""."""
        if difference <= tolerance:
            return ""
        return f"{100 * difference:.2g} % of the pixels differ by more than 1; {100 * tolerance:g} % may"

    def raced_values(self, values: Mapping[str, Any], backends: Sequence[Backend]) -> Mapping[str, Any]:
        """Return the values with the precision "auto" replaced by float32 if a lane has nothing wider."""
        lacks_float64 = any("float64" not in each.dtypes for each in backends)
        if values["precision"] != "auto" or not lacks_float64:
            return values
        place = Place.of(values["center"], values["zoom"], values["ny"], values["nx"])
        chosen = choose("auto", place, ("float32",))
        return {**values, "precision": chosen.name} if chosen.name == "float32" else values

    def refusal(self, backend: Backend, values: Mapping[str, Any]) -> str:
        """Return why a backend cannot compute the picture's number type; "" for a supported type."""
        return lacking(backend, scene_of(values).arithmetic)

    def course(self, values: Mapping[str, Any], made_by: Backend, picture: tuple[int, int]) -> Course:
        """Return the race for the view's picture."""
        scene = scene_of(values)
        right = LanePicture(scene, made_by, values, picture)
        return course_of(scene, right, lambda of: next(iter(self.variants(of, scene).values())))

    def course_words(self, values: Mapping[str, Any]) -> str:
        """Return a description of the picture."""
        return words_of(scene_of(values))

    def target(self, lab: Any) -> PictureTarget:
        """Return the target that computes whole pictures with the lab."""
        return PictureTarget(lab)


BENCHMARK = MandelbrotBenchmark()
