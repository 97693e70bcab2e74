"""# Timing zeros

**What you see.** Memory that seems faster than its bandwidth, or a first pass that is much slower than the second.

**Why.** The operating system returns zeros without physical memory: all pages are the same page, which stays in a
cache, until the program writes to them. Zeros are easy in other respects, too: a GPU that multiplies zeros switches
fewer wires, stays cooler and may keep a higher clock; compressed memory stores them in no space; a histogram of zeros
has one bin.

**Instead.** Fill arrays with numbers like those of your problem before you measure.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from compute.ways.declaring import way


@way("cpu_numpy_wrong")
def wrong(n: int = 50_000_000) -> dict[str, float]:
    """Sums an array of zeros that was never written: one page of memory, read again and again.

    Read n numbers of 8 bytes.
    """
    a = np.zeros(n)
    a.sum()
    start = perf_counter()
    a.sum()
    return {"gigabytes_per_second": 1e-9 * a.nbytes / (perf_counter() - start)}


@way("cpu_numpy_right")
def right(n: int = 50_000_000) -> dict[str, float]:
    """Sums an array that was written before, so that all of it is in memory.

    Read n numbers of 8 bytes.
    """
    a = np.random.default_rng(0).random(n)
    a.sum()
    start = perf_counter()
    a.sum()
    return {"gigabytes_per_second": 1e-9 * a.nbytes / (perf_counter() - start)}
