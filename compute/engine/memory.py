"""Arrays between processes without copying them through the pipe.

An object is pickled with its arrays left out (pickle protocol 5); the arrays' bytes go into memory that both
processes map. That memory is an anonymous file: it has no name, so nothing is left behind however either process
ends, it does not count against /dev/shm, and no tracker process is needed. Only descriptors travel, through the pipe.
"""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import tempfile
from collections.abc import Sequence
from typing import Any

from compute.engine.messages import Parcel

ALIGNMENT = 64  # bytes: a cache line, and enough for every dtype
CHUNK = 8 * 2**20  # bytes written in one go: about 4 ms


class NoSharedMemory(MemoryError):
    """The system refused memory to share; the text says how much was asked for."""


def memory_file(size: int) -> int:
    """The descriptor of an anonymous file of `size` bytes, in memory where the system can; the caller closes it.

    Raises NoSharedMemory when descriptors or memory run out.
    """
    try:
        descriptor = os.memfd_create("fieldlab") if hasattr(os, "memfd_create") else _unlinked_file()
    except OSError as error:
        raise NoSharedMemory(f"no shared memory of {size} bytes: {os.strerror(error.errno or 0)}") from error
    try:
        os.truncate(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        raise NoSharedMemory(f"no shared memory of {size} bytes: {os.strerror(error.errno or 0)}") from error
    return descriptor


def duplicate(descriptor: int) -> int:
    """Another descriptor of the same file; the caller closes it. NoSharedMemory when descriptors run out."""
    try:
        return os.dup(descriptor)
    except OSError as error:
        raise NoSharedMemory(f"no further descriptor of shared memory: {os.strerror(error.errno or 0)}") from error


def _unlinked_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def pack(thing: object) -> tuple[Parcel, list[memoryview]]:
    """Pickle `thing`; its arrays' bytes stay where they are and are returned as views."""
    buffers: list[memoryview] = []
    head = pickle.dumps(thing, protocol=5, buffer_callback=lambda buffer: buffers.append(buffer.raw()))
    return Parcel(head, tuple(buffer.nbytes for buffer in buffers)), buffers


def unpack(parcel: Parcel, buffers: Sequence[bytes | memoryview]) -> Any:
    """The object again; its arrays use `buffers` as their memory."""
    return pickle.loads(parcel.head, buffers=buffers)  # noqa: S301 - from our own child process


def offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where buffers of these sizes start when each is aligned, and the bytes needed for all."""
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return starts, end


class Writer:
    """Writes an object into a memory file piece by piece, so that no slice of the worker's loop gets long."""

    def __init__(self, thing: object) -> None:
        self.parcel, self._buffers = pack(thing)
        starts, total = offsets(self.parcel.sizes)
        self.descriptor = memory_file(max(total, 1))
        self._pieces = [
            (start + done, buffer[done : done + CHUNK])
            for start, buffer in zip(starts, self._buffers, strict=True)
            for done in range(0, buffer.nbytes, CHUNK)
        ]

    def write(self) -> bool:
        """Write the next piece; True when nothing is left."""
        if self._pieces:
            start, piece = self._pieces.pop(0)
            while piece.nbytes:
                done = self._write_at(piece, start)
                start, piece = start + done, piece[done:]
        return not self._pieces

    def _write_at(self, piece: memoryview, start: int) -> int:
        try:
            return os.pwrite(self.descriptor, piece, start)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.ENOMEM}:
                raise NoSharedMemory(f"no shared memory left for {piece.nbytes} bytes") from error
            raise

    def close(self) -> None:
        """Close this process's descriptor."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def read(parcel: Parcel, descriptor: int) -> Any:
    """The object that a Writer wrote. Its arrays are private: changing them changes nothing in the file."""
    starts, total = offsets(parcel.sizes)
    mapped = memoryview(mmap.mmap(descriptor, max(total, 1), access=mmap.ACCESS_COPY))
    return unpack(parcel, [mapped[start : start + size] for start, size in zip(starts, parcel.sizes, strict=True)])
