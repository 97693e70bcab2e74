"""`fieldlab bench mandelbrot`: definitions of the scenes, counts checked first, actual numbers of iterations."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from compute.__main__ import BAD_INPUT, OK, main
from compute.devices import devices
from compute.devices.backends import backend
from compute.labs.mandelbrot import benchmark, cpu_numba, gpu_cupy, scenes
from compute.labs.mandelbrot.benchmark import PanFixture, SceneFixture
from compute.labs.mandelbrot.scenes import SCENES, CountsReference, OneLaunch, apart, kernels_of, lab_of
from compute.measure import records, report
from compute.measure.case import BenchPlan, Implementation, Row

pytestmark = pytest.mark.extended

NUMBA = backend("cpu_numba")
SMALL = replace(SCENES["whole set"], shape=(33, 47), view=replace(SCENES["whole set"].view, max_iterations=60))
DEEP = replace(SCENES["e14"], shape=(9, 14), view=replace(SCENES["e14"].view, max_iterations=900))


def brute(scene):
    """Return (ny, nx) counts from Python's complex numbers, row 0 lowest, for square pixels around the centre."""
    (ny, nx), view = scene.shape, scene.view
    step = 4 / float(view.zoom) / ny
    counts = np.empty((ny, nx), int)
    for i, j in np.ndindex(ny, nx):
        c = complex(
            float(view.center[0]) + (j - (nx - 1) / 2) * step, float(view.center[1]) + (i - (ny - 1) / 2) * step
        )
        z, n = 0j, 0
        while n < view.max_iterations:
            z, n = z * z + c, n + 1
            if abs(z) > 2:
                break
        counts[i, j] = n if abs(z) > 2 else view.max_iterations
    return counts


def way(variant=""):
    kernels = {"frame": None, "perturbation": cpu_numba.perturbed} | dict(kernels_of(NUMBA))
    name = variant or next(iter(kernels_of(NUMBA)))
    return Implementation(NUMBA, name, kernels[name])


def test_a_pan_moves_by_whole_pixels():
    for gpu in (True, False):
        (scene,) = benchmark.BENCHMARK.cases({"scenes": ("pan",)}, ("float64",), gpu=gpu)
        step = 4 / float(scene.view.zoom) / scene.shape[0]
        moved = (float(scenes.PAN[0][0]) - float(scene.view.center[0])) / step
        assert moved == pytest.approx(scene.pan_pixels, abs=1e-9)


def test_deep_scenes_have_one_arithmetic_and_are_small_without_a_gpu():
    large = benchmark.BENCHMARK.cases({"scenes": ()}, benchmark.BENCHMARK.dtypes, gpu=True)
    small = benchmark.BENCHMARK.cases({"scenes": ()}, benchmark.BENCHMARK.dtypes, gpu=False)
    assert [case.name for case in large] == [case.name for case in small]
    deep = {case.name: case for case in large if case.arithmetic.deep}
    assert set(deep) == {"e14", "e113"}
    assert all(case.dtype == "float64" and case.shape == (1080, 1920) and not case.plain for case in deep.values())
    assert all("480 x 270" in case.title for case in small if case.name in deep)
    assert sum(case.name == "lesson" for case in large) == 2
    assert benchmark.BENCHMARK.cases({"scenes": ("e14",)}, ("float32",), gpu=True) == []


@pytest.mark.parametrize("shortcuts", [False, True])
def test_reference_counts_equal_brute_force(shortcuts):
    right = CountsReference(replace(SMALL, shortcuts=shortcuts))
    np.testing.assert_array_equal(right.counts, brute(SMALL))


def test_reference_counts_of_a_deep_scene_are_taken_on_a_lattice(monkeypatch):
    monkeypatch.setattr(scenes, "LATTICE", 30)
    right = CountsReference(DEEP)
    assert right.stride == 2
    assert right.counts.shape == (5, 7)
    full = np.zeros(DEEP.shape, np.int32)
    full[::2, ::2] = right.counts
    assert right.error(full) == (0.0, 0.0)
    assert "one pixel in 2 x 2" in right.name
    with closing(lab_of(DEEP, "cpu_numba")) as lab:
        assert right.error(lab.counts())[0] <= 1 / 35


def test_the_difference_is_the_share_of_pixels_that_are_more_than_one_apart():
    right = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    got = right + np.array([[0, 1, 2], [-2, 0, -1]], np.int32)
    assert apart(right, got) == (2 / 6, 2.0)


def test_one_launch_is_the_whole_picture():
    with closing(lab_of(SMALL, "cpu_numba")) as lab:
        lab.painting.schedule = OneLaunch(lab.painting.task)
        part = lab.painting.schedule.part(scenes.ALL)
        assert (part.first, part.last, part.stride, part.iterations, part.limit) == (0, 33, 1, 60, 60)
        lab.painting.advance(scenes.ALL)
        assert lab.finished
        np.testing.assert_array_equal(lab.counts(), brute(SMALL))


def test_a_picture_is_checked_and_timed_with_its_iterations():
    fixture = SceneFixture(NUMBA.open_device(), SMALL, CountsReference(SMALL))
    first, seconds = fixture.first(way())
    assert min(first.compute, seconds) > 0
    assert fixture.check(way()).difference == 0
    timing = fixture.run(way(), 3)
    assert timing.steps == 3
    assert timing.compute > 0
    assert timing.cells == brute(SMALL).sum()  # without shortcuts, every pixel does as many iterations as it counts
    quick = replace(SMALL, shortcuts=True)
    fixture = SceneFixture(NUMBA.open_device(), quick, CountsReference(quick))
    assert fixture.check(way()).difference == 0
    assert fixture.run(way(), 1).cells < brute(SMALL).sum()


def test_a_deep_picture_is_timed_by_the_backend_s_own_perturbation():
    assert list(benchmark.BENCHMARK.variants(NUMBA, DEEP)) == ["perturbation"]
    fixture = SceneFixture(NUMBA.open_device(), DEEP, CountsReference(DEEP))
    assert fixture.check(way("perturbation")).difference == 0


def test_a_pan_moves_back_and_forth_with_the_counts_of_the_view():
    scene = replace(SCENES["pan"], shape=(30, 40), view=replace(SCENES["pan"].view, max_iterations=50))
    fixture = PanFixture(NUMBA.open_device(), scene, CountsReference(scene))
    first, seconds = fixture.first(way("frame"))
    assert min(first.compute, seconds) > 0
    assert fixture.check(way("frame")).difference <= 1 / 1200
    timing = fixture.run(way("frame"), 3)
    assert timing.steps == 4
    assert 0 < timing.cells < brute(scene).sum()  # only the strip was computed


def test_a_kernel_with_wrong_counts_gets_no_time(monkeypatch):
    def shallow(state, part):
        cpu_numba.direct(state, replace(part, limit=part.limit - 5, iterations=part.iterations))
        state.count[state.count < 0] = part.max_iterations - 2
        state.totals[1] = 0

    monkeypatch.setattr(cpu_numba, "VARIANTS", {"right": cpu_numba.direct, "planted": shallow})
    plan = BenchPlan("mandelbrot", (SMALL,), ("cpu_numba",), budget=5.0)
    rows = {row.variant: row for row in benchmark.BENCHMARK.run(plan).rows}
    assert rows["planted"].status == "disagrees"
    assert rows["planted"].measurement is None
    assert "% of the pixels differ by more than 1" in rows["planted"].reason
    assert rows["right"].status == "measured"


@pytest.fixture
def clock(monkeypatch):
    """The clock of the host's stopwatches, which a test's kernels advance. now: s."""
    clock = SimpleNamespace(now=0.0)

    def perf_counter():
        clock.now += 1e-6
        return clock.now

    monkeypatch.setattr(devices, "time", SimpleNamespace(perf_counter=perf_counter))
    return clock


def test_counts_alone_have_no_speed_up_over_pictures_with_smooth_counts(monkeypatch, capsys, clock):
    """They are no reference for other rows either, though they are the fastest."""
    block = cpu_numba.VARIANTS["block"]

    def slow(*arguments):
        clock.now += 0.02
        block(*arguments)

    def as_slow(*arguments):
        slow(*arguments)

    kernels = {"slow": slow, "as slow": as_slow, "block, counts only": block}
    monkeypatch.setattr(cpu_numba, "VARIANTS", kernels)
    plan = BenchPlan("mandelbrot", (replace(SMALL, name="lesson"),), ("cpu_numba",), budget=2.0)
    results = benchmark.BENCHMARK.run(plan)
    rows = {row.variant: row for row in results.rows}
    assert {row.status for row in rows.values()} == {"measured"}
    assert rows.pop("block, counts only").speed_up is None
    assert sorted(row.over for row in rows.values()) in (["", "cpu_numba slow"], ["", "cpu_numba as slow"])
    report.show(results, benchmark.BENCHMARK, Console(width=200))
    assert "less work  cpu_numba block, counts only: without smooth counts" in capsys.readouterr().out


def test_a_picture_that_would_take_too_long_is_skipped_after_a_coarse_one(monkeypatch, clock):
    direct = cpu_numba.direct

    def slow(state, part):
        """Take 0.5 ms a pixel: 13 s for the whole picture."""
        clock.now += 5e-4 * part.rows * -(-state.re.size // part.stride)
        direct(state, part)

    monkeypatch.setattr(cpu_numba, "VARIANTS", {"slow": slow})
    large = replace(SMALL, shape=(160, 160))
    rows = benchmark.BENCHMARK.run(BenchPlan("mandelbrot", (large,), ("cpu_numba",), budget=1e-3)).rows
    assert {row.status for row in rows} == {"skipped"}
    assert "are allowed for this case" in rows[0].reason


def test_a_record_is_complete(capsys, tmp_path, monkeypatch):
    for table in (scenes.SCENES, benchmark.SCENES):
        monkeypatch.setitem(table, "lesson", SMALL)
        monkeypatch.setitem(table, "e14", DEEP)
    saved = tmp_path / "record.json"
    command = ["bench", "mandelbrot", "--scenes", "lesson,e14", "--backends", "cpu_numba", "--dtypes", "float64"]
    assert main([*command, "--budget", "20", "--save", str(saved)]) == OK
    out = capsys.readouterr().out
    assert "Giter/s" in out
    assert "% of FMA" in out
    document = records.load(saved)
    assert document["lab"] == "mandelbrot"
    assert document["command"].endswith("--save record.json")
    assert document["fma"].keys() == {"host float32", "host float64"}
    figures = records.recorded(document)
    assert {figure.case for figure in figures} == {"whole set", "e14"}
    by_case = {result["scene"]: result for result in document["results"]}
    assert by_case["e14"]["percent_of_fma"] is None
    plain = by_case["whole set"]
    share = 400 * plain["iterations_per_second"] / document["fma"]["host float64"]["roof"]
    assert plain["percent_of_fma"] == pytest.approx(share)
    assert plain["zoom"].startswith("1.333")


@pytest.mark.parametrize(
    ("scenes", "says"),
    [
        ("moon", "--scenes: must be some of 'lesson'"),
        (",", "--scenes: no scene is given"),
        ("whole set, shortcuts; lesson; moon", "not 'moon'"),  # a scene with a comma in its name
    ],
)
def test_invalid_scenes_are_refused(capsys, scenes, says):
    assert main(["bench", "mandelbrot", "--scenes", scenes]) == BAD_INPUT
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variant", "dtype", "share"),
    [("block", "float64", 0.75), ("block", "float32", 1.0), ("doubling by addition", "float64", 1.0)],
)
def test_the_fma_roof_counts_the_instructions_of_the_kernel_itself(variant, dtype, share):
    """gpu_cupy.cu: in float64 a doubling is an integer addition; the slow kernel does it on the FP64 pipe."""
    assert next(iter(gpu_cupy.VARIANTS)) == "block"
    row = Row("gpu_cupy", variant, replace(SMALL, dtype=dtype), "measured")
    assert benchmark.BENCHMARK.counted_share(row) == share
