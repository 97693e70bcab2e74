"""The roofs of this machine for a server that never uses a device: a child process measures them.

In addition to the roofs it measures values that explain figures: "waking" in seconds on the host, "l2" in bytes of a
GPU. kept_roofs.py stores the result, so that the next server need not measure.
"""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from functools import cache
from math import isfinite, nan
from time import perf_counter

import numpy as np

from compute.devices import numba_threads
from compute.devices.backends import BACKENDS, backend
from compute.devices.devices import cpu_count, device_kind
from compute.measure import kept_roofs
from compute.measure.rates import Cache, RoofKind, gpu_caches, host_caches
from compute.measure.roofs import DTYPES, copy_bandwidth, fma_rate
from compute.measure.statistics import Spread
from compute.process.child import ProcessEnd
from compute.process.tasks import Failure, Report, Result, TaskProcess
from compute.process.watchdog import Deadlines, Loss

ANSWER_SECONDS = 120.0  # creating a first CUDA context on a busy machine is slow
RUNS, FIRST = 200, 5  # empty loops that are timed, and untimed ones before them: compilation, sleeping threads
log = logging.getLogger(__name__)

numba_threads.choose_layer()


class MachineRoofs:
    """Copy bandwidths and rates of fused multiply-adds by device name, nan until measured."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = False
        self._rates: kept_roofs.Rates = {}
        self.kept = ""  # date of the measurement, if it was another process's

    def start(self) -> None:
        """Start measuring in a thread, once a process, unless the stored roofs are valid; does not block.

        Best called before anything else loads the machine.
        """
        with self._lock:
            started, self._started = self._started, True
        if not started:
            threading.Thread(target=self._measure, name="roofs", daemon=True).start()

    def rate(self, device: str, kind: RoofKind = "copy", dtype: str = "") -> float:
        """Return a device's ("host", "cuda:0" …) bytes read and written a second, or multiply-adds on `dtype`."""
        return self._rates.get(device, {}).get(kind if kind == "copy" else f"{kind} {dtype}", nan)

    def caches(self, device: str) -> tuple[Cache, ...]:
        """Return the caches of `device`, smallest first; () while unknown, or if the system does not report them."""
        if device_kind(device) == "cpu":
            return host_caches()
        return gpu_caches(self._rates.get(device, {}).get("l2", nan))

    @property
    def waking(self) -> float:
        """Seconds to start all threads of the host once; nan while unknown."""
        return self._rates.get("host", {}).get("waking", nan)

    def _measure(self) -> None:
        if kept := kept_roofs.read():
            self._rates, self.kept = kept.rates, f"{kept.date:%Y-%m-%d}"
            return
        with closing(TaskProcess(leads=True, low=False)) as child:
            match child.run(measured_rates, Deadlines(ANSWER_SECONDS)):
                case Result(value=rates):
                    self._rates = rates
                case Failure(text=why) | Loss(text=why) | ProcessEnd(text=why):
                    log.warning("the roofs of this machine could not be measured: %s", why)


@cache
def machine_roofs() -> MachineRoofs:
    """Return this process's roofs."""
    return MachineRoofs()


def measure_and_keep() -> kept_roofs.KeptRoofs:
    """Measure every device that a backend of this machine can use, in this process, and store the result if valid.

    Raise ValueError if Numba runs without a compiler: the roofs of the host are measured with its loops.
    """
    if why := backend("cpu_numba").simulated:
        raise ValueError(f"the roofs cannot be measured: {why}")
    return kept_roofs.measured(measure)


def measured_rates(report: Report) -> kept_roofs.Rates:
    """Measure and store the roofs, as a task of a child process."""
    report(0.0, "measuring the roofs")
    return measure_and_keep().rates


def measure() -> kept_roofs.Rates:
    """Measure the roofs without storing them."""
    found: kept_roofs.Rates = {}
    for one in BACKENDS:
        count = 0 if one.missing or one.simulated else one.device_class.count()
        for index in range(count):
            device = one.open_device(index)
            rates = {"copy": copy_bandwidth(device).roof}
            for dtype in DTYPES:
                fma = fma_rate(device, dtype)
                rates[f"fma {dtype}"] = fma.roof if fma else nan
            rates |= {"waking": waking_seconds()} if device.kind == "cpu" else {"l2": device.l2_bytes()}
            found[device.name] = {kind: rate for kind, rate in rates.items() if isfinite(rate)}
            device.close()
    return found


def waking_seconds() -> float:
    """Return the seconds to start all threads once, measured with an empty parallel loop.

    It is the lower quartile, to avoid overstatement.
    """
    seen, seconds = np.zeros(cpu_count()), []
    for number in range(FIRST + RUNS):
        start = perf_counter()
        numba_threads.empty_loop(seen)
        if number >= FIRST:
            seconds.append(perf_counter() - start)
    return Spread.of(seconds).q1
