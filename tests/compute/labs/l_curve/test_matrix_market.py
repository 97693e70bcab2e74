"""Matrix Market files: read like scipy reads them, and refused with a message if scipy's reader kills its process."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from compute.labs.l_curve.problems.own import read_body, read_head

RNG = np.random.default_rng(5)
SQUARE = RNG.random((5, 5))
WHOLE = np.triu(RNG.integers(0, 3, (6, 6)))
MATRICES = {
    "sparse": sp.random(30, 20, 0.1, random_state=1),
    "of no entry": sp.coo_matrix((4, 5)),
    "sparse, whole numbers, symmetric": sp.coo_matrix(WHOLE + WHOLE.T),
    "sparse, skew": sp.coo_matrix(SQUARE - SQUARE.T),
    "full": RNG.random((5, 7)),
    "full, symmetric": SQUARE + SQUARE.T,
    "full, skew": SQUARE - SQUARE.T,
    "a vector": RNG.random((9, 1)),
}
PATTERNS = [(name, "pattern") for name, matrix in MATRICES.items() if sp.issparse(matrix)]  # without numbers
KINDS = [*((name, None) for name in MATRICES), *PATTERNS]


def read(data: bytes) -> Any:
    return read_body(data, read_head(data))


@pytest.mark.parametrize("symmetry", [None, "general"])
@pytest.mark.parametrize(("name", "field"), KINDS)
def test_files_by_scipy_are_read_as_by_scipy(name, field, symmetry):
    matrix = MATRICES[name]
    held = io.BytesIO()
    scipy.io.mmwrite(held, matrix, comment="one\ntwo", field=field, symmetry=symmetry)
    wanted, found = scipy.io.mmread(io.BytesIO(held.getvalue()), spmatrix=True), read(held.getvalue())
    assert sp.issparse(found) == sp.issparse(wanted)
    every = (one.toarray() if sp.issparse(one) else one for one in (found, wanted))
    np.testing.assert_array_equal(*every)


HEAD = b"%%MatrixMarket matrix coordinate real general\n3 3 3\n1 1 1\n2 2 1\n"


def test_blank_lines_comments_and_other_line_ends_are_accepted():
    text = HEAD.replace(b"3 3 3\n", b"% by hand\n\n  % again\n 3\t3 3 \n\n") + b"\n% the last one\n3 3 1"
    np.testing.assert_array_equal(read(text).toarray(), np.eye(3))
    np.testing.assert_array_equal(read(text.replace(b"\n", b"\r\n")).toarray(), np.eye(3))
    shouted = text.replace(b"matrix coordinate real general", b"MATRIX Coordinate Real GENERAL")
    np.testing.assert_array_equal(read(shouted).toarray(), np.eye(3))


LAST = [b"3 3 1integer", b"3 3 x", b"3 3 1" + b"9" * 4000, b"3 3", b"3 x 1", b"3 3 1 1", b"\xff", b"3 3 \0"]


def test_an_unreadable_number_is_refused_without_ending_the_process():
    """Runs in a child process: scipy's mmread kills its process for each of these last lines."""
    script = f"""
import numpy as np
from compute.labs.l_curve.problems.own import own
for last in {LAST}:
    try:
        own(None, {HEAD} + last, np.ones(3))
    except ValueError as refused:
        print("refused:", refused)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("refused: matrix cannot be read") == len(LAST) - 1  # a number of 4000 digits is infinite


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (HEAD, "3 lines of 3 numbers"),
        (HEAD + b"4 3 1", "row 1 to 3"),
        (HEAD + b"0 3 1", "row 1 to 3"),
        (HEAD + b"1.5 3 1", "row 1 to 3"),
        (HEAD + b"nan 3 1", "row 1 to 3"),
        (HEAD + b"3 3 1\n3 3 1", "3 lines of 3 numbers"),
        (HEAD.replace(b"3 3 3", b"3 3"), "line of sizes"),
        (HEAD.replace(b"3 3 3", b"-3 3 3"), "line of sizes"),
        (HEAD.replace(b"real", b"complex"), "complex"),
        (HEAD.replace(b"general", b"hermitian"), "hermitian"),
        (HEAD.replace(b"general", b"symmetric").replace(b"3 3 3", b"3 4 3"), "square"),
        (HEAD.replace(b" matrix", b" vector"), "first line"),
        (b"%%MatrixMarket matrix array pattern general\n1 1\n1\n", "pattern"),
        (b"%%MatrixMarket matrix coordinate real general\n% no more", "no line of sizes"),
    ],
)
def test_faults_of_a_file_are_named(data, named):
    with pytest.raises(ValueError, match=named):
        read(data)
