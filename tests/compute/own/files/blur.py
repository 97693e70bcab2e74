"""Gaussian blur of an n x n picture, as written by a user who asks whether a GPU pays."""

import numpy as np
from numba import cuda, njit, prange

from compute.own import cuda_kernel, way, workload

WEIGHTS = np.array([1, 4, 6, 4, 1], dtype=np.float32) / 16


@workload(sizes=(8, 2000), dtypes=("float32",), moved=lambda n: 8 * n * n, flops=lambda n: 50 * n * n)
def picture(n, dtype, rng):
    return rng.random((n, n)).astype(dtype)


@way("cpu_numpy", reference=True)
def blur(image):
    out = image
    for axis in (0, 1):
        padded = np.pad(out, [(2, 2) if a == axis else (0, 0) for a in (0, 1)], mode="edge")
        n = len(image)
        views = [padded[k : k + n, :] if axis == 0 else padded[:, k : k + n] for k in range(5)]
        out = sum(w * v for w, v in zip(WEIGHTS, views, strict=True))
    return out


@njit(parallel=True, fastmath=True)
def blur_loops(image, out):
    rows, columns = image.shape
    for i in prange(rows):
        for j in range(columns):
            total = np.float32(0)
            for di in range(-2, 3):
                for dj in range(-2, 3):
                    y, x = min(max(i + di, 0), rows - 1), min(max(j + dj, 0), columns - 1)
                    total += WEIGHTS[di + 2] * WEIGHTS[dj + 2] * image[y, x]
            out[i, j] = total


@way("cpu_numba")
def blur_numba(image, out):
    blur_loops(image, out)


@cuda.jit
def blur_kernel(image, weights, out):
    j, i = cuda.grid(2)
    rows, columns = image.shape
    if i < rows and j < columns:
        total = np.float32(0)
        for di in range(-2, 3):
            for dj in range(-2, 3):
                y, x = min(max(i + di, 0), rows - 1), min(max(j + dj, 0), columns - 1)
                total += weights[di + 2] * weights[dj + 2] * image[y, x]
        out[i, j] = total


@way("gpu_numba")
def blur_numba_cuda(image, out):
    blocks = -(-image.shape[1] // 16), -(-image.shape[0] // 16)
    blur_kernel[blocks, (16, 16)](image, cuda.to_device(WEIGHTS), out)


in_c = cuda_kernel("blur.cu", "blur", REAL="float")


@way("gpu_cupy")
def blur_c(image, out):
    n = image.shape[0]
    in_c((-(-n // 16), -(-n // 16)), (16, 16), (image, out, np.int32(n)))
