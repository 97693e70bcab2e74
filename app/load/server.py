"""The server under load: started for the measurement, or already running; and the resource usage of its processes."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from compute.start import search_path

HOST = "localhost"
START = 300.0  # s to the first answer: kernels may have to be compiled
STOP = 15.0  # s after SIGTERM
APP = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Use:
    """Resource usage of a server's processes: CPU seconds since their start, and current memory and descriptors.

    Engines are all child processes of the server's process. memory, engines_memory: unique set size (USS) in bytes;
    kinds: numbers of the server's descriptors by kind.
    """

    server: float
    engines: float
    memory: int
    descriptors: int
    engines_memory: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Server:
    """A running server. process: None if it runs on another machine, so that its resource usage is unknown."""

    address: str
    process: psutil.Process | None = None

    def use(self) -> Use | None:
        """Return the current resource usage; None if unknown."""
        if self.process is None:
            return None
        own = self.process.cpu_times()
        engines, engines_memory = 0.0, 0
        for child in self.process.children(recursive=True):
            try:
                times, held = child.cpu_times(), int(child.memory_full_info().uss)
            except psutil.NoSuchProcess:
                continue
            engines += times.user + times.system
            engines_memory += held
        memory, kinds = int(self.process.memory_full_info().uss), kinds_of(self.process.pid)
        return Use(own.user + own.system, engines, memory, self.process.num_fds(), engines_memory, kinds)


def kinds_of(process: int) -> dict[str, int]:
    """Return the number of descriptors of a process by kind: socket, pipe, files by name; {} if unknown."""
    kinds: Counter[str] = Counter()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):  # closed during the iteration
                kinds[re.sub(r":?\[\d+\]|\d+", "", str(descriptor.readlink()))] += 1
    return dict(sorted(kinds.items()))


@contextmanager
def serving(
    environment: Mapping[str, str] | None = None, start: Sequence[str] = ("panel", "serve"), output: Path | None = None
) -> Iterator[Server]:
    """Run `panel serve app` on a free port and stop it at exit; raise OSError if it does not answer or ends early.

    start: module and first arguments of another server command; said: file for the server's output.
    """
    port = _free_port()
    command = [sys.executable, "-P", "-m", *start, str(APP), "--address", HOST, "--port", str(port)]
    with output.open("w+b") if output else tempfile.TemporaryFile() as log:
        own = {**os.environ, "PYTHONPATH": search_path(), **(environment or {})}
        process = psutil.Popen(command, env=own, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(process, port, log)
            yield Server(f"http://{HOST}:{port}/app", psutil.Process(process.pid))
        except Exception as error:
            if (code := process.poll()) is None:
                raise
            raise OSError(f"the server ended with exit code {code}:\n{_end_of(log)}") from error
        finally:
            _stop(process)


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _wait(process: psutil.Popen, port: int, log: IO[bytes]) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise OSError(f"the server did not answer within {START:.0f} s:\n{_end_of(log)}")


def _end_of(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")[-2000:]


def _stop(process: psutil.Popen) -> None:
    try:
        process.terminate()
        process.wait(STOP)
    except psutil.NoSuchProcess:
        return
    except psutil.TimeoutExpired:
        process.kill()
        process.wait()
