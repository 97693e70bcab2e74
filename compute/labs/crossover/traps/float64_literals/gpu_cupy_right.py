"""Literals with an f: everything is computed in float32."""

from __future__ import annotations

from time import perf_counter

import cupy as cp

CODE = r"""
extern "C" __global__ void relax(float* a, long long n)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i];
    for (int step = 0; step < 1000; step++)
        x = 0.75f * x + 0.5f;
    a[i] = x;
}
"""
_relax = cp.RawKernel(CODE, "relax")


def run(n: int = 1_000_000) -> dict[str, float]:
    """Compute x = 3/4 x + 1/2 a thousand times for n numbers, which converge to 2."""
    a = cp.zeros(n, cp.float32)
    launch = (-(-n // 256),), (256,), (a, n)
    _relax(*launch)
    cp.cuda.get_current_stream().synchronize()
    start = perf_counter()
    _relax(*launch)
    cp.cuda.get_current_stream().synchronize()
    return {"microseconds": 1e6 * (perf_counter() - start), "result": float(a[0])}
