"""The headline compares the same work on both sides, and is bold only if its interval excludes 1."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from math import nan

import pytest

from app.readout.headline import Fastest, headline
from app.readout.readout import recorded_figures
from app.tab.lab_view import first_values, parts_of
from compute.labs import lab_class
from compute.labs.diffusion.benchmark import RULES
from compute.measure.agreement import Agreement
from compute.measure.benchmark import benchmark_of
from compute.measure.reasons import RoofShare
from compute.measure.records import Recorded, paired
from compute.measure.statistics import Measurement
from compute.measure.timing import Timing
from compute.measure.verdict import Standing, Variant, judge

CELLS = 512 * 512
GPU, CPU = Variant("gpu_cupy"), Variant("cpu_numba")


pytestmark = pytest.mark.usefixtures("host_only")


def standing(
    variant: Variant, step: float, samples: int = 20, right: bool = True, cells: int = CELLS, kernel: str = "",
    scatter: float = 0.0,
) -> Standing:  # fmt: skip
    """Return the standing of a variant that takes `step` seconds per step of 512 x 512 cells."""
    steps = [step * (1 + scatter * (number % 5 - 2)) for number in range(samples)]
    timings = tuple(Timing(variant.backend, kernel, 1, cells, 0.0, one) for one in steps)
    agreement = Agreement(0.0 if right else 1.0, 1e-6, "", "")
    return Standing(variant, Measurement.of(timings), agreement, "", timings)


def figure(backend: str, step: float, size: int = 512, edges: str = "zero-flux", dtype: str = "float32") -> Recorded:
    """Return a figure recorded on a fictitious GPU's machine."""
    return Recorded(
        "diffusion", "GPU Q", "2026-01-02", backend, "", size, size, dtype, edges, step, size * size / step,
        step, step, 60.0, n=20, low=step, high=step,
    )  # fmt: skip


FIGURES = [
    figure("gpu_cupy", 1e-6), figure("gpu_numba", 3e-6), figure("cpu_numba", 2e-5), figure("cpu_numpy", 1e-3),
    figure("gpu_cupy", 1e-5, 2048), figure("cpu_numba", 5e-4, 2048), figure("gpu_cupy", 1e-9, edges="periodic"),
]  # fmt: skip
SHARES = "; the GPU reaches 60 % of its copy bandwidth"
COPY = "its copy bandwidth, and the record does not state its limit"
VALUES = {"ny": 512, "nx": 512, "dtype": "float32", "edges": "zero-flux"}


def text(html: str) -> str:
    """Return the text of HTML."""
    return " ".join(unescape(re.sub("<[^>]+>", " ", html)).replace(" ,", ",").split())


def made(fastest: Fastest, values: dict[str, object] | None = None, figures=FIGURES, verdict=None):
    """Return the headline of these ways and the recorded pair for these values."""
    return headline(verdict, fastest, RULES, RULES.recorded_pair({**VALUES, **(values or {})}, figures))


def said(fastest: Fastest, values: dict[str, object] | None = None, figures=FIGURES, verdict=None) -> str:
    """Return number and sentence as text."""
    one = made(fastest, values, figures, verdict)
    return re.sub(r" ([.;,)])", r"\1", f"{text(one.number)} | {text(one.sentence)}".replace("( ", "("))


def test_without_a_gpu_the_recorded_one_of_the_same_work_is_compared_with_this_computer():
    """262144 cells in 0.4 ms here, in 1 µs in the record."""
    assert said(Fastest(cpu=standing(CPU, 4e-4))) == (
        "400× GPU Q (recorded) over this computer | GPU Q, recorded: 262 billion cells/s. This computer: "
        f"0.655; factor 400×{SHARES}."
    )
    assert "class='headline gpu recorded'" in made(Fastest(cpu=standing(CPU, 4e-4))).number


def test_times_that_scatter_and_records_without_an_interval_are_said_to_be_so():
    """0.4 ms ± 10 and 20 %: the rate's interval is the median's; without an interval the factor is not bold."""
    here = standing(CPU, 4e-4, scatter=0.1)
    old = [replace(one, n=9, low=nan, high=nan) for one in FIGURES]
    words = said(Fastest(cpu=here), figures=old)
    assert words.startswith("≈ 400× GPU Q (recorded)")
    assert "This computer: 0.655 (0.596–0.728, noisy); no interval in this record" in words
    assert "<b class='estimate'><small>≈</small>400×</b>" in made(Fastest(cpu=here), figures=old).number
    assert "factor 360 to 440×, noisy" in said(Fastest(cpu=here))


def test_a_way_that_was_chosen_by_name_is_compared_with_the_same_method_only():
    """The default way of a backend is its fastest, whatever its method. The record is older than the CPU's T-step."""
    several = replace(figure("gpu_cupy", 1e-6), variant="T-step")
    one = replace(figure("cpu_numba", 2e-5), variant="one-step")
    figures = [several, one]
    default = standing(CPU, 4e-4, kernel="one-step")
    assert said(Fastest(cpu=default), figures=figures).startswith("400×")
    chosen = standing(Variant("cpu_numba", "T-step"), 4e-4, kernel="T-step")
    assert said(Fastest(cpu=chosen), figures=figures).startswith("400×")
    words = said(Fastest(cpu=standing(Variant("cpu_numba", "one-step"), 4e-4, kernel="one-step")), figures=figures)
    assert "over this computer" not in words
    assert "GPU Q, recorded with several steps a pass, here one step a pass: 262 billion cells/s." in words
    other = made(Fastest(cpu=chosen), {"ny": 600}, figures)
    assert "×</b>" not in other.number
    why = "its CPU was recorded with one step a pass only, the GPU with several steps a pass"
    assert why in unescape(other.sentence)  # in the explanation of the machine's name
    known = [*figures, replace(one, variant="T-step", step=1e-4, low=1e-4, high=1e-4)]
    assert said(Fastest(cpu=chosen), {"ny": 600}, known).startswith("100×")


def test_a_timing_of_another_picture_is_compared_with_no_record():
    """The work of both sides must agree: 2.5 million iterations are not the 71 million of the lesson's scene."""
    words = said(Fastest(cpu=standing(CPU, 4e-4, cells=CELLS // 28)), figures=FIGURES[:1])
    assert words.startswith("Starting |")
    assert "GPU Q, recorded with 262 144 cells a step, here 9 362: 262 billion cells/s." in words


def test_nothing_is_bold_where_the_interval_holds_1():
    near = replace(figure("gpu_cupy", 1e-6), low=4e-7, high=2e-6)
    one = made(Fastest(cpu=standing(CPU, 1.2e-6, scatter=0.01)), figures=[near])
    assert "<b class='words'>About as fast</b><span>GPU Q (recorded) and this computer" in one.number
    assert "×</b>" not in one.number
    assert "factor 1.67× slower to 3.00× faster" in text(one.sentence)
    assert "<span class='why'>; factor" in one.sentence  # small presenter windows hide that part
    assert "because" not in one.sentence


@pytest.mark.parametrize("shortcuts", [True, False])
def test_the_mandelbrot_sentence_is_about_a_record_with_the_same_shortcuts(shortcuts):
    lab = lab_class("mandelbrot")
    values = {each: lab.param[each].default for each in lab.param if each != "name"} | {"shortcuts": shortcuts}
    rules = benchmark_of(lab).rules
    pair = rules.recorded_pair(values, recorded_figures())
    words = text(headline(None, Fastest(live=1e9), rules, pair).sentence).replace("\u202f", " ")
    assert f"with the whole set with{'' if shortcuts else 'out'} shortcuts" in words
    assert "because" not in words  # the CPU's loop reached 2 to 4 % of its multiply-adds


def test_the_live_picture_is_an_estimate_and_compared_with_nothing():
    words = said(Fastest(live=CELLS / 1e-3))
    assert (
        words
        == "Starting | This computer: 0.262 billion cells/s (first estimate). GPU Q, recorded: 262 billion cells/s."
    )
    words = said(Fastest(cpu=standing(CPU, 1e-3, samples=1)))
    assert words.startswith("≈ 1 000× GPU Q (recorded) over this computer | GPU Q, recorded: 262 billion cells/s.")
    assert words.endswith(f"This computer: 0.262 (first estimate); no interval yet: fewer than six samples{SHARES}.")
    assert said(Fastest()) == "Starting | GPU Q, recorded: 262 billion cells/s."


def test_no_factor_is_given_between_this_computer_and_a_figure_of_other_work():
    here = Fastest(cpu=standing(CPU, 1e-6))
    assert said(here, {"dtype": "float64"}) == "Starting | This computer: 262 billion cells/s."
    # the nearest to 1500 is 2048, with 1e-5 s on the GPU and 5e-4 s on the CPU
    assert said(here, {"ny": 1500, "nx": 1500}) == (
        "50.0× GPU Q over its CPU (both recorded) | Recorded with 2048 × 2048 cells, float32, zero-flux: GPU Q 419 "
        "billion cells/s, its CPU 8.39; factor 50.0×; the GPU reaches 60 % of its copy bandwidth, the CPU 60 % "
        "of its own."
    )
    for values in ({"edges": "zero-dirichlet"}, {"ny": 256}):
        words = said(here, values)
        assert "over this computer" not in words
        assert "ecorded with 512 × 512 cells" in words


def test_two_backends_of_the_cpu_are_compared_where_no_record_can_be():
    """The record has only a GPU, with other work."""
    verdict = judge(CPU, Variant("cpu_numpy"), (standing(CPU, 1e-4), standing(Variant("cpu_numpy"), 1e-3)))
    words = said(Fastest(cpu=standing(CPU, 1e-4)), {"ny": 600}, FIGURES[:1], verdict)
    assert words == (
        "10.0× Numba over NumPy | This computer: 2.62 billion cells/s with Numba, 0.262 with NumPy; "
        "factor 10.0×. Not comparable: GPU Q, recorded with 512 × 512 cells, float32, zero-flux: 262 "
        "billion cells/s."
    )
    assert "class='headline cpu'" in made(Fastest(), {"ny": 600}, [], verdict).number


def test_results_that_disagree_have_no_factor():
    wrong = judge(CPU, Variant("cpu_numpy"), (standing(CPU, 1e-4, right=False), standing(Variant("cpu_numpy"), 1e-3)))
    one = made(Fastest.of(wrong, nan, lambda way: RoofShare()), verdict=wrong)
    assert "Results disagree" in one.number
    assert "×" not in one.number


def test_a_gpu_that_is_here_is_compared_with_the_processor_beside_it():
    verdict = judge(
        GPU, CPU, (standing(GPU, 1e-6), standing(CPU, 1e-4), standing(Variant("gpu_numba"), 1e-9, 20, False))
    )
    held = 2.0**31
    fastest = Fastest.of(verdict, nan, lambda way: RoofShare(55.0 if way.variant == GPU else nan), held)
    assert said(fastest, verdict=verdict) == (
        "100× CUDA C over Numba, 2 threads | This computer's GPU: 262 billion cells/s, its CPU: 2.62; factor 100×, "
        "because its memory is faster: the GPU reaches 55 % of its copy bandwidth."
    )
    assert "class='headline gpu'" in made(fastest, verdict=verdict).number
    assert "over" not in said(Fastest(gpu=standing(GPU, 1e-6)))


def test_memory_is_no_reason_for_grids_that_lie_in_a_cache():
    """Two grids of 512² cells take 2 MB."""
    cached = [replace(figure("gpu_cupy", 1e-6), cache=50e6)]
    words = said(Fastest(cpu=standing(CPU, 1e-4)), figures=cached)
    assert words.endswith("; the 2.1 MB that it reads and writes fit its cache, so its memory is not the reason.")


def test_a_way_that_does_more_for_the_same_result_is_no_faster_for_it():
    """The factor is the ratio of the times for one curve, not of the rates."""
    rules = benchmark_of(lab_class("l_curve")).rules
    gpu, cpu = standing(GPU, 1e-3, cells=11 * CELLS), standing(CPU, 1e-2, cells=10 * CELLS)
    one = headline(None, Fastest(cpu=cpu, gpu=gpu), rules, None)
    assert "<b>10.0×</b>" in one.number
    assert "GPU: 2.88 billion nonzeros/s, its CPU: 0.262 ; time of one curve" in text(one.sentence)
    assert judge(GPU, CPU, (gpu, cpu)).speed_up.ratio == pytest.approx(10)


@pytest.mark.parametrize("ratio", [0.9901, 1.0099])
def test_a_gpu_that_is_as_fast_is_called_neither_faster_nor_slower(ratio):
    words = said(Fastest(cpu=standing(CPU, 1e-6), gpu=standing(GPU, 1e-6 * ratio)))
    assert words.startswith("About as fast CUDA C and Numba, 2 threads |")


def test_a_gpu_that_is_slower_says_so_and_why():
    slow = standing(GPU, 2.6e-6)
    words = said(Fastest(cpu=standing(CPU, 1e-6), gpu=slow))
    assert words.startswith("2.60× slower CUDA C than Numba, 2 threads |")
    assert words.endswith(
        "; factor 2.60× slower; launching takes less than 1 % of its time, so its kernels are slower; the cause was "
        "not measured."
    )
    launched = replace(slow.measurement, parts={"launch": 2.5e-6, "compute": 2.6e-6})
    words = said(Fastest(cpu=standing(CPU, 1e-6), gpu=replace(slow, measurement=launched)))
    assert words.endswith("; launching takes 96 % of its time: too small for a GPU.")


@pytest.mark.parametrize(
    ("percent", "why"),
    [
        (nan, "the record does not state why"),
        (61.0, f"it reached 61 % of {COPY}"),
        (97.3, "it reached 97 % of its copy bandwidth, which is its limit"),
    ],
)
def test_a_recorded_gpu_that_is_slower_has_the_reason_that_its_record_supports(percent, why):
    figures = [replace(figure("gpu_cupy", 2.6e-6), percent=percent), figure("cpu_numba", 1e-6)]
    here = said(Fastest(cpu=standing(CPU, 1e-6)), figures=figures)  # compared with this computer
    assert here.startswith("2.60× slower GPU Q (recorded) than this computer |")
    assert here.endswith(f"; factor 2.60× slower; {why}.")
    there = said(Fastest(), {"ny": 600}, figures)  # compared with the CPU of the record
    assert there.endswith(f", its CPU 262; factor 2.60× slower; {why}.")


def test_a_name_from_a_record_is_text():
    named = [replace(one, machine="<b onclick=x>Q</b>") for one in FIGURES]
    for fastest in (Fastest(), Fastest(cpu=standing(CPU, 1e-4))):
        one = made(fastest, figures=named)
        assert "<b onclick" not in one.number + one.sentence


def test_a_pair_is_of_one_machine_and_one_run():
    other = replace(figure("cpu_numba", 1e-9), machine="CPU Z")
    pair = paired([*FIGURES[:4], other], "", same=True)
    assert pair is not None
    assert (pair.gpu.step, pair.cpu and pair.cpu.step) == (1e-6, 2e-5)
    assert paired([figure("cpu_numba", 1.0)], "", same=True) is None


@pytest.mark.parametrize("name", ["diffusion", "mandelbrot", "l_curve"])
def test_every_lab_s_own_record_has_a_sentence_at_its_first_values(name):
    lab = lab_class(name)
    values = {each: lab.param[each].default for each in lab.param if each != "name"}
    pair = benchmark_of(lab).rules.recorded_pair(values | first_values(lab, parts_of(lab)), recorded_figures())
    assert pair is not None
    assert pair.same or pair.cpu is not None or pair.unpaired
    assert pair.gpu.machine == "NVIDIA H200"  # the fastest recorded machine
