"""Labels of colour bar and histogram: counts as text, as many as fit."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.labs.mandelbrot.colour_scale import GAP, count_text, legible, nice


def test_counts_are_written_out_while_they_are_short():
    assert [count_text(value) for value in (1.5, 700.0, 123456.0)] == ["1.5", "700", "123\u202f456"]
    assert [count_text(value) for value in (1e6, 10_000_100.0)] == ["1e6", "1.00001e7"]


@given(st.floats(1, 1e8), st.floats(1e-3, 1e3))
def test_neighbouring_counts_have_different_names(low, part):
    values = nice(low, low * (1 + part))
    assert len({count_text(value) for value in values}) == len(values)


@given(
    st.dictionaries(st.floats(0, 1), st.text("0123456789", min_size=1, max_size=9), max_size=30),
    st.sampled_from([120.0, 300.0, 1100.0]),
    st.sampled_from([8.0, 11.6]),
)
def test_labels_keep_apart_and_none_is_left_out_that_fits(marks, length, letter):
    def ends(position):
        half = len(marks[position]) * letter / 2
        return length * position - half, length * position + half

    kept = legible(marks, length, letter)
    assert all(ends(b)[0] - ends(a)[1] >= GAP for a, b in pairwise(kept))
    for position in set(marks) - set(kept):
        before = max(other for other in kept if other <= position)
        assert ends(position)[0] - ends(before)[1] < GAP
