"""The libraries that a way may be written in: the backends of the house, and extras that only this lab asks for.

The name of an ecosystem is the first part of the names of its ways' files: gpu_cupy_fuse.py is written with gpu_cupy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compute.backends import BACKENDS, Backend
from compute.devices import Host
from compute.gpu_devices import Cuda
from compute.labs.crossover.gpu_arrays import JaxCuda, TorchCuda


@dataclass(frozen=True)
class Extra(Backend):
    """A backend that an optional part of the project installs. extra: its name in pyproject.toml."""

    extra: str = ""

    @property
    def install(self) -> str:
        """The line that installs what is missing; empty when nothing is."""
        return f"pip install 'fieldlab[{self.extra}]'" if self.missing else ""


LABELS = {"gpu_cupy": "CuPy"}  # of a library, where the house's backend is named for what it is used for

ECOSYSTEMS: tuple[Backend, ...] = (
    *(replace(b, label=LABELS.get(b.name, b.label)) for b in BACKENDS),
    Extra("gpu_torch", "cuda", TorchCuda, ("torch",), "PyTorch", "torch"),
    Extra("gpu_triton", "cuda", TorchCuda, ("triton", "torch"), "Triton", "torch"),
    Extra("gpu_jax", "cuda", JaxCuda, ("jax",), "JAX", "jax"),
    Extra("cpu_awkward", "host", Host, ("awkward",), "Awkward", "awkward"),
    Extra("gpu_awkward", "cuda", Cuda, ("awkward", "cupy", "cuda.compute"), "Awkward on CUDA", "awkward"),
)


def ecosystem_of(file_name: str) -> Backend | None:
    """The ecosystem that a file named `file_name` (without .py) is written with; None if it is no way."""
    fitting = [e for e in ECOSYSTEMS if file_name == e.name or file_name.startswith(f"{e.name}_")]
    return max(fitting, key=lambda e: len(e.name), default=None)
