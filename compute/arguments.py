"""What several command lines take in the same form."""

from __future__ import annotations

import argparse


def counts(text: str, what: str, most: int | None = None) -> tuple[int, ...]:
    """Return the numbers of a list such as "1,2,8", in rising order, each once.

    what: that is counted, for the error. ArgumentTypeError if one is no whole number from 1 to `most`.
    """
    parts = [part.strip() for part in text.split(",")]
    numbers = sorted({int(part) for part in parts if part.isascii() and part.isdecimal() and len(part) < 10})
    if len(numbers) < len(set(parts)) or numbers[0] < 1 or (most is not None and numbers[-1] > most):
        bound = "from 1 on" if most is None else f"from 1 to {most}"
        raise argparse.ArgumentTypeError(f"{text!r} is no list of {what} such as 1,2, each {bound}")
    return tuple(numbers)
