"""Several GPUs by name."""

from __future__ import annotations

import pytest

from compute.devices.devices import device_numbers, devices_name


@pytest.mark.parametrize(
    ("text", "numbers", "name"),
    [
        ("cuda:0", (0,), "cuda:0"),
        ("cuda:0-3", (0, 1, 2, 3), "cuda:0-3"),
        ("cuda:0,2", (0, 2), "cuda:0,2"),
        ("cuda:0,1,2-3,6", (0, 1, 2, 3, 6), "cuda:0-3,6"),
        ("cuda:3,1", (3, 1), "cuda:3,1"),
    ],
)
def test_a_list_of_gpus_is_parsed_and_formatted(text, numbers, name):
    assert device_numbers(text) == numbers
    assert devices_name(numbers) == name


@pytest.mark.parametrize(
    "text", ["", "cuda:", "cuda:a", "cuda:1-", "cuda:0,0", "cuda:3-1", "cuda:64", "0-3", "cuda:" + "0," * 999]
)
def test_an_invalid_list_is_refused_by_name(text):
    with pytest.raises(ValueError, match="devices"):
        device_numbers(text)
