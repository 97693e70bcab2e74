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
from compute.devices.devices import Host
from compute.labs.l_curve import cpu_numba
from compute.labs.l_curve.bidiagonal import Rows, compressed
cpu_numba.multiply(Rows.of(Host(), cpu_numba, compressed(np.eye(2), "float64")), np.ones(2), np.empty(2))
"""
CALLER = """
from compute.labs.l_curve.lab import LCurve
lab = LCurve(backend="cpu_numba", n=20)
lab.advance()
lab.close()
"""


def test_a_cached_caller_of_parallel_kernels_runs_in_a_new_process(tmp_path):
    """Numba does not record the need for threads if the callees came from the cache at compile time."""
    known = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for program in (CALLEES, CALLER, CALLER):
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
