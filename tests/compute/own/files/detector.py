"""A histogram of n hits on a detector of 16 x 8 pixels, counted in shared memory first. _race and _tail are wrong."""

import cupy as cp
import numpy as np
from numba import cuda, int32, njit

from compute.own import way, workload

CODE = r"""
template <bool atomic, bool guarded> __device__ void count(const float* x, const float* y, int* image, int n)
{
    __shared__ int mine[128];
    if (threadIdx.x < 128) mine[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (guarded ? i < n : i <= n) {
        int pixel = int(y[i] * 8) * 16 + int(x[i] * 16);
        if (pixel >= 0 && pixel < 128) {
            if (atomic) atomicAdd(&mine[pixel], 1);
            else mine[pixel] = mine[pixel] + 1;
        }
    }
    __syncthreads();
    if (threadIdx.x < 128 && mine[threadIdx.x]) atomicAdd(&image[threadIdx.x], mine[threadIdx.x]);
}
extern "C" __global__ void hits(const float* x, const float* y, int* image, int n)
{ count<true, true>(x, y, image, n); }
extern "C" __global__ void race(const float* x, const float* y, int* image, int n)
{ count<false, true>(x, y, image, n); }
extern "C" __global__ void tail(const float* x, const float* y, int* image, int n)
{ count<true, false>(x, y, image, n); }
"""


@workload(sizes=(50, 5_000_000), dtypes=("float32",), moved=lambda n: 8 * n)
def hits(n, dtype, rng):
    return rng.integers(0, 4096, n).astype(dtype) / 4096, rng.integers(0, 4096, n).astype(dtype) / 4096


@way("cpu_numpy", reference=True)
def numpy_image(x, y):
    pixel = (y * 8).astype(np.int64) * 16 + (x * 16).astype(np.int64)
    return np.bincount(pixel, minlength=128).astype(np.int32)


@njit
def fill(x, y, image):
    image[:] = 0
    for i in range(len(x)):
        image[int(y[i] * 8) * 16 + int(x[i] * 16)] += 1


@way("cpu_numba")
def numba_image(x, y, image):
    fill(x, y, image)


def launch(kernel, x, y, image):
    image.fill(0)
    cp.RawModule(code=CODE).get_function(kernel)((-(-len(x) // 256),), (256,), (x, y, image, np.int32(len(x))))


@way("gpu_cupy")
def cuda_image(x, y, image):
    launch("hits", x, y, image)


@way("gpu_cupy_race")
def cuda_image_race(x, y, image):
    launch("race", x, y, image)


@way("gpu_cupy_tail")
def cuda_image_tail(x, y, image):
    launch("tail", x, y, image)


@cuda.jit
def clear(image):
    image[cuda.threadIdx.x] = 0


@cuda.jit
def hits_kernel(x, y, image):
    mine = cuda.shared.array(128, int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    mine[t] = 0
    cuda.syncthreads()
    if i < len(x):
        cuda.atomic.add(mine, int(y[i] * 8) * 16 + int(x[i] * 16), 1)
    cuda.syncthreads()
    cuda.atomic.add(image, t, mine[t])


@cuda.jit
def race_kernel(x, y, image):
    mine = cuda.shared.array(128, int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    mine[t] = 0
    if i < len(x):  # before every other thread has cleared its pixel
        cuda.atomic.add(mine, int(y[i] * 8) * 16 + int(x[i] * 16), 1)
    cuda.syncthreads()
    cuda.atomic.add(image, t, mine[t])


@way("gpu_numba")
def numba_cuda_image(x, y, image):
    clear[1, 128](image)
    hits_kernel[-(-len(x) // 128), 128](x, y, image)


@way("gpu_numba_race")
def numba_cuda_image_race(x, y, image):
    clear[1, 128](image)
    race_kernel[-(-len(x) // 128), 128](x, y, image)
