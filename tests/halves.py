"""Runs both halves of the tests at a time: those in a browser, and beside them all that need none.

`python tests/halves.py [--jobs 3] [more for pytest]`. Each half is run by one process more than there are cores, as
each waits now and then, or by fewer where memory is short; those of the browser's have a browser and servers of their
own. The others get what these leave of the processors; the browser's are reported when both are done. `--apart` runs
one half after the other. The status is 0 if both are green. Each half lists its slowest 20.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import psutil

from compute.devices import cpu_count

BROWSER = "tests/browser"
ROOM = 2 * 2**30  # bytes of memory for a process with its browser, its servers and their engines
MOST = 17  # processes; more were never tried
ASIDE = 5  # niceness of the others: a quarter of a core that a browser wants, too, so that none starves
SLOWEST = ("--durations", "20", "--durations-min", "1")


def spread(jobs: int) -> tuple[str, ...]:
    """pytest's options for that many processes, each with whole files, in the order that a conftest.py gives them."""
    return "--numprocesses", str(jobs), "--dist", "loadfile", "--no-loadscope-reorder"


def processes() -> int:
    """How many for each half: one more than cores, as two left a fifth of two cores idle, and as memory allows."""
    return max(1, min(cpu_count() + 1, psutil.virtual_memory().available // ROOM, MOST))


def main(arguments: Sequence[str], pytest: Sequence[str] = (sys.executable, "-m", "pytest")) -> int:
    """Run them; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, help="processes of each half (default: by cores and memory)")
    parser.add_argument("--apart", action="store_true", help="one half after the other")
    options, more = parser.parse_known_args(arguments)
    jobs = options.jobs or processes()
    browser = [*pytest, BROWSER, *spread(jobs), "-o", "cache_dir=.pytest_cache/browser", *SLOWEST, *more]
    others = [*pytest, "--ignore", BROWSER, *spread(jobs), *SLOWEST, *more]
    statuses = [subprocess.call(others), subprocess.call(browser)] if options.apart else _together(others, browser)
    return next((status for status in statuses if status), 0)


def _together(others: Sequence[str], browser: Sequence[str]) -> list[int]:
    """Both at a time; the browser's words come last."""
    with tempfile.TemporaryFile("w+") as said:
        first = subprocess.Popen(browser, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        second = subprocess.Popen(["nice", "-n", str(ASIDE), *others])
        statuses = [half.wait() for half in (second, first)]
        said.seek(0)
        print("== tests in the browser", said.read(), sep="\n", flush=True)
    return statuses


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # both halves have had it, too
        sys.exit(130)
