"""Number of Hypothesis examples: a third of them in a run of all tests, all of them in `make fuzz`."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    """Return the number of examples to run here, out of `count`."""
    return count if os.environ.get("FIELDLAB_FUZZ_SECONDS") else count // 3
