"""A small budget: headline cases of each lab are first, in sizes predicted to fit without a GPU."""

from __future__ import annotations

import pytest

from compute.labs.diffusion.benchmark import BENCHMARK as DIFFUSION
from compute.labs.diffusion.benchmark import GPU_SIZES
from compute.labs.l_curve.benchmark import BENCHMARK as L_CURVE
from compute.labs.l_curve.benchmark import CPU_SIZES
from compute.labs.mandelbrot.benchmark import BENCHMARK as MANDELBROT
from compute.labs.mandelbrot.scenes import SCENES

NOTHING = {"sizes": (), "edges": (), "parts": (), "scenes": (), "devices": ()}


def planned(benchmark, gpu=False, budget=60.0, **chosen):
    own = NOTHING | chosen
    return benchmark.fitted(benchmark.cases(own, benchmark.dtypes, gpu), own, gpu, budget)


def test_curves_in_float32_come_first_and_fit_the_budget():
    cases, (note,) = planned(L_CURVE)
    assert [(case.kind, case.dtype) for case in L_CURVE.headline(cases)] == [
        ("curve, 10 λ", "float32"), ("curve, 200 λ", "float32")
    ]  # fmt: skip
    (n,) = {case.n for case in cases}
    assert n in CPU_SIZES
    assert f"n = {n} without a GPU: curves of n = 15000 are predicted to take" in note
    sizes = [planned(L_CURVE, budget=budget)[0][0].n for budget in (1.0, 30.0, 60.0, 240.0, 3600.0)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (CPU_SIZES[-1], CPU_SIZES[0])
    assert planned(L_CURVE, sizes=(2500,))[0][0].n == 2500  # an explicit choice is kept
    cases, notes = planned(L_CURVE, gpu=True)
    assert ({case.n for case in cases}, notes) == ({15_000}, ())


def test_every_scene_has_a_picture_in_front_and_large_ones_are_halved():
    cases, notes = planned(MANDELBROT)
    assert {case.name for case in MANDELBROT.headline(cases)} == set(SCENES)
    assert {case.name for case in cases} == set(SCENES)
    small = {case.name: case.shape for case in cases}
    assert small["lesson"] == SCENES["lesson"].shape
    assert small["interior"][0] < SCENES["interior"].shape[0]
    assert any(note.startswith("interior: ") and "predicted to take about" in note for note in notes)
    assert planned(MANDELBROT, gpu=True)[1] == ()
    assert planned(MANDELBROT, budget=3600.0)[0][0].shape == SCENES["lesson"].shape


@pytest.mark.parametrize("gpu", [True, False])
def test_the_largest_grid_follows_the_two_that_tell_the_pace(gpu):
    cases, notes = planned(DIFFUSION, gpu=gpu)
    first = DIFFUSION.headline(cases)
    assert {case.dtype for case in first} == {"float32"}
    assert [case.size for case in first] == ([512, 2000, 16384, 8192] if gpu else [512, 2000])
    assert len(notes) == (not gpu)
    assert {case.size for case in cases} == set(GPU_SIZES if gpu else (512, 2000))
    assert DIFFUSION.headline([]) == []
