"""Hostile matrix files and pictures are refused by their header, before any large allocation."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from compute.files.images import LoadedPicture
from compute.labs.l_curve import LCurve
from compute.labs.l_curve.problems.own import LONGEST_LINE, MOST_OTHER_LINES, MOST_SIDE, own
from tests.hostile_files import (
    archive,
    chunk,
    compressed,
    element,
    market,
    matlab,
    matlab_matrix,
    npy,
    png,
    stored,
)

LEAST = 64 * 2**20  # bytes: more than any refusal needs
B = np.ones(3)


def csr(shape, indptr=(0, 0)):
    parts = {"format": np.array(b"csr"), "shape": np.array(shape), "data": np.ones(1), "indices": np.zeros(1, np.int32)}
    return archive(**{name: stored(np.save, value) for name, value in (parts | {"indptr": np.array(indptr)}).items()})


def sparse_truths(entries):
    """Return a sparse file with one row per million entries: a byte for each entry, and one for its column."""
    million = 10**6
    columns = np.zeros(entries, np.uint8)
    parts = {
        "format": np.array(b"csr"),
        "shape": np.array((entries // million, million)),
        "data": columns.view(bool),
        "indices": columns,
    }
    parts["indptr"] = np.arange(0, entries + 1, million)
    return archive(**{name: stored(np.save, value) for name, value in parts.items()})


HOSTILE = {
    "columns": (lambda: market("3 2000000000 3", "1 1 1", "2 2 1", "3 3 1"), str(MOST_SIDE)),
    "rows": (lambda: market("300000000 3 3", "1 1 1", "2 2 1", "3 3 1"), str(MOST_SIDE)),
    "one more row than allowed": (lambda: market(f"{MOST_SIDE + 1} 3 1", "1 1 1"), str(MOST_SIDE)),
    "entries": (lambda: market("1000 1000 900000", "1 1 1"), "900000 entries"),
    "a full array": (lambda: market("20000 20000", "1", layout="array"), "400000000 entries"),
    "a symmetric array": (
        lambda: market("20000 20000", "1", layout="array", symmetry="symmetric"),
        "200010000 entries",
    ),
    "a complex one": (lambda: market("1 1 1", "1 1 1 1", field="complex"), "complex"),
    "an array of NumPy": (lambda: npy((10**6, 10**5)), "800000000000 bytes"),
    "one of texts": (lambda: npy((3, 3), b"0" * 36, "<U1"), "real numbers"),
    "one of records": (lambda: npy((1,), dtype=[("a", "<f8")]), "real numbers"),
    "one of objects": (lambda: npy((1,), dtype="|O"), "real numbers"),
    "sides below zero": (lambda: npy((-5, -5), b"0" * 200), "-5"),
    "a later version": (lambda: npy((3, 3), b"0" * 72, version=9), "version"),
    "a long head": (lambda: b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b" " * 100, "read"),
    "a member's head": (lambda: archive(A=npy((10**6, 10**5)), b=stored(np.save, B)), "800000000000 bytes"),
    "a bomb": (lambda: archive(A=npy((6000, 6000), bytes(8 * 6000**2)), b=stored(np.save, B)), "256 MiB"),
    "two that are too much together": (
        lambda: archive(A=npy((5000, 5000), bytes(8 * 5000**2)), b=npy((12_000_000,), bytes(96_000_000))),
        "256 MiB",
    ),
    "a sparse shape": (lambda: csr((2_000_000_000, 3)), str(MOST_SIDE)),
    "truths": (lambda: archive(A=npy((16000, 16000), bytes(16000**2), "|b1"), b=stored(np.save, B)), "256 MiB"),
    "a sparse one of truths": (lambda: sparse_truths(25_000_000), "256 MiB"),
    "another packing": (lambda: archive(zipfile.ZIP_LZMA, A=stored(np.save, np.eye(3))), "deflated"),
    "a long list": (lambda: archive(**{f"a{n}": b"" for n in range(5000)}), "64 arrays"),
    "comments": (lambda: market("% c\n" * (MOST_OTHER_LINES + 1) + "1 1 1", "1 1 1"), f"{MOST_OTHER_LINES} lines"),
    "comments behind": (lambda: market("1 1 1", "1 1 1", *["%"] * (MOST_OTHER_LINES + 1)), "other lines"),
    "a long comment": (lambda: market("%" + "c" * LONGEST_LINE + "\n1 1 1", "1 1 1"), f"{LONGEST_LINE} characters"),
    "a long number": (lambda: market("1 1 1", "1 1 " + "1" * LONGEST_LINE), f"{LONGEST_LINE} characters"),
    "a long number across pieces": (
        lambda: market("174001 174001 174001", *["1 1 1"] * 174_000, "1 1 " + "1" * LONGEST_LINE),
        f"{LONGEST_LINE} characters",
    ),
    "a bomb of MATLAB": (
        lambda: matlab(compressed(matlab_matrix("A", 6, (6000, 6000), element(9, bytes(8 * 6000**2))))),
        "256 MiB",
    ),
    "small numbers that become float64": (
        lambda: matlab(compressed(matlab_matrix("A", 6, (6000, 6000), element(2, bytes(6000**2))))),
        "256 MiB",
    ),
    "sizes beyond the numbers": (
        lambda: matlab(matlab_matrix("A", 6, (3, 5000), element(9, bytes(72)))),
        "must hold 3 x 5000 numbers, and holds 9",
    ),
    "a false length": (lambda: matlab(matlab_matrix("A", 6, (3, 3), length=2**32 - 1)), "4294967295 bytes"),
    "a false length within": (
        lambda: matlab(matlab_matrix("A", 6, (3, 3), element(9, bytes(72), length=2**31))),
        "2147483648 bytes",
    ),
    "columns of MATLAB": (
        lambda: matlab(matlab_matrix("A", 5, (3, 2**31 - 1), *[element(5)] * 2, element(9))),
        str(MOST_SIDE),
    ),
    "indices of MATLAB": (
        lambda: matlab(
            matlab_matrix(
                "A",
                5,
                (3, 1),
                element(5, struct.pack("<i", 7)),
                element(5, struct.pack("<2i", 0, 1)),
                element(9, b"8" * 8),
            )
        ),
        "indices",
    ),
    "starts of MATLAB": (
        lambda: matlab(
            matlab_matrix(
                "A", 5, (3, 1), element(5, bytes(4)), element(5, struct.pack("<2i", 0, 9)), element(9, bytes(8))
            )
        ),
        "2 starts of columns",
    ),
    "a struct": (lambda: stored(scipy.io.savemat, {"A": {"A": np.eye(3)}}), "not a struct"),
    "a cell": (lambda: stored(scipy.io.savemat, {"A": np.array([[1], "x"], object)}), "not a cell array"),
    "an object": (lambda: matlab(matlab_matrix("A", 3, (1, 1))), "not an object"),
    "complex numbers": (lambda: stored(scipy.io.savemat, {"A": 1j * np.eye(3)}), "complex"),
    "a matrix of three sides": (lambda: stored(scipy.io.savemat, {"A": np.ones((2, 2, 2))}), "3 sizes"),
    "HDF5": (lambda: b"MATLAB 7.3".ljust(124) + b"\x00\x02IM" + bytes(384) + b"\x89HDF\r\n\x1a\n", "-v7"),
    "variables": (lambda: matlab(*[matlab_matrix("a", 6, (0, 0), element(9))] * 65), "64 variables"),
    "a packed element": (lambda: matlab(compressed(compressed(matlab_matrix("A", 6, (0, 0))))), "type 15"),
    "no matrix": (lambda: archive(**{"<img src=x onerror=alert()>" * 100: stored(np.save, B)}), "it holds <img"),
}


@cache
def hostile(which):
    """Return the hostile file of that name, created on demand: all take some seconds, needed in one process only."""
    return HOSTILE[which][0]()


@pytest.mark.parametrize("which", HOSTILE)
def test_a_hostile_matrix_is_refused_by_its_header(which):
    """The message contains the value and the bound, and the refusal uses little memory."""
    data, named = hostile(which), HOSTILE[which][1]
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=re.escape(named)) as refused:
            own(None, data, B)
        assert tracemalloc.get_traced_memory()[1] < LEAST + len(data)
    finally:
        tracemalloc.stop()
    assert len(str(refused.value)) < 400


def test_a_hostile_matrix_takes_no_memory_of_the_process(tmp_path):
    """As seen by the library's allocator, which Python does not trace; in a process that created none of the files."""
    for number, which in enumerate(HOSTILE):
        (tmp_path / str(number)).write_bytes(hostile(which))
    script = """
import pathlib, sys
import numpy as np
from compute.labs.l_curve.problems.own import own
from tests.peak_memory import peak_memory
files = [file.read_bytes() for file in pathlib.Path(sys.argv[1]).iterdir()]
before = peak_memory()
for data in files:
    try:
        own(None, data, np.ones(3))
    except ValueError:
        continue
    sys.exit("not refused")
print(peak_memory() - before)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) < 2 * LEAST


@pytest.mark.parametrize("rhs", ["columns", "an array of NumPy", "no matrix", "a bomb"])
def test_a_hostile_right_hand_side_is_refused(rhs):
    with pytest.raises(ValueError, match="rhs"):
        own(None, np.eye(3), hostile(rhs))


def test_a_matrix_as_right_hand_side_is_refused_before_it_is_expanded():
    wide = market("1000000 1000000 1", "1 1 1")
    with pytest.raises(ValueError, match=r"b must be a vector, not of the shape \(1000000, 1000000\)"):
        own(None, np.eye(3), wide)


def test_matrices_within_the_limits_are_read():
    tall = market(f"{MOST_SIDE} 3 3", f"{MOST_SIDE} 1 1", "2 2 1", "3 3 1")
    A, b, _ = own(None, tall, npy((MOST_SIDE,), bytes(8 * MOST_SIDE)))
    assert (A.shape, A.nnz, b.shape) == ((MOST_SIDE, 3), 3, (MOST_SIDE,))
    lines = market("% " + "c" * (LONGEST_LINE - 2) + "\n% c" * 9000 + "\n2 2 2", "1 1 1", *[""] * 9000, "2 2 1")
    np.testing.assert_array_equal(own(None, lines, np.ones(2))[0].toarray(), np.eye(2))
    lowest = market("3 3 3", "1 1", "2 2", "3 3", field="pattern", symmetry="symmetric")[:-1]
    np.testing.assert_array_equal(own(None, lowest, B)[0].toarray(), np.eye(3))
    for version in (1, 2):
        made = own(None, npy((2, 3), np.arange(6, dtype=">f8").tobytes(), ">f8", version), np.ones(2))[0]
        np.testing.assert_array_equal(made, np.arange(6.0).reshape(2, 3))
    order = stored(np.save, np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    np.testing.assert_array_equal(own(None, order, np.ones(2))[0], np.arange(6.0).reshape(2, 3))
    saved = stored(sp.save_npz, sp.csc_matrix(np.diag(B)), compressed=False)
    np.testing.assert_array_equal(own(None, saved, B)[0].toarray(), np.diag(B))
    assert own(None, stored(np.savez, A=np.eye(2), b=[1, 2], other="text"))[1].tolist() == [1, 2]


GOOD = [
    market("3 3 3", "1 1 1", "2 2 1", "3 3 1"),
    market("2 2", "1", "2", "3", "4", layout="array"),
    stored(np.save, np.eye(3)),
    stored(np.savez_compressed, A=np.eye(3), b=B),
    stored(sp.save_npz, sp.csr_matrix(np.eye(3))),
    stored(scipy.io.mmwrite, sp.coo_matrix(np.eye(3))),
    stored(scipy.io.savemat, {"A": np.eye(3), "b": B, "other": "text"}),
    stored(scipy.io.savemat, {"A": sp.csc_matrix(np.eye(3))}, do_compression=True),
]


@st.composite
def damaged(draw, files):
    """Draw a file that is cut off anywhere, with some changed bytes."""
    good = draw(st.sampled_from(files))
    changed = bytearray(good[: draw(st.integers(1, len(good)))])
    for place, value in draw(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=6)):
        changed[place % len(changed)] = value
    return bytes(changed)


@settings(max_examples=400)
@given(damaged(GOOD))
def test_a_damaged_matrix_is_read_or_refused(data):
    with suppress(ValueError):
        own(None, data, B)


@pytest.mark.parametrize(
    "made",
    [
        lambda: png(2**31 - 1, 2**31 - 1),
        lambda: png(40_000, 40_000),
        lambda: png(8000, 8000),
        lambda: png(64, 64, b"", chunk(b"zTXt", b"fieldlab\0\0" + zlib.compress(bytes(10**8)))),
        lambda: png(64, 64, b"", chunk(b"iTXt", b"fieldlab\0\1\0\0\0" + zlib.compress(bytes(10**8)))),
        lambda: png(64, 64, b"", chunk(b"iCCP", b"profile\0\0" + zlib.compress(bytes(10**8)))),
        lambda: png(0, 5),
    ],
    ids=["pixels", "many", "bomb", "text", "international", "profile", "none"],
)
def test_a_hostile_picture_is_refused(made):
    data = made()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="image"):
            LoadedPicture.read(data)
        assert tracemalloc.get_traced_memory()[1] < LEAST
    finally:
        tracemalloc.stop()


PICTURES = [
    stored(Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).save, format=kind)
    for kind in ("PNG", "JPEG")
]


@settings(max_examples=400)
@given(damaged(PICTURES))
def test_a_damaged_picture_is_read_or_refused(data):
    with suppress(ValueError):
        assert LoadedPicture.read(data).levels.dtype == np.uint8


@pytest.mark.parametrize("given", ["x", True, [], [[1, 2], [3]], {"a": 1}, None, 1e400, [None]])
def test_an_invalid_matrix_from_json_is_refused(given):
    """As a link may contain it."""
    with pytest.raises(ValueError, match=r"\w"):
        LCurve(problem="own", options={"matrix": given, "rhs": [1.0]})
