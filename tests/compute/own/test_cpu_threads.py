"""Races between CPU threads and other faults without effect at small n, in kernels as students write them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from compute.__main__ import main
from compute.own import tasks
from compute.own.faults import Fault
from compute.own.trial import ON_SIMULATOR, KernelTrial, Options, WayReport
from compute.ways.declaring import FileRefused, load

pytestmark = pytest.mark.extended

HERE = Path(__file__).parent
FILES = HERE / "files"
ROOT = HERE.parents[2]


def watched(name: str, *ways: str) -> dict[str, list[Any]]:
    """Return (kind of fault, tried n, text) of each way, from a process in which Numba compiles nothing."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(HERE / "watched_threads.py"), str(FILES / name), *ways]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, cwd=ROOT)
    return json.loads(done.stdout)


def test_races_of_students_are_found_every_time_and_unwatched_loops_are_reported():
    racing = {"cpu_numba_adds": "out", "cpu_numba_own_array": "an array made by the function"}
    found = watched("students.py", "cpu_numpy", *racing, "cpu_numba_rows", "cpu_numba_tail", "cpu_numba_vectorize")
    for name, array in racing.items():
        kind, _, text = found[name]
        assert kind == "race"
        assert "a race between CPU threads: iteration " in text
        assert " reads it, and nothing orders the two (n = 33)" in text
        assert array in text
    kind, (question,), unwatched = found["cpu_numba_rows"]  # one row per thread, by thread number
    assert (kind, question.startswith("n = 33"), unwatched) == ("", True, "")
    assert found["cpu_numpy"] == found["cpu_numba_tail"] == ["", [], ""]  # no threads
    assert found["cpu_numba_vectorize"] == ["", [], "no prange loop ran, though its source says 'parallel'"]


def test_a_race_is_exactly_what_numba_does_not_allow():
    right = ("rows", "reductions", "nested", "two_loops", "same_value")
    wrong = {"in_place": "out[", "through_a_view": "out[", "row_sums": "an array made by the function["}
    found = watched("threads.py", *(f"cpu_numba_{name}" for name in (*right, *wrong)))
    for name in right:
        kind, (question,), unwatched = found[f"cpu_numba_{name}"]
        assert (kind, question.startswith("n = 33"), unwatched) == ("", True, ""), name
    for name, array in wrong.items():
        kind, _, text = found[f"cpu_numba_{name}"]
        assert (kind, array in text) == ("race", True), text


# -- compared with the reference, in this process


@pytest.fixture
def check():
    """Return a function that opens a file in this process and checks one of its ways."""

    def checked(path: Path, name: str, dtype: str = "float64", seconds: float = 0.5) -> tasks.CheckedWay:
        tasks._open[:] = [tasks._Open(load(path), {})]
        return tasks.check(name, dtype, 0, seconds, 10**9, inf, lambda *_: None)

    yield checked
    tasks._open.clear()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cpu_numba_tail", "it is wrong at n = 1: "),
        ("cpu_numpy_large", "it is wrong at n = 300,000: "),
        ("cpu_numpy_complex", "has the dtype complex128 where the reference has int64"),
        ("cpu_numpy_masked", "is a masked array where the reference has a plain one"),
        ("cpu_numpy_wide", "has the dtype float64 where the reference has int64"),
    ],
)
def test_wrong_results_of_students_are_found(check, name, words):
    with pytest.raises(Fault, match=words) as raised:
        check(FILES / "students.py", name)
    assert raised.value.kind == "differs"


def test_a_right_way_is_repeated_at_the_largest_n(check):
    found = check(FILES / "students.py", "cpu_numba_rows")
    assert found.left == ""
    assert found.asked[0].startswith("n = 1, 2, 3, 31, 33, ")
    assert any(words.startswith("n = 300,000, ") for words in found.asked)


OWN = """
import time
import numpy as np
from compute.own import way, workload
@workload(sizes=(1, 2000), denormals=False)
def inputs(n, dtype, rng): return rng.random(n, dtype=dtype)
@way('cpu_numpy')
def plain(x): return 2 * x
calls = []
@way('cpu_numpy_other')
def other(x):
    calls.append(x.size)
    {body}
    return 2 * x{fault}
"""


def own(tmp_path: Path, body: str, fault: str = "") -> Path:
    path = tmp_path / "own.py"
    path.write_text(OWN.format(body=body, fault=fault))
    return path


@pytest.mark.parametrize("remainder", [1, 0])
def test_compiling_does_not_count_against_the_seconds_of_checking(check, tmp_path, remainder):
    """The first call takes longer than the limit of all checks; a fault at n % 32 is found nevertheless."""
    path = own(tmp_path, "time.sleep(0.5 * (len(calls) == 1))", f" + (x.size > 90) * (x.size % 32 == {remainder})")
    with pytest.raises(Fault, match=f"it is wrong at n = {97 if remainder else 128}: "):
        check(path, "cpu_numpy_other", "float32", 0.4)


def test_a_way_that_takes_too_long_is_not_fully_checked_and_the_command_reports_it(tmp_path, capsys):
    command = ["try", str(own(tmp_path, "time.sleep(2e-4 * x.size)")), "--check", "--check-seconds", "0.01"]
    assert main(command) == 3
    out = capsys.readouterr().out
    assert "cpu_numpy_other: not fully checked: time ended before n = " in out
    assert "right" not in out
    assert main([*command, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["right"], found["unfinished"], found["ways"][1]["status"]) == (False, True, "unchecked")


NEIGHBOUR = """
from numba import njit, prange
@way('cpu_numba')
@njit(parallel=True)
def neighbour(x):
    out = np.zeros_like(x)
    for i in prange(x.size):
        out[i] = 2 * x[i] + 0 * out[i - 1]
    return out
"""


def test_the_command_finds_a_race_whose_result_is_always_right(tmp_path, capsys):
    path = own(tmp_path, "pass")
    path.write_text(path.read_text() + NEIGHBOUR)
    assert main(["try", str(path), "--check", "--check-seconds", "0.5"]) == 1
    assert "cpu_numba: a race between CPU threads: iteration " in " ".join(capsys.readouterr().out.split())


def test_an_input_that_would_take_longer_than_the_deadline_is_omitted(tmp_path, capsys):
    """A right kernel that takes n² was reported as hanging, since n = 1,031 alone took longer than the deadline."""
    path = own(tmp_path, "time.sleep(2e-5 * x.size**2)")
    assert main(["try", str(path), "--check", "--check-seconds", "10", "--deadline", "6"]) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert "cpu_numpy_other: not fully checked: n = 1031 would take about " in out


def test_a_reference_with_a_masked_result_is_refused(tmp_path):
    path = own(tmp_path, "pass")
    path.write_text(
        path.read_text().replace("def plain(x): return 2 * x", "def plain(x): return np.ma.masked_array(x)")
    )
    with pytest.raises(FileRefused, match="returns a masked array"):
        load(path).truth((np.ones(3),))


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("hangs", [True, False])
def test_a_slow_simulator_leaves_nothing_open_if_the_gpu_itself_checks(ready, hangs):
    """On an H200 the simulator's time ended before n = 1031, and right ways of real GPUs had no times."""
    backend = SimpleNamespace(name="gpu_numba", ready=ready, stand_in=ON_SIMULATOR)
    way = SimpleNamespace(name="gpu_numba", is_reference=False, backend=backend)
    one, trial = WayReport(way), KernelTrial(Options(FILES / "students.py"), Mock(), ExitStack(), lambda _: None)
    process = trial._stand_ins[ON_SIMULATOR] = Mock()
    process.ask.return_value = tasks.CheckedWay(("n = 1",), left="time ended before n = 1031")
    process.ask.side_effect = Fault("hangs", "it did not end within 30 s") if hangs else None
    if hangs and not ready:
        with pytest.raises(Fault):
            trial._check_on_stand_in(one, ("float32",))
    else:
        trial._check_on_stand_in(one, ("float32",))
        assert (one.status, bool(one.notes)) == ("right" if ready else "unchecked", ready)
