"""The engine's parts without a process: pace, shared memory, orders, watchdog, words. Clocks are numbers."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import threading
import time
from collections.abc import Mapping
from itertools import count
from math import inf, isnan, nan
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compute.devices import Host
from compute.engine.jobs import Bench
from compute.engine.keeper import Keeper, finite
from compute.engine.ledger import Death, Record, reopening
from compute.engine.line import Line
from compute.engine.memory import NoSharedMemory, Writer, memory_file, pack, read, unpack
from compute.engine.messages import Beat, Checkpoint, Delivery, Expect, Order, Parcel, Report
from compute.engine.outbox import Item, Outbox
from compute.engine.pace import GRACE, SLICE, Pace
from compute.engine.port import LONGEST_TEXT, Port, context_lost, in_words
from compute.engine.ring import SLOTS, Ring
from compute.engine.seat import belongs
from compute.engine.watchdog import HALTED, MOST_RESTARTS, MOST_WAITING, STARTUP, Breaker, Watchdog
from compute.timings import Timing
from tests.engine_faulty import Faulty


def done(steps: int, compute: float = 0.001, *, first_call: bool = False) -> Timing:
    return Timing("cpu_numpy", "one-step", steps, 16, 0.0, compute, first_call=first_call)


def descriptors() -> int:
    gc.collect()  # what an earlier test left mapped
    return len(list(Path("/proc/self/fd").iterdir()))


class TestPace:
    def test_the_first_frame_does_not_wait_for_the_steps(self):
        pace = Pace(steps=10**6, running=True)
        pace.permit(2, 0.0)
        assert pace.frame_due()
        pace.shown()
        assert not pace.frame_due()

    def test_nothing_without_a_permission(self):
        pace = Pace(running=True)
        assert pace.next_steps(0.0) == 0
        assert not pace.frame_due()

    def test_a_frame_is_split_into_slices_and_its_steps_add_up(self):
        pace, slices, now = Pace(steps=1000, running=True, seen=True), [], 0.0
        pace.permit(1, now)
        while not pace.frame_due():
            slices.append(pace.next_steps(now))
            pace.did(done(slices[-1]), slices[-1] * 1e-4)
        assert slices[0] == 1
        assert max(slices) <= SLICE / 1e-4 + 1
        assert sum(slices) == 1000
        total = pace.shown().total(done(0))
        assert total.steps == 1000
        assert total.compute == pytest.approx(0.001 * len(slices))
        assert not pace.may_show
        assert pace.next_steps(now) == 0

    def test_as_fast_as_it_goes_goes_on_for_a_second_after_the_last_permission(self):
        pace = Pace(steps=None, running=True, seen=True)
        pace.permit(1, 10.0)
        pace.did(done(1), 0.001)
        pace.shown()
        assert pace.next_steps(10.0 + 0.9 * GRACE) > 0
        assert not pace.frame_due()
        assert pace.next_steps(10.0 + 1.1 * GRACE) == 0

    def test_a_paused_lab_shows_a_change_once_without_steps(self):
        pace = Pace(dirty=False)
        pace.permit(3, 0.0)
        assert not pace.frame_due()
        pace.dirty = True
        assert pace.frame_due()
        assert pace.next_steps(0.0) == 0
        total = pace.shown().total(done(7, 0.5))
        assert not pace.frame_due()
        assert total.steps == 0
        assert isnan(total.compute)

    def test_single_steps_pause_and_are_shown_when_all_are_done(self):
        pace = Pace(running=True, cost=SLICE / 2)
        pace.restep(5)
        pace.permit(2, 0.0)
        seen = []
        while steps := pace.next_steps(0.0):
            assert not pace.frame_due()
            pace.did(done(steps), steps * SLICE / 2)
            seen.append(steps)
        assert seen == [2, 2, 1]
        assert pace.frame_due()
        assert pace.shown().steps == 5

    def test_pausing_shows_the_unfinished_frame(self):
        pace = Pace(steps=100, running=True, dirty=False)
        pace.permit(1, 0.0)
        pace.did(done(7), 0.008)
        pace.stop()
        assert pace.next_steps(0.0) == 0
        assert pace.frame_due()
        assert pace.shown().steps == 7

    def test_a_first_call_does_not_spoil_the_estimate(self):
        pace = Pace(steps=None, running=True, seen=True)
        pace.permit(1, 0.0)
        pace.did(done(1, first_call=True), 30.0)
        assert pace.cost == 0.0
        assert pace.tally.first_call

    def test_steps_that_cost_nothing_still_make_a_slice_of_bounded_length(self):
        pace = Pace(steps=None, running=True, seen=True)
        pace.permit(1, 0.0)
        for _ in range(1000):
            steps = pace.next_steps(0.0)
            pace.did(done(steps), 0.0)
        assert 1000 < steps <= 100_000

    def test_an_error_is_not_repeated_by_itself(self):
        pace = Pace(running=True, owed=3)
        pace.permit(1, 0.0)
        pace.fail()
        assert pace.next_steps(0.0) == 0
        assert not pace.frame_due()


class TestMemory:
    def thing(self) -> dict[str, Any]:
        return {"a": np.arange(3e6).reshape(1000, -1), "b": np.ones(3, np.uint8), "none": np.empty((0, 4)), "n": 7}

    def test_an_object_comes_back_with_memory_of_its_own(self):
        thing = self.thing()
        writer = Writer(thing)
        pieces = 1
        while not writer.write():
            pieces += 1
        back, again = read(writer.parcel, writer.descriptor), read(writer.parcel, writer.descriptor)
        writer.close()
        assert pieces > 2  # 24 MB were written in pieces
        for name in ("a", "b", "none"):
            np.testing.assert_array_equal(back[name], thing[name])
            assert back[name].dtype == thing[name].dtype
        back["a"][0, 0] = 99.0
        assert again["a"][0, 0] == 0.0

    def test_nothing_is_left_in_the_file_system_or_open(self):
        before, open_before = set(Path("/dev/shm").iterdir()), descriptors()
        ring = Ring(Ring.create())
        assert set(Path("/dev/shm").iterdir()) == before
        ring.close()
        assert descriptors() == open_before

    @pytest.mark.parametrize("function", ["memfd_create", "truncate"])
    def test_refused_memory_is_an_error_in_words(self, monkeypatch, function):
        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSPC, "full")

        before = descriptors()
        monkeypatch.setattr(os, function, refuse)
        with pytest.raises(NoSharedMemory, match="no shared memory of 4096 bytes: No space left"):
            memory_file(4096)
        assert descriptors() == before

    @pytest.mark.parametrize("refused", [1, 2])
    def test_a_lab_that_finds_no_descriptor_left_is_refused_and_leaves_none_open(self, monkeypatch, refused):
        record, calls, duplicated = Record(1, "faulty", print, {}, (8, 8)), count(1), os.dup

        def dup(descriptor: int) -> int:
            if next(calls) == refused:
                raise OSError(errno.EMFILE, "too many")
            return duplicated(descriptor)

        record.keep(Checkpoint(Parcel(b"", ()), memory_file(1), {}))
        before = descriptors()
        monkeypatch.setattr(os, "dup", dup)
        assert [item.order.verb for item in reopening(record)] == ["refuse", "close_lab"]
        assert descriptors() == before
        record.release()
        assert descriptors() == before - 1

    def test_without_memfd_an_unlinked_file_serves(self, monkeypatch):
        monkeypatch.delattr(os, "memfd_create")
        writer = Writer(self.thing())
        while not writer.write():
            pass
        np.testing.assert_array_equal(read(writer.parcel, writer.descriptor)["b"], np.ones(3))
        writer.close()


class TestRing:
    def pair(self) -> tuple[Ring, Ring]:
        descriptor = Ring.create(64 * 64)
        other = os.dup(descriptor)
        return Ring(descriptor), Ring(other)

    def test_what_is_taken_is_a_copy_and_frees_the_slot(self):
        worker, server = self.pair()
        frames = []
        for i in range(3 * SLOTS):
            parcel, buffers = pack({"levels": np.full((64, 64), i, np.uint8), "x": np.full(5, float(i))})
            slot = worker.free()
            assert slot == 0
            assert worker.put(slot, buffers)
            frames.append(unpack(parcel, server.take(slot, parcel.sizes)))
        for i, frame in enumerate(frames):
            assert (frame["levels"] == i).all()
            assert (frame["x"] == i).all()
        worker.close()
        server.close()

    def test_a_server_that_is_behind_leaves_no_slot(self):
        worker, server = self.pair()
        _, buffers = pack(np.zeros(8))
        for slot in range(SLOTS):
            assert worker.free() == slot
            worker.put(slot, buffers)
        assert worker.free() is None
        server.take(4, [64])
        assert worker.free() == 4
        worker.close()
        server.close()

    def test_a_frame_too_large_is_not_put(self):
        worker, server = self.pair()
        _, buffers = pack(np.zeros(2**21, np.uint8))
        assert not worker.put(0, buffers)
        assert worker.free() == 0
        worker.close()
        server.close()


class TestOutbox:
    def test_the_newest_value_replaces_unsent_ones_but_not_across_an_action(self):
        box = Outbox("test", lambda *_: None)

        def update(lab: int, **values: float) -> None:
            box.put(Order(lab, "update", {"serial": 0, "values": values}))

        for i in range(100):
            update(1, r=float(i))
            update(2, r=-float(i))
        update(1, k=1.0)
        box.put(Order(1, "act", {"name": "reset"}))
        update(1, r=5.0)
        update(1, r=6.0, k=2.0)
        got = [(item.order.lab, item.order.verb, item.order.arguments.get("values")) for item in box._items]
        box.close()
        assert got == [
            (1, "update", {"r": 99.0}),
            (2, "update", {"r": -99.0}),
            (1, "update", {"k": 1.0}),
            (1, "act", None),
            (1, "update", {"r": 6.0, "k": 2.0}),
        ]

    def test_a_worker_that_does_not_read_blocks_nobody_and_is_left_behind(self):
        ours, theirs = Pipe()
        line, far = Line(ours), Line(theirs)
        box = Outbox("test", lambda *_: None)
        box.connect(line, [])
        for _ in range(50):
            box.put(Order(1, "act", {"data": bytes(100_000)}))  # far more than the pipe holds
        far.close()
        end = time.monotonic() + 5
        while box._line:  # it notices by itself, and keeps the rest
            assert time.monotonic() < end
            time.sleep(0.01)
        box.disconnect()
        line.close()
        ours, theirs = Pipe()
        line, far = Line(ours), Line(theirs)
        shared = memory_file(10)
        box.connect(line, [Item(Order(1, "open_lab"), (shared,))])
        message, passed = far.receive()
        assert message.verb == "open_lab"
        assert os.fstat(passed[0]).st_size == 10
        os.close(passed[0])
        assert far.receive()[0].verb == "act"  # what was not sent and is not covered by reopening still comes
        far.close()
        box.close()
        line.close()

    def test_what_cannot_be_pickled_is_told_and_the_rest_goes_on(self):
        ours, theirs = Pipe()
        line, far = Line(ours), Line(theirs)
        failed: list[Order] = []
        heard = threading.Event()
        box = Outbox("test", lambda order, _: (failed.append(order), heard.set()))
        box.connect(line, [])
        box.put(Order(1, "act", {"value": lambda: 0}))
        box.put(Order(2, "run"))
        assert heard.wait(5)
        assert [order.lab for order in failed] == [1]
        assert far.receive()[0].lab == 2
        box.close()
        far.close()
        line.close()


class Looked:
    """A worker as the watchdog sees it. waited: seconds for a processor, by thread."""

    def __init__(self) -> None:
        self.stopped, self.waited = False, {"1": 100.0, "2": 0.0}

    def waits(self) -> Mapping[str, float]:
        return dict(self.waited)


class TestWatchdog:
    worker = Looked()  # one that has a processor

    def look(self, dog: Watchdog, start: float, end: float, worker: Looked | None = None) -> Death | None:
        """What the watchdog says first, looking ten times a second."""
        looks = (start + 0.1 * i for i in range(round((end - start) / 0.1) + 1))
        return next((death for now in looks if (death := dog.overdue(now, worker or self.worker))), None)

    def test_a_start_takes_its_time_and_then_the_deadline_holds(self):
        dog = Watchdog(5.0, 0.0)
        assert not self.look(dog, 0.0, STARTUP)
        dog.heard(STARTUP)
        assert not self.look(dog, STARTUP, STARTUP + 4.9)
        death = self.look(dog, STARTUP + 4.9, STARTUP + 5.3)
        assert death is not None
        assert death.since == STARTUP
        assert death.natural

    def test_what_was_announced_may_take_longer(self):
        dog = Watchdog(5.0, 0.0)
        dog.heard(0.0, extra=115.0)
        assert not self.look(dog, 0.0, 119.0)
        assert self.look(dog, 119.0, 121.0)

    def test_a_server_that_slept_itself_gives_another_deadline(self):
        dog = Watchdog(5.0, 0.0)
        dog.heard(0.0)
        assert not dog.overdue(3600.0, self.worker)
        assert not self.look(dog, 3600.0, 3604.0)
        assert self.look(dog, 3604.0, 3606.0)

    def test_waiting_for_a_processor_is_no_hang_unless_it_never_ends(self):
        dog, worker = Watchdog(3.0, 0.0), Looked()
        dog.heard(0.0)
        for i in range(1, 101):  # it runs a fifth of the time
            worker.waited["2"] += 0.08
            assert not dog.overdue(0.1 * i, worker)
        dog.heard(10.0)
        for i in range(1, 300):  # not at all
            worker.waited["2"] += 0.1
            if dog.overdue(10.0 + 0.1 * i, worker):
                break
        assert 3.0 * (1 + MOST_WAITING) <= 0.1 * i < 3.0 * (1 + MOST_WAITING) + 1.0

    def test_waiting_before_the_last_sign_of_life_does_not_count(self):
        dog, worker = Watchdog(3.0, 0.0), Looked()
        for i in range(20):
            worker.waited["1"] += 10.0
            dog.heard(float(i))
        assert not self.look(dog, 19.1, 21.9, worker)
        assert self.look(dog, 22.0, 22.5, worker)

    def test_a_stopped_worker_is_found_though_long_work_was_announced(self):
        dog, worker = Watchdog(3.0, 0.0), Looked()
        dog.heard(0.0, extra=115.0)
        worker.stopped = True
        assert not self.look(dog, 0.1, HALTED, worker)
        death = self.look(dog, HALTED, HALTED + 1.0, worker)
        assert death is not None
        assert "SIGSTOP" in death.reason
        assert not death.natural  # no lab is to blame

    def test_a_worker_that_is_stopped_now_and_then_is_left_alone(self):
        dog, worker = Watchdog(3.0, 0.0), Looked()
        dog.heard(0.0, extra=115.0)
        for i in range(300):
            worker.stopped = i % 10 > 0
            assert not dog.overdue(0.1 * i, worker)

    def test_the_breaker_opens_after_three_restarts_in_a_minute_and_not_in_an_hour(self):
        quick, slow = Breaker(), Breaker()
        assert [quick.died(float(i)) for i in range(MOST_RESTARTS + 1)] == [False] * MOST_RESTARTS + [True]
        assert not any(slow.died(25.0 * i) for i in range(20))
        quick.reset()
        assert not quick.died(10.0)


class TestPort:
    def test_what_is_announced_within_an_announcement_leaves_that_as_it_was(self):
        ours, theirs = (Line(end) for end in Pipe())
        port = Port(ours, 1.0)
        with port.expecting(7, "opening", 100.0), port.expecting(7, "compiling", 50.0):
            pass
        said = [theirs.receive()[0] for _ in range(4)]
        for end in (ours, theirs):
            end.close()
        opening = Expect(7, "opening", 100.0)
        assert said == [opening, Expect(7, "compiling", 50.0), opening, Beat()]


class TestWords:
    def test_a_value_error_speaks_for_itself_and_others_name_their_type(self):
        assert in_words(ValueError("r must be at most 0.25")) == "r must be at most 0.25"
        assert in_words(ZeroDivisionError("division by zero")) == "ZeroDivisionError: division by zero"
        assert in_words(KeyError()) == "KeyError"

    def test_what_a_client_sent_is_not_quoted_at_length(self):
        assert len(in_words(ValueError("x" * 5_000_000))) <= LONGEST_TEXT + 2

    @pytest.mark.parametrize(
        ("module", "attribute", "code", "lost"),
        [
            ("cupy_backends.cuda.api.runtime", "status", 700, True),
            ("numba.cuda.cudadrv.driver", "code", 719, True),
            ("cupy_backends.cuda.api.runtime", "status", 2, False),  # out of memory
            ("requests", "status", 700, False),
        ],
    )
    def test_only_errors_that_kill_the_context_count(self, module, attribute, code, lost):
        error = type("Error", (RuntimeError,), {"__module__": module})("planted")
        setattr(error, attribute, code)
        assert context_lost(error) is lost


def test_only_finite_states_are_good():
    good = {"field": np.ones((3, 3), np.float32), "steps": 3, "image": None, "mask": np.zeros(3, bool)}
    assert finite(good)
    for bad in (nan, inf, -inf):
        field = np.ones((3, 3), np.float32)
        field[1, 2] = bad
        assert not finite({**good, "field": field})
    assert not finite({"field": np.array([inf, -inf])})


class Recorder:
    """A port that remembers what was said."""

    def __init__(self) -> None:
        self.said: list[Report] = []

    def say(self, report: Report, descriptors: tuple[int, ...] = ()) -> None:
        self.said.append(report)


def test_no_state_is_kept_where_memory_is_short(monkeypatch, caplog):
    port, lab = Recorder(), Faulty(backend="cpu_numpy")
    keeper = Keeper(1, lab, port)  # type: ignore[arg-type]
    assert keeper.wakes_at() == inf
    with monkeypatch.context() as patch:
        patch.setattr(Host, "free_bytes", lambda _: 300)
        keeper.touch(by_hand=True)
        keeper.turn()
    assert "128 bytes for a copy are too much where 300 are free" in caplog.text
    keeper.touch(by_hand=True)
    assert keeper.wakes_at() > time.monotonic() + 10
    keeper.turn()
    keeper.turn()
    assert [type(report) for report in port.said] == [Delivery]
    keeper.close()
    lab.close()


@pytest.mark.parametrize(
    ("engine", "values", "fits"),
    [
        ("host", {"backend": "cpu_numba", "device_index": 0, "r": 0.1}, True),
        ("host:reference", {"backend": "cpu_numpy"}, True),
        ("host", {"backend": "gpu_cupy"}, False),
        ("cuda:1", {"backend": "gpu_cupy", "device_index": 1}, True),
        ("cuda:1", {"backend": "gpu_numba"}, True),
        ("cuda:1", {"device_index": 0}, False),
        ("cuda:1", {"backend": "cpu_numpy"}, False),
    ],
)
def test_an_engine_takes_what_runs_on_its_device(engine, values, fits):
    if fits:
        belongs(engine, values)
    else:
        with pytest.raises(ValueError, match=engine):
            belongs(engine, values)


def test_a_bench_without_jobs_sleeps():
    assert Bench(None).wakes_at() == inf  # type: ignore[arg-type]


def test_messages_are_small():
    """What goes with every update must not weigh on the pipe."""
    assert len(pickle.dumps(Order(1, "update", {"serial": 3, "values": {"r": 0.1}}))) < 300
