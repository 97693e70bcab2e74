"""Tests for every lab in every backend, including one from outside this repository."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from compute.devices.backends import BACKENDS, Backend
from compute.lab.frames import Frame
from compute.lab.lab import variants
from compute.labs import lab_class
from compute.measure.timing import Timing
from tests.conftest import WAVE
from tests.sources import ROOT

STEPS = 25
# values of each lab, the compared results, and their tolerance, relative to their size
CASES = {
    "diffusion": ({"ny": 33, "nx": 50, "preset": "noise", "dtype": "float64"}, ("field", "laplacian"), 1e-13),
    "mandelbrot": ({"ny": 24, "nx": 33, "max_iterations": 200, "precision": "float64"}, ("counts",), 0.0),
    "l_curve": (
        {"problem": "shaw", "n": 40, "noise": 1e-3, "dtype": "float64"},
        ("residual_norms", "solution_norms"),
        1e-6,
    ),
    "equations": ({"text": "burgers", "ny": 33, "nx": 50, "dtype": "float64"}, ("u", "v"), 1e-12),
    "wave": ({"ny": 33, "nx": 50, "damping": 0.1, "dtype": "float64"}, ("u", "before"), 1e-13),
}
FUSED = {"mandelbrot": 2e-3}  # on a GPU, fused multiply-adds round differently: a few counts differ by one
FOLDERS = {name: WAVE if name == "wave" else ROOT / "compute" / "labs" / name for name in CASES}


@pytest.fixture(params=CASES)
def name(request, wave):
    """Return the name of each lab in turn; the fixture `wave` registers that lab."""
    return request.param


@pytest.fixture
def apart(name, any_backend):
    """Return the tolerance of that backend's results in its widest number type."""
    exact = CASES[name][2] if any_backend.device == "host" else FUSED.get(name, CASES[name][2])
    return exact if "float64" in any_backend.dtypes else max(exact, 1e-5)


def values_for(name: str, backend: Backend) -> dict[str, object]:
    """Return the case's values in the widest number type of `backend`."""
    return {key: backend.dtypes[-1] if value == "float64" else value for key, value in CASES[name][0].items()}


@pytest.fixture
def make(name, any_backend):
    """Return a function that makes the lab with the current backend, or another one."""
    labs = []

    def made(backend: Backend = any_backend, **values):
        if backend.name not in {each.name for each in lab_class(name).backends()}:
            pytest.skip(f"{name} has no {backend.name}")
        labs.append(lab_class(name)(**{**values_for(name, any_backend), "backend": backend.name, **values}))
        return labs[-1]

    yield made
    for lab in labs:
        lab.close()


def run(lab, slices=(STEPS,)):
    """Return the results after STEPS steps, or at the lab's end."""
    if lab.ENDS:
        while not lab.status.resting:
            lab.advance(slices[0])
    else:
        for steps in slices:
            lab.advance(steps)
    return {what: np.asarray(lab.data()[what], float) for what in CASES[lab.LAB][1]}


def require_equal(found, wanted, apart):
    for what, right in wanted.items():
        assert np.linalg.norm(found[what] - right) <= apart * np.linalg.norm(right), what


def test_every_backend_gives_the_results_of_the_reference(make, apart):
    found, wanted = run(make()), run(make(BACKENDS[0]))
    require_equal(found, wanted, apart)
    assert all(right.size and np.ptp(right) > 0 for right in wanted.values())


def test_splitting_the_steps_changes_no_bit(make, name):
    require_equal(run(make(), (1,) * STEPS), run(make(), (3, 1, 21)), 0.0)


def test_a_snapshot_continues_in_the_reference(make, apart):
    lab, other = make(), make(BACKENDS[0])
    lab.advance(5)
    other.restore(lab.snapshot())
    slices = () if lab.ENDS else (STEPS - 5,)
    require_equal(run(other, slices or (5,)), run(lab, slices or (5,)), apart)


def test_another_backend_continues_the_state(make, name, any_backend, apart):
    lab, other = make(), make()
    lab.advance(5)
    lab.update(backend="cpu_numpy")
    slices = () if lab.ENDS else (STEPS - 5,)
    require_equal(run(lab, slices or (5,)), run(other), apart)
    lab.reset()
    lab.update(**values_for(name, any_backend))
    require_equal(run(lab), run(other if lab.ENDS else make()), apart)


def test_a_frame_contains_its_parts_number_and_timing(make, name):
    lab = make()
    timing = lab.advance(3)
    assert isinstance(timing, Timing)
    assert timing.steps >= 1
    assert timing.cells > 0
    assert timing.compute > 0
    frame = lab.frame(None, (16, 16))
    assert isinstance(frame, Frame)
    assert frame.timing.backend == lab.backend
    assert frame.number > 0
    for raster in frame.rasters.values():
        assert raster.levels.dtype == np.uint8
        assert max(raster.levels.shape) <= 16
    assert set(lab.panels(frame)) or not frame.parts
    with pytest.raises(ValueError, match="steps must be at least 1, not 0"):
        lab.advance(0)
    with pytest.raises(ValueError, match="no parameter 'unknown'; it has"):
        lab.update(unknown=1)
    with pytest.raises(ValueError, match="action must be one of"):
        lab.act("close")


def test_a_lab_has_a_text_and_kernels(make, name):
    lab = make()
    assert type(lab).about().startswith("# ")
    kernels = variants(type(lab), lab.backend)
    assert kernels
    for variant in kernels if "variant" in lab.values() else ():
        assert make(variant=variant).advance(2).steps


def signatures(file: Path):
    """Return the public functions of a file with the names of their arguments."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        each.name: [argument.arg for argument in each.args.args]
        for each in tree.body
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
    }


@pytest.mark.parametrize("name", CASES)
def test_backends_have_the_reference_s_functions_and_arguments(name):
    reference = signatures(FOLDERS[name] / "cpu_numpy.py")
    for backend in BACKENDS[1:]:
        file = FOLDERS[name] / f"{backend.name}.py"
        own = signatures(file) if file.is_file() else reference
        shared = {what: own[what] for what in reference if what in own}
        assert shared == {what: reference[what] for what in shared}, backend.name
