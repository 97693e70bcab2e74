"""Square on the GPU, in Triton."""

from __future__ import annotations

import triton
import triton.language as tl

from compute.devices.devices import Array
from compute.ways.declaring import way

BLOCK = 1024


@triton.jit
def _kernel(a, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + i, mask=i < n)
    tl.store(out + i, x * x, mask=i < n)


@way("gpu_triton")
def square(a: Array, out: Array) -> None:
    """Triton: each program, written in Python, computes a block of 1024 elements.

    Compute out = a * a, both (n,).
    """
    _kernel[(triton.cdiv(a.numel(), BLOCK),)](a, out, a.numel(), BLOCK)
