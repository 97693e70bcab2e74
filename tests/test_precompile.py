"""Compiling in advance: it is told part by part, a failure ends its part alone, the engine compiles nothing more."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from compute import kernel_cache, precompile
from compute.builds import building
from compute.precompile import Part
from tests.sources import ROOT


class Heard:
    def __init__(self):
        self.told = []

    def began(self, number, count, words):
        self.told.append(("began", number, count, words))

    def ended(self, number, builds, seconds):
        assert seconds >= 0
        self.told.append(("ended", number, builds))

    def failed(self, number, why):
        self.told.append(("failed", number, why))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path


def build(*names):
    for name in names:
        with building(name):
            pass


def test_each_part_is_told_with_the_kernels_that_it_built(cache, monkeypatch):
    monkeypatch.setattr(kernel_cache, "NOTICEABLE", 0.0)
    heard = Heard()
    wanted = [Part("waves", lambda: build("wave.first", "wave.step")), Part("heat", lambda: None)]
    assert precompile.precompile(wanted, heard)
    assert heard.told == [("began", 1, 2, "waves"), ("ended", 1, 2), ("began", 2, 2, "heat"), ("ended", 2, 0)]
    assert (cache / kernel_cache.RECORD).is_file()
    assert kernel_cache.usual_seconds("wave.step") is not None


def test_a_part_that_fails_is_told_and_the_others_are_compiled(cache):
    def fail():
        raise ZeroDivisionError("by nothing")

    heard = Heard()
    assert not precompile.precompile([Part("waves", fail), Part("heat", lambda: build("heat.step"))], heard)
    assert heard.told[1] == ("failed", 1, "ZeroDivisionError: by nothing")
    assert heard.told[3] == ("ended", 2, 1)
    assert not (cache / kernel_cache.RECORD).exists()  # so that the next start tries again


COMPILE = """
from app.lab_view import first_values, parts_of
from compute.labs import lab_class
from compute.precompile import first_screen
from compute.builds import watching
lab = lab_class("{lab}")
values = first_values(lab, parts_of(lab)) | {{"backend": "cpu_numba"}}
with watching() as builds:
    first_screen(lab, values)
print((builds.count, values))
"""
SHOW = """
import ast, queue, sys
from compute.engine import EnginePool, FrameReady, Sampled, Solved
lab, values = sys.argv[1], ast.literal_eval(sys.argv[2])
def wait(kind, count=1):
    while count:
        event = events.get(timeout=300)
        assert type(event).__name__ not in ("Refused", "Paused", "EngineRestarted"), event
        count -= isinstance(event, kind)
pool, events = EnginePool(), queue.SimpleQueue()
handle = pool.get("host").open(lab, values, events.put)
handle.set_view(None, (600, 600))
handle.frames_through(9)
handle.run()
wait(FrameReady, 3)
handle.sample(1, 1)
handle.solve(2, 20)
wait(Sampled)
wait(Solved)
pool.close()
"""


@pytest.mark.parametrize("lab", ["diffusion", "mandelbrot", "l_curve"])
def test_after_it_the_engine_compiles_nothing_for_the_first_screen(cache, lab):
    """By the cache's files, into which every kernel goes that Numba compiles, in whatever process."""

    def run(code, *arguments):
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kernels():
        return {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")}

    count, values = ast.literal_eval(run(COMPILE.format(lab=lab)))
    before = kernels()
    assert count > 0
    assert before
    run(SHOW, lab, repr(values))
    assert kernels() == before
