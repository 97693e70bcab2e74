"""Compiling in advance: progress by part, failures limited to their part, no compilation left for the engine."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from app.tab.lab_view import first_values, parts_of
from compute.devices import kernel_cache, precompile
from compute.devices.builds import building
from compute.devices.precompile import Part
from compute.labs import lab_class
from compute.measure.verdict import Variant
from tests.sources import ROOT

pytestmark = pytest.mark.extended


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


def test_both_ways_of_the_first_number_are_compiled(monkeypatch):
    """If the tab uses a GPU, the other way is a kernel of the host; here the tab uses NumPy instead of a GPU."""
    lab, opened = lab_class("diffusion"), []
    begun = lab.__init__
    monkeypatch.setattr(lab, "__init__", lambda self, **values: opened.append(values) or begun(self, **values))
    ways = Variant("cpu_numba"), Variant("cpu_numpy"), []
    monkeypatch.setattr(precompile, "pairing", lambda values, backends: ways)
    precompile.first_screen(lab, {"backend": "cpu_numpy", "ny": 8, "nx": 8})
    assert [values["backend"] for values in opened] == ["cpu_numpy", "cpu_numpy", "cpu_numba"]
    assert {values["ny"] for values in opened} == {8}
    opened.clear()
    precompile.first_screen(lab, {"backend": "cpu_numba", "ny": 8, "nx": 8})
    assert [values["backend"] for values in opened] == ["cpu_numba", "cpu_numba"]  # NumPy's way compiles nothing


def test_a_lab_that_is_compared_with_nothing_is_only_shown(monkeypatch):
    """A lab that times its own ways may have no result before: on a GPU it had none after two steps."""
    asked = []
    monkeypatch.setattr(precompile, "_be_compared", lambda lab, values: asked.append(lab.LAB))
    for name in ("crossover", "l_curve"):
        lab = lab_class(name)
        precompile.first_screen(lab, first_values(lab, parts_of(lab)) | {"backend": "cpu_numpy"})
    assert set(asked) == {"l_curve"}


def test_a_part_that_fails_is_told_and_the_others_are_compiled(cache):
    def fail():
        raise ZeroDivisionError("by nothing")

    heard = Heard()
    assert not precompile.precompile([Part("waves", fail), Part("heat", lambda: build("heat.step"))], heard)
    assert heard.told[1] == ("failed", 1, "ZeroDivisionError: by nothing")
    assert heard.told[3] == ("ended", 2, 1)
    assert not (cache / kernel_cache.RECORD).exists()  # so the next start tries again


# Numba's cache log (NUMBA_DEBUG_CACHE) names the kernels that a process needs, whether compiled or found in the cache.
# So both programs use the cache of the whole run.
COMPILE = """
import sys
from app.tab.lab_view import first_values, parts_of
from compute.devices import precompile
from compute.labs import lab_class
compile = precompile.first_screen if sys.argv[1] == "shown" else precompile._be_compared
precompile.prepare("host")
firsts = {}
for lab in map(lab_class, ("diffusion", "mandelbrot", "l_curve")):
    firsts[lab.LAB] = first_values(lab, parts_of(lab)) | {"backend": "cpu_numba"}
    compile(lab, firsts[lab.LAB])
print("FIRSTS", firsts)
"""
SHOW = """
import ast, queue, sys
from compute.engine import EnginePool, FrameReady, Sampled, Solved
def wait(kind, count=1):
    while count:
        event = events.get(timeout=300)
        assert type(event).__name__ not in ("Refused", "Paused", "EngineRestarted"), event
        count -= isinstance(event, kind)
pool = EnginePool()
for lab, values in ast.literal_eval(sys.argv[1]).items():
    events = queue.SimpleQueue()
    handle = pool.get("host").open(lab, values, events.put)
    if sys.argv[2] == "shown":
        handle.set_view(None, (600, 600))
        handle.frames_through(9)
        handle.run()
        wait(FrameReady, 3)
    handle.sample(1, 1)
    handle.solve(25, 20)
    wait(Sampled)
    wait(Solved)
    handle.close()
pool.close()
"""


@pytest.mark.parametrize("tab", ["shown", "compared"])
def test_after_it_the_engine_compiles_nothing_for_the_first_screens(tab):
    """Precompiling needs every kernel that an engine needs for the first screens of the labs.

    compared: the tab computes on a GPU, and the host's engine only runs the comparison.
    """

    def run(code, *arguments):
        """Return the output, and the cache files that the process and its children have read or written."""
        command = [sys.executable, "-c", code, *arguments]
        environment = os.environ | {"NUMBA_DEBUG_CACHE": "1", "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout, set(re.findall(r"data (?:loaded from|saved to) '([^']+)'", done.stdout))

    said, compiled = run(COMPILE, tab)
    shown = run(SHOW, re.search(r"FIRSTS (.*)", said)[1], tab)[1]
    for lab in ("diffusion", "mandelbrot", "l_curve"):
        assert any(re.search(rf"/{lab}[/_]", name) for name in shown), lab
    assert shown <= compiled
