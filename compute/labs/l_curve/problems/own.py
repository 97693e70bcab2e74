"""A user's own A and b. Files are untrusted: their headers are checked against bounds before any data are unpacked.

A file states in its header how large its arrays are, and a reader allocates them before it reads the first entry. So
the header is read here first: a NumPy array must have at least the bytes that its header states, a Matrix Market file
at least the characters that its entries need, and only a limited number of lines without an entry; a sparse matrix,
whose empty rows need no bytes, has at most MOST_SIDE rows and columns, since each step of a run processes vectors of
that length. For a text without a header, lines and separators are counted.

`ArrayFile.read` returns the arrays of a file. A page calls it in a child process (compute/export/decoding.py), and its
engine receives arrays only; `own` also accepts the bytes of files, for notebooks and scripts.

Matrix Market files (https://math.nist.gov/MatrixMarket/formats.html) are read without any C++: scipy.io.mmread ends its
process with a segmentation fault at an invalid number. Python reads the header, NumPy's text reader the numbers.
matlab.py reads MATLAB files.
"""

from __future__ import annotations

import io
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from compute.lab.fields import as_type, real_array
from compute.lab.limits import MIB, limit
from compute.lab.loaded import LoadedFile, fingerprint
from compute.labs.l_curve.problems import matlab

MAX_BYTES = 256 * MIB  # of unpacked arrays, as float64: 5792 x 5792 numbers
UNPACKED = 16  # times the bytes that a server allows for an upload
ENTRY_BYTES, PLACED_BYTES = 8, 12  # of a float64 number, and with its column in a sparse matrix
MOST_SIDE = 2_000_000  # maximum rows, and columns, of a matrix in a file: a vector of 16 MB
MOST_OTHER_LINES = 10_000  # of a Matrix Market file, without an entry: comments and empty lines
LONGEST_LINE = 8192  # bytes: the format allows 1024, and some programs write more
MOST_MEMBERS, MOST_ABOUT = 64, 512  # files in an archive; bytes of its entry for each, including the name
END = b"PK\x05\x06"  # of an archive
MAGIC = b"\x93NUMPY"
NAMES = ("A", "b", "x", "format", "shape", "data", "indices", "indptr")  # arrays that are read from an archive
BROKEN = (  # exceptions of the readers for damaged files
    OSError, EOFError, LookupError, TypeError, ValueError, ArithmeticError, MemoryError, RuntimeError, SyntaxError,
    struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
ARRAYS = {"matrix": "A", "rhs": "b", "truth": "x"}  # options, and their names in the equations
FILES = (
    "an .npz file (NumPy arrays A and b, or scipy.sparse.save_npz), an .npy, a CSV, a Matrix Market file or a .mat "
    "(MATLAB's -v6 or -v7)"
)
OwnProblem = tuple[Any, NDArray[np.float64], "NDArray[np.float64] | None"]


@dataclass(frozen=True, eq=False)
class ArrayFile(LoadedFile):
    """The arrays of a file by name, sparse matrices as CSR or CSC; an unnamed array is called A.

    Arrays that are not read have the value None.
    """

    arrays: Mapping[str, Any] = field(repr=False)
    fingerprint: str

    @classmethod
    def read(cls, data: bytes, name: str) -> ArrayFile:
        """Read the file for the option `name`; its first bytes determine the format. Raise ValueError if refused."""
        return cls(_read(data, name), fingerprint(data))


def own(n: int | None, matrix: Any, rhs: Any = None, truth: Any = None) -> OwnProblem:
    """Return (A, b, x) from `matrix` and `rhs`: arrays, or files; n, if given, must be the columns of A.

    matrix: an array, a sparse matrix, or a file, read or not: an .npz with A and b (and x, if known), an .npz of
    scipy.sparse.save_npz, an .npy, rows of numbers as text (CSV), a Matrix Market file, or a MATLAB file (.mat, to
    version 7) with A and b. rhs, truth: an array, or a file with one array; of a MATLAB file also its b, or x. Raises
    ValueError otherwise.
    """
    if matrix is None:
        raise ValueError(f"matrix must be given for your own problem: an array, or {FILES}")
    held = _open(matrix, "matrix")
    A, b, x = held.get("A"), held.get("b"), held.get("x")
    if A is None:
        raise ValueError(f"matrix must hold an array A; it holds {_listed(held)}")
    b = b if rhs is None else _alone(rhs, "rhs")
    x = x if truth is None else _alone(truth, "truth")
    if b is None:
        raise ValueError("rhs must be given: the matrix file holds no array b")
    if n is not None and A.ndim == 2 and n != A.shape[1]:
        raise ValueError(f"n must be None or the number of columns of A, {A.shape[1]}, not {n}")
    return A, _line(b, "b"), None if x is None else _line(x, "x")


def _line(values: Any, name: str) -> NDArray[np.float64]:
    """Return a vector, or a matrix of one column or row, as (size,)."""
    array = values if scipy.sparse.issparse(values) else real_array(values, name)
    if array.ndim not in (1, 2) or prod(array.shape) != max(array.shape, default=0):
        raise ValueError(f"{name} must be a vector, not of the shape {array.shape}")
    array = real_array(values.toarray(), name) if scipy.sparse.issparse(values) else array
    return as_type(array.ravel(), np.float64, name)


def _alone(given: Any, name: str) -> Any:
    """Return the only array of `given`."""
    held = _open(given, name)
    if held.get("A") is None:
        raise ValueError(f"{name} must hold one array; it holds {_listed(held)}")
    return held["A"]


def _listed(names: Iterable[str]) -> str:
    """Return some names of a file for a message: a file may contain any number of names, of any length."""
    some = [name[:40] for name in islice(names, 6)]
    return ", ".join(some) or "nothing"


def _open(given: Any, name: str) -> Mapping[str, Any]:
    """Return the arrays of `given` by name; a single array is called A."""
    if isinstance(given, ArrayFile):
        return given.arrays
    if isinstance(given, (bytes, bytearray)):
        return _read(bytes(given), name)
    return {"A": given if scipy.sparse.issparse(given) else real_array(given, ARRAYS[name])}


def _read(data: bytes, name: str) -> Mapping[str, Any]:
    """Return the arrays of a file."""
    try:
        if data.startswith(MARKET):
            A = _market(data)
            return {"A": scipy.sparse.csr_matrix(A) if scipy.sparse.issparse(A) else A}
        if data.startswith(MAGIC):
            return {"A": _array(io.BytesIO(data), len(data))}
        if matlab.is_matlab(data):
            return _matlab(data, name)
        if zipfile.is_zipfile(io.BytesIO(data)):
            return _archive(data)
        data = data.removeprefix(BYTE_ORDER)
        if data[:TEXT_BEGINS].strip() and not data[:TEXT_BEGINS].translate(None, TEXT):
            return {"A": _rows(data)}
    except BROKEN as error:
        why = str(error) if isinstance(error, ValueError) else type(error).__name__
        raise ValueError(f"{name} cannot be read: {why[:300]}") from error
    raise ValueError(f"{name} must be {FILES}; this file is none of these")


def _market(data: bytes) -> Any:
    """Read a matrix or array, after comparing its header with the bounds and with the length of the file."""
    head = read_head(data)
    lines = data.count(b"\n", head.begin)
    if lines > head.entries + MOST_OTHER_LINES:
        most = f"{head.entries} entries and at most {MOST_OTHER_LINES} other lines"
        raise ValueError(f"it has {lines} lines where it says that it holds {most}")
    _require_short_lines(data)
    _require_sides(head.rows, head.columns)
    full = head.layout == "array"
    least = 2 if full else 4 if head.field == "pattern" else 6  # minimum characters of an entry with its end of line
    if head.entries > (len(data) + 1) // least:
        raise ValueError(f"it says that it holds {head.entries} entries, and has {len(data)} bytes, too few for them")
    _require_bytes(8 * head.rows * head.columns if full else 24 * head.entries)
    return read_body(data, head)


SEARCHED = 2**20  # bytes searched for ends of lines at a time


def _require_short_lines(data: bytes) -> None:
    """Raise ValueError for a line of more than LONGEST_LINE bytes; in pieces, since every byte may end a line."""
    last = -1  # position of the last end of a line
    for begin in range(0, len(data), SEARCHED):
        piece = np.frombuffer(data, np.uint8, min(SEARCHED, len(data) - begin), begin)
        ends = np.flatnonzero(piece == ord("\n")) + begin
        if np.diff(ends, prepend=last, append=begin + piece.size).max() > LONGEST_LINE + 1:
            raise ValueError(f"its lines must have at most {LONGEST_LINE} characters")
        last = int(ends[-1]) if ends.size else last


def _archive(data: bytes) -> Mapping[str, Any]:
    """Return the arrays of an .npz; those of scipy.sparse.save_npz become one matrix. Other arrays are None."""
    held: dict[str, Any] = {}
    listing = int.from_bytes(data[data.rfind(END) + 12 :][:4], "little")  # bytes of the archive's directory
    if listing > MOST_MEMBERS * MOST_ABOUT:
        raise ValueError(f"it must hold at most {MOST_MEMBERS} arrays; the list of them has {listing} bytes")
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        parts = {part.filename.removesuffix(".npy"): part for part in packed.infolist()}
        present = [name for name in NAMES if name in parts]
        _require_bytes(sum(parts[name].file_size for name in present))
        for name in present:
            if parts[name].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{name} must be stored or deflated, as np.savez_compressed does")
            with packed.open(parts[name]) as opened:
                kinds, entry = "fiubSU" if name == "format" else "fiub", PLACED_BYTES if name == "data" else ENTRY_BYTES
                held[name] = _array(opened, parts[name].file_size, kinds, entry)
    if not {"format", "shape", "data"} <= held.keys():
        return held if "A" in held else dict.fromkeys(name for name in parts if name != "A")
    kind = bytes(held["format"].item()).decode() if held["format"].dtype.kind == "S" else str(held["format"].item())
    classes = {"csr": scipy.sparse.csr_matrix, "csc": scipy.sparse.csc_matrix}
    if kind not in classes:
        raise ValueError(f"its format must be csr or csc, not {kind[:20]}")
    rows, columns = (int(side) for side in held["shape"])
    _require_sides(rows, columns)
    A = classes[kind]((held["data"], held["indices"], held["indptr"]), shape=(rows, columns))
    A.check_format(full_check=True)
    return {"A": A, **{name: held[name] for name in ("b", "x") if name in held}}


def _matlab(data: bytes, name: str) -> Mapping[str, Any]:
    """Return the matrices A, b and x of a .mat for the option `matrix`; for others the one of its name, as A.

    A file with a single variable may have any name for it.
    """
    every = matlab.variables(data)
    wanted = tuple(ARRAYS.values()) if name == "matrix" else (ARRAYS[name],)
    chosen = matlab.chosen(every, wanted)
    _require_bytes(sum(variable.length for variable in chosen.values()))
    held = {of: variable.values(_require_bytes, _require_sides) for of, variable in chosen.items()}
    if name != "matrix" and held:
        return {"A": next(iter(held.values()))}
    return held if "A" in held else dict.fromkeys(every)


def _array(opened: IO[bytes], size: int, kinds: str = "fiub", entry: int = ENTRY_BYTES) -> NDArray[Any]:
    """Read the array of an .npy of `size` bytes, which must be at least the bytes that its header requires.

    kinds: of dtypes; entry: bytes of each of its numbers in the lab, where even a truth of one-byte numbers becomes
    float64.
    """
    _require_bytes(size)
    version = np.lib.format.read_magic(opened)
    if version not in READERS:
        raise ValueError(f"its version of .npy must be 1.0 or 2.0, not {version[0]}.{version[1]}")
    try:
        shape, columns_first, dtype = READERS[version](opened)
    except SystemError as error:  # from Python 3.12's tokenizer, which NumPy calls if a header is not a literal
        raise ValueError("its head cannot be read") from error
    if dtype.kind not in kinds or dtype.names:
        raise ValueError(f"its arrays must hold real numbers, not {str(dtype)[:40]}")
    needed = prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or needed > size:
        raise ValueError(f"an array of the shape {str(shape)[:60]} needs {needed} bytes, and the file has {size}")
    _require_bytes(entry * prod(shape))
    data = opened.read(needed)
    return np.frombuffer(data, dtype, prod(shape)).reshape(shape, order="F" if columns_first else "C")


READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def _require_sides(rows: int, columns: int) -> None:
    if not 0 <= min(rows, columns) <= max(rows, columns) <= MOST_SIDE:
        raise ValueError(f"a matrix in a file must have at most {MOST_SIDE} rows and columns, not {rows} x {columns}")


def _require_bytes(needed: int) -> None:
    most = min(MAX_BYTES, UNPACKED * limit("upload") * MIB)
    if needed > most:
        raise ValueError(f"it would need {needed / MIB:,.0f} MiB; at most {most / MIB:.0f} MiB are taken")


# -- rows of numbers as text

TEXT = bytes(range(ord(" "), 127)) + b"\t\r\n"  # bytes of a file of numbers
TEXT_BEGINS = 2048  # bytes at the beginning that are checked for such a text
BYTE_ORDER = b"\xef\xbb\xbf"  # first bytes of the text files of some spreadsheets


def _rows(data: bytes) -> NDArray[np.float64]:
    """Return the matrix of a text: a row per line, numbers separated by a comma, a semicolon, tabs or spaces.

    Empty lines and lines that begin with # are skipped. Every row must have as many numbers as the first.
    """
    first = next((line for line in io.BytesIO(data) if line.strip() and not line.lstrip().startswith(b"#")), b"")
    if not first:
        raise ValueError("it must hold numbers, a row a line, and holds comments alone")
    apart = next((sign for sign in (b",", b";") if sign in first), None)
    columns = first.count(apart) + 1 if apart else len(first.split())
    lines = data.count(b"\n") + 1
    _require_sides(lines, columns)
    most = data.count(apart) + lines if apart else len(data) // 2 + 1  # a number and a separator have a character each
    _require_bytes(ENTRY_BYTES * min(columns * lines, most))
    sign = apart.decode() if apart else None
    try:
        return np.loadtxt(io.BytesIO(data), np.float64, delimiter=sign, ndmin=2, encoding="latin-1")
    except ValueError as error:
        message = str(error).partition(";")[0][:200]
        if "number of columns changed" in message:
            raise ValueError(f"its rows must have as many numbers as the first, {columns}: {message}") from error
        raise ValueError(f"it must hold nothing but numbers, a row a line: {message}") from error


# -- Matrix Market files

MARKET = b"%%MatrixMarket"
MARKET_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
MARKET_SYMMETRIES = ("general", "symmetric", "skew-symmetric")
MARKET_SIZES = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?[ \t]*\r?")
SPACE = b" \t\r"


class MarketHead(NamedTuple):
    """The header of a file. entries: number of the lines of numbers; begin: offset of the first of them."""

    rows: int
    columns: int
    entries: int
    layout: str
    field: str
    symmetry: str
    begin: int


def read_head(data: bytes) -> MarketHead:
    """Read the first line, the comments and the line of sizes. ValueError describes the error."""
    line, _, _ = data[:1000].partition(b"\n")
    words = line.decode("ascii", "replace").lower().split()
    if len(words) != 5 or words[:2] != [MARKET.decode().lower(), "matrix"] or words[2] not in {"coordinate", "array"}:
        raise ValueError("its first line must be %%MatrixMarket matrix, coordinate or array, a field and a symmetry")
    layout, field, symmetry = words[2:]
    if field not in MARKET_FIELDS or (field == "pattern" and layout == "array"):
        raise ValueError(f"its field must be real, integer or pattern, not {field[:40]}")
    if symmetry not in MARKET_SYMMETRIES:
        raise ValueError(f"its symmetry must be general, symmetric or skew-symmetric, not {symmetry[:40]}")
    begin = len(line) + 1
    for _ in range(MOST_OTHER_LINES):
        end = data.find(b"\n", begin, begin + LONGEST_LINE + 1)
        if end < 0 and len(data) > begin + LONGEST_LINE:
            raise ValueError(f"its lines must have at most {LONGEST_LINE} characters")
        line = data[begin : end if end >= 0 else len(data)]
        if line.strip(SPACE) and not line.lstrip(SPACE).startswith(b"%"):
            break
        if end < 0:
            raise ValueError("it has no line of sizes")
        begin = end + 1
    else:
        raise ValueError(f"its line of sizes must come after at most {MOST_OTHER_LINES} lines")
    found = MARKET_SIZES.fullmatch(line)
    if found is None or (found[3] is None) != (layout == "array"):
        raise ValueError(f"its line of sizes must be rows, columns{', entries' * (layout != 'array')}")
    rows, columns = int(found[1]), int(found[2])
    if symmetry != "general" and rows != columns:
        raise ValueError(f"a {symmetry} matrix must be square, not {rows} x {columns}")
    triangle = rows * (rows - 1) // 2 + (rows if symmetry == "symmetric" else 0)
    entries = int(found[3]) if found[3] else rows * columns if symmetry == "general" else triangle
    return MarketHead(rows, columns, entries, layout, field, symmetry, begin + len(line) + 1)


def read_body(data: bytes, head: MarketHead) -> Any:
    """Return the matrix: dense, or sparse by coordinates. Raise ValueError if the numbers do not match `head`."""
    wide = 1 if head.layout == "array" else 2 if head.field == "pattern" else 3
    first = b"0 " * wide + b"\n"  # NumPy warns of a text without a number
    text = io.BytesIO(first + data[head.begin :])
    numbers = np.loadtxt(text, np.float64, comments="%", ndmin=2, encoding="latin-1")[1:]
    if numbers.shape != (head.entries, wide):
        has = f"{len(numbers)} lines of {numbers.shape[1]}"
        raise ValueError(f"it must have {head.entries} lines of {wide} numbers each, and has {has}")
    return _full(numbers[:, 0], head) if head.layout == "array" else _sparse(numbers, head)


def _full(numbers: NDArray[np.float64], head: MarketHead) -> NDArray[np.float64]:
    """Return a matrix from its columns; a symmetric file contains only the entries on and below the diagonal."""
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
    return scipy.sparse.coo_matrix((values, (rows, columns)), shape=bounds)
