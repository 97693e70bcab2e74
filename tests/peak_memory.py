"""The peak memory of this process, for tests that measure it in a separate process.

Linux's `ru_maxrss` starts with the parent's memory at the start of the process: below a run of all tests this hides
some hundred megabytes. `VmHWM` counts the program alone.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_memory() -> int:
    """Return the peak memory in bytes."""
    if sys.platform == "linux":
        (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
