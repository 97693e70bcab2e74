"""One step of n bodies that attract each other; positions and velocities are updated in place."""

import numpy as np
from numba import cuda, float32, njit, prange

from compute.own import way, workload

SOFTENING, STEP = np.float32(0.01), np.float32(0.001)
CODE = r"""
extern "C" __global__ void forces(const float* p, float* a, int n)
{
    extern __shared__ float tile[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = 0, y = 0, z = 0, ax = 0, ay = 0, az = 0;
    if (i < n) { x = p[3 * i]; y = p[3 * i + 1]; z = p[3 * i + 2]; }
    for (int first = 0; first < n; first += blockDim.x) {
        const int mine = first + threadIdx.x;
        for (int k = 0; k < 3; k++) tile[3 * threadIdx.x + k] = mine < n ? p[3 * mine + k] : 0.0f;
        __syncthreads();
        for (int j = 0; j < blockDim.x && first + j < n; j++) {
            const float dx = tile[3 * j] - x, dy = tile[3 * j + 1] - y, dz = tile[3 * j + 2] - z;
            const float r2 = dx * dx + dy * dy + dz * dz + 0.01f;
            const float f = rsqrtf(r2) / r2;
            ax += f * dx; ay += f * dy; az += f * dz;
        }
        __syncthreads();
    }
    if (i < n) { a[3 * i] = ax; a[3 * i + 1] = ay; a[3 * i + 2] = az; }
}
extern "C" __global__ void move(float* p, float* v, const float* a, int count, float step)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) { v[i] += step * a[i]; p[i] += step * v[i]; }
}
"""


@workload(sizes=(2, 4000), dtypes=("float32",), moved=lambda n: 48 * n, flops=lambda n: 20 * n * n)
def bodies(n, dtype, rng):
    return rng.uniform(-1, 1, (n, 3)).astype(dtype), rng.normal(size=(n, 3)).astype(dtype)


@way("cpu_numpy", reference=True)
def step_numpy(p, v):
    d = p[None, :, :] - p[:, None, :]
    r2 = (d * d).sum(axis=2) + SOFTENING
    v += STEP * (d / (r2 * np.sqrt(r2))[:, :, None]).sum(axis=1)
    p += STEP * v


@njit(parallel=True, fastmath=True)
def accelerate(p, v):
    for i in prange(len(p)):
        a = np.zeros(3, np.float32)
        for j in range(len(p)):
            dx, dy, dz = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]
            r2 = dx * dx + dy * dy + dz * dz + SOFTENING
            f = np.float32(1) / (r2 * np.sqrt(r2))
            a[0] += f * dx
            a[1] += f * dy
            a[2] += f * dz
        for k in range(3):
            v[i, k] += STEP * a[k]


@way("cpu_numba")
def step_numba(p, v):
    accelerate(p, v)
    p += STEP * v


@cuda.jit
def forces_kernel(p, v):
    tile = cuda.shared.array((64, 3), float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    n = p.shape[0]
    ax = ay = az = float32(0)
    for first in range(0, n, 64):
        if first + t < n:
            for k in range(3):
                tile[t, k] = p[first + t, k]
        cuda.syncthreads()
        if i < n:
            for j in range(min(64, n - first)):
                dx, dy, dz = tile[j, 0] - p[i, 0], tile[j, 1] - p[i, 1], tile[j, 2] - p[i, 2]
                r2 = dx * dx + dy * dy + dz * dz + SOFTENING
                f = float32(1) / (r2 * r2**0.5)
                ax += f * dx
                ay += f * dy
                az += f * dz
        cuda.syncthreads()
    if i < n:
        v[i, 0] += STEP * ax
        v[i, 1] += STEP * ay
        v[i, 2] += STEP * az


@cuda.jit
def move_kernel(p, v):
    i = cuda.grid(1)
    if i < p.shape[0]:
        for k in range(3):
            p[i, k] += STEP * v[i, k]


@way("gpu_numba")
def step_numba_cuda(p, v):
    blocks = -(-p.shape[0] // 64)
    forces_kernel[blocks, 64](p, v)
    move_kernel[blocks, 64](p, v)


@way("gpu_cupy")
def step_cupy(p, v):
    import cupy as cp

    module = cp.RawModule(code=CODE)
    n, a = p.shape[0], cp.empty(p.shape, cp.float32)
    module.get_function("forces")((-(-n // 64),), (64,), (p, a, np.int32(n)), shared_mem=64 * 3 * 4)
    module.get_function("move")((-(-3 * n // 64),), (64,), (p, v, a, np.int32(3 * n), STEP))
