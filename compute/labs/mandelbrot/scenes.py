"""The pictures that `fieldlab bench mandelbrot` times, and the reference counts of each.

The reference counts are computed by cpu_numpy: in float64, or by perturbation without a table, every step computed, on
a lattice of as many pixels as NumPy can compute in reasonable time. A result agrees if few pixels differ by more than
1: where an orbit grazes the circle |z| = 2, one rounding decides.

REASONS and MIX describe the cost of each variant of the direct kernel, and why the slow variants are slow; DIFFERENCES
why the counts of a fast one differ.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.devices.backends import Backend
from compute.devices.devices import cpu_count
from compute.labs.mandelbrot.lab import Mandelbrot
from compute.labs.mandelbrot.painting import ALL, PictureTask
from compute.labs.mandelbrot.place import PRECISIONS, Place, Precision, choose
from compute.labs.mandelbrot.schedule import RefinementPass, Schedule
from compute.labs.mandelbrot.views import LESSON_SHAPE, VIEWS, Landmark

FUSED, ADDED, REAL = "3 FMA + 1 ADD", "3 FMA + 1 integer ADD", "4 FMA"
EACH = "2 FMA + 3 MUL + 3 ADD + 1 comparison + 3 of the loop"
NUMBA_EACH = "3 FMA + 2 MUL + 2 ADD + 1 comparison + those of the loop"
HOST, HOST_EACH = "3 MUL + 4 ADD", "5 MUL + 5 ADD + 1 comparison"
POWER = "a call of pow, one of hypot"

REASONS: Mapping[str, str] = {
    "doubling by addition": (
        "Doubles by x + x. On Hopper a float32 addition goes to one of two pipes only, and a float64 one shares the "
        "pipe of the fused multiply-adds; 2x + 0 and an addition to the exponent do not."
    ),
    "one pixel at a time": (
        "The same arithmetic, but a thread follows one pixel: each step waits for the one before, and a vector "
        "register with room for 4 to 16 numbers holds one. The default steps 64 pixels together."
    ),
    "test each step": (
        "Computes |z|² and compares after each step: 12 instructions or more where 4 do the work. A test of the last "
        "of many steps is enough, because |z| > 2 only grows. It shows where pixels stay long, little in 20 iterations."
    ),
    "float64 literals": (
        "Written with 2 and 4.0, which are float64: float32 numbers are then computed in float64, at half the rate on "
        "this kind of GPU and at 1/32 or 1/64 on others. In float64 it costs nothing."
    ),
    "complex z**2": (
        "z**2 is the general complex power and abs(z) a hypotenuse: hundreds of instructions a step. z * z would do."
    ),
}
"""By variant: why it is slow. The default has nothing to explain."""
DIFFERENCES: Mapping[str, str] = {
    "fused": (
        "Contracts each product with the following sum to a fused multiply-add, as CUDA kernels do: fewer operations a "
        "step, and other roundings than NumPy. At the boundary of the set some percent of a picture's counts differ; "
        "the default has NumPy's counts."
    ),
}
"""By variant: how the counts of a fast kernel differ from those of the default."""

_BOTH = ("float32", "float64")
MIX: Mapping[tuple[str, str, str], str] = {
    **{("cpu_numpy", "block", dtype): f"{HOST}, each an array operation" for dtype in _BOTH},
    **{("cpu_numba", "block", dtype): f"{HOST}, a test each 16 steps, 64 pixels at once" for dtype in _BOTH},
    **{("cpu_numba", "one pixel at a time", dtype): f"{HOST}, a test each 16 steps" for dtype in _BOTH},
    **{("cpu_numba", "test each step", dtype): f"{HOST_EACH}" for dtype in _BOTH},
    **{("cpu_numba", "complex z**2", dtype): POWER for dtype in _BOTH},
    **{("gpu_numba", "block", dtype): f"{FUSED}, a test each 16 steps" for dtype in _BOTH},
    **{("gpu_numba", "test each step", dtype): NUMBA_EACH for dtype in _BOTH},
    ("gpu_numba", "float64 literals", "float32"): f"{NUMBA_EACH}, all in float64",
    ("gpu_numba", "float64 literals", "float64"): NUMBA_EACH,
    **{("gpu_numba", "complex z**2", dtype): POWER for dtype in _BOTH},
    ("gpu_cupy", "block", "float32"): f"{REAL}, a test each 128 steps",
    ("gpu_cupy", "block", "float64"): f"{ADDED}, a test each 128 steps",
    ("gpu_wgpu", "block", "float32"): f"{HOST} + 3 XOR, which keep the roundings, a test each 16 steps",
    ("gpu_wgpu", "fused", "float32"): f"{FUSED}, a test each 16 steps",
    **{("gpu_cupy", "doubling by addition", dtype): f"{FUSED}, a test each 32 steps" for dtype in _BOTH},
    **{("gpu_cupy", "test each step", dtype): EACH for dtype in _BOTH},
}
"""By backend, variant and dtype: the instructions of one step, counted in the machine code for sm_90 (CUDA) or in the
source (WebGPU; host, where nothing is fused)."""

PACKAGE = "compute.labs.mandelbrot"
TOLERANCE = {"float64": 1e-3, "float32": 5e-3}  # share of pixels; see `BenchScene.tolerance` for float32
SQUARE = (2048, 2048)
SCREEN, SMALL_SCREEN = (1080, 1920), (270, 480)  # rows and columns; the small screen is used without a GPU
LATTICE = 2000  # maximum number of pixels compared in deep views
PAN = ("-0.4", "0.0"), 36  # centre after a pan to the right from the whole set, and the distance in pixels of 1080 rows
FOUR_THIRDS = "1." + 39 * "3"  # zoom of a view 3 high, to 1e-39


@dataclass(frozen=True)
class BenchScene:
    """One picture: a view, its shape in pixels, and its arithmetic.

    name: for `--scenes`; shortcuts: whether cardioid, disc and periodicity may end pixels early; pan: time a frame of a
    lab after a pan instead of the kernels of a picture.
    """

    name: str
    view: Landmark
    shape: tuple[int, int]
    dtype: str = "float64"
    shortcuts: bool = False
    pan: bool = False

    @property
    def place(self) -> Place:
        """The position of the pixels."""
        return Place.of(self.view.center, self.view.zoom, *self.shape)

    @property
    def arithmetic(self) -> Precision:
        """Direct in `dtype`, or perturbation if float64 cannot distinguish the pixels."""
        deep = choose("auto", self.place).deep
        return choose("perturbation", self.place) if deep else PRECISIONS[self.dtype]

    @property
    def task(self) -> PictureTask:
        """The whole picture by the backend's default kernel."""
        return PictureTask(self.place, self.arithmetic, self.view.max_iterations, self.shortcuts)

    @property
    def title(self) -> str:
        """Description of the work."""
        words = f"{self.shape[1]} x {self.shape[0]}  {self.arithmetic.name}  {self.view.max_iterations} iterations"
        if self.pan:
            return f"{self.name}  {words}  one frame after a pan by {self.pan_pixels} pixels, end to end"
        return f"{self.name}  {words}  shortcuts {'on' if self.shortcuts else 'off'}"

    @property
    def pan_pixels(self) -> int:
        """Columns by which the scene "pan" is moved."""
        return PAN[1] * self.shape[0] // SCREEN[0]

    @property
    def tolerance(self) -> float:
        """Share of pixels that may differ by more than 1 from the counts of float64.

        In float32 c and z are rounded 5e8 times as coarsely, so 0.2 % of the whole set's pixels, all at its boundary,
        have another count. This is a property of float32, not an error of a kernel.
        """
        return TOLERANCE[self.dtype]

    @property
    def cells(self) -> int:
        """Number of pixels."""
        return self.shape[0] * self.shape[1]

    @property
    def needed_bytes(self) -> int:
        """Bytes of z, place, count and smooth count, doubled for a pan."""
        return 2 * 32 * self.cells

    @property
    def plain(self) -> bool:
        """Whether an iteration costs the same as in a plain loop; jumps cost less, a whole frame more."""
        return not self.arithmetic.deep and not self.pan

    @property
    def shared(self) -> Hashable:
        """The key of the reference counts, which depend neither on dtype nor on shortcuts."""
        return self.view, self.shape

    @property
    def pace(self) -> Hashable:
        """The key of the pace, which scenes do not share."""
        return self.name, self.dtype, self.shape

    def facts(self) -> dict[str, Any]:
        """Return the values for the record."""
        (ny, nx), view = self.shape, self.view
        return {
            "ny": ny, "nx": nx, "dtype": self.dtype, "scene": self.name, "center": list(view.center),
            "zoom": view.zoom, "max_iterations": view.max_iterations, "shortcuts": self.shortcuts,
            "arithmetic": self.arithmetic.name,
        }  # fmt: skip


INTERIOR = Landmark(("-0.05", "0.0"), "10", 4096)  # x from -0.25 to 0.15, y from -0.2 to 0.2: entirely in the cardioid
WHOLE = Landmark(("-0.5", "0.0"), FOUR_THIRDS, 1000)  # x from -2 to 1, y from -1.5 to 1.5
SCENES = {
    "lesson": BenchScene("lesson", VIEWS["lesson"], LESSON_SHAPE),
    "whole set": BenchScene("whole set", WHOLE, SQUARE),
    "whole set, shortcuts": BenchScene("whole set, shortcuts", WHOLE, SQUARE, shortcuts=True),
    "interior": BenchScene("interior", INTERIOR, SQUARE),
    "e14": BenchScene("e14", VIEWS["e14"], SCREEN),
    "e113": BenchScene("e113", VIEWS["e113"], SCREEN),
    "pan": BenchScene("pan", WHOLE, SCREEN, shortcuts=True, pan=True),
}


def scenes(names: tuple[str, ...], dtypes: tuple[str, ...], gpu: bool) -> list[BenchScene]:
    """Return the scenes called `names` (() for all) in each of their dtypes; without a GPU on the small screen."""
    found = []
    for name in names or tuple(SCENES):
        scene = SCENES[name]
        if scene.shape == SCREEN and not gpu:
            scene = replace(scene, shape=SMALL_SCREEN)
        own = ("float64",) if scene.arithmetic.deep or scene.pan else dtypes
        found += [replace(scene, dtype=dtype) for dtype in own if dtype in dtypes]
    return found


ITERATIONS = {  # mean per pixel, or the number that takes as long, by scene
    "lesson": 11.3, "whole set": 220.0, "whole set, shortcuts": 30.0, "interior": 4096.0, "e14": 1300.0, "e113": 4500.0,
    "pan": 30.0,
}  # fmt: skip
CPU_RATE = 2e8  # iterations per second and core, to predict the time of a picture without a GPU
CALLS = 6  # calls of the fastest kernel in a picture's first pass, including checks and two other kernels
LEAST_ROWS = 90


def predicted_seconds(scene: BenchScene) -> float:
    """Return the predicted seconds of Numba on all cores for a picture, correct within a small factor."""
    return scene.cells * ITERATIONS.get(scene.name, scene.view.max_iterations) / (CPU_RATE * cpu_count())


def fitted_scene(scene: BenchScene, seconds: float) -> BenchScene:
    """Return the scene with its sides halved until CALLS pictures take `seconds`; the lesson is unchanged."""
    while scene.name != "lesson" and CALLS * predicted_seconds(scene) > seconds and scene.shape[0] >= 2 * LEAST_ROWS:
        scene = replace(scene, shape=(scene.shape[0] // 2, scene.shape[1] // 2))
    return scene


class OneLaunch(Schedule):
    """Every stride-th pixel of a fresh picture up to the last iteration, in one launch."""

    def __init__(self, task: PictureTask, stride: int = 1) -> None:
        super().__init__(task.place.ny, task.place.nx, task.max_iterations, task.shortcuts, fresh=True)
        self._passes = [RefinementPass(stride, task.max_iterations)]


def kernels_of(backend: Backend) -> Mapping[str, Any]:
    """Return a backend's kernels for direct iteration by name, its default first."""
    found: Mapping[str, Any] = backend.kernels(PACKAGE).VARIANTS
    return found


def lab_of(scene: BenchScene, backend: str, **values: Any) -> Mandelbrot:
    """Return a lab that displays the scene; `values` are parameters of the lab."""
    view, (ny, nx) = scene.view, scene.shape
    shown = {
        "backend": backend, "center": view.center, "zoom": view.zoom, "ny": ny, "nx": nx,
        "max_iterations": view.max_iterations, "shortcuts": scene.shortcuts,
        "precision": "perturbation" if scene.arithmetic.deep else scene.dtype,
    }  # fmt: skip
    return Mandelbrot(**(shown | values))


class CountsReference:
    """The reference counts of every stride-th pixel of a scene."""

    def __init__(self, scene: BenchScene) -> None:
        deep = scene.arithmetic.deep
        self.stride = max(1, round((scene.cells / LATTICE) ** 0.5)) if deep else 1
        # Without a table there are no shortcuts either: every step is computed.
        exact = replace(scene, dtype="float64", shortcuts=not deep)
        with closing(lab_of(exact, "cpu_numpy")) as lab:
            lab.painting.schedule = OneLaunch(lab.painting.task, self.stride)
            while not lab.finished:
                lab.painting.advance(ALL)
            self.counts: NDArray[np.int32] = lab.state.count[:: self.stride, :: self.stride].copy()
        lattice = f", one pixel in {self.stride} x {self.stride}" if deep else ""
        self.name = f"cpu_numpy {'perturbation without a table' if deep else 'float64'}{lattice}"

    def error(self, counts: NDArray[np.int32]) -> tuple[float, float]:
        """Return (share of pixels that differ by more than 1, largest difference) for the counts of a whole picture."""
        return apart(self.counts, counts[:: self.stride, :: self.stride])


def apart(right: NDArray[Any], got: NDArray[Any]) -> tuple[float, float]:
    """Return (share of pixels that differ by more than 1, largest difference) of two pictures of counts."""
    difference = np.abs(right.astype(np.int64) - got)
    return float(np.mean(difference > 1)), float(difference.max())
