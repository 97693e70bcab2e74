"""Several GPUs by name: "cuda:0-3" are the first four, "cuda:0,2" the first and the third."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST = 64  # GPUs of one machine
LONGEST = 200  # characters of a list
_LIST = re.compile(r"cuda:(\d{1,2}(?:-\d{1,2})?(?:,\d{1,2}(?:-\d{1,2})?)*)")


def device_numbers(text: str) -> tuple[int, ...]:
    """The numbers of the GPUs that `text` names, in its order. ValueError if it is no such list."""
    found = _LIST.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        raise ValueError(f"devices must be a list of GPUs like cuda:0-3 or cuda:0,2, not {text[:LONGEST]!r}")
    numbers: list[int] = []
    for part in found[1].split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
        if last and int(last) < int(first):
            raise ValueError(f"devices: {part} in {text!r} must name the smaller number first")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"devices must name each GPU once, not {text!r}")
    if max(numbers) >= MOST:
        raise ValueError(f"devices must be numbers from 0 to {MOST - 1}, not {text!r}")
    return tuple(numbers)


def devices_name(numbers: Sequence[int]) -> str:
    """The shortest list that names these GPUs: "cuda:0-3,6"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return "cuda:" + ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
