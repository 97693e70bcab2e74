"""The number of n particles in each of 64 cells. The ways _race and _tail are wrong on purpose."""

import cupy as cp
import numpy as np
from numba import cuda, njit

from compute.own import way, workload

CELLS = 64
CODE = r"""
extern "C" __global__ void count(const float* x, int* counts, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[int(x[i] * 64)], 1);
}
extern "C" __global__ void count_race(const float* x, int* counts, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) counts[int(x[i] * 64)]++;
}
extern "C" __global__ void count_tail(const float* x, int* counts, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float mine = x[i];
    if (mine >= 0 && mine < 1) atomicAdd(&counts[int(mine * 64)], 1);
}
"""


@workload(sizes=(100, 10_000_000))
def particles(n, dtype, rng):
    return rng.integers(0, 2**20, n).astype(dtype) / dtype(2**20)


@way("cpu_numpy")
def count_numpy(x):
    return np.bincount((x * CELLS).astype(np.int64), minlength=CELLS).astype(np.int32)


@njit
def loop(x, counts):
    counts[:] = 0
    for value in x:
        counts[int(value * CELLS)] += 1


@way("cpu_numba")
def count_numba(x, counts):
    loop(x, counts)


def raw(kernel, x, counts):
    counts[:] = 0
    cp.RawModule(code=CODE).get_function(kernel)((-(-x.size // 128),), (128,), (x, counts, np.int32(x.size)))


@way("gpu_cupy")
def count_c(x, counts):
    raw("count", x, counts)


@way("gpu_cupy_race")
def count_c_race(x, counts):
    raw("count_race", x, counts)


@way("gpu_cupy_tail")
def count_c_tail(x, counts):
    raw("count_tail", x, counts)


@cuda.jit
def clear(counts):
    counts[cuda.grid(1)] = 0


@cuda.jit
def count_kernel(x, counts):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(counts, int(x[i] * CELLS), 1)


@cuda.jit
def count_kernel_race(x, counts):
    i = cuda.grid(1)
    if i < x.size:
        counts[int(x[i] * CELLS)] += 1


@cuda.jit
def count_kernel_tail(x, counts):
    i = cuda.grid(1)
    cuda.atomic.add(counts, int(x[i] * CELLS), 1)


def counted(kernel, x, counts):
    clear[1, CELLS](counts)
    kernel[-(-x.size // 128), 128](x, counts)


@way("gpu_numba")
def count_numba_cuda(x, counts):
    counted(count_kernel, x, counts)


@way("gpu_numba_race")
def count_numba_cuda_race(x, counts):
    counted(count_kernel_race, x, counts)


@way("gpu_numba_tail")
def count_numba_cuda_tail(x, counts):
    counted(count_kernel_tail, x, counts)
