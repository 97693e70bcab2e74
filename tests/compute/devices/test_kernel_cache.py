"""Compiled kernels: whether cached ones match the code, which ones an update deletes, and their compile times."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from numba.core.caching import IndexDataCacheFile, _CacheLocator

from app.server import serve
from compute.devices import kernel_cache

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
    found = {path.relative_to(package) for path in package.rglob("*.nb?")}
    names = [name for name in (PLAIN, LAB, OTHER, SHARED) if (package / name).parent / "__pycache__"]
    return {
        name for name in names
        for at in [(package / name).parent.relative_to(package) / "__pycache__"]
        if len([path for path in found if path.parent == at]) == 2
    }  # fmt: skip


def test_nothing_is_current_before_it_is_recorded_and_then_it_stays_so(package):
    assert not kernel_cache.is_current()
    kernel_cache.note_current()
    assert kernel_cache.is_current()


@pytest.mark.parametrize("name", [PLAIN, LAB, SHARED])
def test_another_source_is_another_code(package, name):
    kernel_cache.note_current()
    (package / name).write_text("one = 2\n")
    assert not kernel_cache.is_current()


def test_another_time_of_change_is_another_code_as_it_is_to_numba(package):
    kernel_cache.note_current()
    os.utime(package / LAB, ns=(0, 10**18))
    assert not kernel_cache.is_current()


def test_a_new_source_and_one_that_is_gone_are_changes_too(package):
    kernel_cache.note_current()
    (package / "labs/wave/more.py").write_text("")
    assert not kernel_cache.is_current()
    (package / "labs/wave/more.py").unlink()
    assert kernel_cache.is_current()
    (package / PLAIN).unlink()
    assert not kernel_cache.is_current()


def test_another_numba_and_another_processor_are_noticed(package, monkeypatch):
    kernel_cache.note_current()
    with monkeypatch.context() as patch:
        patch.setattr(kernel_cache, "version", lambda name: "99.0")
        assert not kernel_cache.is_current()
    with monkeypatch.context() as patch:
        patch.setattr(kernel_cache, "cpu_name", lambda: "another")
        assert not kernel_cache.is_current()
    assert kernel_cache.is_current()


def test_a_cache_that_was_emptied_is_noticed(package):
    kernel_cache.note_current()
    next(package.rglob("*.nbi")).unlink()
    assert not kernel_cache.is_current()


def test_a_record_that_cannot_be_read_counts_as_none(package):
    kernel_cache.note_current()
    for text in ("", "[]", '{"sources": 1}', '{"sources": {}, "made_by": {}, "index": 3}'):
        (package / "__pycache__" / kernel_cache.RECORD).write_text(text)
        assert not kernel_cache.is_current()


@pytest.mark.parametrize(
    ("changed", "left"),
    [([LAB], {PLAIN, OTHER, SHARED}), ([SHARED], set()), ([PLAIN], set()), ([], {PLAIN, LAB, OTHER, SHARED})],
    ids=["a lab", "what labs share", "top", "nothing"],
)
def test_an_update_deletes_what_may_hold_the_old_code(package, changed, left):
    """Numba would still use a kernel that contains a compiled function of another, changed file."""
    kernel_cache.note_current()
    for name in changed:
        (package / name).write_text("one = 2\n")
    kernel_cache.forget_stale()
    assert kept(package) == left


def test_kernels_of_unknown_age_are_deleted(package):
    kernel_cache.forget_stale()
    assert kept(package) == set()


def test_under_another_folder_kernels_are_found_where_numba_puts_them(package, tmp_path_factory, monkeypatch):
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


def test_a_build_s_time_is_remembered_and_said_the_next_time(package):
    assert kernel_cache.usual_seconds("wave.step") is None
    kernel_cache.remember("wave.step", 4.2)
    kernel_cache.remember("heat.step", 1.5)
    kernel_cache.remember("wave.step", 3.1)
    assert (kernel_cache.usual_seconds("wave.step"), kernel_cache.usual_seconds("heat.step")) == (3.1, 1.5)


def test_of_a_kernel_without_a_name_nothing_is_known(package):
    kernel_cache.remember("", 4.2)
    assert kernel_cache.usual_seconds("") is None
    assert not list(package.rglob(kernel_cache.TIMES))


def test_the_times_of_another_processor_are_not_said(package, monkeypatch):
    kernel_cache.remember("wave.step", 4.2)
    monkeypatch.setattr(kernel_cache, "_processor", lambda: "another")
    assert kernel_cache.usual_seconds("wave.step") is None
    kernel_cache.remember("heat.step", 1.5)
    assert (kernel_cache.usual_seconds("wave.step"), kernel_cache.usual_seconds("heat.step")) == (None, 1.5)


def test_times_that_cannot_be_read_or_written_do_no_harm(package, monkeypatch):
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


def test_processes_that_compile_other_types_at_once_keep_both_kernels(shared_cache, monkeypatch):
    """Without turns, Numba kept one of them under the other's name: a wrong kernel, permanently."""
    read = IndexDataCacheFile._load_index

    def reads_slowly(its):
        found = read(its)
        time.sleep(0.1)
        return found

    monkeypatch.setattr(IndexDataCacheFile, "_load_index", reads_slowly)
    types = ["float32", "float64", "int64"]
    saving = [threading.Thread(target=shared_cache().save, args=(key, f"code for {key}")) for key in types]
    for thread in saving:
        thread.start()
    for thread in saving:
        thread.join()
    assert [shared_cache().load(key) for key in types] == [f"code for {key}" for key in types]


def test_a_kernel_of_a_changed_source_is_there_before_it_is_named(shared_cache, monkeypatch):
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
def test_where_nothing_can_be_locked_kernels_are_kept_all_the_same(shared_cache, tmp_path, monkeypatch, why):
    if why == "no such locks":
        monkeypatch.setattr(kernel_cache, "fcntl", None)
    else:
        (tmp_path / kernel_cache.LOCK).mkdir()  # a folder cannot be opened for writing
    shared_cache().save("float64", "code")
    assert shared_cache().load("float64") == "code"


# -- where nothing can be written


NOWHERE = """if True:
    import logging, sys
    from numba.core import caching
    caching.CacheImpl._locator_classes = []  # as in a read-only installation without a writable home
    from compute.devices import kernel_cache
    kernel_cache._takes_files = lambda place: False
    from compute.display.cpu_numba import disc  # a kernel that is to be cached
    import numpy
    field = numpy.zeros((4, 4))
    disc(field, 1.0, 1.0, 2.0, 3.0)
    assert field.max() == 3
    from compute.__main__ import main
    sys.exit(main(sys.argv[1:]))
"""


def test_without_a_folder_for_kernels_everything_works_and_says_so():
    command = [sys.executable, "-c", NOWHERE, "info"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "compiled kernels are not cached" in done.stdout
    assert "NUMBA_CACHE_DIR" in done.stdout
    assert done.stderr.count("compiled kernels are not cached; each process compiles them again") == 1
    assert "Traceback" not in done.stderr


def test_a_server_without_a_folder_for_kernels_says_so_and_compiles_nothing_ahead(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(kernel_cache, "_takes_files", lambda place: False)
    serve.compile_first(out, ("a", "program", "that", "is", "not", "there"))
    assert out.getvalue().startswith("compiled kernels cannot be cached, so each process compiles its own: none ")


def test_kernels_are_kept_in_the_first_folder_that_can_be_written(package, monkeypatch, tmp_path):
    named, beside = tmp_path / "named" / "deeper", package / "__pycache__"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(named))
    writable = {tmp_path, package, beside, named}
    monkeypatch.setattr(kernel_cache.os, "access", lambda place, mode: place in writable)
    assert kernel_cache.folder() == named
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "images.py" / "x"))  # a file blocks the path
    assert kernel_cache.folder() == beside
    writable.clear()
    assert kernel_cache.folder().name == "numba"
    assert "can be written; NUMBA_CACHE_DIR may name" in kernel_cache.problem()
    monkeypatch.setattr(kernel_cache.os, "access", lambda place, mode: True)
    assert kernel_cache.problem() == ""


def test_with_compiling_switched_off_nothing_is_compiled_ahead(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert kernel_cache.problem() == "NUMBA_DISABLE_JIT is set, so Numba compiles nothing"
