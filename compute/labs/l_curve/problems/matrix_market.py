"""Matrix Market files (https://math.nist.gov/MatrixMarket/formats.html), read without a line of C++.

scipy.io.mmread ends its process with a segmentation fault where a number of the file cannot be read, and the process is
the engine that all pages share. Here the head is read by Python, and the numbers by NumPy's own reader of text.
"""

from __future__ import annotations

import io
import re
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

FIRST = b"%%MatrixMarket"
FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
SYMMETRIES = ("general", "symmetric", "skew-symmetric")
SIZES = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?[ \t]*\r?")
SPACE = b" \t\r"


class MarketHead(NamedTuple):
    """What a file says of itself. entries: lines of numbers that follow; begin: where they do."""

    rows: int
    columns: int
    entries: int
    layout: str
    field: str
    symmetry: str
    begin: int


def read_head(data: bytes) -> MarketHead:
    """Read the first line, the comments and the line of sizes. ValueError names what is wrong."""
    line, _, _ = data[:1000].partition(b"\n")
    words = line.decode("ascii", "replace").lower().split()
    if len(words) != 5 or words[:2] != [FIRST.decode().lower(), "matrix"] or words[2] not in {"coordinate", "array"}:
        raise ValueError("its first line must be %%MatrixMarket matrix, coordinate or array, a field and a symmetry")
    layout, field, symmetry = words[2:]
    if field not in FIELDS or (field == "pattern" and layout == "array"):
        raise ValueError(f"its field must be real, integer or pattern, not {field[:40]}")
    if symmetry not in SYMMETRIES:
        raise ValueError(f"its symmetry must be general, symmetric or skew-symmetric, not {symmetry[:40]}")
    begin = len(line) + 1
    while True:
        end = data.find(b"\n", begin)
        line = data[begin : end if end >= 0 else len(data)]
        if line.strip(SPACE) and not line.lstrip(SPACE).startswith(b"%"):
            break
        if end < 0:
            raise ValueError("it has no line of sizes")
        begin = end + 1
    found = SIZES.fullmatch(line)
    if found is None or (found[3] is None) != (layout == "array"):
        raise ValueError(f"its line of sizes must be rows, columns{', entries' * (layout != 'array')}")
    rows, columns = int(found[1]), int(found[2])
    if symmetry != "general" and rows != columns:
        raise ValueError(f"a {symmetry} matrix must be square, not {rows} x {columns}")
    triangle = rows * (rows - 1) // 2 + (rows if symmetry == "symmetric" else 0)
    entries = int(found[3]) if found[3] else rows * columns if symmetry == "general" else triangle
    return MarketHead(rows, columns, entries, layout, field, symmetry, begin + len(line) + 1)


def read_body(data: bytes, head: MarketHead) -> Any:
    """Return the matrix: dense, or sparse by coordinates. ValueError if there are other numbers than `head` says."""
    wide = 1 if head.layout == "array" else 2 if head.field == "pattern" else 3
    first = b"0 " * wide + b"\n"  # NumPy warns of a text without a number
    numbers = np.loadtxt(io.BytesIO(first + data[head.begin :]), np.float64, comments="%", ndmin=2, encoding="latin-1")[
        1:
    ]
    if numbers.shape != (head.entries, wide):
        has = f"{len(numbers)} lines of {numbers.shape[1]}"
        raise ValueError(f"it must have {head.entries} lines of {wide} numbers each, and has {has}")
    return _full(numbers[:, 0], head) if head.layout == "array" else _sparse(numbers, head)


def _full(numbers: NDArray[np.float64], head: MarketHead) -> NDArray[np.float64]:
    """A matrix from its columns; of a symmetric one the file has what lies on and below the diagonal."""
    if head.symmetry == "general":
        return numbers.reshape(head.columns, head.rows).T
    columns, rows = np.triu_indices(head.rows, 0 if head.symmetry == "symmetric" else 1)  # in the order of columns
    made = np.zeros((head.rows, head.columns))
    made[columns, rows] = -numbers if head.symmetry == "skew-symmetric" else numbers
    made[rows, columns] = numbers
    return made


def _sparse(numbers: NDArray[np.float64], head: MarketHead) -> Any:
    places = numbers[:, :2]
    bounds = (head.rows, head.columns)
    if not ((places >= 1) & (places <= bounds) & (places == np.floor(places))).all():
        raise ValueError(f"its entries must lie in row 1 to {head.rows} and column 1 to {head.columns}")
    rows, columns = (places - 1).astype(np.int64).T
    values = numbers[:, 2] if numbers.shape[1] == 3 else np.ones(len(numbers))
    if head.symmetry != "general":
        apart = rows != columns
        sign = -1.0 if head.symmetry == "skew-symmetric" else 1.0
        mirrored = columns[apart], rows[apart], sign * values[apart]
        rows, columns, values = (np.concatenate(pair) for pair in zip((rows, columns, values), mirrored, strict=True))
    return sp.coo_matrix((values, (rows, columns)), shape=bounds)
