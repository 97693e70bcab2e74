"""The live comparison of Mandelbrot labs: whole pictures of the current view, compared by their counts."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from app.readout import comparison as comparisons
from compute.devices.builds import building
from compute.lab.frames import Frame
from compute.labs.mandelbrot import Mandelbrot, comparison, cpu_numpy
from compute.labs.mandelbrot.benchmark import BENCHMARK
from compute.labs.mandelbrot.comparison import CITED, RULES, PictureTarget, is_lesson
from compute.labs.mandelbrot.views import LESSON_SHAPE, VIEWS
from compute.measure import verdict as verdicts
from compute.measure.records import Recorded, recorded, timings_folder
from compute.measure.timing import Timing
from compute.measure.verdict import Variant
from tests.comparing import LiveComparison


def values(name="home", **changes):
    view = VIEWS[name]
    shown = {"center": view.center, "zoom": view.zoom, "max_iterations": view.max_iterations, "ny": 300, "nx": 400}
    defaults = {name: Mandelbrot.param[name].default for name in Mandelbrot.param if name != "name"}
    return defaults | shown | changes


SMALL = values(ny=20, nx=24, max_iterations=80)


@pytest.fixture(autouse=True)
def cpu_only(monkeypatch):
    here = [b for b in verdicts.BACKENDS if b.device == "host"]
    monkeypatch.setattr(verdicts, "BACKENDS", here)
    monkeypatch.setattr(comparison, "BACKENDS", here)
    monkeypatch.setattr(comparisons, "AGAIN", math.inf)  # the result must not depend on the noise of this machine
    monkeypatch.setattr(comparisons, "MOST_TIMINGS", 12)


def test_right_counts_give_a_speed_up_in_pictures():
    verdict = LiveComparison(Mandelbrot, SMALL).turn(25)
    assert verdict.state == "agree"
    assert verdict.title == "Numba over NumPy"
    assert verdict.agreement.said == "0 % of pixels differ"
    assert "24 × 20 pixels" in verdict.agreement.about
    assert all(standing.measurement.cells > 480 for standing in verdict.standings)  # iterations, not pixels


def test_only_a_view_with_other_counts_is_measured_again():
    session = LiveComparison(Mandelbrot, values(ny=720, nx=960, max_iterations=40))
    first = session.settle()
    count = len(session.asked)
    for same in ({"ny": 540, "nx": 720}, {"colouring": "distance", "pointer": (0.5, 0.5), "julia": True}, {}):
        session.comparison.follow(values(**{"ny": 720, "nx": 960, "max_iterations": 40, **same}))
        assert session.comparison.verdict() == first
        session.turn(5)
        assert len(session.asked) == count
    for other in ({"zoom": "3"}, {"ny": 960, "nx": 720}):
        session.comparison.follow(values(**{"ny": 720, "nx": 960, "max_iterations": 40, **other}))
        assert session.comparison.verdict().state == "measuring"


def test_views_with_another_arithmetic_share_no_measurement():
    shallow, deep = (values("home", zoom="300", ny=side, nx=side) for side in (500, 2000))
    assert RULES.small(shallow) == RULES.small(deep)
    session = LiveComparison(Mandelbrot, shallow)
    session.settle()
    session.comparison.follow(deep)
    assert session.comparison.verdict().state == "measuring"


def test_a_view_that_takes_minutes_is_reported_as_unavailable(monkeypatch):
    monkeypatch.setattr(comparison, "PATIENCE", 0.0)
    verdict = LiveComparison(Mandelbrot, values(max_iterations=10**6)).turn(12)
    assert verdict.state == "unavailable"
    assert "takes longer than" in verdict.standings[0].note


def test_implementations_are_timed_at_a_reduced_size_and_compared_at_a_small_one():
    large = values("e14", ny=1080, nx=1920)
    session = LiveComparison(Mandelbrot, large)
    sizes = {ask: RULES.small(large) if ask == "solve" else RULES.sampled(large) for ask in ("solve", "sample")}
    assert sizes["sample"]["ny"] <= comparison.TIMED_ROWS
    assert sizes["solve"]["ny"] * sizes["solve"]["nx"] * large["max_iterations"] <= 1.05 * comparison.DEEP_WORK
    for size in sizes.values():
        assert size["nx"] / size["ny"] == pytest.approx(1920 / 1080, rel=0.05)
    session.turn()
    assert session.asked[0][1]["ny"] == sizes["solve"]["ny"]
    assert RULES.sampled(values(ny=50, nx=70)) == {"ny": 50, "nx": 70}


def test_a_small_picture_uses_the_arithmetic_of_the_live_one():
    """At 1/64 of the spacing "auto" selects perturbation, while a small picture alone would be computed directly."""
    deep = values("home", zoom="300", ny=2000, nx=2000)
    assert RULES.dtype(deep) == "float64"
    assert RULES.own(Variant("cpu_numba"), deep)["precision"] == "perturbation"
    assert RULES.right(deep)["precision"] == "perturbation"
    forced = values(precision="float32")
    assert RULES.own(Variant("cpu_numba"), forced) == {"precision": "float32"}
    assert RULES.right(forced)["precision"] == "float64"
    assert RULES.dtype(forced) == "float32"


def test_agreement_is_the_share_of_differing_pixels_and_allows_two():
    right = np.zeros((20, 100), np.int32)
    got = right.copy()
    got[0, :2] = 7
    two = RULES.agreement(right, got, SMALL | {"precision": "float64"}, 1)
    assert two.said == "0.1 % of pixels differ"
    assert two.agrees
    got[0, 2] = 7
    assert not RULES.agreement(right, got, SMALL | {"precision": "float64"}, 1).agrees
    assert RULES.agreement(right, got, SMALL | {"precision": "float32"}, 1).agrees
    assert "Largest difference 7" in two.about


@pytest.mark.parametrize(("side", "limit"), [(16, None), (700, 0.0)])
def test_a_step_of_the_comparison_is_one_picture_of_any_number_of_slices(monkeypatch, side, limit):
    if limit is not None:
        monkeypatch.setattr(comparison, "SLICE", limit)
    pictures = BENCHMARK.target(Mandelbrot(ny=side, nx=side, max_iterations=500, shortcuts=False))
    assert isinstance(pictures, PictureTarget)
    slices = [pictures.advance(1)]
    while not slices[-1].steps:
        slices.append(pictures.advance(1))
    assert {timing.compute for timing in slices[:-1]} <= {0.0}
    assert len(slices) > 3 or limit is None
    assert slices[-1].steps == 1
    assert slices[-1].compute > 0
    assert slices[-1].cells == pictures.result().sum()
    pictures.close()


def test_the_lesson_s_scene_is_recognised_by_centre_zoom_and_iterations():
    lesson = values("lesson", ny=500, nx=700)
    assert is_lesson(lesson)
    assert is_lesson(lesson | {"zoom": "4.0", "center": ("-0.750", "-5e-1")})
    for other in ({"zoom": "4.1"}, {"max_iterations": 21}, {"center": ("-0.75", "-0.4")}):
        assert not is_lesson(lesson | other)
    assert RULES.sampled(lesson) == {"ny": 2000, "nx": 3000, "shortcuts": False}
    assert RULES.small(lesson)["ny"] <= comparison.CHECK_ROWS
    assert RULES.chart(lesson | {"zoom": "5"}, ()) is None


def test_the_lesson_s_chart_contains_implementations_records_and_cited_figures():
    others = (
        {"case": "whole set"}, {"lab": "diffusion"}, {"backend": "cpu_numba"}, {"dtype": "float32", "variant": "other"}
    )  # fmt: skip
    chart = RULES.chart(values("lesson"), [RECORDED, *(replace(RECORDED, **other) for other in others)])
    assert set(chart.ways) >= {Variant("cpu_numba"), Variant("cpu_numpy")}
    assert chart.figures == (RECORDED, *CITED)
    assert {figure.variant: figure.step for figure in CITED}["Python"] == 24.718


RECORDED = Recorded(
    "mandelbrot", "a GPU", "2026-01-02", "gpu_cupy", "fast", *LESSON_SHAPE, "float64", "lesson", 5e-5, 1e12,
    q1=1e12, q3=1e12, percent=1.0,
)  # fmt: skip


def test_without_a_gpu_the_record_of_the_whole_set_is_shown():
    whole = replace(RECORDED, case="whole set")
    slow = replace(whole, step=1.0, variant="slow")
    other = replace(whole, dtype="float32")
    short = replace(whole, case="whole set, shortcuts")
    assert RULES.elsewhere(values(shortcuts=False), [RECORDED, slow, whole, other, short]) == [whole]
    assert RULES.elsewhere(values(shortcuts=True), [RECORDED, slow, whole, other, short]) == [short]
    assert RULES.elsewhere(values(precision="float32", shortcuts=False), [whole, other]) == [other]
    assert RULES.elsewhere(values(), [RECORDED]) == []


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_recorded_gpu_of_the_lesson_computed_smooth_counts(precision):
    """A kernel without smooth counts does less work: it is not compared with kernels that compute them."""
    (record,) = (json.loads(path.read_text()) for path in timings_folder().glob("nvidia-h200-mandelbrot.json"))
    steps = {
        (result["backend"], result["variant"]): result["median"]
        for result in record["results"]
        if (result["scene"], result["dtype"], result["status"]) == ("lesson", precision, "measured")
        and result["backend"].startswith("gpu_")
    }
    del steps["gpu_cupy", "block, counts only"]
    pair = RULES.recorded_pair(values("lesson", precision=precision), recorded(record))
    assert pair.same
    assert ((pair.gpu.backend, pair.gpu.variant), pair.gpu.step) == min(steps.items(), key=lambda item: item[1])


def frame(**facts):
    return Frame({}, facts, Timing("cpu_numba", "", 1, 1))


def facts_of(known, given=None):
    return {fact.name: fact.value for fact in RULES.facts(given or values(), frame(**known), 48e9)}


def test_the_facts_of_a_frame_are_rates_of_its_iterations():
    done = {"iterations": 6e9, "timed_iterations": 6e9, "compute_seconds": 2.0, "finished": 1.0}
    facts = facts_of(done)
    assert facts["Rate of this picture"] == 3e9
    assert facts["Part of the FMA roof"] == pytest.approx(25)  # 4 instructions each
    assert facts["Time of the full picture"] == 2.0
    assert facts["Iterations done"] == 6e9
    deep = facts_of(done, values("e14"))
    assert np.isnan(deep["Part of the FMA roof"])
    for unfinished in (done | {"finished": 0.0}, {}, done | {"reused": 0.9}, done | {"compute_seconds": 0.0}):
        facts = facts_of(unfinished)
        assert np.isnan(facts["Time of the full picture"])
    cold = done | {"timed_iterations": 2e9, "compute_seconds": 1.0, "cold": 1.0}  # a third was done by warm launches
    facts = facts_of(cold)
    assert facts["Rate of this picture"] == 2e9
    assert facts["Time of the full picture"] == "not measured: its kernels were loaded"


def test_a_launch_that_compiles_its_kernel_counts_in_no_rate(monkeypatch):
    def compiling(*given):
        with building():
            direct(*given)

    direct = cpu_numpy.direct
    lab = Mandelbrot(backend="cpu_numpy", ny=40, nx=60)
    whole_picture(lab)
    with monkeypatch.context() as patch:
        patch.setattr(cpu_numpy, "direct", compiling)
        lab.reset()
        lab.advance(1)
    first = whole_picture(lab)
    assert first["cold"] == 1.0
    assert first["timed_iterations"] < first["iterations"]
    lab.update(zoom="2")
    second = whole_picture(lab)
    assert second["cold"] == 0.0
    assert second["timed_iterations"] == second["iterations"] > 0
    assert second["compute_seconds"] > 0


def whole_picture(lab):
    while not lab.finished:
        lab.advance(1)
    return lab.frame(None, (40, 60)).facts
