"""Run a program in Numba's CUDA simulator, where GPU kernels are Python functions, in a separate process.

The simulator starts one thread per CUDA thread and polls whether they wait at a barrier. Here they run one after the
other (simulated_threads.py): a kernel takes a fraction of the time, independent of the scheduling of threads.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.sources import ROOT

BEGIN = "from tests import simulated_threads\nsimulated_threads.install()\n"


def simulate(program: str, *arguments: object) -> str:
    """Run a program with warnings as errors; return its output. Fail with its standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BEGIN + program, *map(str, arguments)], cwd=ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
