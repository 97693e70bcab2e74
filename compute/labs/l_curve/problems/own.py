"""A user's own A and b. Files that people bring are untrusted: kind and size are checked before they are unpacked."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from numpy.typing import NDArray

MAX_BYTES = 2 * 2**30  # unpacked; the app's upload is bounded far below
MARKET = b"%%MatrixMarket"
PARTS = {"csr": sp.csr_matrix, "csc": sp.csc_matrix}
FILES = "an .npz file (NumPy arrays A and b, or scipy.sparse.save_npz) or a Matrix Market file"
Made = tuple[Any, NDArray[np.float64], "NDArray[np.float64] | None"]


def own(n: int | None, matrix: Any, rhs: Any = None, truth: Any = None) -> Made:
    """(A, b, x) from `matrix` and `rhs`: arrays, or the bytes of files; n, if given, must be the columns of A.

    matrix: an array, a sparse matrix, the bytes of an .npz with A and b (and x, if known), of scipy.sparse.save_npz,
    or of a Matrix Market file. rhs, truth: an array, or bytes of .npy or Matrix Market. Raises ValueError otherwise.
    """
    if matrix is None:
        raise ValueError(f"matrix must be given for your own problem: an array, or {FILES}")
    held = _open(matrix, "matrix")
    A, b, x = held.get("A"), held.get("b"), held.get("x")
    if A is None:
        raise ValueError(f"matrix must hold an array A; it holds {', '.join(held) or 'nothing'}")
    b = b if rhs is None else _open(rhs, "rhs")["A"]
    x = x if truth is None else _open(truth, "truth")["A"]
    if b is None:
        raise ValueError("rhs must be given: the matrix file holds no array b")
    if n is not None and A.ndim == 2 and n != A.shape[1]:
        raise ValueError(f"n must be None or the number of columns of A, {A.shape[1]}, not {n}")
    return A, _line(b, "b"), None if x is None else _line(x, "x")


def _line(values: Any, name: str) -> NDArray[np.float64]:
    """A vector, or a matrix of one column or row, as (size,)."""
    array = np.asarray(values.toarray() if sp.issparse(values) else values)
    if array.ndim not in (1, 2) or array.size != max(array.shape, default=0):
        raise ValueError(f"{name} must be a vector, not of the shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, not {array.dtype}")
    return array.ravel().astype(np.float64)


def _open(given: Any, name: str) -> Mapping[str, Any]:
    """What `given` holds, by name; an array by itself is called A."""
    if not isinstance(given, (bytes, bytearray)):
        return {"A": given if sp.issparse(given) else np.asarray(given)}
    data = bytes(given)
    try:
        if data.startswith(MARKET):
            return {"A": _market(data)}
        if data.startswith(b"\x93NUMPY"):
            return {"A": np.load(io.BytesIO(data), allow_pickle=False)}
        if zipfile.is_zipfile(io.BytesIO(data)):
            return _archive(data)
    except (OSError, EOFError, KeyError, IndexError, TypeError, ValueError, OverflowError, zipfile.BadZipFile,
            zlib.error) as error:  # fmt: skip
        raise ValueError(f"{name} cannot be read: {error}") from error
    raise ValueError(f"{name} must be {FILES}; this file is neither")


def _market(data: bytes) -> Any:
    rows, columns, entries, layout, field, _ = scipy.io.mminfo(io.BytesIO(data))
    if field not in ("real", "double", "integer", "unsigned-integer", "pattern"):
        raise ValueError(f"its field must be real, integer or pattern, not {field}")
    _bound(12 * entries if layout == "coordinate" else 8 * rows * columns)
    return scipy.io.mmread(io.BytesIO(data))


def _archive(data: bytes) -> Mapping[str, Any]:
    """The arrays of an .npz; those that scipy.sparse.save_npz wrote become one matrix."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        _bound(sum(part.file_size for part in packed.infolist()))
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        held = {name: np.asarray(arrays[name]) for name in arrays.files}
    if not {"format", "shape", "data"} <= held.keys():
        return held
    kind = bytes(held["format"].item()).decode() if held["format"].dtype.kind == "S" else str(held["format"].item())
    if kind not in PARTS:
        raise ValueError(f"its format must be csr or csc, not {kind}")
    A = PARTS[kind]((held["data"], held["indices"], held["indptr"]), shape=tuple(held["shape"]))
    A.check_format(full_check=True)
    return {"A": A, **{name: held[name] for name in ("b", "x") if name in held}}


def _bound(needed: int) -> None:
    if needed > MAX_BYTES:
        raise ValueError(f"it would need {needed / 2**30:.1f} GiB; at most {MAX_BYTES / 2**30:.0f} GiB are taken")
