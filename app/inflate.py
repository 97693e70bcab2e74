"""Unpacking what strangers packed: never more than a bound, whatever the packed bytes promise."""

from __future__ import annotations

import zlib
from types import SimpleNamespace

GZIP, ZLIB = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS  # kinds of header


def inflated(data: bytes, most: int, kind: int = ZLIB) -> bytes:
    """The bytes that are packed in `data`, one stream of `kind`; at most `most`, and nothing behind it.

    ValueError for more, and for damaged data. No more memory than `most` is used.
    """
    press = zlib.decompressobj(kind)
    try:
        found = press.decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError("packed data are damaged") from error
    if len(found) > most:
        raise ValueError(f"packed data must unpack to at most {most:,} bytes")
    if not press.eof or press.unused_data:
        raise ValueError("packed data must be one whole stream")
    return found


def bounded_zlib(most: int) -> SimpleNamespace:
    """What a module needs of zlib that only packs and unpacks at once; unpacking is bounded by `most` bytes."""
    return SimpleNamespace(
        compress=zlib.compress, decompress=lambda data: inflated(data, most), error=zlib.error
    )
