"""The libraries that a way may be written in: the backends of the house, and extras that only this lab asks for.

The name of an ecosystem is the first part of the names of its ways' files: gpu_cupy_fuse.py is written with gpu_cupy.
The extras on a GPU keep their arrays as PyTorch and JAX hold them. Both libraries are imported when a device is opened,
not when it is asked about.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from compute.backends import BACKENDS, Backend
from compute.devices import Array, Host, HostStopwatch, Stopwatch
from compute.gpu_devices import Cuda, EventStopwatch, Gpu, cuda_count
from compute.machine import nvidia

JAX_PLUGINS = ("jax_cuda13_plugin", "jax_cuda12_plugin")


def _gpus() -> int:
    """GPUs, counted without PyTorch or JAX.

    A server asks what is missing: importing takes seconds, and JAX would take hold of the GPU for good.
    """
    return cuda_count() or len(nvidia()[0])


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:  # importable all the same: its own affair
        return ""


def _torch() -> Any:
    """PyTorch, told to compile in this process: the dozens of helpers that it starts else disturb what is timed."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    return import_module("torch")


class TorchCuda(Gpu):
    """GPU `index` through PyTorch: tensors, and CUDA events on its current stream."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._torch = _torch()
        self._torch.cuda.set_device(index)

    @staticmethod
    def count() -> int:
        """Number of GPUs PyTorch can use."""
        try:
            cuda = _torch().cuda
        except ImportError:
            return 0
        return int(cuda.device_count()) if cuda.is_available() else 0

    @staticmethod
    def missing() -> str | None:
        """Why PyTorch cannot compute here, as far as that is known without importing it."""
        if not _gpus():
            return "PyTorch is installed but there is no NVIDIA GPU or driver"
        return "PyTorch is installed without CUDA" if _version("torch").endswith("+cpu") else None

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """A tensor on this GPU."""
        like = self._torch.from_numpy(np.empty(0, dtype))
        return self._torch.empty(tuple(shape), dtype=like.dtype, device=self.name)

    def write(self, host: NDArray[Any], array: Array) -> None:
        """Host to device; blocks."""
        array.copy_(self._torch.from_numpy(np.ascontiguousarray(host)))
        self.synchronise()

    def download(self, array: Array) -> NDArray[Any]:
        """Device to host; blocks."""
        return np.array(array.cpu().numpy())

    def synchronise(self) -> None:
        """Wait for the device."""
        self._torch.cuda.synchronize(self.index)

    def stopwatch(self) -> Stopwatch:
        """CUDA events on the current stream."""
        start, stop = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        return EventStopwatch((start, stop), lambda first, last: first.elapsed_time(last))

    def free_bytes(self) -> int:
        """Free memory as the driver reports it."""
        free, _ = self._torch.cuda.mem_get_info(self.index)
        return int(free)

    def describe(self) -> dict[str, Any]:
        """Name of the GPU and its memory in bytes."""
        facts = self._torch.cuda.get_device_properties(self.index)
        return {"name": str(facts.name), "memory": int(facts.total_memory)}

    def close(self) -> None:
        """Return the unused blocks of PyTorch's pool to the driver."""
        self._torch.cuda.empty_cache()


def _jax() -> Any:
    """JAX, told not to take three quarters of the GPU's memory when it first looks at it."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return import_module("jax")


class JaxStopwatch(HostStopwatch):
    """Wall time from an idle device to an idle device: JAX has no events."""

    def __init__(self, device: JaxCuda) -> None:
        self._device = device

    def __exit__(self, *exc: object) -> None:
        self.launch = time.perf_counter() - self._start
        self._device.synchronise()
        super().__exit__(*exc)


class JaxCuda(Gpu):
    """GPU `index` through JAX, with float64 switched on. Its arrays cannot be changed."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._jax = jax = _jax()
        jax.config.update("jax_enable_x64", True)
        self._device = jax.devices("gpu")[index]

    @staticmethod
    def count() -> int:
        """Number of GPUs JAX can use."""
        try:
            return len(_jax().devices("gpu"))
        except (ImportError, RuntimeError):  # RuntimeError: JAX was built without CUDA, or finds no driver
            return 0

    @staticmethod
    def missing() -> str | None:
        """Why JAX cannot compute here, as far as that is known without importing it."""
        if not _gpus():
            return "JAX is installed but there is no NVIDIA GPU or driver"
        return None if any(find_spec(name) for name in JAX_PLUGINS) else "JAX is installed without its CUDA plugin"

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """Zeros: an array that cannot be changed has to hold something."""
        return self.upload(np.zeros(tuple(shape), dtype))

    def upload(self, host: NDArray[Any]) -> Array:
        """A new array on this GPU; blocks."""
        return self._jax.device_put(np.ascontiguousarray(host), self._device).block_until_ready()

    def write(self, host: NDArray[Any], array: Array) -> None:
        """Raises TypeError: upload a new array instead."""
        raise TypeError(f"a JAX array of {array.shape} cannot take {host.shape}: it never changes; upload a new one")

    def download(self, array: Array) -> NDArray[Any]:
        """Device to host; blocks."""
        return np.array(array)

    def synchronise(self) -> None:
        """Wait for every array there is."""
        self._jax.block_until_ready(self._jax.live_arrays())

    def stopwatch(self) -> Stopwatch:
        """Wall time that waits for the device."""
        return JaxStopwatch(self)

    def free_bytes(self) -> int:
        """What JAX's own pool may still give."""
        facts = self._device.memory_stats()
        return int(facts["bytes_limit"] - facts["bytes_in_use"])

    def describe(self) -> dict[str, Any]:
        """Name of the GPU."""
        return {"name": str(self._device.device_kind)}


@dataclass(frozen=True)
class Extra(Backend):
    """A backend that an optional part of the project installs. extra: its name in pyproject.toml."""

    extra: str = ""

    @property
    def install(self) -> str:
        """The line that installs what is missing; empty when nothing is."""
        return f"pip install 'fieldlab[{self.extra}]'" if self.missing else ""

    def evict(self, scratch: Array) -> None:
        """Read and write `scratch`, an array much larger than the caches, so that they hold nothing else."""
        scratch += 1


@dataclass(frozen=True)
class JaxExtra(Extra):
    """JAX, whose arrays never change."""

    def evict(self, scratch: Array) -> None:
        """As `Extra`; a new array takes the place of the old one in the caches."""
        (scratch + 1).block_until_ready()


LABELS = {"gpu_cupy": "CuPy"}  # of a library, where the house's backend is named for what it is used for

ECOSYSTEMS: tuple[Backend, ...] = (
    *(replace(b, label=LABELS.get(b.name, b.label)) for b in BACKENDS),
    Extra("gpu_torch", "cuda", TorchCuda, ("torch",), "PyTorch", "torch"),
    Extra("gpu_triton", "cuda", TorchCuda, ("triton", "torch"), "Triton", "torch"),
    JaxExtra("gpu_jax", "cuda", JaxCuda, ("jax",), "JAX", "jax"),
    Extra("cpu_awkward", "host", Host, ("awkward",), "Awkward", "awkward"),
    Extra("gpu_awkward", "cuda", Cuda, ("awkward", "cupy", "cuda.compute"), "Awkward on CUDA", "awkward"),
)


def ecosystem_of(file_name: str) -> Backend | None:
    """The ecosystem that a file named `file_name` (without .py) is written with; None if it is no way."""
    fitting = [e for e in ECOSYSTEMS if file_name == e.name or file_name.startswith(f"{e.name}_")]
    return max(fitting, key=lambda e: len(e.name), default=None)
