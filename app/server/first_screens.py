"""`python -m app.server.first_screens`: compile the kernels of the first screens and report the progress as JSON lines.

Started by serve.py, which prints it: ["began", number, count, description], ["ended", number, kernels compiled,
seconds], ["failed", number, reason]. The exit code is 0 if every part was compiled.
"""

from __future__ import annotations

import json
import signal
import sys

from app.tab.lab_view import first_values, parts_of
from compute.devices.precompile import parts, precompile
from compute.labs import LABS
from compute.process.child import die_with_parent


class LineReporter:
    """Write the progress of precompile to standard output."""

    def began(self, number: int, count: int, words: str) -> None:
        """Report that part `number` of `count` has begun."""
        self._tell("began", number, count, words)

    def ended(self, number: int, builds: int, seconds: float) -> None:
        """Report that a part has ended, and how many kernels were compiled."""
        self._tell("ended", number, builds, seconds)

    def failed(self, number: int, why: str) -> None:
        """Report why a part failed."""
        self._tell("failed", number, why)

    def _tell(self, *items: object) -> None:
        sys.stdout.write(json.dumps(items) + "\n")
        sys.stdout.flush()


def main() -> int:
    """Compile the kernels; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process, which ends this one
    die_with_parent()
    return 0 if precompile(parts({lab: first_values(lab, parts_of(lab)) for lab in LABS}), LineReporter()) else 1


if __name__ == "__main__":
    sys.exit(main())
