"""The copy bandwidths of this machine for a server that itself never touches a device: a child measures them once.

`python -m compute.bench.roof` is that child; it prints JSON {device: {rate, q1, q3, n}} in bytes/s and ends.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache
from math import isfinite, nan
from typing import Any

from compute.backends import BACKENDS
from compute.bench.bandwidth import copy_bandwidth
from compute.engine.worker import die_with_parent
from compute.gpu_devices import cuda_count
from compute.machine import ROOT

ANSWER_SECONDS = 120.0  # a first CUDA context on a busy machine takes its time
log = logging.getLogger(__name__)


class Roof:
    """Copy bandwidths by device name, nan as long as they are not known."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = False
        self._rates: dict[str, float] = {}

    def start(self, then: Callable[[], object] | None = None) -> None:
        """Start measuring, once a process; returns at once. Best before anything else loads the machine.

        then: what is to load it afterwards; called on another thread, and at once if measuring has started before.
        """
        with self._lock:
            started, self._started = self._started, True
        if not started:
            threading.Thread(target=self._measure, args=(then,), name="copy bandwidth", daemon=True).start()
        elif then:
            then()

    def rate(self, device: str) -> float:
        """Bytes read and written a second by `device` ("host", "cuda:0" …) while it copies."""
        return self._rates.get(device, nan)

    def _measure(self, then: Callable[[], object] | None) -> None:
        command = [sys.executable, "-m", "compute.bench.roof"]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True)
            self._rates = {name: float(entry["rate"]) for name, entry in json.loads(done.stdout).items()}
        except (subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
            log.warning("the copy bandwidth could not be measured: %s", error)
        if then:
            then()


@cache
def roof() -> Roof:
    """This process's roof."""
    return Roof()


def measure() -> dict[str, dict[str, Any]]:
    """Measure every device that a backend of this machine can use, in this process."""
    found: dict[str, dict[str, Any]] = {}
    for backend in BACKENDS:
        count = 0 if backend.missing else 1 if backend.device == "host" else cuda_count()
        for index in range(count):
            device = backend.open_device(index)
            copy = copy_bandwidth(device)
            device.close()
            if isfinite(copy.rate.median):
                found[device.name] = {
                    "rate": copy.rate.median,
                    "q1": copy.rate.q1,
                    "q3": copy.rate.q3,
                    "n": copy.rate.n,
                }
    return found


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(json.dumps(measure()))
