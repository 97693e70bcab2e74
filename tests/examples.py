"""How many examples a test tries: a third of them where all tests are run, and all in `make fuzz`."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    """Return how many of `count` are tried here."""
    return count if os.environ.get("FIELDLAB_FUZZ_SECONDS") else count // 3
