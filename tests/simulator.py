"""Runs a program in Numba's CUDA simulator, where kernels for a GPU are Python functions, in a process of its own.

The simulator makes a thread of every CUDA thread and asks them all the while whether they wait at a barrier. Here they
run one after the other (simulated_threads.py): a kernel does the same in a fraction of the time, however the machine
switches between threads.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.sources import ROOT

BEGIN = "from tests import simulated_threads\nsimulated_threads.install()\n"


def simulate(program: str, *arguments: object) -> str:
    """Run it with warnings as errors; returns what it prints. Fails with what it says on its standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BEGIN + program, *map(str, arguments)], cwd=ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
