"""Positions of measurements below the roofs, compared with manual arithmetic."""

from __future__ import annotations

from math import inf, isnan

import pytest

from compute.devices.backends import Backend
from compute.devices.devices import Host
from compute.measure import roofs
from compute.measure.statistics import Measurement, Spread
from compute.ways import roofline
from compute.ways.catalogue import workload
from compute.ways.roofline import Roof, roof_of, roofline_point
from compute.ways.workload import Way


def measured(seconds):
    return Measurement("cpu_numpy", "", 1, Spread(seconds, 0.99 * seconds, 1.01 * seconds, 20))


def test_a_pass_through_memory_is_compared_with_the_bandwidth():
    """1000 float64: 16 000 bytes and 1000 additions in 2 us are 8 GB/s and 0.5 GFLOP/s; 80 % of 10 GB/s."""
    w = workload("add_one")
    found = roofline_point(w.way("cpu_numpy"), w.case(1000), measured(2e-6), Roof("host", "float64", 10e9, 1e12))
    assert found.moved == pytest.approx(8e9)
    assert found.flops == pytest.approx(0.5e9)
    assert found.intensity == pytest.approx(1 / 16)
    assert found.percent == pytest.approx(80)
    assert (found.way, found.n, found.noisy) == ("cpu_numpy", 1000, False)


def test_a_way_is_compared_with_the_arithmetic_that_it_does():
    """n = 1000: 1000 x 500 x 700 multiply-adds and 1000 x 700 additions, 0.7007 GFLOP in 1 s: 70.07 % of 1 GFLOP/s.

    The shortcut: 1000 x 500 additions and 500 x 700 multiply-adds, 1.2 MFLOP.
    """
    w, roof = workload("column_sums"), Roof("host", "float64", 10e9, 1e9)
    full = roofline_point(w.way("cpu_numpy"), w.case(1000), measured(1.0), roof)
    assert full.percent == pytest.approx(70.07)
    shortcut = roofline_point(w.way("cpu_numpy_shortcut"), w.case(1000), measured(1.0), roof)
    assert shortcut.flops == pytest.approx(1.2e6)
    assert shortcut.intensity == pytest.approx(1.2e6 / (8 * (500_000 + 350_000 + 700)))


def test_a_transfer_over_the_bus_has_no_roof():
    w, roof = workload("transfer"), Roof("cuda", "float64", 10e9, 1e12)
    over = Way("transfer", Backend("cpu_numpy", "cuda", Host, (), "Remote"), "")
    assert isnan(roofline_point(over, w.case(1000), measured(2e-6), roof).percent)
    assert roofline_point(w.way("cpu_numpy"), w.case(1000), measured(2e-6), roof).percent == pytest.approx(80)


def test_the_ridge_is_where_both_roofs_meet():
    roof = Roof("host", "float32", 50e9, 200e9)
    assert roof.ridge == 4
    assert [roof.flops_at(intensity) for intensity in (2, 4, 100)] == [100e9, 200e9, 200e9]


def test_the_roof_is_what_the_bench_measured(monkeypatch):
    spreads = {("copy", ""): Spread(20e9, 19e9, 21e9, 15), ("fma", "float64"): Spread(30e9, 29e9, 31e9, 15)}
    for (kind, dtype), rate in spreads.items():
        monkeypatch.setitem(roofs._known, ("host", kind, dtype), roofs.MeasuredRoof("host", kind, dtype, rate, 8))
    roof = roof_of(Host(), "float64")
    assert (roof.device, roof.dtype, roof.bandwidth, roof.flops) == ("host", "float64", 21e9, 62e9)  # upper quartiles
    monkeypatch.setattr(roofline, "fma_rate", lambda device, dtype: None)
    assert roof_of(Host(), "float64").flops == inf


def test_a_roof_of_another_dtype_is_refused():
    w = workload("add_one")
    with pytest.raises(ValueError, match="the roof is of float32, the measurement of float64"):
        roofline_point(w.way("cpu_numpy"), w.case(10), measured(1.0), Roof("host", "float32", 1e9, 1e9))
