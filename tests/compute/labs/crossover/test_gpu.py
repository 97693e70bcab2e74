"""The crossover lab on a real GPU: every GPU way, and the traps that need a GPU."""

from __future__ import annotations

from itertools import product
from math import isfinite, isnan

import pytest

from compute.devices.backends import backend
from compute.labs.crossover import Crossover, picture
from compute.labs.crossover.trap import traps
from compute.ways.catalogue import workload, workloads
from compute.ways.crossing import crossing
from compute.ways.plan import SweepPlan
from compute.ways.runner import WorkloadRunner
from compute.ways.sweep import Sweep
from compute.ways.workload import DTYPES

pytestmark = pytest.mark.gpu
WAYS = [way for w in workloads() for way in w.ways() if way.backend.device == "cuda"]
LARGE = {"column_sums": 700, "determinants": 2001, "many_launches": 1000}


def require(program):
    if program.missing:
        pytest.skip(f"{program.name}: {program.missing}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.workload}-{way.name}")
def test_a_way_agrees_and_can_be_timed(way, dtype):
    require(way)
    w = workload(way.workload)
    for n, values in product((1, 7, 333, LARGE.get(w.name, 1_000_003)), product(*w.settings.values())):
        case = w.case(n, dtype, **dict(zip(w.settings, values, strict=True)))
        inputs = case.inputs(seed=5)
        with WorkloadRunner(way, case, inputs) as runner:
            found = runner.check(case.reference(inputs))
            assert found.difference <= case.tolerance, (n, values)
            assert found.first_call > 0
            assert runner.time(3).compute > 0
            assert runner.transfer() >= 0
    with WorkloadRunner(way, case, inputs) as runner:
        runner.evict()
        assert runner.time(1).compute > 0


def test_a_sweep_over_the_gpu_s_ways_has_transfers_and_launches():
    ways = [way for way in workload("add_one").ways() if not way.missing and "float64" in way.backend.dtypes]
    if all(way.backend.device == "host" for way in ways):
        pytest.skip("no way to a GPU: " + "; ".join(f"{w.name}: {w.missing}" for w in WAYS[:3]))
    sweep = Sweep(SweepPlan(workload("add_one"), tuple(ways), (1000, 10**6), budget=2.0, split=True))
    for _ in sweep.measure():
        pass
    for point in sweep.points.values():
        assert point.measurement, (point.way.name, point.n, point.status, point.reason)
        assert isfinite(point.launch.median)
        assert (point.transfer.median > 0) == (point.way.backend.device == "cuda")


def test_the_lab_runs_the_host_s_and_the_gpu_s_ways_in_one_process():
    if Crossover.home() == "cpu_numba":
        pytest.skip(f"no GPU: {backend('gpu_cupy').missing}; {backend('gpu_numba').missing}")
    made = Crossover(most=10**5, per_decade=1, budget=3.0, split=True)
    made.run()
    frame = made.frame()
    drawn = picture.ways_of(frame)
    assert {line.device for line in drawn.values()} == {"host", "cuda"} == set(picture.roofs_of(frame))
    for line in drawn.values():
        assert set(line.series(transfer=True)) == {10, 100, 1000, 10**4, 10**5}, (line.way, line.status, line.reason)
        assert all(isfinite(spot.percent) or line.device == "cuda" for spot in line.points)
    assert crossing(drawn["cpu_numpy"].series(), drawn[frame.notes["fast"]].series())
    assert " n" in frame.notes["crossing"]
    made.close()


@pytest.mark.parametrize("trap", [t for t in traps() if t.wrong.backend.device == "cuda"], ids=lambda trap: trap.name)
def test_a_trap_s_programs_see_what_they_say(trap):
    require(trap.wrong)
    wrong, right = (program.run() for program in (trap.wrong, trap.right))
    assert set(wrong) == set(right) == set(trap.seen)
    if trap.name == "out_of_bounds":
        assert trap.wrong.run(10)["element"] == 1  # a[11 % 10]
        assert isnan(trap.right.run(10)["element"])
    elif trap.name == "in_place_race":
        assert wrong["wrong_cells"] > 0 or any(trap.wrong.run()["wrong_cells"] > 0 for _ in range(50))  # not each time
        assert right["wrong_cells"] == 0
    elif trap.name == "float64_literals":
        assert right["result"] == pytest.approx(2, rel=2e-7)
