"""The libraries that a way may be written in: the project's backends, and extras that only this lab uses.

The name of an ecosystem is the prefix of its ways' file names: gpu_cupy_fuse.py is written with gpu_cupy. The extras on
a GPU keep their arrays as tensors of PyTorch or arrays of JAX. Both libraries are imported when a device is opened, not
when its availability is checked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from compute.devices.backends import BACKENDS, Backend
from compute.devices.devices import Array, Host, HostStopwatch, NoDevice, Stopwatch, installed_version
from compute.devices.gpu_devices import Cuda, EventStopwatch, NvidiaGpu, cuda_count
from compute.machine.machine import nvidia

JAX_PLUGINS = ("jax_cuda13_plugin", "jax_cuda12_plugin")


def _gpus() -> int:
    """Return the number of GPUs, counted without PyTorch or JAX.

    A server calls this to list missing libraries: importing them takes seconds, and JAX would occupy the GPU
    permanently.
    """
    return cuda_count() or len(nvidia()[0])


def _torch() -> Any:
    """Import PyTorch with compilation in this process: the dozens of worker processes would disturb the timing."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    return import_module("torch")


class TorchCuda(NvidiaGpu):
    """GPU `index` through PyTorch: tensors, and CUDA events on its current stream."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._torch = _torch()
        self._torch.cuda.set_device(index)

    @staticmethod
    def count() -> int:
        """Return the number of GPUs that PyTorch can use."""
        try:
            cuda = _torch().cuda
        except ImportError:
            return 0
        return int(cuda.device_count()) if cuda.is_available() else 0

    @staticmethod
    def missing() -> str | None:
        """Return why PyTorch cannot compute here, without importing it; None if no reason is found."""
        if not _gpus():
            return NoDevice("PyTorch is installed but there is no NVIDIA GPU or driver")
        return "PyTorch is installed without CUDA" if installed_version("torch").endswith("+cpu") else None

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """Return an uninitialised tensor on this GPU."""
        like = self._torch.from_numpy(np.empty(0, dtype))
        return self._torch.empty(tuple(shape), dtype=like.dtype, device=self.name)

    def write(self, host: NDArray[Any], array: Array) -> None:
        """Copy from host to device; blocks."""
        array.copy_(self._torch.from_numpy(np.ascontiguousarray(host)))
        self.synchronise()

    def download(self, array: Array) -> NDArray[Any]:
        """Copy from device to host; blocks."""
        return np.array(array.cpu().numpy())

    def synchronise(self) -> None:
        """Wait until the device is idle."""
        self._torch.cuda.synchronize(self.index)

    def stopwatch(self) -> Stopwatch:
        """Return a stopwatch of CUDA events on the current stream."""
        start, stop = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        return EventStopwatch((start, stop), lambda first, last: first.elapsed_time(last))

    def free_bytes(self) -> int:
        """Return the free memory in bytes, as the driver reports it."""
        free, _ = self._torch.cuda.mem_get_info(self.index)
        return int(free)

    def describe(self) -> dict[str, Any]:
        """Return the name of the GPU and its memory in bytes."""
        facts = self._torch.cuda.get_device_properties(self.index)
        return {"name": str(facts.name), "memory": int(facts.total_memory)}

    def close(self) -> None:
        """Return the unused blocks of PyTorch's pool to the driver."""
        self._torch.cuda.empty_cache()


def _jax() -> Any:
    """Import JAX with preallocation switched off; by default it reserves three quarters of the GPU's memory."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return import_module("jax")


class JaxStopwatch(HostStopwatch):
    """Wall time from idle device to idle device, since JAX has no events."""

    def __init__(self, device: JaxCuda) -> None:
        self._device = device

    def __exit__(self, *exc: object) -> None:
        self.launch = time.perf_counter() - self._start
        self._device.synchronise()
        super().__exit__(*exc)


class JaxCuda(NvidiaGpu):
    """GPU `index` through JAX, with float64 enabled. Its arrays are immutable."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._jax = jax = _jax()
        jax.config.update("jax_enable_x64", True)
        self._device = jax.devices("gpu")[index]

    @staticmethod
    def count() -> int:
        """Return the number of GPUs that JAX can use."""
        try:
            return len(_jax().devices("gpu"))
        except (ImportError, RuntimeError):  # RuntimeError: JAX was built without CUDA, or finds no driver
            return 0

    @staticmethod
    def missing() -> str | None:
        """Return why JAX cannot compute here, without importing it; None if no reason is found."""
        if not _gpus():
            return NoDevice("JAX is installed but there is no NVIDIA GPU or driver")
        return None if any(find_spec(name) for name in JAX_PLUGINS) else "JAX is installed without its CUDA plugin"

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """Return zeros: an immutable array needs initial contents."""
        return self.upload(np.zeros(tuple(shape), dtype))

    def upload(self, host: NDArray[Any]) -> Array:
        """Copy a host array to a new array on this GPU; blocks."""
        return self._jax.device_put(np.ascontiguousarray(host), self._device).block_until_ready()

    def write(self, host: NDArray[Any], array: Array) -> None:
        """Raise TypeError: JAX arrays are immutable; upload a new one instead."""
        raise TypeError(f"a JAX array of {array.shape} cannot take {host.shape}: it never changes; upload a new one")

    def download(self, array: Array) -> NDArray[Any]:
        """Copy from device to host; blocks."""
        return np.array(array)

    def synchronise(self) -> None:
        """Wait for all live arrays."""
        self._jax.block_until_ready(self._jax.live_arrays())

    def stopwatch(self) -> Stopwatch:
        """Return a stopwatch of wall time that waits for the device."""
        return JaxStopwatch(self)

    def free_bytes(self) -> int:
        """Return the bytes still available in JAX's own pool."""
        facts = self._device.memory_stats()
        return int(facts["bytes_limit"] - facts["bytes_in_use"])

    def describe(self) -> dict[str, Any]:
        """Return the name of the GPU."""
        return {"name": str(self._device.device_kind)}


@dataclass(frozen=True)
class Extra(Backend):
    """A backend that an optional extra of the project installs."""

    def evict(self, scratch: Array) -> None:
        """Read and write `scratch`, an array much larger than the caches, to evict all other data."""
        scratch += 1


@dataclass(frozen=True)
class JaxExtra(Extra):
    """JAX, which has immutable arrays."""

    def evict(self, scratch: Array) -> None:
        """Evict as in `Extra`; a new array replaces the old one in the caches."""
        (scratch + 1).block_until_ready()


TORCH_INSTALL, AWKWARD_INSTALL = "pip install 'fieldlab[torch]'", "pip install 'fieldlab[awkward]'"
LABELS = {"gpu_cupy": "CuPy"}  # labels of libraries whose backend in this project is named after its use

ECOSYSTEMS: tuple[Backend, ...] = (
    *(replace(b, label=LABELS.get(b.name, b.label)) for b in BACKENDS),
    Extra("gpu_torch", "cuda", TorchCuda, ("torch",), "PyTorch", installed_by=TORCH_INSTALL),
    Extra("gpu_triton", "cuda", TorchCuda, ("triton", "torch"), "Triton", installed_by=TORCH_INSTALL),
    JaxExtra("gpu_jax", "cuda", JaxCuda, ("jax",), "JAX", installed_by="pip install 'fieldlab[jax]'"),
    Extra("cpu_awkward", "host", Host, ("awkward",), "Awkward", installed_by=AWKWARD_INSTALL),
    Extra(
        "gpu_awkward",
        "cuda",
        Cuda,
        ("awkward", "cupy", "cuda.compute"),
        "Awkward on CUDA",
        installed_by=AWKWARD_INSTALL,
    ),
)


def ecosystem_of(file_name: str) -> Backend | None:
    """Return the ecosystem of a file called `file_name` (without .py), or None if the file is not a way."""
    fitting = [e for e in ECOSYSTEMS if file_name == e.name or file_name.startswith(f"{e.name}_")]
    return max(fitting, key=lambda e: len(e.name), default=None)
