"""State and users of each GPU, read by NVIDIA's management library. Requires nvidia-ml-py, part of the GPU extras.

NVML requires no CUDA context, so the server may use it although it never uses a device. Each value may be unsupported
on a GPU, in a container or for a user without rights, and is None then.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from math import nan
from typing import Any

INSTALL = "pip install nvidia-ml-py"
UNSUPPORTED = (2, 3, 4, 6, 13, 21, 25, 26)  # argument, support, rights, not found, no function, data, version, old
HELD_DOWN = {  # bits of the reasons that hold a clock below its limit; 0x01, idle, is not listed
    0x02: "a clock that was locked below it (application clocks)",
    0x04: "the power cap",
    0x08: "a hardware slowdown",
    0x10: "other GPUs that it follows (sync boost)",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "the power brake",
    0x100: "the display's clock",
}
ORDER, BY_BUS = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
PART = "MIG-"  # prefix of the name of a part of a GPU
POLICIES = (0, 1)  # NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL


class NvmlError(RuntimeError):
    """NVML is unavailable or has failed; the text states the reason and the remedy."""


class Nvml:
    """The GPUs that CUDA may use in this process, in CUDA's order: that of CUDA_VISIBLE_DEVICES, or by bus.

    every: all GPUs of the machine instead, in any order.

    An entry MIG-… of CUDA_VISIBLE_DEVICES is a part of a GPU. For a part, NVML reports its name, memory and users;
    clocks, temperature and power are those of the whole GPU. NvmlError if CUDA numbers different GPUs by their speed.
    """

    def __init__(self, library: Any, every: bool = False) -> None:
        self._library = library
        count = library.nvmlDeviceGetCount()
        handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        uuids = [self._query("nvmlDeviceGetUUID", handle) for handle in handles]
        order = None if every else os.environ.get("CUDA_VISIBLE_DEVICES")
        chosen = visible(order, uuids)
        numbered = order is None or any(part.strip().isdecimal() for part in order.split(","))
        if numbered and not every and os.environ.get(ORDER, BY_BUS) != BY_BUS:
            models = {self._query("nvmlDeviceGetName", handle) for handle in handles}
            if len(models) > 1:
                raise NvmlError(f"CUDA numbers these GPUs by speed and NVML by bus: set {ORDER}={BY_BUS}")
        self._handles: list[tuple[Any, Any]] = []  # each with the whole GPU that contains it
        for entry in chosen:
            handle = handles[entry] if isinstance(entry, int) else self._query("nvmlDeviceGetHandleByUUID", entry)
            if handle is None:
                break  # like CUDA, which stops at an unknown entry
            whole = None
            if not isinstance(entry, int):
                whole = self._query("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
            self._handles.append((handle, handle if whole is None else whole))

    def read(self) -> list[dict[str, Any]]:
        """Return the fields of system.GpuReading for each GPU, users as (pid, bytes); NvmlError on a loss."""
        return [self._read(handle, whole) for handle, whole in self._handles]

    def clock_rates(self) -> list[tuple[str, float]]:
        """Return each GPU's name, and the clock of its multiprocessors over their highest one; NvmlError on a loss."""
        found = []
        for handle, whole in self._handles:
            now = self._query("nvmlDeviceGetClockInfo", whole, self._library.NVML_CLOCK_SM)
            highest = self._query("nvmlDeviceGetMaxClockInfo", whole, self._library.NVML_CLOCK_SM)
            rate = now / highest if now is not None and highest else nan
            found.append((self._query("nvmlDeviceGetName", handle) or "", rate))
        return found

    def _read(self, handle: Any, whole: Any) -> dict[str, Any]:
        query, library = self._query, self._library
        use, memory = query("nvmlDeviceGetUtilizationRates", handle), query("nvmlDeviceGetMemoryInfo", handle)
        return {
            "name": query("nvmlDeviceGetName", handle) or "NVIDIA GPU",
            "use": None if use is None else float(use.gpu),
            "memory_used": None if memory is None else int(memory.used),
            "memory_total": None if memory is None else int(memory.total),
            "clock": _times(1e6, query("nvmlDeviceGetClockInfo", whole, library.NVML_CLOCK_SM)),
            "clock_limit": _times(1e6, query("nvmlDeviceGetMaxClockInfo", whole, library.NVML_CLOCK_SM)),
            "temperature": _times(1.0, query("nvmlDeviceGetTemperature", whole, library.NVML_TEMPERATURE_GPU)),
            "power": _times(1e-3, query("nvmlDeviceGetPowerUsage", whole)),
            "power_limit": _times(1e-3, query("nvmlDeviceGetEnforcedPowerLimit", whole)),
            "held_down": reasons(query("nvmlDeviceGetCurrentClocksThrottleReasons", whole)),
            "held_seconds": self._held_seconds(whole),
            "users": self._users(handle),
        }

    def _held_seconds(self, handle: Any) -> float | None:
        """Return the seconds since the driver was loaded in which power or heat held the clock down."""
        found = [self._query("nvmlDeviceGetViolationStatus", handle, policy) for policy in POLICIES]
        known = [1e-9 * entry.violationTime for entry in found if entry is not None]
        return sum(known) if known else None

    def _users(self, handle: Any) -> list[tuple[int, int | None]] | None:
        found = self._query("nvmlDeviceGetComputeRunningProcesses", handle)
        return None if found is None else [(int(entry.pid), entry.usedGpuMemory) for entry in found]

    def _query(self, name: str, *arguments: Any) -> Any:
        """Return NVML's answer, None if the value is unsupported; NvmlError if the GPU or NVML itself is lost."""
        function = getattr(self._library, name, None)
        if function is None:
            return None
        try:
            answer = function(*arguments)
        except self._library.NVMLError as error:
            if getattr(error, "value", None) in UNSUPPORTED:
                return None
            raise NvmlError(f"NVML has failed: {error}") from error
        return answer.decode() if isinstance(answer, bytes) else answer


def open_nvml(every: bool = False) -> Nvml:
    """Start NVML. A machine without a driver has no GPUs, which is not an error. every: as in Nvml."""
    if shutil.which("nvidia-smi") is None:
        return Nvml(_Nothing(), every)
    try:
        import pynvml
    except ImportError as error:
        raise NvmlError(f"the GPU's clocks and memory cannot be read: {INSTALL}") from error
    try:
        pynvml.nvmlInit()
        return Nvml(pynvml, every)
    except pynvml.NVMLError as error:
        raise NvmlError(f"NVML does not start: {error}") from error


class _Nothing:
    """Replaces the library on a machine without a driver."""

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 NVML's own name
        """Return 0."""
        return 0


def visible(order: str | None, names: Sequence[str | None]) -> list[int | str]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES (`order`) selects, in its order; like CUDA, stop at an invalid entry.

    names: UUIDs of all GPUs by index. An entry is an index or a prefix of a UUID, and is returned as an index; or a
    part of a GPU, MIG-…, which is returned unchanged.
    """
    if order is None:
        return list(range(len(names)))
    chosen: list[int | str] = []
    for entry in (part.strip() for part in order.split(",")):
        found: list[int | str]
        if entry.startswith(PART):
            found = [entry]
        elif entry.isdecimal():
            found = [int(entry)] if int(entry) < len(names) else []
        else:
            found = [index for index, name in enumerate(names) if entry and name and name.startswith(entry)]
        if len(found) != 1:
            break
        chosen += found
    return chosen


def reasons(bits: int | None) -> tuple[str, ...] | None:
    """Return the reasons that hold the clock down, as texts."""
    return None if bits is None else tuple(words for bit, words in HELD_DOWN.items() if bits & bit)


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value
