"""Lookup and parsing of arguments with uniform error messages: an object by its name, a list of numbers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TypeVar

Known = TypeVar("Known")


def named(what: str, name: str, known: Mapping[str, Known]) -> Known:
    """Return the entry of `known` for `name`; ValueError states `what` the name denotes, and the known names."""
    for own_name, found in known.items():
        if own_name == name:  # compared, because external input may be unhashable
            return found
    raise ValueError(f"{what} must be one of {', '.join(known)}, not {name!r}")


def counts(text: str, what: str, most: int | None = None) -> tuple[int, ...]:
    """Return the numbers of a list such as "1,2,8", sorted and without duplicates.

    what: the counted objects, for the error. Raise ArgumentTypeError unless all are whole numbers from 1 to `most`.
    """
    parts = [part.strip() for part in text.split(",")]
    numbers = sorted({int(part) for part in parts if part.isascii() and part.isdecimal() and len(part) < 10})
    if len(numbers) < len(set(parts)) or numbers[0] < 1 or (most is not None and numbers[-1] > most):
        bound = "at least 1" if most is None else f"from 1 to {most}"
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of {what} such as 1,2, each {bound}")
    return tuple(numbers)
