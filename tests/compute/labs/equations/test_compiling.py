"""Texts in an engine: NumPy computes at once, a job compiles, and the chosen backend continues the same state."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from compute.devices import backends, kernel_cache
from compute.devices.builds import building, watching
from compute.devices.cuda_source import nvrtc_version
from compute.engine.compiling import KernelJobs
from compute.engine.lab_host import LabHost
from compute.engine.messages import FrameMessage, FramesThrough, Run, Update
from compute.engine.shared_memory import FrameRing, unpack
from compute.lab.compilation import Interim
from compute.labs.equations import Equations, gpu_cupy
from compute.labs.equations.compiling import compilation_of, compile_kernels
from compute.labs.equations.programs import SLOTS, program_of
from tests.compute.engine.faulty import QuietSender
from tests.waiting import until

EXACT = (
    "u_t = D*lap(u) - u*v^2; v_t = lap(v)/9 + u*v^2 - v/8; D = 0.125 in [0, 0.25]; u(0) = noise(1); v(0) = x/Lx; dt = 1"
)
WAITS = Interim("NumPy computes while Numba compiles")
SMALL = {"ny": 33, "nx": 50, "backend": "cpu_numba"}


@pytest.fixture
def make():
    labs = []

    def made(**values):
        labs.append(Equations(**{**SMALL, "text": EXACT, **values}))
        return labs[-1]

    yield made
    for lab in labs:
        lab.close()


def equal(lab, other):
    return all(np.array_equal(array, other.data()[name]) for name, array in lab.data().items())


def new_text():
    """Return a text that no process has compiled."""
    return f"u_t = lap(u)/9 - {time.time_ns() % 10**9 + 1}e-12*u; u(0) = noise(1); dt = 1"


@pytest.mark.parametrize("scheme", ["euler", "rk3"])
def test_the_chosen_backend_continues_the_state_of_numpy_bit_for_bit(make, scheme):
    text = f"{EXACT}; scheme = {scheme}"
    lab, other = make(text=text), make(text=text, backend="cpu_numpy")
    lab.set_interim(WAITS)
    assert lab.advance(7).backend == lab.frame().timing.backend == "cpu_numpy"
    assert lab.frame().notes["interim"] == WAITS.words
    before, origin = lab.data(), lab.HISTORY.origin(lab)
    lab.set_interim(None)
    assert all(np.array_equal(array, before[name]) for name, array in lab.data().items())
    assert (lab.steps, lab.t, lab.HISTORY.origin(lab)) == (7, 7.0, origin)
    assert lab.advance(5).backend == lab.frame().timing.backend == "cpu_numba"
    assert "interim" not in lab.frame().notes
    other.advance(12)
    if scheme == "euler":
        assert equal(lab, other)
    else:  # its weights are no powers of 2
        assert all(np.allclose(array, other.data()[name], rtol=1e-6) for name, array in lab.data().items())


def test_undo_and_a_new_text_work_while_numpy_computes(make):
    lab = make()
    lab.advance(2)
    lab.act("paint", points=[(3, 3)], value=2.0, radius=2.0)
    painted = lab.field()
    lab.set_interim(WAITS)
    assert np.array_equal(lab.field(), painted)
    lab.act("undo")
    assert not np.array_equal(lab.field(), painted)
    lab.update(text="u_t = -u; dt = 0.5; u(0) = 1")
    assert lab.advance(1).backend == "cpu_numpy"
    lab.update(variant="one-step")
    assert lab.advance(1).variant == ""
    assert lab.field()[0, 0] == 0.25


def test_a_slow_interim_backend_shows_the_initial_values_and_waits(make):
    terms = "+".join("(" + "+".join(f"{10 * k + j}*u" for j in range(10)) + ")" for k in range(6))
    lab = make(text=f"u_t = {terms}; v_t = 0; u(0) = x", ny=1500, nx=1500, show="u*v")
    assert not lab.status.resting
    lab.set_interim(WAITS)
    assert lab.status.resting
    frame = lab.frame(pixels=(16, 16))
    assert [raster.label for raster in frame.rasters.values()] == ["u", "u*v"]  # one operation is quick
    lab.update(show=terms)
    assert [raster.label for raster in lab.frame(pixels=(16, 16)).rasters.values()] == ["u", "v"]
    lab.set_interim(Interim("NumPy computes, because it failed", lasts=True))
    assert not lab.status.resting
    lab.set_interim(None)
    assert not lab.status.resting


def test_a_failure_is_a_warning_in_each_frame(make):
    lab = make()
    lab.set_interim(Interim("NumPy computes, because it failed", lasts=True))
    notes = lab.frame().notes
    assert (notes["warning"], notes.get("interim")) == ("NumPy computes, because it failed", None)


def test_the_one_step_kernel_of_numba_replaces_numpy_until_the_chosen_one_is_compiled(make):
    lab, other = make(), make(backend="cpu_numpy")
    lab.set_interim(WAITS)
    lab.advance(3)
    lab.set_interim(Interim("Numba computes with its one-step kernel", variant="one-step"))
    assert (lab.advance(3).variant, lab.frame().timing.backend) == ("one-step", "cpu_numba")
    assert (lab.frame().notes["slower"], lab.status.resting) == ("Numba computes with its one-step kernel", False)
    lab.set_interim(None)
    assert (lab.advance(3).variant, lab.frame().notes.get("slower")) == ("", None)
    other.advance(9)
    assert equal(lab, other)


@pytest.mark.extended
def test_the_kernels_of_a_new_text_are_compiled_in_two_tasks_and_a_new_picture_in_one():
    text = new_text()
    tasks = []
    for show in ("", "u^2"):
        while needed := compilation_of("cpu_numba", "", text, show, "float32", 0):
            tasks.append((show, needed.variant))
            needed.task(report=lambda *_: None)
    assert tasks == [("", ""), ("", "one-step"), ("u^2", "")]


def test_nothing_is_compiled_without_a_job():
    with watching() as builds:
        needed = compilation_of("cpu_numba", "", new_text(), "", "float32", 0)
    assert needed is not None
    assert builds.count == 0
    assert compilation_of("cpu_numpy", "", new_text(), "", "float32", 0) is None


def test_kernels_that_cannot_be_cached_are_not_compiled(monkeypatch):
    monkeypatch.setattr(kernel_cache, "problem", lambda: "no folder can be written")
    with pytest.raises(ValueError, match="compiled kernels cannot be cached: no folder can be written"):
        compile_kernels("cpu_numba", "", new_text(), "", "float32", "", report=lambda *_: None)


@pytest.mark.skipif(not nvrtc_version(), reason="cuda-bindings is not installed")
def test_cuda_c_is_compiled_without_a_gpu_into_a_file_for_its_architecture():
    text = new_text()
    compile_kernels("gpu_cupy", "", text, "u^2", "float32", "sm_90", report=lambda *_: None)
    program = program_of(text)
    texts = [*program.sources("cuda", "float32"), program.steps_source("cuda", "float32")]
    files = [gpu_cupy.cubin_of(each, "sm_90") for each in texts]
    assert [path.read_bytes()[:4] for path in files] == [b"\x7fELF"] * 2
    assert not any(gpu_cupy.cubin_of(each, "sm_80").exists() for each in texts)


def test_a_gpu_that_refuses_a_kernel_of_a_newer_nvrtc_compiles_in_place(monkeypatch):
    def refuse(path):
        raise RuntimeError("CUDA_ERROR_INVALID_IMAGE")

    def device(index):
        return type("Device", (nullcontext,), {"compute_capability": "90"})()

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(Device=device)))
    monkeypatch.setattr(backends, "_why_missing", lambda *_: None)
    monkeypatch.setattr(gpu_cupy, "_UNUSABLE", set())
    monkeypatch.setattr(gpu_cupy, "nvrtc_version", lambda: "99.0")
    monkeypatch.setattr(gpu_cupy, "check_cuda_text", lambda *_, **__: SimpleNamespace(cubin=b"machine code"))
    monkeypatch.setattr(gpu_cupy, "load_cubin", refuse)
    monkeypatch.setattr(gpu_cupy, "compile_cuda_text", compile_in_place)
    text = new_text()
    needed = compilation_of("gpu_cupy", "", text, "", "float32", 0)
    needed.task(report=lambda *_: None)
    assert compilation_of("gpu_cupy", "", text, "", "float32", 0) is not None  # its files are of no use
    assert compilation_of("gpu_cupy", "", text, "", "float32", 0) is None  # compiled at the first step


def compile_in_place(text, name):
    with building(name):
        raise AssertionError("not reached")


@pytest.mark.extended
def test_an_engine_shows_numpy_at_once_and_numba_when_a_job_has_compiled():
    """In the host's process, so that its builds can be counted."""
    sender, jobs, ring = QuietSender(), KernelJobs(), FrameRing(FrameRing.create())
    lab = Equations(**{**SMALL, "text": new_text()})
    with watching() as builds:
        host = LabHost(1, lab, sender, ring, "host", jobs)
        host.pacer.steps = None
        host.handle(Run(1))
        backends = [_computed(host, sender, 3)]
        until(partial(_computed, host, sender, 1, "cpu_numba"))
        host.handle(Update(1, 1, {"text": new_text(), **dict.fromkeys(SLOTS)}))
        backends.append(_computed(host, sender, 3))
        until(partial(_computed, host, sender, 1, "cpu_numba"))
        host.handle(Update(1, 2, {"show": f"u + {time.time_ns() % 10**9}"}))
        backends.append(_computed(host, sender, 3))
        until(partial(_computed, host, sender, 1, "cpu_numba"))
    assert backends == [["cpu_numpy"] * 3] * 3
    assert builds.count == 0
    assert lab.steps > 9
    host.close()
    jobs.close()


def _computed(host, sender, frames, wanted=""):
    """Return the backends of the next frames; [] if none is `wanted`."""
    seen = []
    host.handle(FramesThrough(1, host.pacer.frames + frames))
    while len(seen) < frames:
        host.turn(time.monotonic(), 0.01)
        for each in [each for each in sender.said if isinstance(each, FrameMessage)]:
            seen.append(unpack(each.payload, host._ring.take(each.slot, each.payload.sizes)).timing.backend)
            sender.said.remove(each)
    return seen if wanted in ("", *seen) else []
