"""Why a rate is above a roof: which cache contains the data, read from a simulated sysfs tree."""

from __future__ import annotations

import math
import os

import pytest

from compute.measure.rates import DISTURBED, Cache, bytes_in_words, gpu_caches, host_caches, spaced, why_above_roof

CACHES = Cache("L1", 64_000), Cache("L2", 2_000_000), Cache("L3", 32 * 2**20)


def plant(root, core, index, **values):
    folder = root / f"cpu{core}" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n", encoding="ascii")


@pytest.fixture
def two_cores(tmp_path, monkeypatch):
    """Two cores, each with an L1 and an L2, on one L3; a third core is not available to this process."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    for core in range(3):
        plant(tmp_path, core, 0, type="Data", level=1, shared_cpu_list=core, size="48K")
        plant(tmp_path, core, 1, type="Instruction", level=1, shared_cpu_list=core, size="32K")
        plant(tmp_path, core, 2, type="Unified", level=2, shared_cpu_list=core, size="1M")
        plant(tmp_path, core, 3, type="Unified", level=3, shared_cpu_list="0-2", size="32M")
    return tmp_path


def test_the_caches_of_all_our_cores_count_together(two_cores):
    assert host_caches(two_cores) == (Cache("L1", 96 * 2**10), Cache("L2", 2 * 2**20), Cache("L3", 32 * 2**20))
    assert gpu_caches(50e6) == (Cache("L2", 50_000_000),)


def test_a_machine_that_does_not_report_its_caches_has_none(tmp_path):
    plant(tmp_path, 0, 0, type="Unified", level=2)  # a virtual machine without the sizes
    assert host_caches(tmp_path) == ()
    assert gpu_caches(math.nan) == gpu_caches(0) == ()


@pytest.mark.parametrize(
    ("percent", "moved", "says"),
    [
        (134, 2e6, "in cache: 2 MB fit the L2 of 2 MB"),
        (134, 2.1e6, "in cache: 2.1 MB fit the L3 of 34 MB"),
        (171, 1e9, DISTURBED),
        (171, math.nan, DISTURBED),
        (100.4, 2e6, ""),
        (math.nan, 2e6, ""),
    ],
)
def test_the_reason_names_the_smallest_cache_that_holds_the_data(percent, moved, says):
    assert why_above_roof(percent, moved, CACHES) == says
    assert why_above_roof(percent, moved, reversed(CACHES)) == says


def test_the_reason_is_what_a_way_saves_where_no_cache_holds_the_data():
    assert why_above_roof(129, math.nan, CACHES, "three instructions for four") == "three instructions for four"
    assert why_above_roof(129, 1e5, CACHES, "three instructions for four").startswith("in cache")


def test_sizes_in_words():
    words = {500: "500 bytes", 100_000: "100 kB", 2_097_152: "2.1 MB", 33_554_432: "34 MB", 1.5e9: "1.5 GB"}
    assert {size: bytes_in_words(size) for size in words} == words


def test_thousands_are_set_apart():
    assert [spaced(n) for n in (7, 1600, 1234567.8)] == ["7", "1\u202f600", "1\u202f234\u202f568"]
    assert spaced(22200.5, ",.7g") == "22\u202f200.5"
    assert spaced(10**6, between=" ") == "1 000 000"
    assert spaced(float("nan")) == "nan"
