"""The clock of a GPU at a measurement, if its driver reports it.

A driver lowers the clock of a GPU that is mostly idle, as next to a live picture, and raises it again only after some
time under load. On an H200 through Vulkan it fell to 345 of 1980 MHz within seconds and took more than 5 s of load to
rise; a process with a CUDA context keeps it at 1980 MHz.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import nan

from compute.devices.devices import Device
from compute.machine.gpu_nvml import Nvml, NvmlError, open_nvml
from compute.measure.timing import Sample


def clock_rate(device: Device) -> float:
    """Return the clock of a GPU's multiprocessors over their highest one; nan on the host or if unknown.

    It is unknown if several GPUs have the same name, because WebGPU does not number them as the driver does.
    """
    gpus = _gpus() if device.kind == "gpu" else None
    if gpus is None:
        return nan
    name = device.describe()["name"]
    try:
        found = [rate for known, rate in gpus.clock_rates() if known == name]
    except NvmlError:
        return nan
    return found[0] if len(found) == 1 else nan


def with_clock_rate(sample: Sample, device: Device) -> Sample:
    """Return a sample that was just taken on `device` with the clock rate of that device."""
    return replace(sample, timing=replace(sample.timing, clock_rate=clock_rate(device)))


@cache
def _gpus() -> Nvml | None:
    """Return all GPUs of the driver, also those that CUDA may not use in this process; None if it does not answer."""
    try:
        return open_nvml(every=True)
    except NvmlError:
        return None
