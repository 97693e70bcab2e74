"""The parts of wgpu-py's binding without a public name, each behind a probe; see pyproject.toml for the versions."""

from __future__ import annotations

from typing import Any


def timestamp_period(device: Any) -> float | None:
    """Return the nanoseconds of a tick of `device`'s timestamps; None if this version of wgpu-py has another binding.

    WebGPU specifies nanoseconds, but wgpu-native resolves raw ticks and wgpu-py has no call for their period.
    """
    try:
        from wgpu.backends.wgpu_native import lib

        return float(lib.wgpuQueueGetTimestampPeriod(device.queue._internal))  # noqa: SLF001 - see above
    except (ImportError, AttributeError, TypeError):
        return None
