"""Start `panel serve app` as a user does, and stop it as a service manager does."""

from __future__ import annotations

import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from app.upstream.fixes import SETTING, chosen

ROOT = Path(__file__).parent.parent.parent
PRIORITY = Path(__file__).with_name("priority")  # contains a sitecustomize.py
START = 240.0  # s until the port must respond; an idle machine needs a few, for imports
STOP = 60.0  # s from SIGTERM until the last process must have exited; an idle machine needs two
NOTHING = r"(?!)"  # matches no text
THEMED = r": \w*(Axis|ColorBar|Grid|Legend|Title)\.\w+"  # properties that panel-material-ui's theme sets
DISCARDED = "discarded a"  # in the log of a server that ignored a change or an event of a page
SUM = 0.035  # s, the time of the sum in `slack` on the machine for which the goals were set
# On Linux the server receives SIGTERM whenever the test run dies: PR_SET_PDEATHSIG is 1 and survives exec.
BOUND = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
os.execv(sys.argv[1], sys.argv[1:])
"""


running: list[Server] = []  # running servers, for reports of failed tests


@dataclass(frozen=True)
class Server:
    """A running server: its port, process, log file and listening address."""

    port: int
    process: psutil.Popen
    log: Path
    address: str = "localhost"  # the address it listens on

    @property
    def url(self) -> str:
        """The URL of the app."""
        return f"http://localhost:{self.port}/app"

    def text(self) -> str:
        """Return the server's output so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def family(self) -> list[psutil.Process]:
        """Return the running descendants of the server: engines and their helpers."""
        return [child for child in self.process.children(recursive=True) if child.is_running()]

    def busy(self) -> str:
        """Return a line per process: CPU seconds so far, state and command."""
        lines = []
        for process in [self.process, *self.family()]:
            try:
                used = process.cpu_times()
                lines.append(f"{used.user + used.system:.0f} s {process.status()} {_command(process)}")
            except psutil.NoSuchProcess:
                continue
        return "\n".join(lines)


def engine(server: Server, device: str = "host") -> tuple[psutil.Process, psutil.Process | None]:
    """Return the processes of the engine on `device` and of its spare, the younger one; None if it has no spare yet."""
    found = [child for child in server.family() if _command(child).endswith(f" {device}")]
    found = sorted((child for child in found if "compute.engine" in _command(child)), key=lambda one: one.create_time())
    return found[0], found[1] if len(found) > 1 else None


def with_spare(server: Server, seconds: float = START) -> psutil.Process:
    """Wait until the host engine's spare has started and is idle; return the engine's process."""
    end, used = time.monotonic() + seconds, 0.0
    while True:
        worker, spare = engine(server)
        before, used = used, sum(spare.cpu_times()[:2]) if spare else 0.0
        if spare and before and used - before < 0.02:
            return worker
        assert time.monotonic() < end, f"no spare after {seconds:g} s:\n{server.busy()}"
        time.sleep(1.0)


def poll(condition: Callable[[], Any], seconds: float, problem: Callable[[], str]) -> Any:
    """Return the condition's value as soon as it is true; fail after `seconds` with the text of `problem`."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not true within {seconds:g} s: {problem()}"
        time.sleep(0.1)
    return value


def bound(command: Sequence[str]) -> list[str]:
    """Return `command`, wrapped so that it ends with this process."""
    return [sys.executable, "-c", BOUND, *command]


def has_ipv6() -> bool:
    """Return whether this machine has the loopback address ::1; some containers have not."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def free_port() -> int:
    """Return a TCP port of this machine that is free at the moment."""
    with closing(socket.socket()) as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def answers(port: int, address: str = "localhost") -> bool:
    """Return whether a server listens on the port. No request is sent, because a GET would open a session."""
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True


def slack() -> float:
    """Return the factor by which this machine may miss a goal, at least 2.

    The factor is 2 times the larger of the load average per core and the time of a sum relative to SUM, if that is
    above 1.
    """
    times = []
    for _ in range(5):
        began = time.perf_counter()
        sum(range(3_000_000))
        times.append(time.perf_counter() - began)
    return 2.0 * max(1.0, os.getloadavg()[0] / len(psutil.Process().cpu_affinity()), statistics.median(times) / SUM)


def environment() -> dict[str, str]:
    """Return the environment of a server under test, whose jobs keep normal priority."""
    path = [str(PRIORITY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(path)}


@contextmanager
def serve(
    folder: Path,
    arguments: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    port: int = 0,
    address: str = "localhost",
) -> Iterator[Server]:
    """Run the app on `port`, or a free one, with its log in `folder`; on exit stop it and fail if a process survives.

    It also fails if the server has discarded a change of a page; without the fix local_theme it discards the plots'
    colours. arguments: more options of `panel serve`; environ: added to this process's environment.
    """
    discards = NOTHING if "local_theme" in chosen((environ or {}).get(SETTING)) else THEMED
    port, log = port or free_port(), folder / "server.log"
    command = [sys.executable, "-m", "panel", "serve", "app", "--address", address, "--port", str(port), *arguments]
    with log.open("wb") as output:
        process = psutil.Popen(
            bound(command),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment(), **(environ or {})},
            start_new_session=True,
        )
    server = Server(port, process, log, address)
    running.append(server)
    try:
        wait_until_ready(server)
        yield server
    finally:
        running.remove(server)
        left = stop(server)
    assert not left, f"processes that outlived the server: {left}\n{server.text()[-2000:]}"
    discarded = [line for line in server.text().splitlines() if DISCARDED in line and not re.search(discards, line)]
    assert not discarded, f"pages sent what is not on the allow-list of app/server/allowed_changes.py: {discarded}"


def wait_until_ready(server: Server) -> None:
    """Return when the port responds; fail with the log if the server ended or START seconds passed."""

    def is_ready() -> bool:
        """Return whether the port responds."""
        assert server.process.poll() is None, f"the server ended with {server.process.returncode}:\n{server.text()}"
        return answers(server.port, server.address)

    poll(is_ready, START, server.text)


def stop(server: Server) -> list[str]:
    """Send SIGTERM to the server only, wait STOP seconds for all its processes; kill and return the remaining ones."""
    end = time.monotonic() + STOP
    family = [server.process, *server.family()] if server.process.is_running() else []
    if server.process.poll() is None:
        server.process.send_signal(signal.SIGTERM)
    _, alive = psutil.wait_procs(family, timeout=STOP)
    while found := [other for other in psutil.process_iter() if _group(other) == server.process.pid]:
        if time.monotonic() > end:
            alive += [other for other in found if other not in alive]
            break
        time.sleep(0.1)
    names = [f"{process.pid} {_command(process)}" for process in alive]
    for process in alive:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            names.append(f"{process.pid} (gone by itself, late)")
    psutil.wait_procs(alive, timeout=5)
    return names


def _group(process: psutil.Process) -> int | None:
    """Return the process group, or None for a zombie or a process that has ended."""
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else os.getpgid(process.pid)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return None


def _command(process: psutil.Process) -> str:
    """Return the command line, shortened to 200 characters for messages."""
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.Error:  # zombies have no command line either
        return "(gone)"
