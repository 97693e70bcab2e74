"""Quadratic formula on the GPU, in PyTorch."""

from __future__ import annotations

import torch

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_torch")
def root_torch(a: Array, b: Array, c: Array, x: Array) -> None:
    """PyTorch, eager: a kernel and a temporary tensor for every operation.

    Write the root of a x² + b x + c next to 0 to x; all (n,).
    """
    torch.div(-b + torch.sqrt(b**2 - 4 * a * c), 2 * a, out=x)


@torch.compile
def _root(a: Array, b: Array, c: Array) -> Array:
    return (-b + torch.sqrt(b**2 - 4 * a * c)) / (2 * a)


@way("gpu_torch_compile")
def root_torch_compile(a: Array, b: Array, c: Array, x: Array) -> Array:
    """PyTorch's compile: traces the function and generates one Triton kernel. Its first call takes seconds.

    Return the root of a x² + b x + c next to 0; all (n,).
    """
    return _root(a, b, c)
