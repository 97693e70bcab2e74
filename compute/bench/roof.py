"""The roofs of this machine for a server that itself never touches a device: a child measures them once.

`python -m compute.bench.roof` is that child; it prints JSON {device: {copy: bytes/s, "fma float32": 1/s, …}} and ends;
beside the roofs what explains the figures: "waking" in seconds on the host, "l2" in bytes of a GPU.
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

from compute.backends import BACKENDS
from compute.bench.bandwidth import copy_bandwidth
from compute.bench.caches import Cache, gpu_caches, host_caches
from compute.bench.fma import DTYPES, fma_rate
from compute.bench.rates import Roof as Kind
from compute.bench.waking import waking_seconds
from compute.devices import Device
from compute.engine.worker import die_with_parent
from compute.gpu_devices import cuda_count
from compute.machine import ROOT

ANSWER_SECONDS = 120.0  # a first CUDA context on a busy machine takes its time
log = logging.getLogger(__name__)


class Roof:
    """Copy bandwidths and rates of fused multiply-adds by device name, nan as long as they are not known."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = False
        self._rates: dict[str, dict[str, float]] = {}

    def start(self, then: Callable[[], object] | None = None) -> None:
        """Start measuring, once a process; returns at once. Best before anything else loads the machine.

        then: what is to load it afterwards; called on another thread, and at once if measuring has started before.
        """
        with self._lock:
            started, self._started = self._started, True
        if not started:
            threading.Thread(target=self._measure, args=(then,), name="roofs", daemon=True).start()
        elif then:
            then()

    def rate(self, device: str, kind: Kind = "copy", dtype: str = "") -> float:
        """Of `device` ("host", "cuda:0" …): bytes read and written a second, or fused multiply-adds on `dtype`."""
        return self._rates.get(device, {}).get(kind if kind == "copy" else f"{kind} {dtype}", nan)

    def caches(self, device: str) -> tuple[Cache, ...]:
        """Of `device`, smallest first; () as long as they are not known, and where the system does not tell."""
        if device == "host":
            return host_caches()
        return gpu_caches(self._rates.get(device, {}).get("l2", nan))

    @property
    def waking(self) -> float:
        """Seconds that it takes to start all threads of the host once; nan as long as that is not known."""
        return self._rates.get("host", {}).get("waking", nan)

    def _measure(self, then: Callable[[], object] | None) -> None:
        command = [sys.executable, "-m", "compute.bench.roof"]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True)
            found = json.loads(done.stdout)
            self._rates = {device: {kind: float(rate) for kind, rate in of.items()} for device, of in found.items()}
        except (subprocess.SubprocessError, OSError, ValueError, AttributeError) as error:
            log.warning("the roofs of this machine could not be measured: %s", error)
        if then:
            then()


@cache
def roof() -> Roof:
    """This process's roof."""
    return Roof()


def measure() -> dict[str, dict[str, float]]:
    """Measure every device that a backend of this machine can use, in this process."""
    found: dict[str, dict[str, float]] = {}
    for backend in BACKENDS:
        count = 0 if backend.missing else 1 if backend.device == "host" else cuda_count()
        for index in range(count):
            device = backend.open_device(index)
            rates = {"copy": copy_bandwidth(device).roof}
            for dtype in DTYPES:
                fma = fma_rate(device, dtype)
                rates[f"fma {dtype}"] = fma.roof if fma else nan
            rates |= {"waking": waking_seconds()} if device.kind == "cpu" else {"l2": _l2_bytes(device)}
            found[device.name] = {kind: rate for kind, rate in rates.items() if isfinite(rate)}
            device.close()
    return found


def _l2_bytes(device: Device) -> float:
    """nan where the driver does not say."""
    return float(device.describe().get("l2_bytes", nan))


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(json.dumps(measure()))
