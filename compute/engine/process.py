"""One life of an engine's process: start, line, end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from compute.engine.line import Line
from compute.engine.messages import Setup

PROC = Path("/proc")  # Linux's account of every process; nowhere else
NANOSECOND = 1e-9


class Process:
    """A fresh interpreter (never a fork) that runs the worker; it imports nothing of the server's main module.

    It gets ready for an engine on `device` ("host" or "cuda") and waits until `begin` says which. Start it from a
    thread that lives as long as it should: it is killed when that thread ends. In a process group of its own, so that
    Ctrl-C in a terminal reaches the server alone, which then ends it in order.
    """

    def __init__(self, device: str) -> None:
        ours, theirs = multiprocessing.Pipe()
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "compute.engine", str(theirs.fileno()), device],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                process_group=0,
            )
            self.line = Line(ours)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self.ended_by_itself = True

    def begin(self, setup: Setup) -> None:
        """Make it the worker of the engine that `setup` describes."""
        with suppress(OSError):  # it has died: whoever listens to the line finds its end
            self.line.send(setup)

    @property
    def ended(self) -> bool:
        """Whether it is gone."""
        return self._process.poll() is not None

    @property
    def stopped(self) -> bool:
        """Whether somebody has stopped it, by SIGSTOP; False where the system does not tell."""
        try:
            status = (PROC / str(self.pid) / "stat").read_text()
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] == "T"

    def waits(self) -> Mapping[str, float]:
        """Seconds that each of its threads was ready to run and had to wait; {} where the system does not tell."""
        found = {}
        with suppress(OSError):
            for task in (PROC / str(self.pid) / "task").iterdir():
                with suppress(OSError, ValueError, IndexError):  # it has just ended
                    found[task.name] = NANOSECOND * int((task / "schedstat").read_text().split()[1])
        return found

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

    def close(self) -> None:
        """End it by force, whatever it does, and close the line."""
        self.kill()
        self.end(0.0)
        self.line.close()
