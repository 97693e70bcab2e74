"""Fixtures and hooks for several test files."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from msgspec import structs

# Set before NumPy is imported. Threads of OpenBLAS busy-wait for each other: 300 singular value decompositions of 130 x
# 130 take 1 s on one core, and 13 s on two cores shared with other processes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Numba's threads do not busy-wait either, here and in the processes under test: six of these share two cores. 225
# L-curves take a quarter of the time with two other processes running.
os.environ.setdefault("GOMP_SPINCOUNT", "0")

import numpy as np

from compute.cli import settings
from compute.devices.backends import BACKENDS, Backend
from compute.devices.webgpu import SOFTWARE
from compute.export.jobs import JOBS
from compute.lab.lab import Lab
from compute.lab.plugins import VARIABLE
from compute.labs import lab_class
from compute.labs.diffusion import Diffusion

WAVE = Path(__file__).parent / "data" / "wave"

HANDLERS = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL, signal.SIGTERM: signal.SIG_DFL}
FAILURE = 3000  # characters of a failure that are printed at once

hypothesis_settings.register_profile("unhurried", hypothesis_settings(), deadline=None)  # tests set no time limits
hypothesis_settings.load_profile("unhurried")


def pytest_configure(config: pytest.Config) -> None:
    """Restore the default handlers of ignored signals; print failures at once in CI.

    nohup and a script's `&` ignore signals that programs in a terminal receive; child processes would inherit that.
    """
    if os.environ.get("CI") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce())
    for number, handler in HANDLERS.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


class FailuresAtOnce:
    """Print each failure when it occurs: a run that is ended later has shown why."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(f"\n== failed: {report.nodeid}, {report.when}", report.longreprtext[-FAILURE:], sep="\n", flush=True)


# The slowest files run first, so that none starts when the others are done: in a fresh clone, 65 s down to 6.
LONGEST = ("test_faults.py", "test_closed_pages.py", "test_load.py", "test_cuda_sources.py", "test_served.py",
           "test_process.py", "test_jobs.py", "test_ways.py", "test_try.py", "test_engine.py", "test_film.py",
           "test_survey.py", "test_cuda.py", "test_cli.py", "test_free_loop.py", "test_code_tasks.py",
           "test_shared_memory.py", "test_disk_full.py", "test_own_data.py", "test_learn.py", "test_recording.py",
           "test_comparison.py", "test_exports.py", "test_packaging.py", "test_benchmark.py", "test_precompile.py",
           "test_parsers.py", "test_session_real.py")  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection during imports and collection, then freeze the existing objects.

    These are 750 000 objects that live for the whole run; collecting them takes a tenth of a test process's time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest files first, without backends in number types that they do not have."""
    items[:] = filter(in_its_types, items)
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Do not name tests by bytes: those of an archive contain the time, and differ between the workers of a run."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def no_process_of_an_earlier_test() -> None:
    """Close spare job processes that an earlier test started.

    Such a process has the environment of that test, so it may not know the labs of this one.
    """
    for thread in threading.enumerate():
        if thread.name == "spare":
            thread.join()
    JOBS.end_idle()


@pytest.fixture(autouse=True)
def gpu_in_turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a test marked `whole_gpu` have the GPU's memory alone: it waits for the others, and they for it."""
    if request.node.get_closest_marker("gpu") is None:
        yield
        return
    alone = request.node.get_closest_marker("whole_gpu") is not None
    folder = Path(tempfile.gettempdir())
    with (folder / "fieldlab-tests-turn").open("a") as turn, (folder / "fieldlab-tests-gpu").open("a") as gpu:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(gpu, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(turn, fcntl.LOCK_UN)
        yield


def backend_cases() -> list[Any]:
    """Return every backend as a test case; those that need a GPU have the mark `gpu`."""
    return [pytest.param(b, id=b.name, marks=[pytest.mark.gpu] if b.device == "cuda" else []) for b in BACKENDS]


def in_its_types(item: pytest.Item) -> bool:
    """Return whether the backend of a test computes in the test's parameter `dtype` or `precision`, if it has both.

    A test with the mark `float64` needs that type.
    """
    values = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    backend = next((value for value in values.values() if isinstance(value, Backend)), None)
    dtype = "float64" if item.get_closest_marker("float64") else values.get("dtype", values.get("precision"))
    return backend is None or dtype is None or np.dtype(dtype).kind != "f" or np.dtype(dtype).name in backend.dtypes


def require(backend: Backend, monkeypatch: pytest.MonkeyPatch, package: str = "") -> Backend:
    """Return the backend, WebGPU also on a software adapter. Skip the test if it or its kernels are missing."""
    if backend.missing and backend.device == "webgpu":
        monkeypatch.setenv(SOFTWARE, "software")
    if backend.missing:
        pytest.skip(f"{backend.name}: {backend.missing}")
    if package and not backend.has_kernels(package):
        pytest.skip(f"{package} has no {backend.name}")
    return backend


@pytest.fixture(params=backend_cases())
def any_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Each backend in turn."""
    return require(request.param, monkeypatch)


@pytest.fixture
def diffusion(any_backend: Backend) -> Iterator[Callable[..., Diffusion]]:
    """A function that creates diffusion labs in each backend in turn; closes them after the test."""
    labs: list[Diffusion] = []

    def make(**values: Any) -> Diffusion:
        labs.append(Diffusion(backend=any_backend.name, **values))
        return labs[-1]

    yield make
    for lab in labs:
        lab.close()


@pytest.fixture(scope="session")
def wave_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside any package with the lab of tests/data/wave; its kernels are compiled once per run."""
    folder = tmp_path_factory.mktemp("labs") / "wave"
    shutil.copytree(WAVE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def wave(wave_folder: Path, monkeypatch: pytest.MonkeyPatch) -> type[Lab]:
    """The class of the lab `wave`; child processes know it, too."""
    monkeypatch.setenv(VARIABLE, str(wave_folder))
    return lab_class("wave")


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that applies settings of a server, given by name, to this process until the end of the test."""
    monkeypatch.setenv(settings.VARIABLE, "")
    return lambda **values: settings.hand_on(structs.replace(settings.Settings(), **values))
