"""What lies on the device while a matrix is bidiagonalised, and what the kernels of every backend are handed."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp

from compute.devices import Array, Device


@dataclass(frozen=True)
class Rows:
    """A matrix by rows, on a device: entries starts[i] to starts[i + 1] are those of row i.

    starts: (rows + 1,) int32 or int64; columns: (entries,) uint16, int32 or int64, as the backend's `index_types`
    says; values: (entries,) float32 or float64. The columns within a row differ, and ascend.
    """

    shape: tuple[int, int]
    starts: Array
    columns: Array
    values: Array

    @classmethod
    def of(cls, device: Device, kernels: ModuleType, matrix: sp.csr_matrix) -> Rows:
        """`matrix` on `device`, with the indices that `kernels` reads."""
        starts, columns = kernels.index_types(matrix.shape[1], matrix.nnz)
        arrays = (matrix.indptr.astype(starts), matrix.indices.astype(columns), matrix.data)
        return cls(matrix.shape, *(device.upload(array) for array in arrays))

    @property
    def entries(self) -> int:
        """Stored non-zeros."""
        return int(self.values.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes that one product reads of it."""
        return int(self.starts.nbytes + self.columns.nbytes + self.values.nbytes)


@dataclass(frozen=True)
class Work:
    """The arrays of a Golub-Kahan bidiagonalisation of A (m, n) with room for `most` steps; real: float32 or float64.

    A, T: the matrix and its transpose, by rows. u: (m,) real, the newest left vector; b before the start. V: (most +
    1, n) real, the right vectors in its rows. w: (n,) real and c: (most + 1,) real, scratch. alpha, beta: (most + 1,)
    float64: alpha[j] couples u_j and v_j, beta[j] couples u_j and v_(j - 1), beta[0] = |b|, counted from 0.
    """

    A: Rows
    T: Rows
    u: Array
    V: Array
    w: Array
    c: Array
    alpha: Array
    beta: Array

    @classmethod
    def of(cls, device: Device, kernels: ModuleType, A: sp.csr_matrix, most: int) -> Work:
        """Arrays for the matrix A, whose dtype is that of the vectors; u and V hold nothing yet."""
        rows, transposed = Rows.of(device, kernels, A), Rows.of(device, kernels, A.T.tocsr())
        (m, n), real = A.shape, A.dtype
        vectors = (device.allocate(shape, real) for shape in ((m,), (most + 1, n), (n,), (most + 1,)))
        scalars = (device.upload(np.zeros(most + 1)) for _ in range(2))
        return cls(rows, transposed, *vectors, *scalars)

    def resized(self, device: Device, most: int) -> Work:
        """The same matrix and u with other room: V holds nothing, alpha and beta are zeros."""
        V, c = (device.allocate(shape, self.V.dtype) for shape in ((most + 1, self.V.shape[1]), (most + 1,)))
        alpha, beta = (device.upload(np.zeros(most + 1)) for _ in range(2))
        return Work(self.A, self.T, self.u, V, self.w, c, alpha, beta)

    @property
    def most(self) -> int:
        """Steps that there is room for."""
        return int(self.alpha.shape[0]) - 1


def compressed(A: Any, dtype: str) -> sp.csr_matrix:
    """A as CSR of `dtype`, entries sorted and summed, stored zeros left out."""
    matrix = sp.csr_matrix(A, dtype=dtype, copy=False)
    if not matrix.has_canonical_format or (matrix.data == 0).any():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    return matrix
