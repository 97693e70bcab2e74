"""The comparison in the live readout of a Mandelbrot lab, and the second lab that it measures.

See compute/measure/rules.py. A step of the second lab is a whole picture; its result is the counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, nan
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.devices.backends import BACKENDS, Backend, backend
from compute.devices.gpu_devices import Cuda
from compute.lab.frames import Frame
from compute.labs.mandelbrot.lab import Mandelbrot
from compute.labs.mandelbrot.place import DOUBLE_SINGLE, Place, Precision, choose
from compute.labs.mandelbrot.scenes import MIX, PACKAGE, REASONS, TOLERANCE, apart, kernels_of
from compute.labs.mandelbrot.schedule import Schedule
from compute.labs.mandelbrot.views import LESSON_SHAPE, VIEWS
from compute.measure.agreement import Agreement
from compute.measure.rates import Rate
from compute.measure.records import Recorded, RecordedPair, Revisions, outdated, paired
from compute.measure.rules import Chart, ComparisonRules, Fact, LabValues
from compute.measure.timing import Timing
from compute.measure.verdict import Variant

STEP_INSTRUCTIONS = 4.0  # three fused multiply-adds and an addition
BLOCK = "block"  # the fast kernel
COUNTS_ONLY = "block, counts only"  # comparable to the lesson's kernels, which have no smooth counts


def own_instructions(name: str, variant: str, dtype: str, steps: int) -> float:  # noqa: ARG001 - however many
    """Return the part of the four instructions per iteration that the kernel's loop runs on the units of the roof.

    In float64 the fast kernel doubles by an integer addition (gpu_cupy.cu), in addition to three instructions on the
    FP64 pipe.
    """
    fast = backend(name).device_class is Cuda and (variant or BLOCK) in (BLOCK, COUNTS_ONLY)
    return 0.75 if fast and dtype == "float64" else 1.0


RATE = Rate(
    "Giter/s", "iterations", "picture", "fma", "instructions", lambda _: STEP_INSTRUCTIONS,
    "fewer instructions than were counted, or the roof was disturbed", own_instructions,
)  # fmt: skip
REVISIONS: Revisions = {("cpu_numba", "block"): 2, ("cpu_numba", "frame"): 2}  # 2: 64 pixels in vector registers
WHOLE_SET, SHORTCUTS, LESSON_SCENE = "whole set", "whole set, shortcuts", "lesson"  # scenes of a record
SCENES_IN_WORDS = {
    WHOLE_SET: "the whole set without shortcuts",
    SHORTCUTS: "the whole set with shortcuts",
    LESSON_SCENE: "the lesson's scene without shortcuts",
}
TIMED_ROWS = 360  # maximum rows of the timed pictures
CHECK_ROWS = 128  # rows of the compared pictures
HOST_WORK = 2e8  # pixels x iterations of a timed picture without a GPU: a second or two on two cores
DEEP_WORK = 6e7  # pixels x iterations of a compared picture in deep views: NumPy computes every step
FEW = 2  # pixels that may differ in any picture, however small
LESSON = "A GPU lesson, its GPU unnamed: x -1.5 to 0, y -1 to 0, 3000 × 2000 pixels, 20 iterations, complex128"
LESSON_ITERATIONS = 67.95e6
LESSON_SECONDS = (
    ("gpu_numba", "Numba-CUDA", 3.07e-3), ("gpu_cupy", "CuPy RawKernel", 3.45e-3), ("gpu_cupy", "JAX, GPU", 3.79e-3),
    ("gpu_cupy", "CuPy arrays", 53.8e-3), ("cpu_numba", "JAX, CPU", 83.2e-3), ("cpu_numba", "Numba", 0.116),
    ("cpu_numpy", "NumPy", 0.928), ("cpu_numpy", "Python", 24.718),
)  # fmt: skip
CITED = tuple(
    Recorded(
        "mandelbrot", "GPU unnamed", "", backend, name, *LESSON_SHAPE, "float64", "lesson", seconds,
        LESSON_ITERATIONS / seconds, cited=LESSON,
    )
    for backend, name, seconds in LESSON_SECONDS
)  # fmt: skip


SLICE = 0.02  # seconds after which a picture yields to other work
PATIENCE = 6.0  # seconds after which a picture is abandoned: the live lab waits during three quarters of that time
LONGEST_SLICE = 2**14  # maximum of the lab's slices per piece


class PictureRules(ComparisonRules):
    """A step is one whole picture.

    No variant is refused, because a picture that takes too long is abandoned during its computation. The other defaults
    apply too: the second labs are small and do not crowd an engine, and the roof is arithmetic, so no cache is named.
    """

    rate = RATE
    timed = ("ny", "nx", "center", "zoom", "max_iterations", "precision", "fidelity", "shortcuts")
    checked = timed
    reference = Variant("cpu_numpy")
    revisions = REVISIONS
    included = (
        f"The kernels of one picture of this view, at most {TIMED_ROWS} rows high, the same for all; the lesson's "
        "scene at its own size, shortcuts off. Without the reference orbit of a deep view."
    )

    def own(self, variant: Variant, values: LabValues) -> dict[str, Any]:  # noqa: ARG002
        """Return the arithmetic of the live picture, because the smaller picture might choose another."""
        return {"precision": "perturbation" if arithmetic(values).deep else arithmetic(values).name}

    def right(self, values: LabValues) -> dict[str, Any]:
        """Return the arithmetic of "auto", with every step computed."""
        deep = choose("auto", _place(values)).deep
        return {"precision": "perturbation" if deep else "float64", "fidelity": "exact"}

    def small(self, values: LabValues) -> dict[str, Any]:
        """Return the same view in few pixels."""
        return _shrunk(values, CHECK_ROWS, DEEP_WORK if choose("auto", _place(values)).deep else inf)

    def sampled(self, values: LabValues) -> dict[str, Any]:
        """Return the same view, smaller; the lesson's scene in its own size, every iteration computed."""
        if is_lesson(values):
            return {"ny": LESSON_SHAPE[0], "nx": LESSON_SHAPE[1], "shortcuts": False}
        work = DEEP_WORK if choose("auto", _place(values)).deep else HOST_WORK
        return _shrunk(values, TIMED_ROWS, inf if any(b.kind == "gpu" for b in _here()) else work)

    def agreement(self, right: NDArray[Any], got: NDArray[Any], values: LabValues, steps: int) -> Agreement:  # noqa: ARG002
        """Return the agreement, by the share of pixels whose counts differ by more than 1."""
        share, largest = apart(right, got)
        ny, nx = right.shape
        tolerance = max(TOLERANCE["float32" if values["precision"] == "float32" else "float64"], FEW / right.size)
        way = "by perturbation, every step done," if self.right(values)["precision"] == "perturbation" else "in float64"
        beyond = "" if share <= tolerance else f" > {100 * tolerance:.2g} %"
        return Agreement(
            share,
            tolerance,
            f"{100 * share:.2g} % of pixels differ{beyond}",
            f"The worse of both, against NumPy {way} on {nx} × {ny} pixels of this view: counts that differ by more "
            f"than 1; up to {100 * tolerance:.2g} % counts as right. Largest difference {largest:.0f} iterations",
        )

    def cells(self, values: LabValues) -> int:
        """Return the number of pixels."""
        return int(values["ny"]) * int(values["nx"])

    def others(self, values: LabValues) -> Sequence[Variant]:
        """Return every kernel available here for the lesson's scene."""
        return all_variants() if is_lesson(values) else ()

    def dtype(self, values: LabValues) -> str:
        """Return the type of z."""
        return arithmetic(values).dtype

    def refusal(self, variant: Variant, values: LabValues) -> str:
        """Return why a variant is not timed at these values: its backend lacks their number type."""
        return lacking(backend(variant.backend), arithmetic(values))

    def facts(self, values: LabValues, frame: Frame, roof: float) -> Sequence[Fact]:
        """Return the facts of the live picture: rate, percent of the roof, iterations, time if no pixel was reused."""
        named = ("iterations", "timed_iterations", "compute_seconds")
        done, timed, seconds = (frame.facts.get(name, nan) for name in named)
        rate = timed / seconds if timed > 0 and seconds > 0 else nan
        plain = not arithmetic(values).deep
        doubled = frame.notes.get("precision") == DOUBLE_SINGLE  # WebGPU's arithmetic in place of perturbation
        if lacking(backend(values["backend"]), arithmetic(values)):
            roof = nan  # of the chosen backend's device, while another one computes
        kernel = values["backend"], values.get("variant", ""), self.dtype(values), 1
        percent = RATE.share(*kernel) * RATE.percent(rate, self.dtype(values), roof) if plain else nan
        complete = frame.facts.get("finished") and not frame.facts.get("reused")
        whole = Fact(WHOLE, seconds if complete and isfinite(rate) else nan, "seconds", WHOLE_ABOUT)
        if complete and frame.facts.get("cold"):
            whole = Fact(WHOLE, "not measured: its kernels were loaded", "text", COLD_ABOUT)
        return (
            Fact("Rate of this picture", rate, "rate", RATE_ABOUT if plain or doubled else DEEP_ABOUT),
            Fact("Part of the FMA roof", percent, "percent", FMA_ABOUT),
            *self._mix(values),
            Fact("Iterations done", done if done > 0 else nan, "count", "On all pixels since the view was set."),
            whole,
        )

    def _mix(self, values: LabValues) -> Sequence[Fact]:
        """Return the instructions of a step in the live picture's kernel; empty for a deep view, whose steps vary."""
        variant = values.get("variant") or "block"
        mix = MIX.get((values["backend"], variant, self.dtype(values)))
        return (Fact("A step", mix, "text", MIX_ABOUT),) if mix and not arithmetic(values).deep else ()

    def elsewhere(self, values: LabValues, figures: Sequence[Recorded]) -> Sequence[Recorded]:
        """Return the fastest record of the whole set with the precision and shortcuts of the live picture."""
        scene = SHORTCUTS if values["shortcuts"] else WHOLE_SET
        known = (f for f in _recorded(figures, scene) if not outdated(f, self.revisions))
        fitting = [f for f in known if f.dtype == self.dtype(values)]
        return [min(fitting, key=lambda f: f.step)] if fitting else []

    def recorded_pair(self, values: LabValues, figures: Sequence[Recorded]) -> RecordedPair | None:
        """Return the pair on the lesson's scene if the view shows it, else on the whole set.

        Precision and shortcuts are those of the live picture, and counts are smooth, as in the live picture. The
        lesson's scene is timed at its own size without shortcuts, which is the same work. The whole set has a different
        size and is not the same work.
        """
        same, dtype = is_lesson(values), self.dtype(values)
        scene = LESSON_SCENE if same else SHORTCUTS if values["shortcuts"] else WHOLE_SET
        fitting = (f for f in figures if (f.lab, f.case, f.dtype) == ("mandelbrot", scene, dtype))
        known = [f for f in fitting if f.variant != COUNTS_ONLY]
        size = f"{known[0].nx} × {known[0].ny} pixels, " if known else ""
        words = f"{SCENES_IN_WORDS[scene]}, {size}{dtype}"
        return paired(known, words, same, revisions=self.revisions)

    def chart(self, values: LabValues, figures: Sequence[Recorded]) -> Chart | None:
        """Return all backends and all kernels on the lesson's scene if the view shows it, else None."""
        if not is_lesson(values):
            return None
        ways = tuple(Variant(b.name) for b in _here()) + all_variants()
        known = [f for f in _recorded(figures, "lesson") if f.dtype == "float64"]
        fastest = min(known, key=lambda f: f.step, default=None)
        recorded = tuple(f for f in known if fastest and f.machine == fastest.machine)  # no duplicate rows
        reasons = {way: REASONS[way.name] for way in _slow()}
        return Chart("The lesson's scene, shortcuts off", ways, reasons, (*recorded, *CITED))


RATE_ABOUT = "Iterations computed, divided by their device time; shortcuts save iterations."
DEEP_ABOUT = "Iterations including those skipped by bilinear approximation."
MIX_ABOUT = (
    "Instructions of one z² + c: FMA fused multiply-add, MUL multiplication, ADD addition. Those of a GPU were counted "
    "in the machine code for a Hopper GPU, those of the host and of WebGPU in the source."
)
FMA_ABOUT = (
    "A step is 3 fused multiply-adds and 1 addition: 4 instructions, against the fused multiply-adds a second that "
    "this device does at most, measured now or within a week before. Of a kernel that doubles by an integer addition 3 "
    "are counted; host kernels do not fuse and need 7, of which 4 are counted."
)
WHOLE = "Time of the full picture"
WHOLE_ABOUT = "Device time of all launches of this picture, coarse passes included."
COLD_ABOUT = "The first launch of a kernel loads or compiles it, so its time is not shown. The next view's time is."
RULES = PictureRules()


def is_lesson(values: LabValues) -> bool:
    """Return whether a view is the lesson's scene, at any size in pixels."""
    lesson, one = VIEWS["lesson"], (1, 1)
    here, there = _place(values, one), Place.of(lesson.center, lesson.zoom, *one)
    return values["max_iterations"] == lesson.max_iterations and here == there


def arithmetic(values: LabValues) -> Precision:
    """Return the arithmetic of the live picture."""
    dtypes = {"dtypes": backend(values["backend"]).dtypes} if "backend" in values else {}
    return choose(values["precision"], _place(values), **dtypes)


def lacking(backend: Backend, precision: Precision) -> str:
    """Return what a backend lacks for an arithmetic, as a text that follows its name; "" if it has a kernel."""
    return "" if precision.dtype in backend.dtypes else f"has no {precision.dtype}"


def all_variants() -> tuple[Variant, ...]:
    """Return every kernel available here, except the backends' defaults."""
    return tuple(Variant(b.name, variant) for b in _here() for variant in list(kernels_of(b))[1:])


def _slow() -> tuple[Variant, ...]:
    """Return all kernels that are slow on purpose, including those unavailable here."""
    return tuple(dict.fromkeys(Variant(backend, variant) for backend, variant, _ in MIX if variant in REASONS))


def _here() -> list[Any]:
    return [b for b in BACKENDS if b.ready and b.has_kernels(PACKAGE)]


def _recorded(figures: Sequence[Recorded], scene: str) -> list[Recorded]:
    return [f for f in figures if (f.lab, f.case) == ("mandelbrot", scene) and f.kind == "gpu"]


def _place(values: LabValues, shape: tuple[int, int] | None = None) -> Place:
    return Place.of(values["center"], values["zoom"], *(shape or (values["ny"], values["nx"])))


def _shrunk(values: LabValues, rows: int, work: float) -> dict[str, Any]:
    """Return the view in at most `rows` rows and `work` pixels x iterations, in the same proportions."""
    ny, nx = values["ny"], values["nx"]
    scale = min(1.0, rows / ny, (work / (ny * nx * values["max_iterations"])) ** 0.5)
    return {"ny": max(1, round(ny * scale)), "nx": max(1, round(nx * scale))}


# -- the second lab


class PictureTarget:
    """Computes the picture of a lab's view repeatedly, all pixels in one pass, in slices of about SLICE seconds.

    A cell of a timing is an iteration that was done; its seconds are the device's for all slices of a picture, without
    the reference orbit. A picture that takes longer than PATIENCE raises ValueError.
    """

    def __init__(self, lab: Mandelbrot) -> None:
        self._lab = lab
        self._pieces = 1  # of the lab's slices per piece
        self._used = self._short = 0.0  # wall seconds of this picture and of the last
        self._launch = 0.0
        self._again()

    def warm(self) -> None:
        """Compute a picture that is not timed, if pictures are short and the last is complete."""
        if self._used == 0.0 and 0.0 < self._short < SLICE:
            while not self._piece():
                pass

    def advance(self, steps: int) -> Timing:
        """Compute up to `steps` pictures, those that finish within a slice; the next call continues the rest."""
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
        """Do nothing: a picture starts from fresh pixels for every seed."""

    def result(self) -> NDArray[np.int32]:
        """Return the (ny, nx) counts."""
        return self._lab.counts()

    def close(self) -> None:
        """Close the lab."""
        self._lab.close()

    def _piece(self) -> Timing | None:
        """Advance the picture; return its timing after the last piece, else None."""
        lab, start = self._lab, perf_counter()
        if lab.finished:
            self._again()
        timing = lab.advance(self._pieces)
        seconds = perf_counter() - start
        self._launch += timing.launch
        compiling = timing.first_call and timing.compute > 0
        self._used += 0.0 if compiling else seconds
        if seconds < SLICE / 3 and timing.compute > 0 and self._pieces < LONGEST_SLICE:  # pixels, not the orbit
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
        """Restart the picture with fresh pixels, in one pass."""
        lab = self._lab
        lab.reset()
        lab.painting.schedule = Schedule(lab.ny, lab.nx, lab.max_iterations, lab.shortcuts, (1,), fresh=True)
        self._launch, self._iterations = 0.0, 0
