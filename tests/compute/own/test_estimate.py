"""The estimate for an absent GPU: an algebraic bound, labelled as an estimate, and omitted without data."""

from __future__ import annotations

from math import nan

import pytest

from compute.measure.statistics import Spread
from compute.own.exercises import exercise
from compute.own.verdict import AskedWork, RecordedRoofs, estimate_of, recorded_roofs, reward
from compute.ways.declaring import OwnWay
from compute.ways.ecosystems import ecosystem_of
from compute.ways.finding import TimeCurve

ROOFS = RecordedRoofs("Some GPU", 1e12, {"float32": 1e13}, 5e-6)
SIZES = [10**k for k in range(2, 8)]


def curve(seconds):
    way = OwnWay("own", ecosystem_of("cpu_numba"), "")
    return TimeCurve(way, {n: Spread(seconds(n), seconds(n), seconds(n), 5) for n in SIZES})


def test_a_call_takes_at_least_a_launch_its_bytes_or_its_operations():
    assert ROOFS.seconds(AskedWork(8, 1), "float32") == 5e-6
    assert ROOFS.seconds(AskedWork(8e9, 1), "float32") == pytest.approx(8e-3)
    assert ROOFS.seconds(AskedWork(8, 1e12), "float32") == pytest.approx(0.1)
    assert ROOFS.seconds(AskedWork(8, nan), "float32") == 5e-6
    assert ROOFS.seconds(AskedWork(8, 1e12), "float64") == 5e-6  # no recorded rate for this dtype


def test_below_the_n_where_a_launch_takes_as_long_it_cannot_pay():
    work = {n: AskedWork(8.0 * n) for n in SIZES}
    (message,) = estimate_of([curve(lambda n: 1e-9 * n)], work, "float32", ROOFS)  # 5e-6 s at n = 5000
    assert message.startswith("Estimate, not measured: by the roofs recorded on Some GPU")
    assert "cannot pay below n ≈ 5,000 against cpu_numba" in message
    assert "n = 10,000,000 takes it 80 us at least, operations not counted" in message  # 8e7 B / 1e12 B/s


@pytest.mark.parametrize(
    ("seconds", "words"), [(1e-3, "could pay at every n"), (1e-6, "cannot pay up to n = 10,000,000")]
)
def test_a_gpu_that_would_always_or_never_pay_is_estimated_to(seconds, words):
    work = {n: AskedWork(8.0 * n, 1.0) for n in SIZES}
    assert words in estimate_of([curve(lambda n: seconds)], work, "float32", ROOFS)[0]


def test_without_data_there_is_no_estimate():
    work = {n: AskedWork(8.0 * n) for n in SIZES}
    assert estimate_of([curve(lambda n: 1e-3)], work, "float32", None) == []
    assert estimate_of([curve(lambda n: 1e-3)], {100: AskedWork(800)}, "float32", ROOFS) == []
    assert estimate_of([], work, "float32", ROOFS) == []


def test_a_right_answer_gets_an_estimate_of_its_use():
    moments = iter(k * 1e-4 for k in range(1000))  # each call of NumPy takes 100 µs on this clock
    message = reward(exercise("add_one"), ROOFS, lambda: next(moments))
    assert "An estimate, not measured" in message
    assert "could pay at every n against NumPy" in message  # 5 µs, and 8e7 bytes in 80 µs
    assert "n = 10,000,000 takes it 80 us at least; NumPy takes 100 us here" in message
    assert reward(exercise("streams"), ROOFS) == ""
    assert reward(exercise("add_one"), None) == ""


def test_the_installed_records_have_roofs():
    """An H200's memory moves 4.8 TB/s by its datasheet, a launch takes microseconds."""
    found = recorded_roofs()
    assert found is not None
    assert "H200" in found.machine
    assert 3e12 < found.bandwidth < 4.8e12
    assert 1e-6 < found.launch < 2e-5
