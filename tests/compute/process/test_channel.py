"""Messages and descriptors between a process and its child."""

from __future__ import annotations

import os
import pickle
import socket
import threading

import pytest

from compute.engine.shared_memory import memory_file
from compute.process.channel import HEADER, MOST_BYTES, MOST_DESCRIPTORS, Channel


@pytest.fixture
def ends():
    """Return both ends of a channel."""
    made = [Channel(end) for end in socket.socketpair()]
    yield made
    for end in made:
        end.close()


@pytest.fixture
def raw():
    """Return a socket, and the channel at its other end."""
    end, other = socket.socketpair()
    channel = Channel(other)
    yield end, channel
    end.close()
    channel.close()


def test_messages_and_descriptors_arrive_as_they_were_sent_until_the_end(ends):
    ours, theirs = ends
    files = [memory_file(size) for size in (10, 20, 30)]
    sent = [("a", files[:2]), ("b", []), (bytes(100_000), []), ("c", files[2:]), ("d", [])]
    thread = threading.Thread(target=lambda: [ours.send(message, passed) for message, passed in sent])
    assert not theirs.waiting(0.0)
    thread.start()
    for message, passed in sent:
        assert theirs.waiting(120.0)
        got, descriptors = theirs.receive()
        assert got == message
        assert [os.fstat(one).st_size for one in descriptors] == [os.fstat(one).st_size for one in passed]
        for one in descriptors:
            os.close(one)
    thread.join()
    assert not theirs.waiting(0.0)
    ours.close()
    assert theirs.waiting(120.0)
    with pytest.raises(EOFError):
        theirs.receive()
    for one in files:
        os.close(one)


def test_descriptors_beyond_the_processs_limit_are_missing_in_their_message_alone(ends, monkeypatch):
    ours, theirs = ends
    file, receive = memory_file(10), socket.recv_fds

    def refuse(sock: socket.socket, size: int, most: int, flags: int) -> tuple[bytes, list[int], int, object]:
        data, found, flags, address = receive(sock, size, most, flags)
        for one in found:  # like the system, if the process has reached its limit of descriptors
            os.close(one)
        return data, [], flags, address

    ours.send("lost", [file])
    with monkeypatch.context() as patch:
        patch.setattr(socket, "recv_fds", refuse)
        assert theirs.receive() == ("lost", [])
    ours.send("next", [file])
    message, (kept,) = theirs.receive()
    assert (message, os.fstat(kept).st_size) == ("next", os.fstat(file).st_size)
    for one in (file, kept):
        os.close(one)


def test_an_end_in_the_middle_of_a_message_is_an_end(raw):
    end, channel = raw
    end.sendall(HEADER.pack(10, 0) + b"half")
    assert not channel.waiting(0.0)
    end.close()
    assert channel.waiting(120.0)
    with pytest.raises(EOFError):
        channel.receive()


@pytest.mark.parametrize("header", [(MOST_BYTES + 1, 0), (4, MOST_DESCRIPTORS + 1)])
def test_a_message_beyond_the_bounds_ends_the_channel(raw, header):
    end, channel = raw
    end.sendall(HEADER.pack(*header) + b"data" + b"f")
    assert channel.waiting(120.0)
    with pytest.raises(ConnectionError, match="at most"):
        channel.receive()


def test_a_message_that_cannot_be_unpickled_leaves_the_next_one_readable(raw):
    end, channel = raw
    end.sendall(HEADER.pack(4, 0) + b"\xff" * 4)
    Channel(end).send("next")
    with pytest.raises(pickle.UnpicklingError):
        channel.receive()
    assert channel.receive() == ("next", [])


def test_posted_messages_are_queued_for_the_reader_without_blocking(ends):
    ours, theirs = ends
    data = bytes(2**22)  # more than a socket holds
    ours.post(data)
    ours.post("last")
    assert not ours.flush()
    received = []
    while len(received) < 2:
        ours.flush()
        if theirs.waiting(0.0):
            received.append(theirs.receive()[0])
    assert received == [data, "last"]
    theirs.close()
    ours.post("dropped")
    assert ours.flush()


def test_messages_sent_before_an_end_arrive_although_that_end_left_messages_unread(ends):
    ours, theirs = ends
    ours.send("unread")
    theirs.send("last words")
    theirs.close()
    assert ours.receive() == ("last words", [])
    with pytest.raises(EOFError):
        ours.receive()
