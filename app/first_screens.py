"""`python -m app.first_screens`: compile what the first screens need, and tell how it goes, a JSON list a line.

Started by app/serve.py, in whose words it is shown: ["began", number, of how many, what], ["ended", number, kernels
compiled, seconds], ["failed", number, why]. Exit code 0 if every part could be compiled.
"""

from __future__ import annotations

import json
import signal
import sys

from app.lab_view import first_values, parts_of
from compute.engine.worker import die_with_parent
from compute.labs import LABS
from compute.precompile import parts, precompile


class Teller:
    """Writes what precompile says to standard output."""

    def began(self, number: int, count: int, words: str) -> None:
        """Say that part `number` of `count` has begun."""
        self._tell("began", number, count, words)

    def ended(self, number: int, builds: int, seconds: float) -> None:
        """Say that it is done, and how many kernels were compiled for it."""
        self._tell("ended", number, builds, seconds)

    def failed(self, number: int, why: str) -> None:
        """Say why it could not be done."""
        self._tell("failed", number, why)

    def _tell(self, *items: object) -> None:
        sys.stdout.write(json.dumps(items) + "\n")
        sys.stdout.flush()


def main() -> int:
    """Compile; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the business of who started this, and ends it
    die_with_parent()
    return 0 if precompile(parts({lab: first_values(lab, parts_of(lab)) for lab in LABS}), Teller()) else 1


if __name__ == "__main__":
    sys.exit(main())
