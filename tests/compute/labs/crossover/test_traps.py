"""The traps: each wrong program fails as its page describes, and each right one does not."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from math import isnan

import pytest

from compute.devices.backends import Backend
from compute.devices.devices import Host
from compute.labs.crossover.trap import TrapProgram, trap, traps
from compute.own.code_files import embedded_cuda
from tests import cupy_on_cpu
from tests.sass import straight_runs
from tests.simulator import simulate


def side(name, which):
    """Return a program of a trap that runs with NumPy in place of CuPy."""
    found = trap(name).wrong if which == "wrong" else trap(name).right
    return TrapProgram(found.package, Backend(found.backend.name, "host", Host, (), "CuPy"), which)


@pytest.fixture
def cupy(monkeypatch):
    """Install CuPy on the CPU; afterwards remove the modules that were imported with it."""
    monkeypatch.setitem(sys.modules, "cupy", cupy_on_cpu.module())
    yield sys.modules["cupy"]
    for name in [name for name in sys.modules if re.match(r"compute\.labs\.crossover\.traps\.\w+", name)]:
        del sys.modules[name]


@pytest.mark.parametrize("trap", traps(), ids=lambda trap: trap.name)
def test_a_trap_s_file_is_complete(trap):
    assert trap.about.startswith(f"# {trap.title}\n")
    for part in ("**What you see.**", "**Why.**", "**Instead.**"):
        assert part in trap.about
    assert trap.wrong.backend == trap.right.backend
    for which, program in (("wrong", trap.wrong), ("right", trap.right)):
        assert f"def {which}(n: int" in program.source
        assert program.summary
        assert len(program.source.splitlines()) <= 60  # both are shown next to each other on a slide


@pytest.mark.parametrize("name", [trap.name for trap in traps() if trap.wrong.backend.device == "host"])
def test_the_host_s_programs_run_and_see_what_they_say(name):
    chosen = trap(name)
    for program in (chosen.wrong, chosen.right):
        seen = program.run(1000)
        assert set(seen) == set(chosen.seen)
        assert all(number > 0 for number in seen.values())


@pytest.mark.parametrize("which", ["wrong", "right"])
@pytest.mark.parametrize("name", [trap.name for trap in traps() if trap.wrong.backend.name == "gpu_cupy"])
def test_the_programs_for_cupy_see_what_they_say(name, which, cupy):
    if (name, which) == ("out_of_bounds", "wrong"):  # NumPy replaces CuPy here, and checks the index
        with pytest.raises(IndexError):
            side(name, which).run(10)
        return
    seen = side(name, which).run(1000)
    assert set(seen) == set(trap(name).seen)
    if name == "out_of_bounds":
        assert isnan(seen["element"])
    if name == "complex_power":  # right either way in NumPy
        assert seen["error"] < 1e-4


def test_literals_without_f_are_computed_in_float64(cupy, tmp_path):
    counts = {}
    for which in ("wrong", "right"):
        program = side("float64_literals", which)
        (tmp_path / "relax.cu").write_text(embedded_cuda(program.source))
        counts[which] = sum(straight_runs(tmp_path / "relax.cu", "relax", defines={}), Counter())
        assert program.run(70)["result"] == pytest.approx(2, rel=2e-7)
    assert counts["wrong"]["DFMA"] > 0
    assert counts["wrong"]["FFMA"] == 0
    assert counts["right"]["FFMA"] > 0
    assert counts["right"]["DFMA"] + counts["right"]["DMUL"] + counts["right"]["DADD"] == 0


def test_the_right_program_waits_before_both_readings_of_the_clock(cupy, monkeypatch):
    events = []
    monkeypatch.setattr(cupy_on_cpu.Stream, "synchronize", lambda self: events.append("wait"))
    for which, waits in (("wrong", []), ("right", ["wait"])):
        program = side("no_synchronise", which)
        events.clear()
        monkeypatch.setattr(program.module(), "perf_counter", lambda: events.append("clock") or 0.0)
        program.run(2)
        assert events == [*waits, "clock", *waits, "clock"]


def test_the_race_is_seen_and_two_arrays_have_none():
    """In Numba's simulator the second block of 64 runs after the first, and reads the values replaced by it."""
    code = (
        "import json\nfrom compute.labs.crossover.trap import trap\ntrap = trap('in_place_race')\n"
        "print(json.dumps([side.run(150)['wrong_cells'] for side in (trap.wrong, trap.right)]))"
    )
    wrong, right = json.loads(simulate(code))
    assert wrong >= 2  # the first cell of the second and of the third block, at least
    assert right == 0
