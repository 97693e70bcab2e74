"""The project's kernels on the CPU: a .cu by compute.own.cuda_on_cpu, and arrays that imitate CuPy's.

A warning is an error, and so is a deadlock of threads. The output of the compiler and of NVRTC is cached in
.pytest_cache under a hash of all their inputs, for the other processes of a run and for the next run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from compute.devices import cuda_source
from compute.devices.cuda_source import Defines, Resources, check_cuda, source_text
from compute.devices.devices import Host
from compute.own.cuda_on_cpu import CpuBuild, CudaOnCpu
from compute.own.watch import AccessWatch, Order
from tests.sources import ROOT

KEPT = ROOT / ".pytest_cache" / "compiled"
BUILD = CpuBuild(watched=False, strict=True, kept=KEPT)


class Gpu(nullcontext[None]):
    """Stand-in for cupy.cuda.Device."""

    id = 0


class DeviceArray(np.ndarray):
    """A NumPy array with the attribute `device`, like CuPy's arrays."""

    device = Gpu()


def upload(host: np.ndarray[Any, Any]) -> DeviceArray:
    return np.array(host).view(DeviceArray)


class FakeGpu(Host):
    """A host whose arrays imitate CuPy's."""

    def allocate(self, shape: Any, dtype: Any) -> Any:
        return upload(np.full(shape, 7, dtype))  # not zero: every value read must have been written before


class Module:
    """A compiled .cu, or its text; `get_function(name)` returns a kernel like a cupy.RawModule's.

    backwards(): whether the last block runs first.
    """

    def __init__(
        self, source: Path | str, defines: Mapping[str, Any], backwards: Callable[[], bool] = lambda: False
    ) -> None:
        self._backwards = backwards
        text, name = (source, "source") if isinstance(source, str) else (source_text(source), source.name)
        KEPT.mkdir(parents=True, exist_ok=True)
        self._module = CudaOnCpu(text, name, [f"{key}={value}" for key, value in defines.items()], BUILD)

    def get_function(self, name: str) -> Any:
        """Return a function of (grid, block, arguments, shared_mem=bytes)."""
        return self._in_order(self._module.get_function(name))

    def at_addresses(self, name: str) -> Any:
        """Return the same function for the address of an array of the arguments' addresses."""
        return self._in_order(self._module.get_function(name).at_addresses)

    def _in_order(self, kernel: Any) -> Any:
        def launch(*arguments: Any, shared_mem: int = 0) -> None:
            with AccessWatch.watching(Order.backwards if self._backwards() else Order.given) as watch:
                kernel(*arguments, shared_mem=shared_mem)
            if watch.fault:
                raise RuntimeError(watch.fault[1])

        return launch


class Library:
    """Stand-in for compile_cuda: compiles each source once per set of defines. backwards: last block first."""

    def __init__(self) -> None:
        self._made: dict[Any, Module] = {}
        self.backwards = False

    def __call__(self, path: Path, *, defines: Mapping[str, Any]) -> Module:
        key = path, tuple(sorted(defines.items()))
        if key not in self._made:
            self._made[key] = Module(path, defines, lambda: self.backwards)
        return self._made[key]


def resources_of(path: Path, defines: Defines, architecture: str) -> dict[str, Resources]:
    """Return the resources that NVRTC reports for each kernel of a .cu on an architecture; cached."""
    what = source_text(path), path.name, dict(defines), architecture, Path(cuda_source.__file__).read_text()
    cached = _kept(".json", *what, version("nvidia-cuda-nvrtc"))
    if not cached.exists():
        made = check_cuda(path, defines=defines, architecture=architecture)
        assert made.cubin.startswith(b"\x7fELF")
        making = cached.with_suffix(f".{os.getpid()}.json")
        making.write_text(json.dumps({name: asdict(found) for name, found in made.resources.items()}))
        making.replace(cached)
    return {name: Resources(**found) for name, found in json.loads(cached.read_text()).items()}


def _kept(ending: str, *read: Any) -> Path:
    """Return the path of the cached file for these inputs."""
    KEPT.mkdir(parents=True, exist_ok=True)
    return KEPT / (hashlib.sha256(json.dumps(read).encode()).hexdigest()[:24] + ending)


def forget(*modules: ModuleType) -> None:
    """Clear the caches of the functions that these modules define."""
    for module in modules:
        for value in vars(module).values():
            if hasattr(value, "cache_clear") and value.__module__ == module.__name__:
                value.cache_clear()


@contextmanager
def launched_on_cpu(compile_cuda: Any, *modules: ModuleType) -> Iterator[None]:
    """Let modules with launching code get their kernels from `compile_cuda`, without any that they have cached."""
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(module, "compile_cuda", compile_cuda)
        forget(*modules)
        yield
    forget(*modules)
