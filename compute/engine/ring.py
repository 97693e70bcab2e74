"""Frames in memory shared by the engine and the server: one ring for each lab.

Byte i of the file says whether slot i is in use, byte SLOTS whether the worker is at work for this lab: after its death
that tells for whom. The worker writes a frame's arrays into a free slot, marks it and
sends the rest through the pipe; the server's reader copies them out at once and clears the mark. With no free slot
there is no frame: the server is behind.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from compute.engine.memory import ALIGNMENT, NoSharedMemory, memory_file, offsets

SLOTS = 9  # the widest window of unacknowledged frames, 8, and one under way
LARGEST = 2**20  # pixels of one picture at most: beyond it a browser needs longer than a frame
ROOM = 2**20  # bytes of a slot beside the pictures, for curves; pages never written cost nothing
PICTURES = 4  # full-size pictures in a frame that the slot has room for; a larger frame goes through the pipe
ELSEWHERE = -1  # slot number of a frame that did not fit: its arrays are in the parcel's head


class Ring:
    """Maps the memory file `descriptor`, which it takes over and closes. NoSharedMemory if it cannot be mapped."""

    def __init__(self, descriptor: int) -> None:
        try:
            size = os.fstat(descriptor).st_size
            self._map = mmap.mmap(descriptor, size)
        except OSError as error:
            raise NoSharedMemory(f"shared memory cannot be mapped: {os.strerror(error.errno or 0)}") from error
        finally:
            os.close(descriptor)
        self._view = memoryview(self._map)
        self._slot_bytes = (size - ALIGNMENT) // SLOTS

    @staticmethod
    def create(pixels: int = LARGEST) -> int:
        """The descriptor of memory for frames with pictures of `pixels` pixels; NoSharedMemory if there is none."""
        slot = -(-(PICTURES * pixels + ROOM) // ALIGNMENT) * ALIGNMENT
        return memory_file(ALIGNMENT + SLOTS * slot)

    def free(self) -> int | None:
        """The lowest free slot, so that few pages are ever touched; None if all are in use."""
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
        """Copies of the buffers in `slot`, which is free afterwards."""
        base = ALIGNMENT + slot * self._slot_bytes
        starts, _ = offsets(sizes)
        copies = [
            bytes(self._view[base + start : base + start + size]) for start, size in zip(starts, sizes, strict=True)
        ]
        self._view[slot] = 0
        return copies

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
        """Unmap."""
        self._view.release()
        self._map.close()
