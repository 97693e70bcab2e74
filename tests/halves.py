"""Run both halves of the tests in parallel: those in a browser, and those without one.

`python -m tests.halves [--jobs 3] [more for pytest]`. Each half uses one process more than there are cores, as each
waits from time to time, or fewer if memory is short; those of the browser half have their own browsers and servers. The
others run at a lower priority; the browser half is reported when both are done. `--apart` runs the halves one after the
other. The exit status is 0 if both pass. Each half lists its slowest 20.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import psutil

from compute.devices.devices import cpu_count

BROWSER = "tests/browser"
ROOM = 2 * 2**30  # bytes of memory for a process with its browser, its servers and their engines
MOST = 17  # processes; not tried with more
ASIDE = 5  # niceness of the other half: a quarter of a core that a browser also uses, so that neither starves
SLOWEST = ("--durations", "20", "--durations-min", "1")


def spread(jobs: int) -> tuple[str, ...]:
    """Return pytest's options for `jobs` processes that run whole files in the order of conftest.py."""
    return "--numprocesses", str(jobs), "--dist", "loadfile", "--no-loadscope-reorder"


def processes() -> int:
    """Return the number of processes of a half.

    One more than cores, as with two a fifth of two cores was idle, and no more than memory allows.
    """
    return max(1, min(cpu_count() + 1, psutil.virtual_memory().available // ROOM, MOST))


def main(arguments: Sequence[str], pytest: Sequence[str] = (sys.executable, "-m", "pytest")) -> int:
    """Run both halves; return the exit status."""
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
    """Run both halves in parallel; print the browser's output last."""
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
    except KeyboardInterrupt:  # both halves received the signal, too
        sys.exit(130)
