"""Measures the crossover of files/gain.py with plain clocks, and compares it with the verdict of `fieldlab try`.

Run manually on a quiet machine, since it measures time:
`python -m tests.compute.own.measure_crossover [ROUNDS] [BUDGET]`. The
first half uses none of Fieldlab's harness: plain loops, time.perf_counter or CUDA events for CuPy on a GPU, medians,
and a straight line in log-log. It compares NumPy with Numba, or Numba with CuPy on a GPU.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from compute.devices import numba_threads
from compute.devices.backends import backend
from tests.compute.own.files import gain

FILE = Path(__file__).parent / "files" / "gain.py"
SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)


def seconds(call, *arguments):
    """Return the seconds of one call, averaged over consecutive calls for 10 ms."""
    call(*arguments)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < 0.01:
        call(*arguments)
        count += 1
    return (time.perf_counter() - start) / count


def gpu_seconds(x):
    """Return the seconds of one call of the GPU's way, from two CUDA events around 200 calls."""
    import cupy

    here = cupy.asarray(x)
    out = cupy.empty_like(here)
    for _ in range(20):
        gain.formula_cupy(here, out)
    first, last = cupy.cuda.Event(), cupy.cuda.Event()
    first.record()
    for _ in range(200):
        gain.formula_cupy(here, out)
    last.record()
    last.synchronize()
    return cupy.cuda.get_elapsed_time(first, last) / 1e3 / 200


def last_crossing(gains):
    """Return the n from which on the second is faster; gains: (n, log of first over second)."""
    pairs = [(a, b) for a, b in pairwise(gains) if a[1] <= 0 < b[1]]
    if not pairs:
        return None
    (n0, g0), (n1, g1) = pairs[-1]
    return math.exp(math.log(n0) + (math.log(n1) - math.log(n0)) * -g0 / (g1 - g0))


def by_hand(rounds):
    """Return (n of the medians' crossing, n of the crossing in each round)."""
    numba_threads.choose_layer()  # as in all of Fieldlab; not part of the harness
    gpu = backend("gpu_cupy").ready
    times = {n: ([], []) for n in SIZES}
    for _ in range(rounds):
        for n in SIZES:
            x = np.random.default_rng(n).random(n)
            out = np.empty_like(x)
            times[n][0].append(seconds(gain.formula_numba, x, out) if gpu else seconds(gain.formula, x))
            times[n][1].append(gpu_seconds(x) if gpu else seconds(gain.formula_numba, x, out))
    medians = [(n, math.log(statistics.median(a) / statistics.median(b))) for n, (a, b) in times.items()]
    single = [last_crossing([(n, math.log(a[k] / b[k])) for n, (a, b) in times.items()]) for k in range(rounds)]
    return last_crossing(medians), sorted(n for n in single if n)


def main():
    rounds, budget = (int(text) for text in (*sys.argv[1:], "15", "15")[:2])
    n, single = by_hand(rounds)
    command = [sys.executable, "-m", "compute", "try", str(FILE), "--json", "--budget", str(budget)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)["crossovers"]["float64"]
    print(f"by hand: n = {n and round(n)}, in single rounds {[round(one) for one in single]}")
    print(f"fieldlab try: n = {said['n']}, by the quartiles {said['low']} to {said['high']}: {said['sentence']}")
    inside = n is not None and (said["low"] or 0) <= n <= (said["high"] or math.inf)
    print("inside the stated interval" if inside else "OUTSIDE the stated interval")
    if len(single) > 3:  # the spread of the plain clocks
        low, _, high = statistics.quantiles(single, n=4)
        overlap = low <= (said["high"] or math.inf) and (said["low"] or 0) <= high
        print(f"middle half of the single rounds {low:.0f} to {high:.0f}: {'overlaps' if overlap else 'APART'}")


if __name__ == "__main__":
    main()
