"""A pynvml without a driver: two GPUs with readings that a test sets and removes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

NOT_SUPPORTED, NOT_FOUND, LOST = 3, 6, 15


class NVMLError(Exception):
    """Like the real one: an error code in `value`."""

    def __init__(self, value: int) -> None:
        super().__init__({NOT_SUPPORTED: "Not Supported", NOT_FOUND: "Not Found", LOST: "GPU is lost"}[value])
        self.value = value


class FakeNvml:
    """Stand-in for the module pynvml. unsupported: functions that raise NOT_SUPPORTED; lost: whether all calls fail."""

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0
    NVMLError = NVMLError

    def __init__(self, names: tuple[str, ...] = ("NVIDIA H200", "NVIDIA A40")) -> None:
        self.names, self.unsupported, self.lost, self.starts = names, set[str](), False, 0
        self.users: list[Any] = []
        self.throttle = 0x1  # idle
        self.violated = 0  # ns
        self.percent = 87
        self.parts: dict[str, str] = {}  # MIG parts of the first GPU: names by UUID

    def nvmlInit(self) -> None:  # noqa: N802
        """Count the calls."""
        self.starts += 1
        self._require("nvmlInit")

    def _require(self, name: str) -> None:
        if self.lost:
            raise NVMLError(LOST)
        if name in self.unsupported:
            raise NVMLError(NOT_SUPPORTED)

    def _part(self, uuid: str) -> str:
        if uuid not in self.parts:
            raise NVMLError(NOT_FOUND)
        return uuid

    def _name(self, handle: Any) -> str:
        return self.parts[handle] if handle in self.parts else self.names[handle]

    def _gib(self, handle: Any) -> int:
        return 18 if handle in self.parts else 140

    def _whole(self, handle: Any, answer: Any) -> Any:
        if handle in self.parts:
            raise NVMLError(NOT_SUPPORTED)
        return answer

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlDeviceGetCount": lambda: len(self.names),
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}abc",
            "nvmlDeviceGetName": lambda handle: self._name(handle).encode(),  # bytes in older versions
            "nvmlDeviceGetHandleByUUID": self._part,
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda handle: 0,
            "nvmlDeviceGetUtilizationRates": lambda handle: self._whole(handle, SimpleNamespace(gpu=self.percent)),
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(used=3 * 2**30, total=self._gib(handle) * 2**30),
            "nvmlDeviceGetClockInfo": lambda handle, kind: self._whole(handle, 1755),
            "nvmlDeviceGetMaxClockInfo": lambda handle, kind: 1980,
            "nvmlDeviceGetTemperature": lambda handle, sensor: 61,
            "nvmlDeviceGetPowerUsage": lambda handle: 512_500,
            "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700_000,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: self.throttle,
            "nvmlDeviceGetViolationStatus": lambda handle, policy: SimpleNamespace(violationTime=self.violated),
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: list(self.users),
        }
        if name not in answers:
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self._require(name)
            return answers[name](*arguments)

        return call

    def use(self, pid: int, gib: float | None = None) -> None:
        """Add another process to every GPU."""
        self.users.append(SimpleNamespace(pid=pid, usedGpuMemory=None if gib is None else int(gib * 2**30)))
