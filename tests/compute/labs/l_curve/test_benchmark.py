"""`fieldlab bench l_curve`: the reference curve, the lab's ways and the tutorial's, and the error of each."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from compute.__main__ import BAD_INPUT, OK, main
from compute.devices.backends import backend
from compute.labs.l_curve import benchmark, cpu_numba, fixtures, gpu_cupy, gpu_launch, gpu_onepass
from compute.labs.l_curve.benchmark import LCurveCase
from compute.labs.l_curve.fixtures import CurveReference, truncated
from compute.measure import records
from compute.measure.case import BenchPlan, Implementation, Row

NUMBA = backend("cpu_numba")
N = 300


@pytest.fixture(scope="module")
def known():
    return CurveReference(N)


@pytest.fixture(autouse=True)
def nothing_held():
    yield
    fixtures.forget()


def test_reference_norms_equal_those_of_a_dense_svd(known):
    left, values, _ = np.linalg.svd(known.A.toarray().astype(np.float64))
    lambdas = known.lambdas(10)[:, None]
    damped = lambdas**2 / (values**2 + lambdas**2)
    at = known.curve(10)
    np.testing.assert_allclose(at.residual, np.linalg.norm(damped * (left.T @ known.b), axis=1), rtol=1e-6)
    np.testing.assert_allclose(
        at.solution, np.linalg.norm((1 - damped) / values * (left.T @ known.b), axis=1), rtol=1e-6
    )


def test_the_steps_timed_are_the_fewest_that_are_accurate(known):
    assert known.error(truncated(known.small, known.steps), 10)[0] <= fixtures.ACCURACY
    assert known.error(truncated(known.small, known.steps - 10), 10)[0] > fixtures.ACCURACY


def test_a_reference_with_a_large_gradient_is_refused(monkeypatch):
    monkeypatch.setattr(fixtures.Bidiagonalisation, "solve", lambda run, lam: np.ones(N))
    with pytest.raises(RuntimeError, match="the reference may be wrong by"):
        _ = CurveReference(N).small


@pytest.mark.parametrize("kind", benchmark.KINDS)
@pytest.mark.parametrize("dtype", benchmark.BENCHMARK.dtypes)
def test_every_way_is_right_and_timed(known, kind, dtype):
    case = LCurveCase(kind, N, dtype)
    fixture = benchmark.BENCHMARK.fixture(NUMBA.open_device(), case, known)
    for name, kernel in benchmark.BENCHMARK.variants(NUMBA, case).items():
        way = Implementation(NUMBA, name, kernel)
        first, seconds = fixture.first(way)
        assert first.compute > 0
        assert seconds > 0
        assert fixture.check(way).difference <= case.tolerance
        timing = fixture.run(way, 2)
        assert timing.steps == 2
        assert timing.compute > 0
        assert np.isfinite(fixture.device.download(fixture.problem(way).work.V[0])).all()


def test_the_baseline_equals_the_reference(known):
    case = LCurveCase("curve, 10 λ", N, "float32")
    ways = benchmark.BENCHMARK.variants(backend("cpu_numpy"), case)
    assert list(ways) == ["all λ at once", "as in the lab", "LSMR, stacked", "LSMR, damped"]
    fixture = benchmark.BENCHMARK.fixture(backend("cpu_numpy").open_device(), case, known)
    for name in list(ways)[2:]:
        way = Implementation(backend("cpu_numpy"), name, ways[name])
        assert fixture.first(way)[0].compute > 0
        assert fixture.check(way).difference < case.tolerance


def test_wrong_steps_get_no_time(monkeypatch):
    def careless(work, first, count, orthogonal, tiny):
        cpu_numba.steps(work, first, count, orthogonal, tiny)
        work.alpha[first + count] *= 1.01

    monkeypatch.setattr(cpu_numba, "VARIANTS", {"right": cpu_numba.steps, "planted": careless})
    plan = BenchPlan("l_curve", (LCurveCase("step", N, "float64"),), ("cpu_numba",), 2.0)
    rows = {row.variant: row for row in benchmark.BENCHMARK.run(plan).rows}
    assert rows["planted"].status == "disagrees"
    assert rows["planted"].measurement is None
    assert rows["right"].status == "measured"


def test_a_record_is_complete(capsys, tmp_path):
    saved = tmp_path / "record.json"
    command = ["bench", "l_curve", "--sizes", str(N), "--parts", "product,curve-10", "--dtypes", "float32"]
    assert main([*command, "--backends", "cpu_numpy,cpu_numba", "--budget", "4", "--save", str(saved)]) == OK
    out = capsys.readouterr().out
    assert "Gnz/s" in out
    assert "LSMR, stacked" in out
    document = records.load(saved)
    assert document["lab"] == "l_curve"
    figures = records.recorded(document)
    assert {figure.case for figure in figures} == {"product", "curve, 10 λ"}
    results = {(result["scene"], result["backend"], result["variant"]): result for result in document["results"]}
    product = results["product", "cpu_numba", "product"]
    assert product["bytes_per_second"] == pytest.approx(6 * product["nonzeros_per_second"])
    assert results["curve, 10 λ", "cpu_numpy", "LSMR, stacked"]["difference"] > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--parts", "corner"], "--parts: must be some of product, step, curve-10, curve-200"),
        (["--sizes", "5"], "--sizes: '5' is not a whole number of unknowns from 100 to 40000"),
    ],
)
def test_invalid_arguments_are_refused(capsys, arguments, says):
    assert main(["bench", "l_curve", *arguments]) == BAD_INPUT
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(("dtype", "ways", "share"), [("float32", 2, 0.5), ("float64", 1, 1.0)])
def test_one_pass_is_listed_only_where_it_fits_and_reads_half(monkeypatch, dtype, ways, share):
    """Of an H200's 227 KiB, a step for n = 15 000 needs 2 x 60 kB in float32, and twice as much in float64."""
    monkeypatch.setattr(gpu_onepass, "facts", lambda _: gpu_launch.Facts(132, 232_448))
    gpu = SimpleNamespace(name="gpu_cupy", missing=None, kernels=lambda _: gpu_cupy)
    monkeypatch.setattr(benchmark, "backend", lambda _: gpu)
    case = LCurveCase("step", 15_000, dtype)
    found = benchmark.BENCHMARK.variants(gpu, case)
    assert list(found) == ["all λ at once", "two products"][:ways]
    shares = [benchmark.BENCHMARK.counted_share(Row("gpu_cupy", name, case, "measured")) for name in found]
    assert shares == [share, 1.0][:ways]
