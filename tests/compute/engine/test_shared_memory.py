"""Objects and frames in memory shared by two processes, and failures to allocate it."""

from __future__ import annotations

import errno
import gc
import math
import os
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compute.engine.messages import OPENING, Checkpoint, CloseLab, Payload, Refuse
from compute.engine.registry import LabRegistry, LabState
from compute.engine.shared_memory import (
    SLOTS,
    BlobWriter,
    FrameRing,
    NoSharedMemory,
    memory_file,
    pack,
    read_blob,
    unpack,
)
from compute.measure.timing import Span, Timing


def descriptors() -> int:
    gc.collect()  # mappings of an earlier test
    return len(list(Path("/proc/self/fd").iterdir()))


class TestMemory:
    def thing(self) -> dict[str, Any]:
        return {"a": np.arange(3e6).reshape(1000, -1), "b": np.ones(3, np.uint8), "none": np.empty((0, 4)), "n": 7}

    def test_an_object_comes_back_with_memory_of_its_own(self):
        thing = self.thing()
        writer = BlobWriter(thing)
        pieces = 1
        while not writer.write():
            pieces += 1
        back, again = read_blob(writer.payload, writer.descriptor), read_blob(writer.payload, writer.descriptor)
        writer.close()
        assert pieces > 2  # 24 MB were written in pieces
        for name in ("a", "b", "none"):
            np.testing.assert_array_equal(back[name], thing[name])
            assert back[name].dtype == thing[name].dtype
        back["a"][0, 0] = 99.0
        assert again["a"][0, 0] == 0.0

    def test_arrays_of_any_kind_come_back_as_they_were(self):
        whole = np.arange(24.0).reshape(4, 6)
        arrays = [
            whole, whole[:, ::2], whole.T, np.asfortranarray(whole), whole.astype(">f4"), np.float64(3.0) * np.ones(()),
            np.array([True, False]), np.array([1 + 2j]), np.array(["a", "long"]), np.array([None, {}], object),
            np.array(["2026-11-27"], "M8[D]"), np.array([(1, 2.0)], [("n", "i4"), ("x", "f8")]),
            np.empty((0, 3), np.uint8),
        ]  # fmt: skip
        payload, buffers = pack(arrays)
        for back, array in zip(unpack(payload, [bytes(buffer) for buffer in buffers]), arrays, strict=True):
            assert (back.dtype, back.shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(back, array)

    def test_a_timing_comes_back_with_its_spans(self):
        spans = Span("launch", 2.0, 0.5), Span("compute", 3.0, 0.25)
        timing = Timing("cpu_numba", "", 3, 100, 0.5, 0.25, 0.125, 0.0625, devices=2, spans=spans)
        payload, buffers = pack(timing)
        back = unpack(payload, buffers)
        assert math.isnan(back.delivery)
        assert replace(back, delivery=1.0) == replace(timing, delivery=1.0)
        assert (back.spans, back.spans[0].began) == (spans, 1.5)

    @pytest.mark.parametrize("function", ["memfd_create", "truncate"])
    def test_refused_memory_is_an_error_in_words(self, monkeypatch, function):
        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSPC, "full")

        before = descriptors()
        monkeypatch.setattr(os, function, refuse)
        with pytest.raises(NoSharedMemory, match="no shared memory of 4096 bytes: No space left"):
            memory_file(4096)
        assert descriptors() <= before

    @pytest.mark.parametrize("refused", [1, 2])
    def test_a_lab_that_finds_no_descriptor_left_is_refused_and_leaves_none_open(self, monkeypatch, refused):
        lab, calls, duplicated = LabState(1, "faulty", print, {}, (8, 8)), count(1), os.dup

        def dup(descriptor: int) -> int:
            if next(calls) == refused or lab.known:
                raise OSError(errno.EMFILE, "too many")
            return duplicated(descriptor)

        lab.keep_checkpoint(Checkpoint(Payload(b"", ()), memory_file(1), {}))
        before = descriptors()
        monkeypatch.setattr(os, "dup", dup)
        refusal, closing = [item.request for item in LabRegistry().opening(lab, 0.0)]
        assert isinstance(refusal, Refuse)
        assert refusal.change == OPENING  # otherwise its page would wait for a first frame
        assert isinstance(closing, CloseLab)
        assert descriptors() <= before
        lab.known, lab.sent = True, False  # a lab that was open before is not refused: opening it is retried
        monkeypatch.setattr(os, "dup", dup)  # refuses again
        assert LabRegistry().opening(lab, 0.0) == []
        assert (lab.sent, lab.retry_at > 0.0) == (False, True)
        lab.release()
        assert descriptors() <= before - 1

    def test_without_memfd_an_unlinked_file_serves(self, monkeypatch):
        monkeypatch.delattr(os, "memfd_create")
        writer = BlobWriter(self.thing())
        while not writer.write():
            pass
        np.testing.assert_array_equal(read_blob(writer.payload, writer.descriptor)["b"], np.ones(3))
        writer.close()


@pytest.fixture
def ring():
    """Both ends of a ring with slots for pictures of 64 x 64 pixels: the worker's and the server's."""
    before, descriptor = descriptors(), FrameRing.create(64 * 64)
    other = os.dup(descriptor)
    ends = FrameRing(descriptor), FrameRing(other)
    yield ends
    for end in ends:
        end.close()
    assert descriptors() <= before


class TestRing:
    def test_a_taken_frame_is_a_copy_and_frees_the_slot(self, ring):
        worker, server = ring
        frames = []
        for i in range(3 * SLOTS):
            payload, buffers = pack({"levels": np.full((64, 64), i, np.uint8), "x": np.full(5, float(i))})
            assert worker.free() == 0
            assert worker.put(0, buffers)
            frames.append(unpack(payload, server.take(0, payload.sizes)))
        for i, frame in enumerate(frames):
            assert (frame["levels"] == i).all()
            assert (frame["x"] == i).all()
        _, too_large = pack(np.zeros(2**21, np.uint8))
        assert not worker.put(0, too_large)
        assert worker.free() == 0

    def test_a_server_that_is_behind_leaves_no_slot(self, ring):
        worker, server = ring
        _, buffers = pack(np.zeros(8))
        for slot in range(SLOTS):
            assert worker.free() == slot
            worker.put(slot, buffers)
        assert worker.free() is None
        server.take(4, [64])
        assert worker.free() == 4

    def test_a_limit_is_seen_by_the_worker_and_a_resting_worker_must_be_woken(self, ring):
        worker, server = ring
        assert worker.frames_through == 0
        assert server.permit(2**40 + 3)
        assert worker.frames_through == 2**40 + 3
        assert worker.free() == 0, "a limit takes no slot"
        worker.rest(True)
        assert not server.permit(2**40 + 4)
        assert worker.frames_through == 2**40 + 4
        with worker.at_work():
            assert not server.permit(5)
        worker.rest(False)
        assert server.permit(6)
