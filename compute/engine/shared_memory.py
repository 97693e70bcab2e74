"""Transfer of arrays between processes without copying them through the pipe.

An object is pickled without its arrays (pickle protocol 5), whose bytes are written into memory that both processes
map. That memory is an anonymous file: it has no name, so it disappears however either process ends; it does not count
against /dev/shm, and it needs no tracker process. Only descriptors are sent through the pipe.

A large object has its own file (BlobWriter, read_blob). Frames use one FrameRing for each lab. Byte i of its file marks
slot i as in use; byte SLOTS is set while the worker works for this lab, which identifies the lab after the worker's
death; byte RESTING is set while the worker waits for messages. The number at THROUGH is the last frame that the worker
may show: the server writes it there, and sends a message only to wake a resting worker. The worker writes a frame's
arrays into a free slot, marks the slot and sends the rest through the pipe; the server's reader copies the arrays
immediately and clears the mark. If no slot is free, because the server is behind, no frame is made.
"""

from __future__ import annotations

import copyreg
import errno
import io
import mmap
import os
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.engine.messages import Payload

ALIGNMENT = 64  # bytes: a cache line, and enough for every dtype
CHUNK = 8 * 2**20  # bytes per write: about 4 ms
SLOTS = 9  # of a ring: the widest window of unacknowledged frames, 8, and one in transfer
RESTING, THROUGH = SLOTS + 1, 2  # index of a byte, and of a 64-bit number, in the header before the slots
MAX_PIXELS = 2**20  # of one picture: a larger one takes a browser longer than a frame
CURVE_BYTES = 2**20  # bytes of a slot for curves, in addition to pictures; pages never written use no memory
PICTURES = 4  # full-size pictures that fit into a slot; a larger frame is sent through the pipe
IN_MESSAGE = -1  # slot number of a frame that did not fit: its arrays are in the payload's head


NO_DESCRIPTOR = "this process has no free file descriptor for it (ulimit -n)"


class NoSharedMemory(MemoryError):
    """The system refused shared memory or a descriptor of it; the message states which, and the size."""

    @classmethod
    def because(cls, what: str, error: OSError) -> NoSharedMemory:
        """Return the exception for an OSError; `what` begins its message."""
        scarce = error.errno in {errno.EMFILE, errno.ENFILE}
        return cls(f"{what}: {NO_DESCRIPTOR if scarce else os.strerror(error.errno or 0)}")


def memory_file(size: int) -> int:
    """Return the descriptor of an anonymous file of `size` bytes, in memory if possible; the caller closes it.

    Raises NoSharedMemory when descriptors or memory run out.
    """
    try:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("fieldlab")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
    except OSError as error:
        raise NoSharedMemory.because(f"no shared memory of {size} bytes", error) from error
    try:
        os.truncate(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        raise NoSharedMemory.because(f"no shared memory of {size} bytes", error) from error
    return descriptor


def duplicate(descriptor: int) -> int:
    """Return another descriptor of the same file; the caller closes it. NoSharedMemory when descriptors run out."""
    try:
        return os.dup(descriptor)
    except OSError as error:
        raise NoSharedMemory.because("no further descriptor of shared memory", error) from error


def pack(thing: object) -> tuple[Payload, list[memoryview]]:
    """Pickle `thing` without its arrays; return their bytes as views, without a copy."""
    buffers: list[memoryview] = []
    head = io.BytesIO()
    pickler = pickle.Pickler(head, protocol=5, buffer_callback=lambda buffer: buffers.append(buffer.raw()))
    pickler.dispatch_table = ARRAYS
    pickler.dump(thing)
    return Payload(head.getvalue(), tuple(buffer.nbytes for buffer in buffers)), buffers


def _reduced(array: NDArray[Any]) -> tuple[Any, ...] | str:
    """Return the reduction of an array for pickling; NumPy's own takes two thirds of the time of a frame."""
    if array.flags.c_contiguous and array.dtype.kind in "biufc":
        return _array, (pickle.PickleBuffer(array.data), array.dtype.str, array.shape)
    return array.__reduce_ex__(5)


def _array(buffer: bytes | memoryview, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.frombuffer(buffer, dtype).reshape(shape)


ARRAYS = {**copyreg.dispatch_table, np.ndarray: _reduced}


def unpack(payload: Payload, buffers: Sequence[bytes | memoryview]) -> Any:
    """Return the packed object; its arrays use `buffers` as their memory."""
    return pickle.loads(payload.head, buffers=buffers)  # noqa: S301 - from our own child process


def offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return the aligned start of each buffer, and the bytes needed for all."""
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return starts, end


class BlobWriter:
    """Writes an object into a memory file in pieces, to keep each slice of the worker's loop short."""

    def __init__(self, thing: object) -> None:
        self.payload, self._buffers = pack(thing)
        starts, total = offsets(self.payload.sizes)
        self.descriptor = memory_file(max(total, 1))
        self._pieces = [
            (start + done, buffer[done : done + CHUNK])
            for start, buffer in zip(starts, self._buffers, strict=True)
            for done in range(0, buffer.nbytes, CHUNK)
        ]

    def write(self) -> bool:
        """Write the next piece; return True after the last one."""
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


def read_blob(payload: Payload, descriptor: int) -> Any:
    """Return the object that a BlobWriter wrote. Its arrays are private: changes do not reach the file.

    Raises NoSharedMemory when descriptors or address space run out: each mapping duplicates the descriptor.
    """
    starts, total = offsets(payload.sizes)
    try:
        mapped = memoryview(mmap.mmap(descriptor, max(total, 1), access=mmap.ACCESS_COPY))
    except OSError as error:
        raise NoSharedMemory.because("shared memory cannot be mapped", error) from error
    return unpack(payload, [mapped[start : start + size] for start, size in zip(starts, payload.sizes, strict=True)])


class FrameRing:
    """Slots for frames in the memory file `descriptor`, which is mapped and closed. NoSharedMemory if that fails."""

    def __init__(self, descriptor: int) -> None:
        try:
            size = os.fstat(descriptor).st_size
            self._map = mmap.mmap(descriptor, size)
        except OSError as error:
            raise NoSharedMemory.because("shared memory cannot be mapped", error) from error
        finally:
            os.close(descriptor)
        self._view = memoryview(self._map)
        self._numbers = self._view[:ALIGNMENT].cast("q")
        self._slot_bytes = (size - ALIGNMENT) // SLOTS

    @staticmethod
    def create(pixels: int = MAX_PIXELS) -> int:
        """Return the descriptor of memory for frames of `pixels` pixels a picture; NoSharedMemory on failure."""
        slot = -(-(PICTURES * pixels + CURVE_BYTES) // ALIGNMENT) * ALIGNMENT
        return memory_file(ALIGNMENT + SLOTS * slot)

    def free(self) -> int | None:
        """Return the lowest free slot, to touch as few pages as possible; None if all are in use."""
        found = bytes(self._view[:SLOTS]).find(0)
        return None if found < 0 else found

    def put(self, slot: int, buffers: Sequence[memoryview]) -> bool:
        """Copy `buffers` into `slot` and mark it in use; return False without a copy if they do not fit."""
        starts, total = offsets([buffer.nbytes for buffer in buffers])
        if total > self._slot_bytes:
            return False
        base = ALIGNMENT + slot * self._slot_bytes
        for start, buffer in zip(starts, buffers, strict=True):
            self._view[base + start : base + start + buffer.nbytes] = buffer
        self._view[slot] = 1
        return True

    def take(self, slot: int, sizes: Sequence[int]) -> list[bytes]:
        """Return copies of the buffers in `slot`, and free it."""
        base = ALIGNMENT + slot * self._slot_bytes
        starts, _ = offsets(sizes)
        copies = [
            bytes(self._view[base + start : base + start + size]) for start, size in zip(starts, sizes, strict=True)
        ]
        self._view[slot] = 0
        return copies

    @property
    def frames_through(self) -> int:
        """Number of the last frame that the worker may show, as stored in the ring."""
        return self._numbers[THROUGH]

    def permit(self, number: int) -> bool:
        """Permit all frames up to `number`; return False if the worker rests and must be woken to read it."""
        self._numbers[THROUGH] = number
        return not self._view[RESTING]

    def rest(self, resting: bool) -> None:
        """Mark whether the worker waits for messages. The worker reads `frames_through` afterwards."""
        self._view[RESTING] = resting

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Mark the block as work for this lab; if the process dies in it, the mark remains."""
        self._view[SLOTS] = 1
        try:
            yield
        finally:
            self._view[SLOTS] = 0

    @property
    def died_at_work(self) -> bool:
        """Whether the mark of `at_work` is set."""
        return bool(self._view[SLOTS])

    def close(self) -> None:
        """Unmap the shared memory."""
        self._numbers.release()
        self._view.release()
        self._map.close()
