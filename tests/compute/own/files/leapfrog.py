"""A leapfrog step of n bodies in a plane. _race moves the bodies in the kernel while other threads still read them."""

import cupy
import numpy as np
from numba import cuda, njit, prange

from compute.own import way, workload

DT = np.float32(1e-3)
CODE = r"""
__device__ void pull(const float* x, const float* y, int i, int n, float& ax, float& ay)
{
    ax = ay = 0.0f;
    for (int j = 0; j < n; j++) {
        float dx = x[j] - x[i], dy = y[j] - y[i], r2 = dx * dx + dy * dy + 0.05f;
        ax += dx / (r2 * sqrtf(r2));
        ay += dy / (r2 * sqrtf(r2));
    }
}
extern "C" __global__ void kick(const float* x, const float* y, float* vx, float* vy, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    float ax, ay;
    pull(x, y, i, n, ax, ay);
    vx[i] += 1e-3f * ax; vy[i] += 1e-3f * ay;
}
extern "C" __global__ void drift(float* x, float* y, const float* vx, const float* vy, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) { x[i] += 1e-3f * vx[i]; y[i] += 1e-3f * vy[i]; }
}
extern "C" __global__ void both(float* x, float* y, float* vx, float* vy, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    float ax, ay;
    pull(x, y, i, n, ax, ay);
    vx[i] += 1e-3f * ax; vy[i] += 1e-3f * ay;
    x[i] += 1e-3f * vx[i]; y[i] += 1e-3f * vy[i];
}
"""


@workload(sizes=(2, 3000), dtypes=("float32",), moved=lambda n: 32 * n, flops=lambda n: 16 * n * n)
def galaxy(n, dtype, rng):
    return tuple(rng.standard_normal(n).astype(dtype) for _ in range(4))


@way("cpu_numpy", reference=True)
def numpy_step(x, y, vx, vy):
    dx, dy = x[None] - x[:, None], y[None] - y[:, None]
    r2 = dx * dx + dy * dy + np.float32(0.05)
    vx += DT * (dx / (r2 * np.sqrt(r2))).sum(axis=1)
    vy += DT * (dy / (r2 * np.sqrt(r2))).sum(axis=1)
    x += DT * vx
    y += DT * vy


@njit(parallel=True)
def kick(x, y, vx, vy):
    for i in prange(len(x)):
        ax = ay = np.float32(0)
        for j in range(len(x)):
            dx, dy = x[j] - x[i], y[j] - y[i]
            r2 = dx * dx + dy * dy + np.float32(0.05)
            ax += dx / (r2 * np.sqrt(r2))
            ay += dy / (r2 * np.sqrt(r2))
        vx[i] += DT * ax
        vy[i] += DT * ay


@way("cpu_numba")
def numba_step(x, y, vx, vy):
    kick(x, y, vx, vy)
    x += DT * vx
    y += DT * vy


MODULE = cupy.RawModule(code=CODE)


def run(names, *arrays):
    n = len(arrays[0])
    for name in names:
        MODULE.get_function(name)(((n + 31) // 32,), (32,), (*arrays, np.int32(n)))


@way("gpu_cupy")
def cuda_step(x, y, vx, vy):
    run(["kick", "drift"], x, y, vx, vy)


@way("gpu_cupy_race")
def cuda_step_at_once(x, y, vx, vy):
    run(["both"], x, y, vx, vy)


@cuda.jit
def kick_kernel(x, y, vx, vy):
    i = cuda.grid(1)
    if i < len(x):
        ax = ay = np.float32(0)
        for j in range(len(x)):
            dx, dy = x[j] - x[i], y[j] - y[i]
            r2 = dx * dx + dy * dy + np.float32(0.05)
            ax += dx / (r2 * r2**0.5)
            ay += dy / (r2 * r2**0.5)
        vx[i] += DT * ax
        vy[i] += DT * ay


@cuda.jit
def drift_kernel(x, y, vx, vy):
    i = cuda.grid(1)
    if i < len(x):
        x[i] += DT * vx[i]
        y[i] += DT * vy[i]


@way("gpu_numba")
def numba_cuda_step(x, y, vx, vy):
    blocks = (len(x) + 31) // 32
    kick_kernel[blocks, 32](x, y, vx, vy)
    drift_kernel[blocks, 32](x, y, vx, vy)
