"""Matrix product, then column sums on the GPU, in Numba-CUDA."""

from __future__ import annotations

from typing import Any

from numba import cuda, float32, float64

from compute.devices.devices import Array
from compute.ways.declaring import way

SIDE = 16  # threads of a block and numbers of a tile in each dimension


def _product(real: Any) -> Any:
    @cuda.jit
    def product(A: Array, B: Array, C: Array) -> None:
        """Compute C = A B with one thread per element of C."""
        a = cuda.shared.array((SIDE, SIDE), real)
        b = cuda.shared.array((SIDE, SIDE), real)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        col, row = cuda.grid(2)
        total = real(0)
        for start in range(0, A.shape[1], SIDE):
            a[y, x] = A[row, start + x] if row < A.shape[0] and start + x < A.shape[1] else real(0)
            b[y, x] = B[start + y, col] if start + y < B.shape[0] and col < B.shape[1] else real(0)
            cuda.syncthreads()
            for j in range(SIDE):
                total += a[y, j] * b[j, x]
            cuda.syncthreads()
        if row < C.shape[0] and col < C.shape[1]:
            C[row, col] = total

    return product


PRODUCTS = {"float32": _product(float32), "float64": _product(float64)}


@cuda.jit
def _sum(C: Array, sums: Array, zero: float) -> None:
    k = cuda.grid(1)
    if k < C.shape[1]:
        total = zero
        for i in range(C.shape[0]):
            total += C[i, k]
        sums[k] = total


def prepare(A: Array, B: Array, sums: Array) -> tuple[Array, Array, Array, Array]:
    """Append C, (n, k), to the arguments."""
    return A, B, sums, cuda.device_array((A.shape[0], B.shape[1]), A.dtype)


@way("gpu_numba_tile", prepare=prepare, exhibit="takes up to a thousand times as long as the library")
def column_sums(A: Array, B: Array, sums: Array, C: Array) -> None:
    """Numba-CUDA, tiles in shared memory: the textbook kernel, many times slower than the library that CuPy calls.

    Write the column sums of C = A @ B to sums, (k,); A: (n, m), B: (m, k).
    """
    blocks = -(-C.shape[1] // SIDE), -(-C.shape[0] // SIDE)
    PRODUCTS[A.dtype.name][blocks, (SIDE, SIDE)](A, B, C)
    _sum[-(-sums.size // 256), 256](C, sums, C.dtype.type(0))
