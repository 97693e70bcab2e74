"""One life of an engine's process: start, line, end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from compute.engine.line import Line
from compute.engine.messages import Setup


class Process:
    """A fresh interpreter (never a fork) that runs the worker; it imports nothing of the server's main module.

    Start it from a thread that lives as long as it should: it is killed when that thread ends. In a process group of
    its own, so that Ctrl-C in a terminal reaches the server alone, which then ends it in order.
    """

    def __init__(self, setup: Setup) -> None:
        ours, theirs = multiprocessing.Pipe()
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "compute.engine", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            process_group=0,
        )
        theirs.close()
        self.line = Line(ours)
        self.pid = self._process.pid
        self.ended_by_itself = True
        with suppress(OSError):  # it died at once: whoever listens to the line finds its end
            self.line.send(setup)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def end(self, patience: float) -> str:
        """Wait `patience` seconds for it to end, then kill it; how it ended, in words."""
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self.ended_by_itself = code not in {-signal.SIGKILL, -signal.SIGTERM}
        return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with exit code {code}"
