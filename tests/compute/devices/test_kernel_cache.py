"""Compiled kernels: whether cached ones match the code, which ones an update deletes, and their compile times."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.caching import IndexDataCacheFile, _CacheLocator

from app.server import first_screens
from compute.devices import kernel_cache
from compute.devices.devices import installed_version
from tests.cuda_on_cpu import forget

PLAIN, LAB, OTHER, SHARED = "images.py", "labs/wave/cpu_numba.py", "labs/heat/cpu_numba.py", "display/cpu_numba.py"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of four files, each with a compiled kernel next to it; without a record."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(kernel_cache, "PACKAGE", tmp_path)
    for name in (PLAIN, LAB, OTHER, SHARED):
        source = tmp_path / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("one = 1\n")
        compiled(source)
    return tmp_path


def compiled(source):
    """Write the files of Numba's cache for `source`; return the index and the data."""
    place = source.parent / "__pycache__"
    place.mkdir(exist_ok=True)
    index, data = place / f"{source.stem}.step-7.py311.nbi", place / f"{source.stem}.step-7.py311.1.nbc"
    index.write_text("index")
    data.write_text("code")
    return index, data


def kept(package):
    """Return the sources whose kernels still exist, with index and data."""
    caches = {name: (package / name).parent / "__pycache__" for name in (PLAIN, LAB, OTHER, SHARED)}
    return {name for name, cache in caches.items() if len(list(cache.glob("*.nb?"))) == 2}


def versions(patch, **changed):
    """Change the versions of some distributions."""
    patch.setattr(kernel_cache, "installed_version", lambda name: changed.get(name) or installed_version(name))


CHANGES = {
    "a source": lambda package, patch: (package / PLAIN).write_text("one = 2\n"),
    "a source of a lab": lambda package, patch: (package / LAB).write_text("one = 2\n"),
    "the time of a source": lambda package, patch: os.utime(package / LAB, ns=(0, 10**18)),  # Numba compares it
    "a new source": lambda package, patch: (package / "labs/wave/more.py").write_text(""),
    "a removed source": lambda package, patch: (package / PLAIN).unlink(),
    "another Numba": lambda package, patch: versions(patch, numba="99.0"),
    "an installed GPU package": lambda package, patch: versions(patch, **{"cupy-cuda13x": "99.0"}),
    "another processor": lambda package, patch: patch.setattr(kernel_cache, "cpu_name", lambda: "another"),
    "an emptied cache": lambda package, patch: next(package.rglob("*.nbi")).unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_kernels_are_current_from_their_record_to_the_next_change(package, monkeypatch, change):
    assert not kernel_cache.is_current()
    kernel_cache.note_current()
    assert kernel_cache.is_current()
    CHANGES[change](package, monkeypatch)
    assert not kernel_cache.is_current()


@pytest.mark.parametrize("record", ["", "[]", '{"sources": 1}', '{"sources": {}, "made_by": {}, "index": 3}'])
def test_a_damaged_record_makes_the_kernels_outdated(package, record):
    kernel_cache.note_current()
    (package / "__pycache__" / kernel_cache.RECORD).write_text(record)
    assert not kernel_cache.is_current()


@pytest.mark.parametrize(
    ("changed", "left"),
    [(LAB, {PLAIN, OTHER, SHARED}), (SHARED, set()), (PLAIN, set()), (None, {PLAIN, LAB, OTHER, SHARED})],
)
def test_an_update_deletes_kernels_that_may_contain_old_code(package, changed, left):
    """Numba would still use a kernel that contains a compiled function of another, changed file."""
    kernel_cache.note_current()
    if changed:
        (package / changed).write_text("one = 2\n")
    kernel_cache.forget_stale()
    assert kept(package) == left


def test_kernels_of_unknown_age_are_deleted(package):
    kernel_cache.forget_stale()
    assert kept(package) == set()


def test_kernels_in_another_folder_are_found_and_deleted(package, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(elsewhere))
    place = elsewhere / _CacheLocator.get_suitable_cache_subpath(str(package / LAB))
    place.mkdir()
    (place / "cpu_numba.step-7.py311.nbi").write_text("")
    kernel_cache.note_current()
    assert kernel_cache.is_current()
    assert list(elsewhere.glob("*.json"))
    (package / LAB).write_text("one = 2\n")
    kernel_cache.forget_stale()
    assert list(place.iterdir()) == []
    assert kept(package) == {PLAIN, LAB, OTHER, SHARED}


def test_build_times_are_remembered_by_kernel_and_processor(package, monkeypatch):
    def known():
        return kernel_cache.usual_seconds("wave.step"), kernel_cache.usual_seconds("heat.step")

    assert known() == (None, None)
    kernel_cache.remember("wave.step", 4.2)
    kernel_cache.remember("heat.step", 1.5)
    kernel_cache.remember("wave.step", 3.1)
    assert known() == (3.1, 1.5)
    kernel_cache.remember("", 4.2)
    assert kernel_cache.usual_seconds("") is None
    monkeypatch.setattr(kernel_cache, "cpu_name", lambda: "another")
    forget(kernel_cache)
    assert known() == (None, None)
    kernel_cache.remember("heat.step", 1.5)
    assert known() == (None, 1.5)
    forget(kernel_cache)


def test_unreadable_and_unwritable_build_times_are_ignored(package, monkeypatch):
    (package / "__pycache__" / kernel_cache.TIMES).write_text('{"seconds": [1]}')
    assert kernel_cache.usual_seconds("wave.step") is None
    monkeypatch.setattr(kernel_cache, "folder", lambda: Path("/dev/null/nowhere"))
    kernel_cache.remember("wave.step", 4.2)
    assert kernel_cache.usual_seconds("wave.step") is None


@pytest.fixture
def shared_cache(tmp_path, monkeypatch):
    """Return a function that opens the cache of one function, as each process does."""
    monkeypatch.setattr(IndexDataCacheFile, "save", IndexDataCacheFile.save)  # restores the method after the test
    kernel_cache.take_turns()
    return lambda stamp="now": IndexDataCacheFile(str(tmp_path), "module.step-7.py311", stamp)


@pytest.mark.skipif(kernel_cache.fcntl is None, reason="there are no such locks here")
def test_index_and_kernel_are_read_and_written_under_one_lock(shared_cache, tmp_path, monkeypatch):
    """Otherwise two processes that compile other types keep one kernel under the other's name, permanently."""
    held = []

    def watched(method):
        def run(its, *given):
            with (tmp_path / kernel_cache.LOCK).open("w") as lock:
                try:
                    kernel_cache.fcntl.flock(lock, kernel_cache.fcntl.LOCK_EX | kernel_cache.fcntl.LOCK_NB)
                except BlockingIOError:
                    held.append(method.__name__)
            return method(its, *given)

        return run

    with monkeypatch.context() as patch:
        for name in ("_load_index", "_save_data", "_save_index"):
            patch.setattr(IndexDataCacheFile, name, watched(getattr(IndexDataCacheFile, name)))
        shared_cache().save("float32", "code for float32")
    assert held == ["_load_index", "_save_data", "_save_index"]
    types = ["float32", "float64", "int64"]
    for key in types:
        shared_cache().save(key, f"code for {key}")
    assert [shared_cache().load(key) for key in types] == [f"code for {key}" for key in types]


def test_a_kernel_is_written_before_its_index(shared_cache, monkeypatch):
    shared_cache("before").save("float64", "old code")
    seen, write = [], IndexDataCacheFile._save_data
    monkeypatch.setattr(
        IndexDataCacheFile, "_save_data", lambda *given: (seen.append(shared_cache().load("float64")), write(*given))
    )
    shared_cache().save("float64", "new code")
    assert seen == [None]  # during the write
    assert shared_cache().load("float64") == "new code"
    shared_cache().save("float64", "newest code")
    shared_cache().save("float32", "other code")
    assert [shared_cache().load(key) for key in ("float64", "float32")] == ["newest code", "other code"]


@pytest.mark.parametrize("why", ["no such locks", "a file of another user"])
def test_kernels_are_stored_without_locks(shared_cache, tmp_path, monkeypatch, why):
    if why == "no such locks":
        monkeypatch.setattr(kernel_cache, "fcntl", None)
    else:
        (tmp_path / kernel_cache.LOCK).mkdir()  # a folder cannot be opened for writing
    shared_cache().save("float64", "code")
    assert shared_cache().load("float64") == "code"


# -- where nothing can be written


NOWHERE = """if True:
    import logging, os, sys
    from types import SimpleNamespace
    from numba.core import caching
    caching.CacheImpl._locator_classes = []  # as in a read-only installation without a writable home
    from compute.devices import kernel_cache
    kernel_cache.os = SimpleNamespace(**vars(os) | {"access": lambda *_: False})
    from compute.display.cpu_numba import disc  # a kernel that is to be cached
    import numpy
    field = numpy.zeros((4, 4))
    disc(field, 1.0, 1.0, 2.0, 3.0)
    assert field.max() == 3
    from compute.__main__ import main
    sys.exit(main(sys.argv[1:]))
"""


def test_without_a_writable_folder_everything_works_with_one_warning():
    command = [sys.executable, "-c", NOWHERE, "info"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "compiled kernels are not cached" in done.stdout
    assert "NUMBA_CACHE_DIR" in done.stdout
    assert done.stderr.count("compiled kernels are not cached; each process compiles them again") == 1
    assert "Traceback" not in done.stderr


def test_a_server_without_a_writable_folder_compiles_nothing_ahead(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(kernel_cache.os, "access", lambda *_: False)
    assert not first_screens.compile_first(out, lambda: pytest.fail("it compiles"))
    assert out.getvalue().startswith("compiled kernels cannot be cached, so each process compiles its own: none ")


def test_kernels_are_stored_in_the_first_writable_folder(package, monkeypatch, tmp_path):
    named, next_to_code = tmp_path / "named" / "deeper", package / "__pycache__"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(named))
    writable = {tmp_path, package, next_to_code, named}
    monkeypatch.setattr(kernel_cache.os, "access", lambda place, mode: place in writable)
    assert kernel_cache.folder() == named
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "images.py" / "x"))  # a file blocks the path
    assert kernel_cache.folder() == next_to_code
    writable.clear()
    assert kernel_cache.folder().name == "numba"
    assert "can be written; NUMBA_CACHE_DIR may name" in kernel_cache.problem()
    monkeypatch.setattr(kernel_cache.os, "access", lambda place, mode: True)
    assert kernel_cache.problem() == ""


def test_a_disabled_jit_is_reported(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert kernel_cache.problem() == "NUMBA_DISABLE_JIT is set, so Numba compiles nothing"


# Compiles the parallel callees of the lab's first step; then the step with the cached callees; then runs it.
CALLEES = """
import numpy as np
from compute.devices.devices import Host
from compute.labs.l_curve import cpu_numba
from compute.labs.l_curve.bidiagonal import Rows, compressed
cpu_numba.multiply(Rows.of(Host(), cpu_numba, compressed(np.eye(2), "float64")), np.ones(2), np.empty(2))
"""
CALLER = """
from compute.labs.l_curve.lab import LCurve
lab = LCurve(backend="cpu_numba", n=20)
lab.advance()
lab.close()
"""


@pytest.mark.extended
def test_a_cached_caller_of_parallel_kernels_runs_in_a_new_process(tmp_path):
    """Numba does not record the need for threads if the callees came from the cache at compile time, and crashes."""
    known = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for program in (CALLEES, CALLER, CALLER):
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
