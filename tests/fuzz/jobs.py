"""A campaign as several processes: each with a server and a seed, or with a parser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.fuzz.parsers import PARSERS

TEST = "tests/fuzz/test_parsers.py::test_damaged_samples_are_accepted_or_refused_with_a_message"
SENT = re.compile(r"^(\d+) sent:", re.MULTILINE)
END = 3000  # characters of a failed process's output that are printed


def shares(count: int, jobs: int) -> list[int]:
    """Return the shares of `count` for at most `jobs` processes."""
    return [share for job in range(jobs) if (share := count // jobs + (count % jobs > job))]


def run(command: Sequence[str], **environment: str) -> tuple[int, str]:
    """Run Python; return its exit code and output."""
    done = subprocess.run(
        [sys.executable, *command], env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def campaigns(what: str, count: int, batch: int, seed: int, minutes: float, jobs: int) -> int:
    """Run a campaign split over `jobs` servers, with seeds from `seed` on; return the worst exit code."""
    threads = str(max(1, (os.cpu_count() or 1) // jobs))  # of each engine of each server

    def one(number: int, share: int) -> tuple[int, str]:
        options = {"count": share, "batch": batch, "seed": seed + number, "minutes": minutes}
        return run(
            ["-m", "tests.fuzz", what, *(f"--{name}={value}" for name, value in options.items())],
            **({} if "NUMBA_NUM_THREADS" in os.environ else {"NUMBA_NUM_THREADS": threads}),
        )

    with ThreadPoolExecutor(jobs) as pool:
        ended = list(pool.map(one, range(jobs), shares(count, jobs)))
    for number, (code, said) in enumerate(ended):
        sys.stdout.write(f"-- seed {seed + number}, exit code {code}\n{said}\n")
    sent = sum(int(found[1]) for _, said in ended if (found := SENT.search(said)))
    sys.stdout.write(
        f"{sent} in all, of {count}, by {len(ended)} servers; {sum(bool(code) for code, _ in ended)} failed\n"
    )
    return max(abs(code) for code, _ in ended)


def parsers(minutes: float, jobs: int, seed: int, only: str = "") -> int:
    """Damage the samples of each parser with `only` in its name for `minutes`, `jobs` parsers at a time.

    Return 1 if an input was neither accepted nor refused with a message.
    """
    names = [name for name in PARSERS if only in name]
    if not names:
        sys.stdout.write(f"no parser has {only!r} in its name; there are: {'; '.join(PARSERS)}\n")
        return 2

    def one(name: str) -> tuple[int, str]:
        environment = {"FIELDLAB_FUZZ_SECONDS": str(60 * minutes), "FIELDLAB_FUZZ_SEED": str(seed)}
        options = "-q", "-s", "-o", "timeout=0", "-p", "no:cacheprovider"
        code, said = run(["-m", "pytest", *options, f"{TEST}[{name}]"], **environment)
        found = [line.lstrip(".") for line in said.splitlines() if line.lstrip(".").startswith(f"{name}: ")]
        words = found[0] if found and not code else f"{name}: exit code {code}\n{said[-END:]}"
        sys.stdout.write(f"{words}\n")
        sys.stdout.flush()
        return code, said

    with ThreadPoolExecutor(jobs) as pool:
        ended = list(pool.map(one, names))
    failed = sum(bool(code) for code, _ in ended)
    sys.stdout.write(f"{len(names)} parsers, {minutes:g} minutes each, from seed {seed}: {failed} failed\n")
    return int(failed > 0)
