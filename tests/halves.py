"""Runs both halves of the tests at a time: those in a browser, and beside them all that need none.

`python tests/halves.py --jobs 3 [more for pytest]`. The browser's tests are run by three processes, each with a
browser and servers of its own, as each waits now and then. The others get what these leave of the processors;
the browser's are reported when both are done. `--apart` runs one half after the other. The status is 0 if both are
green. Each half lists its slowest 20.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence

BROWSER = "tests/browser"
JOBS = STREAMS = 3  # processes of each half: one more than cores: two left a fifth of two cores idle
ASIDE = 5  # niceness of the others: a quarter of a core that a browser wants, too, so that none starves
SLOWEST = ("--durations", "20", "--durations-min", "1")


def spread(processes: int) -> tuple[str, ...]:
    """pytest's options for that many processes, each with whole files, in the order that a conftest.py gives them."""
    return "--numprocesses", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"


def main(arguments: Sequence[str], pytest: Sequence[str] = (sys.executable, "-m", "pytest")) -> int:
    """Run them; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=JOBS, help="processes for the tests that need no browser")
    parser.add_argument("--apart", action="store_true", help="one half after the other")
    options, more = parser.parse_known_args(arguments)
    browser = [*pytest, BROWSER, *spread(STREAMS), "-o", "cache_dir=.pytest_cache/browser", *SLOWEST, *more]
    others = [*pytest, "--ignore", BROWSER, *spread(options.jobs), *SLOWEST, *more]
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
