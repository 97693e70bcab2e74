"""Requests to a worker, and its reports, signs of life and messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from socket import socketpair

import pytest

from compute.engine.messages import (
    Act,
    CloseLab,
    CreateLab,
    DeadlineExtended,
    Heartbeat,
    Stop,
    TakeCheckpoint,
    Update,
)
from compute.engine.sending import (
    MAX_TEXT,
    MOST_OF_A_LAB,
    EventSender,
    QueuedRequest,
    RequestQueue,
    context_lost,
    error_text,
)
from compute.engine.shared_memory import memory_file
from compute.process.channel import Channel
from tests.waiting import until


@contextmanager
def pair() -> Iterator[tuple[Channel, Channel]]:
    """Yield both ends of a channel, which are closed afterwards."""
    ends = [Channel(end) for end in socketpair()]
    yield ends[0], ends[1]
    for end in ends:
        end.close()


class TestRequestQueue:
    def test_the_newest_value_replaces_unsent_ones_but_not_across_an_action(self):
        queue = RequestQueue("test", lambda *_: None)

        def update(lab: int, **values: float) -> None:
            queue.put(QueuedRequest(Update(lab, 0, values)))

        with pair() as (channel, far):
            queue.connect(channel, [QueuedRequest(Act(9, "load", {"data": bytes(10**7)}))])  # fills the pipe
            for i in range(100):
                update(1, r=float(i))
                update(2, r=-float(i))
            update(1, k=1.0)
            queue.put(QueuedRequest(Act(1, "reset", {})))
            update(1, r=5.0)
            update(1, r=6.0, k=2.0)
            _, *got = [far.receive()[0] for _ in range(6)]
            queue.close()
        assert got == [
            Update(1, 0, {"r": 99.0}),
            Update(2, 0, {"r": -99.0}),
            Update(1, 0, {"k": 1.0}),
            Act(1, "reset", {}),
            Update(1, 0, {"r": 6.0, "k": 2.0}),
        ]

    def test_the_queue_is_bounded_per_lab_and_in_total_except_for_opening_moving_and_closing(self):
        queue = RequestQueue("test", lambda *_: None)
        essential = [CreateLab(99, "faulty", {}, None, 0), CloseLab(1), TakeCheckpoint(1), Stop(0)]
        took = sum(queue.put(QueuedRequest(Act(1, "reset", {}))) for _ in range(5000))
        assert took == MOST_OF_A_LAB
        assert all(queue.put(QueuedRequest(request)) for request in [Act(2, "reset", {}), *essential])
        for lab in range(20):
            for _ in range(MOST_OF_A_LAB):
                queue.put(QueuedRequest(Act(lab, "reset", {})))
        assert not queue.put(QueuedRequest(Act(99, "reset", {})))
        assert all(queue.put(QueuedRequest(request)) for request in essential)
        queue.close()

    def test_a_worker_that_does_not_read_blocks_nobody_and_is_left_behind(self):
        queue = RequestQueue("test", lambda *_: None)
        with pair() as (channel, far):
            queue.connect(channel, [])
            for _ in range(50):
                queue.put(QueuedRequest(Act(1, "load", {"data": bytes(100_000)})))  # far more than the pipe holds
            far.close()
            until(lambda: not queue._channel)  # the queue detects the closed end itself, and keeps the other requests
            queue.disconnect()
        with pair() as (channel, far):
            shared = memory_file(10)
            queue.connect(channel, [QueuedRequest(CreateLab(1, "faulty", {}, None, 0), (shared,))])
            message, passed = far.receive()
            assert isinstance(message, CreateLab)
            assert os.fstat(passed[0]).st_size == 10
            os.close(passed[0])
            assert isinstance(far.receive()[0], Act)  # an unsent request that reopening does not cover is still sent
            far.close()
            queue.close()


def test_a_nested_announcement_leaves_the_outer_one_as_it_was():
    with pair() as (ours, theirs):
        sender = EventSender(ours, 1.0)
        with sender.extended_deadline(7, "opening", 100.0), sender.extended_deadline(7, "compiling", 50.0):
            pass
        said = [theirs.receive()[0] for _ in range(4)]
    opening = DeadlineExtended(7, "opening", 100.0)
    assert said == [opening, DeadlineExtended(7, "compiling", 50.0), opening, Heartbeat()]


class TestWords:
    def test_a_value_error_speaks_for_itself_and_others_name_their_type(self):
        assert error_text(ValueError("r must be at most 0.25")) == "r must be at most 0.25"
        assert error_text(ZeroDivisionError("division by zero")) == "ZeroDivisionError: division by zero"
        assert error_text(KeyError()) == "KeyError"
        assert len(error_text(ValueError("x" * 5_000_000))) <= MAX_TEXT + 2

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
