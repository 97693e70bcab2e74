"""What several test files need."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Before NumPy comes. Threads of OpenBLAS wait for each other in a loop: 300 singular value decompositions of 130 x 130
# take 1 s of one core, and 13 s of two cores where other processes are at work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Nor do Numba's threads wait so, here and in the processes under test: six of them want two cores. A quarter of what
# 225 L-curves take beside two other processes.
os.environ.setdefault("GOMP_SPINCOUNT", "0")

from compute.backends import BACKENDS, Backend
from compute.export.jobs import JOBS
from compute.lab import Lab
from compute.labs import lab_class
from compute.labs.diffusion import Diffusion
from compute.plugins import VARIABLE

WAVE = Path(__file__).parent / "data" / "wave"

HANDLERS = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL, signal.SIGTERM: signal.SIG_DFL}


settings.register_profile("unhurried", settings(), deadline=None)  # no test of ours promises how fast an example is
settings.load_profile("unhurried")


def pytest_configure() -> None:
    """Hear the signals that a terminal's programs hear: nohup and a script's `&` have them ignored, and what is started
    from here would inherit that."""
    for number, handler in HANDLERS.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


# The files that take longest, so that none of them is begun when the rest is done: in a fresh clone, 65 s down to 6.
LONGEST = ("test_faults.py", "test_closed_pages.py", "test_load.py", "test_cuda_sources.py", "test_served.py",
           "test_process.py", "test_jobs.py", "test_ways.py", "test_try.py", "test_engine.py", "test_film.py",
           "test_survey.py", "test_cuda.py", "test_cli.py", "test_free_loop.py", "test_code_tasks.py",
           "test_shared_memory.py", "test_disk_full.py", "test_own_data.py", "test_learn.py", "test_recording.py",
           "test_comparison.py", "test_exports.py", "test_packaging.py", "test_benchmark.py", "test_precompile.py",
           "test_parsers.py", "test_session_real.py")  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while modules are loaded and tests are made, and never again through what they are made of:
    750 000 objects that stay for the whole run, a tenth of what a process of tests has to do."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name no test by bytes: an archive's hold the time, and processes that were to share the tests had others."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def no_process_of_an_earlier_test() -> None:
    """Give this test's jobs no process that an earlier test had started ahead or that its jobs have left: its
    environment is that test's, so it may not know the labs of this one."""
    for thread in threading.enumerate():
        if thread.name == "spare":
            thread.join()
    if JOBS._spare is not None:
        JOBS._spare.close()
        JOBS._spare = None
    JOBS.end_kept()


def backend_cases() -> list[Any]:
    """Every backend as a test case; those that need a GPU carry its mark."""
    return [pytest.param(b, id=b.name, marks=[pytest.mark.gpu] if b.device == "cuda" else []) for b in BACKENDS]


@pytest.fixture(params=backend_cases())
def any_backend(request: pytest.FixtureRequest) -> Backend:
    """Each backend in turn; skipped with its reason where it is missing."""
    backend: Backend = request.param
    if backend.missing:
        pytest.skip(f"{backend.name}: {backend.missing}")
    return backend


@pytest.fixture
def diffusion(any_backend: Backend) -> Iterator[Callable[..., Diffusion]]:
    """Makes diffusion labs in each backend in turn and closes them."""
    labs: list[Diffusion] = []

    def make(**values: Any) -> Diffusion:
        labs.append(Diffusion(backend=any_backend.name, **values))
        return labs[-1]

    yield make
    for lab in labs:
        lab.close()


@pytest.fixture(scope="session")
def wave_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder, in no package, with the lab of tests/data/wave; its kernels are compiled once a run."""
    folder = tmp_path_factory.mktemp("labs") / "wave"
    shutil.copytree(WAVE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def wave(wave_folder: Path, monkeypatch: pytest.MonkeyPatch) -> type[Lab]:
    """The class of that lab; processes that are started know it too."""
    monkeypatch.setenv(VARIABLE, str(wave_folder))
    return lab_class("wave")
