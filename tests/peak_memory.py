"""The most memory that this process has held, for tests that measure it in a process of their own.

Linux's `ru_maxrss` begins with what the parent held when it started the process: below a run of all tests that hides
some hundred megabytes. `VmHWM` is the program's own.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_memory() -> int:
    """Bytes."""
    if sys.platform == "linux":
        (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
