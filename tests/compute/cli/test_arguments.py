"""Arguments given by name or as a list of numbers, and their error messages."""

from __future__ import annotations

import argparse

import pytest

from compute.cli.arguments import counts, named


@pytest.mark.parametrize(
    ("text", "numbers"), [("1", (1,)), ("8,1,16", (1, 8, 16)), (" 2 , 2,3", (2, 3)), ("500", (500,))]
)
def test_counts_are_sorted_without_duplicates(text, numbers):
    assert counts(text, "tabs", 500) == numbers


@pytest.mark.parametrize("text", ["", "0", "1,x", "1,,2", "-1", "1.5", "501", "9" * 5000, "²", "1;2"])
def test_invalid_counts_are_refused_with_their_bounds(text):
    with pytest.raises(argparse.ArgumentTypeError, match="not a list of tabs such as 1,2, each from 1 to 500"):
        counts(text, "tabs", 500)


@pytest.mark.parametrize("name", ["c", "A", None, ["a"]])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    assert named("letter", "b", {"a": 1, "b": 2}) == 2
    with pytest.raises(ValueError, match="letter must be one of a, b, not ") as refused:
        named("letter", name, {"a": 1, "b": 2})
    assert str(refused.value).endswith(f"not {name!r}")
