"""Arrays between processes without copying them through the pipe.

An object is pickled with its arrays left out (pickle protocol 5); the arrays' bytes go into memory that both
processes map. That memory is an anonymous file: it has no name, so nothing is left behind however either process
ends, it does not count against /dev/shm, and no tracker process is needed. Only descriptors travel, through the pipe.

A large object gets a file of its own (BlobWriter, read_blob). Frames use one FrameRing for each lab: byte i of its file
says whether slot i is in use, byte SLOTS whether the worker is at work for this lab: after its death that tells for
whom. Byte RESTING says whether the worker waits for messages, and the number at THROUGH up to which frame it may show:
the server writes it there, and sends a message only to wake a worker that rests. The worker writes a frame's arrays
into a free slot, marks it and sends the rest through the pipe; the server's reader copies them out at once and clears
the mark. With no free slot there is no frame: the server is behind.
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
CHUNK = 8 * 2**20  # bytes written in one go: about 4 ms
SLOTS = 9  # of a ring: the widest window of unacknowledged frames, 8, and one under way
RESTING, THROUGH = SLOTS + 1, 2  # a byte, and a number of 64 bits, of what stands before the slots
MAX_PIXELS = 2**20  # of one picture: beyond it a browser needs longer than a frame
CURVE_BYTES = 2**20  # bytes of a slot beside the pictures, for curves; pages never written cost nothing
PICTURES = 4  # full-size pictures in a frame that the slot has room for; a larger frame goes through the pipe
IN_MESSAGE = -1  # slot number of a frame that did not fit: its arrays are in the payload's head


NO_DESCRIPTOR = "no file descriptor was left for it in this process (ulimit -n)"


class NoSharedMemory(MemoryError):
    """The system refused shared memory or a descriptor for it; the message says which, and the size."""

    @classmethod
    def because(cls, what: str, error: OSError) -> NoSharedMemory:
        """Return the exception for an OSError; `what` begins its message."""
        scarce = error.errno in {errno.EMFILE, errno.ENFILE}
        return cls(f"{what}: {NO_DESCRIPTOR if scarce else os.strerror(error.errno or 0)}")


def memory_file(size: int) -> int:
    """Return the descriptor of an anonymous file of `size` bytes, in memory where the system can; the caller closes it.

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
    """Pickle `thing`; its arrays' bytes stay where they are and are returned as views."""
    buffers: list[memoryview] = []
    head = io.BytesIO()
    pickler = pickle.Pickler(head, protocol=5, buffer_callback=lambda buffer: buffers.append(buffer.raw()))
    pickler.dispatch_table = ARRAYS
    pickler.dump(thing)
    return Payload(head.getvalue(), tuple(buffer.nbytes for buffer in buffers)), buffers


def _reduced(array: NDArray[Any]) -> tuple[Any, ...] | str:
    """How an array is pickled: NumPy's own way takes two thirds of the time that a frame takes."""
    if array.flags.c_contiguous and array.dtype.kind in "biufc":
        return _array, (pickle.PickleBuffer(array.data), array.dtype.str, array.shape)
    return array.__reduce_ex__(5)


def _array(buffer: bytes | memoryview, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.frombuffer(buffer, dtype).reshape(shape)


ARRAYS = {**copyreg.dispatch_table, np.ndarray: _reduced}


def unpack(payload: Payload, buffers: Sequence[bytes | memoryview]) -> Any:
    """Return the object that was packed; its arrays use `buffers` as their memory."""
    return pickle.loads(payload.head, buffers=buffers)  # noqa: S301 - from our own child process


def offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return where buffers of these sizes start when each is aligned, and the bytes needed for all."""
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return starts, end


class BlobWriter:
    """Writes an object into a memory file piece by piece, so that no slice of the worker's loop gets long."""

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


def read_blob(payload: Payload, descriptor: int) -> Any:
    """Return the object that a BlobWriter wrote. Its arrays are private: changing them changes nothing in the file.

    Raises NoSharedMemory when descriptors or address space run out: a mapping keeps a descriptor of its own.
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
        """Return the descriptor of memory for frames of `pixels` pixels a picture; NoSharedMemory if there is none."""
        slot = -(-(PICTURES * pixels + CURVE_BYTES) // ALIGNMENT) * ALIGNMENT
        return memory_file(ALIGNMENT + SLOTS * slot)

    def free(self) -> int | None:
        """Return the lowest free slot, so that few pages are ever touched; None if all are in use."""
        found = bytes(self._view[:SLOTS]).find(0)
        return None if found < 0 else found

    def put(self, slot: int, buffers: Sequence[memoryview]) -> bool:
        """Copy `buffers` into `slot` and mark it in use; False, and nothing done, if they do not fit."""
        starts, total = offsets([buffer.nbytes for buffer in buffers])
        if total > self._slot_bytes:
            return False
        base = ALIGNMENT + slot * self._slot_bytes
        for start, buffer in zip(starts, buffers, strict=True):
            self._view[base + start : base + start + buffer.nbytes] = buffer
        self._view[slot] = 1
        return True

    def take(self, slot: int, sizes: Sequence[int]) -> list[bytes]:
        """Return copies of the buffers in `slot`, which is free afterwards."""
        base = ALIGNMENT + slot * self._slot_bytes
        starts, _ = offsets(sizes)
        copies = [
            bytes(self._view[base + start : base + start + size]) for start, size in zip(starts, sizes, strict=True)
        ]
        self._view[slot] = 0
        return copies

    @property
    def frames_through(self) -> int:
        """Number of the last frame that the worker may show, as far as it was written here."""
        return self._numbers[THROUGH]

    def permit(self, number: int) -> bool:
        """Let the worker show all frames up to `number`; False if it rests, and has to be woken to see that."""
        self._numbers[THROUGH] = number
        return not self._view[RESTING]

    def rest(self, resting: bool) -> None:
        """Say whether the worker waits for messages. It looks at `frames_through` after it has said so."""
        self._view[RESTING] = resting

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Mark that what happens in the block happens for this lab; a death in it leaves the mark."""
        self._view[SLOTS] = 1
        try:
            yield
        finally:
            self._view[SLOTS] = 0

    @property
    def died_at_work(self) -> bool:
        """Whether the worker was in `at_work` last."""
        return bool(self._view[SLOTS])

    def close(self) -> None:
        """Unmap the shared memory."""
        self._numbers.release()
        self._view.release()
        self._map.close()
