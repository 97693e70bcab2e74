"""A cached kernel that calls a parallel one starts Numba's threads first; without them it would crash."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.extended

# Compiles the parallel callees of the lab's first step; then the step with the cached callees; then runs it.
CALLEES = """
import numpy as np
from compute.labs.l_curve import cpu_numba
starts, columns, values = np.array([0, 1, 2], np.int64), np.array([0, 1], np.uint16), np.ones(2)
cpu_numba._multiply(starts, columns, values, np.ones(2), np.empty(2))
"""
CALLER = """
from compute.labs.l_curve.lab import LCurve
lab = LCurve(backend="cpu_numba", n=20)
lab.advance()
lab.close()
"""


def test_a_kernel_of_the_cache_that_calls_parallel_ones_runs_in_a_new_process(tmp_path):
    """Numba does not record the need for threads if the callees came from the cache at compile time."""
    known = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for program in (CALLEES, CALLER, CALLER):
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
