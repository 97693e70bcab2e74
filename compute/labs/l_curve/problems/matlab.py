"""MATLAB's files of version 5 (`save -v6`, `save -v7`; Octave's `save -v7`), read without any C++ and within bounds.

A file is a header of 128 bytes and one element per variable. An element has a tag, a type and a number of bytes, and is
either a matrix or a compressed matrix: flags, sizes, name, and the numbers as further elements. Only full and sparse
real matrices are read, and only those that are asked for: of all others just the name and the kind are unpacked, HEAD
bytes at most, so that a compressed variable that is not read costs nothing. The sizes are compared with the bounds
before the numbers are unpacked. scipy.io.loadmat reads the same files, but allocates what a header says, and follows
cells, structures and objects into each other; the tests compare both.

The format: *MAT-File Format*, MathWorks. A file of version 7.3 is an HDF5 file, for which Fieldlab has no reader.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

HEADER, TAG = 128, 8  # bytes of the file's header, and of an element's tag
HEAD = 1024  # bytes that hold a matrix's flags, sizes and name: MATLAB's names have 63 characters at most
ORDERS = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}  # version 1.0 and byte order, at the end of the header
HDF5 = b"\x89HDF\r\n\x1a\n"
NEWER = b"\x00\x02IM", b"\x02\x00MI"
MATRIX, COMPRESSED, FLAGS, SIZES, NAME = 14, 15, 6, 5, 1  # types of elements
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
FULL = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
SPARSE = 5
OTHERS = {1: "a cell array", 2: "a struct", 3: "an object", 4: "text", 16: "a function", 17: "an object"}
COMPLEX = 0x0800
MOST_VARIABLES = 64
ADVICE = "save its matrix as a variable of its own, such as A = s.A; save('A.mat', 'A', 'b', '-v7')"
Bounds = Callable[[int], None]  # raises ValueError for too many bytes of float64


def is_matlab(data: bytes) -> bool:
    """Return whether these are the bytes of a MATLAB file, of a version that is read here or a newer one."""
    return data[HEADER - 4 : HEADER] in (*ORDERS, *NEWER) or (data.startswith(b"MATLAB") and HDF5 in data[:1024])


@dataclass(frozen=True)
class Variable:
    """A variable before its numbers are read. body: its element, or the bytes that unpack to it.

    kind: class of its values; flags: of the same word; sizes: rows, columns and further ones; at: offset of its numbers
    within the element; length: bytes of the element.
    """

    name: str
    kind: int
    flags: int
    sizes: tuple[int, ...]
    at: int
    length: int
    body: memoryview
    packed: bool
    order: str

    def values(self, require_bytes: Bounds, require_sides: Callable[[int, int], None]) -> Any:
        """Return the matrix, an array or CSC. Raise ValueError for other kinds, and beyond the bounds."""
        if self.kind != SPARSE and self.kind not in FULL:
            kind = OTHERS.get(self.kind, f"of an unknown class, {self.kind}")
            raise ValueError(f"{self.name} must be a matrix of real numbers, not {kind}: {ADVICE}")
        if self.flags & COMPLEX:
            raise ValueError(f"{self.name} must hold real numbers, not complex ones")
        if len(self.sizes) != 2:
            raise ValueError(f"{self.name} must have rows and columns, not {len(self.sizes)} sizes")
        rows, columns = self.sizes
        require_bytes(self.length)
        if self.kind != SPARSE:
            require_bytes(8 * rows * columns)
            (numbers,) = self._parts(1)
            if numbers.size != rows * columns:
                raise ValueError(f"{self.name} must hold {rows} x {columns} numbers, and holds {numbers.size}")
            return numbers.astype(FULL[self.kind], copy=False).reshape((rows, columns), order="F")
        require_sides(rows, columns)
        indices, starts, numbers = self._parts(3)
        require_bytes(12 * numbers.size + 8 * starts.size)
        if starts.size != columns + 1 or not 0 <= starts[-1] <= min(indices.size, numbers.size):
            raise ValueError(f"{self.name} must have {columns + 1} starts of columns, up to its last entry")
        entries = int(starts[-1])
        matrix = scipy.sparse.csc_matrix(
            (numbers[:entries].astype(np.float64), indices[:entries], starts), shape=(rows, columns)
        )
        matrix.check_format(full_check=True)
        return matrix

    def _parts(self, count: int) -> list[NDArray[Any]]:
        """Return the next `count` elements of numbers."""
        element = memoryview(_unpacked(self.body, self.length)) if self.packed else self.body
        if len(element) < self.length:
            raise ValueError(f"{self.name} has {len(element)} bytes of the {self.length} in its tag")
        found, at = [], self.at
        for _ in range(count):
            kind, numbers, at = _element(element, at, self.order)
            if kind not in NUMBERS:
                raise ValueError(f"{self.name} must hold numbers, not elements of the type {kind}")
            dtype = np.dtype(self.order + NUMBERS[kind])
            if len(numbers) % dtype.itemsize:
                raise ValueError(f"{self.name} must hold whole numbers of {dtype.itemsize} bytes, not {len(numbers)}")
            found.append(np.frombuffer(numbers, dtype).astype(dtype.newbyteorder("="), copy=False))
        return found


def variables(data: bytes) -> dict[str, Variable]:
    """Return the variables of a file by name. Raise ValueError for a damaged file, and one of version 7.3."""
    order = ORDERS.get(data[HEADER - 4 : HEADER])
    if order is None:
        raise ValueError("it is of version 7.3 (HDF5), which is not read: save it with save('A.mat', 'A', 'b', '-v7')")
    found = {}
    for number, variable in enumerate(_elements(memoryview(data), order)):
        if number == MOST_VARIABLES:
            raise ValueError(f"it must hold at most {MOST_VARIABLES} variables")
        found[variable.name] = variable
    return found


def chosen(found: dict[str, Variable], wanted: Collection[str]) -> dict[str, Variable]:
    """Return the variables of the names `wanted`; if there is none of them, the only variable, as the first name."""
    some = {name: found[name] for name in wanted if name in found}
    first = next(iter(wanted))
    return some or ({first: next(iter(found.values()))} if len(found) == 1 else {})


def _elements(data: memoryview, order: str) -> Iterator[Variable]:
    at = HEADER
    while at < len(data):
        kind, body, at = _element(data, at, order, padded=False)
        if kind == COMPRESSED:
            start = memoryview(_unpacked(body, TAG + HEAD))
            inner, length = np.frombuffer(start[:TAG], f"{order}u4").tolist() if len(start) >= TAG else (0, 0)
            if inner != MATRIX:
                raise ValueError(f"its compressed elements must be matrices, not of the type {inner}")
            yield _variable(start, TAG, (body, TAG + length), True, order)
        elif kind == MATRIX:
            yield _variable(body[:HEAD], 0, (body, len(body)), False, order)


def _variable(start: memoryview, at: int, body: tuple[memoryview, int], packed: bool, order: str) -> Variable:
    """Read flags, sizes and name of a matrix from the first bytes of its element, from offset `at` on."""
    parts = []
    for expected, what in ((FLAGS, "flags"), (SIZES, "sizes"), (NAME, "name")):
        kind, content, at = _element(start, at, order)
        if kind != expected:
            raise ValueError(f"the {what} of a variable must be of the type {expected}, not {kind}")
        parts.append(content)
    flags, sizes, name = parts
    if len(flags) != TAG or len(sizes) % 4:
        raise ValueError("a variable must have flags of 8 bytes, and sizes of 4 bytes each")
    word = int(np.frombuffer(flags[:4], f"{order}u4")[0])
    shape = tuple(np.frombuffer(sizes, f"{order}i4").tolist())
    if min(shape, default=-1) < 0:
        raise ValueError(f"the sizes of a variable must be at least 0, not {shape[:4]}")
    text = bytes(name).decode("ascii", "replace")
    return Variable(text, word & 0xFF, word, shape, at, body[1], body[0], packed, order)


def _element(data: memoryview, at: int, order: str, padded: bool = True) -> tuple[int, memoryview, int]:
    """Return (type, content, offset of the next element) of the element at `at`; a small one has its type in a half."""
    if at + TAG > len(data):
        raise ValueError("it ends within an element")
    word, length = np.frombuffer(data[at : at + TAG], f"{order}u4").tolist()
    if word >> 16:
        if word >> 16 > 4:
            raise ValueError(f"a small element must have at most 4 bytes, not {word >> 16}")
        return word & 0xFFFF, data[at + 4 : at + 4 + (word >> 16)], at + TAG
    end = at + TAG + length
    if end > len(data):
        raise ValueError(f"an element has {length} bytes in its tag, and {len(data) - at - TAG} in the file")
    return word, data[at + TAG : end], end + (-length % 8 if padded else 0)


def _unpacked(body: memoryview, most: int) -> bytes:
    """Return the first `most` bytes that `body` unpacks to."""
    return zlib.decompressobj().decompress(body, most)
