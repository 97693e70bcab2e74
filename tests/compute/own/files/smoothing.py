"""Gaussian smoothing of a signal of n samples, five wide, with manual tiles. _race lacks a barrier."""

import cupy
import numpy as np
from numba import njit

from compute.own import way, workload

W = (0.0625, 0.25, 0.375, 0.25, 0.0625)
CODE = r"""
#define T 64
extern "C" __global__ void smooth(const float* in, float* out, int n)
{
    __shared__ float tile[T + 4];
    int i = blockIdx.x * T + threadIdx.x, t = threadIdx.x + 2;
    tile[t] = in[min(i, n - 1)];
    if (threadIdx.x < 2) {
        tile[t - 2] = in[min(max(i - 2, 0), n - 1)];
        tile[t + T] = in[min(i + T, n - 1)];
    }
    BARRIER
    if (i < n)
        out[i] = 0.0625f * (tile[t - 2] + tile[t + 2]) + 0.25f * (tile[t - 1] + tile[t + 1]) + 0.375f * tile[t];
}
"""


@workload(sizes=(5, 4_000_000), dtypes=("float32",), moved=lambda n: 8 * n, flops=lambda n: 7 * n)
def signal(n, dtype, rng):
    return np.cumsum(rng.standard_normal(n)).astype(dtype) / np.float32(np.sqrt(n))


@way("cpu_numpy", reference=True)
def smooth_numpy(x):
    wide = np.pad(x, 2, mode="edge")
    return sum(np.float32(w) * wide[k : k + len(x)] for k, w in enumerate(W))


@njit
def loop(x, out):
    n = len(x)
    for i in range(n):
        total = np.float32(0)
        for k in range(5):
            total += np.float32(W[k]) * x[min(max(i + k - 2, 0), n - 1)]
        out[i] = total


@way("cpu_numba")
def smooth_numba(x, out):
    loop(x, out)


def launch(code, x, out):
    cupy.RawKernel(code, "smooth")(((len(x) + 63) // 64,), (64,), (x, out, np.int32(len(x))))


@way("gpu_cupy")
def smooth_tiles(x, out):
    launch(CODE.replace("BARRIER", "__syncthreads();"), x, out)


@way("gpu_cupy_race")
def smooth_without_barrier(x, out):
    launch(CODE.replace("BARRIER", ""), x, out)
