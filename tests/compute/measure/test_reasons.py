"""Why a GPU is faster: only reasons that the roofs and counts of a record support, on records with chosen values."""

from __future__ import annotations

from math import nan

import pytest

from compute.measure.reasons import RoofShare, why_faster

MB, GB = 1e6, 1e9


@pytest.mark.parametrize(
    ("gpu", "cpu", "because"),
    [
        (57.0, 3.3, False),  # a well used GPU and a CPU's unvectorised loop: 1 980 ×, with roofs 87 × apart
        (50.0, 50.0, True),
        (49.9, 62.0, False),
        (57.0, nan, False),
        (nan, 62.0, False),
        (134.0, 62.0, False),  # above the roof: fewer instructions than were counted
    ],
)
def test_arithmetic_is_the_reason_only_where_both_reach_half_of_their_own_roofs(gpu, cpu, because):
    text = why_faster("fma", RoofShare(gpu), RoofShare(cpu), nan)
    assert ("because" in text) is because
    if gpu <= 100:
        assert f"the GPU reaches {gpu:.0f} % of its multiply-add rate" in text
    else:
        assert not text
    if (gpu, cpu) == (57.0, 3.3):
        assert text == "; the GPU reaches 57 % of its multiply-add rate, the CPU 3.3 % of its own"


@pytest.mark.parametrize(
    ("percent", "held", "caches", "because"),
    [
        (78.0, 2 * GB, (50 * MB, 100 * MB), True),
        (78.0, 2 * GB, (nan, nan), True),  # larger than any cache
        (78.0, 32 * MB, (nan, nan), False),
        (78.0, 64 * MB, (50 * MB, 100 * MB), False),  # in the cache of the CPU, so its memory is no limit
        (49.0, 2 * GB, (50 * MB, 100 * MB), False),
        (309.0, 2 * GB, (50 * MB, 100 * MB), False),
        (nan, 2 * GB, (50 * MB, 100 * MB), False),
        (78.0, nan, (50 * MB, 100 * MB), False),
    ],
)
def test_memory_is_the_reason_only_beyond_the_caches_and_near_the_copy_roof(percent, held, caches, because):
    gpu, cpu = RoofShare(percent, caches[0]), RoofShare(40.0, caches[1])
    assert ("because its memory is faster" in why_faster("copy", gpu, cpu, held)) is because


def test_work_that_fits_the_gpus_cache_is_named():
    text = why_faster("copy", RoofShare(50.2, 50 * MB), RoofShare(), 2.1 * MB)
    assert text == "; the 2.1 MB that it reads and writes fit its cache, so its memory is not the reason"
