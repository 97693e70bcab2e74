"""What `fieldlab bench mandelbrot` times and what the live readout compares; scenes.py knows which counts are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compute.backends import Backend
from compute.bench.workload import Option
from compute.devices import Device
from compute.labs.mandelbrot.rigs import PaintingRig, PanRig
from compute.labs.mandelbrot.rules import RATE, RULES
from compute.labs.mandelbrot.scenes import PACKAGE, SCENES, Right, Scene, kernels_of, scenes
from compute.labs.mandelbrot.twin import Pictures as twin  # noqa: N813 the name that the engine asks for
from compute.labs.mandelbrot.variants import REASONS

__all__ = ["RATE", "RULES", "twin"]

DTYPES = ("float32", "float64")
EVERY = {"host": ("lesson",), "cuda": ("lesson", "interior")}  # scenes on which slow kernels are timed too
CHECK_STEPS, MOST_STEPS = 1, 48  # pictures: compared, and in one sample at most
COUNTS_ONLY = "block, counts only"  # as the lesson's own kernels, which have no smooth counts
WRONG: Mapping[str, str] = {}
PARAMETERS: Mapping[str, Any] = {"agreement": "share of pixels whose counts differ by more than 1"}
INCLUDED = (
    "A time is that of the kernels of one whole picture in one launch on fresh pixels: between two CUDA events on a "
    "GPU, wall time on the host; without the reference orbit of a deep view. A pan is wall time: new centre, uncovered "
    "strip, frame. Giter/s count iterations that were done; a jump in a deep view counts as all that it spares."
)


def _scene(text: str) -> str:
    if text not in SCENES:
        raise ValueError(f"must be some of {', '.join(repr(name) for name in SCENES)}, not {text!r}")
    return text


OPTIONS = (Option("scenes", _scene, f"some of {'; '.join(SCENES)} (default: all)"),)


def cases(chosen: Mapping[str, Sequence[Any]], dtypes: Sequence[str], gpu: bool) -> list[Scene]:
    """The scenes, in each dtype that they have."""
    return scenes(tuple(chosen["scenes"]), tuple(dtypes), gpu)


def variants(backend: Backend, case: Scene) -> Mapping[str, Any]:
    """The backend's kernels for this scene; a pan and a deep view have one."""
    if case.pan:
        return {"frame": None}
    if case.arithmetic.deep:
        return {case.arithmetic.name: getattr(backend.kernels(PACKAGE), case.arithmetic.kernel)}
    every = kernels_of(backend)
    slow = case.name in EVERY[backend.device]
    found = {name: kernel for name, kernel in every.items() if slow or name not in REASONS}
    bare = getattr(backend.kernels(PACKAGE), "counts_only", None)
    return found | {COUNTS_ONLY: bare} if bare and case.name == "lesson" else found


def reference(case: Scene) -> Right:
    """The right counts."""
    return Right(case)


def differs(difference: float, tolerance: float) -> str:
    """A disagreement in words."""
    return f"{100 * difference:.2g} % of the pixels differ by more than 1; {100 * tolerance:g} % may"


def Rig(device: Device, case: Scene, right: Right) -> PaintingRig | PanRig:  # noqa: N802 a class to its caller
    """What computes the scene."""
    return (PanRig if case.pan else PaintingRig)(device, case, right)
