"""Hostile files in six formats: small files that cost a naive reader seconds or gigabytes."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from PIL import Image

BLACK = 7071  # pixels a side: just within the bound of 50 million


def market(head, *entries, field="real", layout="coordinate", symmetry="general"):
    """Return a Matrix Market file."""
    return "\n".join([f"%%MatrixMarket matrix {layout} {field} {symmetry}", head, *entries, ""]).encode()


def npy(shape, data=b"", dtype="<f8", version=1):
    """Return a NumPy file whose header may be false."""
    head = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes((version, 0)) + struct.pack("<H" if version == 1 else "<I", len(head)) + head + data


def archive(method=zipfile.ZIP_DEFLATED, **members):
    """Return an .npz of these members."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method, compresslevel=1) as packed:  # fast: some contain 300 MB
        for name, data in members.items():
            packed.writestr(f"{name}.npy", data)
    return held.getvalue()


def element(kind, data=b"", order="<", length=None):
    """Return an element of a MATLAB file: a tag, whose length may be false, and the data, padded to 8 bytes."""
    return struct.pack(f"{order}II", kind, len(data) if length is None else length) + data + bytes(-len(data) % 8)


def matlab_matrix(name, kind, sizes, *numbers, flags=0, order="<", length=None):
    """Return a variable of a MATLAB file. kind: class of its values, 5 sparse, 6 double; numbers: its elements."""
    head = [
        element(6, struct.pack(f"{order}II", kind | flags, 0), order),
        element(5, struct.pack(f"{order}{len(sizes)}i", *sizes), order),
        element(1, name.encode(), order),
    ]
    return element(14, b"".join([*head, *numbers]), order, length)


def compressed(variable):
    """Return a variable of a MATLAB file, compressed."""
    packed = zlib.compress(variable, 1)
    return struct.pack("<II", 15, len(packed)) + packed


def matlab(*variables, order="<"):
    """Return a MATLAB file of version 5."""
    return b"MATLAB 5.0".ljust(124) + (b"\x00\x01IM" if order == "<" else b"\x01\x00MI") + b"".join(variables)


def stored(save, *args, **kwargs):
    """Return the file that save(file, …) writes."""
    held = io.BytesIO()
    save(held, *args, **kwargs)
    return held.getvalue()


def chunk(kind, data):
    """Return one chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, data=b"", *others, depth=8, colour=0, after=()):
    """Return a PNG of one picture. others: chunks before its pixels; after: chunks after them."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(data))
    return b"".join([b"\x89PNG\r\n\x1a\n", head, *others, pixels, *after, chunk(b"IEND", b"")])


def rows(levels):
    """Return the pixels of a PNG: each row of an array of bytes after a byte for "no filter"."""
    levels = np.asarray(levels)
    packed = levels.astype(levels.dtype.newbyteorder(">")).reshape(levels.shape[0], -1).view(np.uint8)
    return np.pad(packed, ((0, 0), (1, 0))).tobytes()


def saved(picture: Image.Image, kind: str, **options: Any) -> bytes:
    """Return the file of a picture."""
    return stored(picture.save, format=kind, **options)


@cache
def black() -> bytes:
    """Return 50 million black pixels in 48 kB."""
    return saved(Image.new("L", (BLACK, BLACK)), "PNG")


@cache
def scans(count: int, side: int = 7000) -> bytes:
    """Return a progressive JPEG of black pixels with `count` scans, each over the whole picture.

    A scan codes the last bit of one coefficient: only long runs of blocks without that coefficient.
    """
    plain = saved(Image.new("L", (side, side)), "JPEG", progressive=True, quality=50)
    blocks = (-(-side // 8)) ** 2
    table = bytes([0] * 14 + [0, 1])  # one code of 16 bits …
    huffman = b"\xff\xc4" + struct.pack(">H", 2 + 1 + 16 + 1) + b"\x10" + table[:16] + b"\xe0"
    bits = ""
    left = blocks
    while left > 0:
        run = min(left, 2**15 - 1)
        bits += "0" * 16 + f"{run - 2**14:014b}" if run >= 2**14 else "0" * 16 + "0" * 14
        left -= max(run, 2**14)
    bits += "1" * (-len(bits) % 8)
    body = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\x00")
    first = b"\xff\xda\x00\x08\x01\x01\x10\x3f\x3f\x01" + body  # coefficient 63, down to its bit 1
    later = b"\xff\xda\x00\x08\x01\x01\x10\x3f\x3f\x10" + body
    return plain[:-2] + huffman + first + later * count + b"\xff\xd9"


def photograph(side: int = 1200) -> bytes:
    """Return an ordinary JPEG."""
    rng = np.random.default_rng(3)
    soft = np.cumsum(rng.standard_normal((side, side, 3)), axis=0)
    levels = np.uint8(255 * (soft - soft.min()) / np.ptp(soft))
    return saved(Image.fromarray(levels), "JPEG", quality=85, progressive=True)


PICTURES: dict[str, Callable[[], bytes]] = {
    "png: one pixel wide": lambda: png(1, 50_000_000, bytes(100_000_000)),
    "png: one pixel high": lambda: png(50_000_000, 1, bytes(50_000_001)),
    "png: black": black,
    "png: too many pixels": lambda: png(2**31 - 1, 2**31 - 1),
    "png: interlaced, cut off": lambda: black()[:20_000],
    "png: chunks": lambda: png(64, 64, bytes(65 * 64), *[chunk(b"abCd", b"")] * 1_000_000),
    "png: frames": lambda: png(64, 64, bytes(65 * 64), after=[chunk(b"fcTL", bytes(26))] * 400_000),
    "png: text": lambda: png(64, 64, b"", *[chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(2**20)))] * 60),
    "png: profile": lambda: png(64, 64, b"", chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(10**8)))),
    "jpeg: scans": lambda: scans(22_000),
    "jpeg: scans of a small one": lambda: scans(60_000, 512),
    "jpeg: segments": lambda: b"\xff\xd8" + b"\xff\xe1\x00\x02" * 3_000_000,
    "jpeg: fill": lambda: b"\xff\xd8" + b"\xff" * 8_000_000,
    "jpeg: stuffing": lambda: b"\xff\xd8\xff\xda\x00\x02" + b"\xff\x00" * 4_000_000,
    "jpeg: photograph": photograph,
}
ARRAYS: dict[str, Callable[[], bytes]] = {
    "mtx: comments": lambda: market("%\n" * 3_000_000 + "1 1 1", "1 1 1"),
    "mtx: comments behind": lambda: market("1 1 1", "1 1 1", *["% c"] * 2_000_000),
    "mtx: a long line": lambda: market("1 1 1", "1 1 " + "1" * 6_000_000),
    "mtx: empty lines": lambda: market("2 2 2", "1 1 1", *[""] * 6_000_000, "2 2 1"),
    "mtx: rows": lambda: market("150000000 3 3", "1 1 1", "2 2 1", "3 3 1"),
    "npy: a long head": lambda: b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"(" * 2_000_000,
    "npy: more than it has": lambda: npy((10**6, 10**5)),
    "npz: a bomb": lambda: archive(A=npy((6000, 6000), bytes(8 * 6000**2)), b=stored(np.save, np.ones(6000))),
    "mat: a bomb": lambda: matlab(compressed(matlab_matrix("A", 6, (6000, 6000), element(9, bytes(8 * 6000**2))))),
    "mat: variables": lambda: matlab(*[matlab_matrix("a", 6, (0, 0), element(9))] * 100_000),
    "npz: members": lambda: archive(**{f"a{n}": b"" for n in range(5000)}),
}
