"""How the crossover formats times."""

from __future__ import annotations

import pytest

from app.labs.crossover.labels import THIN, quartiles
from compute.measure.statistics import Spread


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        ([2e-6], "1 sample"),
        ([1e-6, 2e-6, 3e-6, 4e-6, 5e-6], f"2.00{THIN}µs to 4.00{THIN}µs, 5 samples"),
    ],
)
def test_a_single_sample_lies_between_nothing(samples, words):
    assert quartiles(Spread.of(samples)) == words
