"""Compiling in advance: the parts, and that no compilation is left for the engine."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys

import pytest

from app.server import first_screens
from app.tab.lab_view import first_values, parts_of
from compute.devices import kernel_cache
from compute.devices.backends import backend as backend_named
from compute.devices.builds import building
from compute.labs import lab_class
from tests.conftest import require
from tests.sources import ROOT

pytestmark = pytest.mark.extended


def test_the_build_times_of_a_part_are_recorded(tmp_path, monkeypatch):
    def build():
        with building("wave.step"):
            pass

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "NOTICEABLE", 0.0)
    first_screens.compile_part(first_screens.Part("waves", build), lambda part, words: None)
    assert kernel_cache.usual_seconds("wave.step") is not None


def test_the_parts_can_be_sent_to_a_child():
    made = pickle.loads(pickle.dumps(first_screens.first_parts()))
    assert made[0].run.args[0] is lab_class("diffusion")


def test_a_lab_without_a_comparison_opens_no_further_one(monkeypatch):
    """The crossover may have no result yet: on a GPU it had none after two steps."""
    lab = lab_class("crossover")
    begun, opened = lab.__init__, []
    monkeypatch.setattr(lab, "__init__", lambda self, **values: opened.append(values) or begun(self, **values))
    first_screens.first_screen(lab, first_values(lab, parts_of(lab)) | {"backend": "cpu_numpy"})
    assert len(opened) == 1


# Numba's cache log (NUMBA_DEBUG_CACHE) names the kernels that a process needs, whether compiled or found in the cache.
# So both programs use the cache of the whole run.
COMPILE = """
import sys
from app.tab.lab_view import first_values, parts_of
from app.server import first_screens
from compute.lab.lab import values_on
from compute.labs import lab_class
from compute.measure.benchmark import benchmark_of
from compute.measure.verdict import Variant
first_screens.prepare("host")
firsts = []
for lab in map(lab_class, ("diffusion", "mandelbrot", "l_curve", "equations")):
    first = first_values(lab, parts_of(lab)) | {"backend": sys.argv[1]}
    first |= values_on(lab, sys.argv[1], {**lab.param.values(), **first})
    first_screens.first_screen(lab, first)
    rules, values = benchmark_of(lab).rules, {**lab.param.values(), **first}
    for changes in (rules.small(values), rules.sampled(values)):
        given = rules.values_of(Variant("cpu_numba"), values, changes)
        firsts.append((lab.LAB, {key: value for key, value in given.items() if value != lab.param[key].default}))
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
for lab, values in ast.literal_eval(sys.argv[1]):
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


@pytest.mark.parametrize("backend", ["cpu_numba", "cpu_numpy", "gpu_wgpu"])
def test_after_precompiling_the_engine_compiles_nothing_for_the_first_screens(backend, monkeypatch):
    """Precompiling needs every kernel that an engine needs for the first screens of the labs.

    cpu_numpy: instead of a GPU with float64, with which the host's engine only runs the comparison; gpu_wgpu: a GPU
    without, where the comparison is in float32.
    """
    require(backend_named(backend), monkeypatch)
    shown_too = "shown" if backend == "cpu_numba" else "compared"

    def run(code, *arguments):
        """Return the output, and the cache files that the process and its children have read or written."""
        command = [sys.executable, "-c", code, *arguments]
        environment = os.environ | {"NUMBA_DEBUG_CACHE": "1", "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout, set(re.findall(r"data (?:loaded from|saved to) '([^']+)'", done.stdout))

    printed, compiled = run(COMPILE, backend)
    shown = run(SHOW, re.search(r"FIRSTS (.*)", printed)[1], shown_too)[1]
    for lab in ("diffusion", "mandelbrot", "l_curve", "equations"):
        assert any(re.search(rf"/{lab}[/_]", name) for name in shown), lab
    assert shown <= compiled
