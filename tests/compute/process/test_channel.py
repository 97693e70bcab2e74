"""Messages and descriptors between a process and its child."""

from __future__ import annotations

import os
import pickle
import socket
import threading

import pytest

from compute.engine.shared_memory import memory_file
from compute.process.channel import HEADER, MOST_BYTES, MOST_DESCRIPTORS, Channel


def test_messages_and_descriptors_come_as_they_were_sent_however_they_are_read():
    ours, theirs = (Channel(end) for end in socket.socketpair())
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
    theirs.close()
    for one in files:
        os.close(one)


def test_several_that_have_come_are_known_without_another_look(monkeypatch):
    ours, theirs = (Channel(end) for end in socket.socketpair())
    for number in range(3):
        ours.send(number)
    assert theirs.receive()[0] == 0
    monkeypatch.setattr(theirs, "_poll", None)
    assert [theirs.waiting(0.0) and theirs.receive()[0] for _ in range(2)] == [1, 2]
    for end in (ours, theirs):
        end.close()


def test_descriptors_for_which_there_was_no_room_are_missed_by_their_message_alone(monkeypatch):
    ours, theirs = (Channel(end) for end in socket.socketpair())
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
    for end in (ours, theirs):
        end.close()


def test_an_end_in_the_middle_of_a_message_is_an_end():
    end, other = socket.socketpair()
    theirs = Channel(other)
    end.sendall(HEADER.pack(10, 0) + b"half")
    assert not theirs.waiting(0.0)
    end.close()
    assert theirs.waiting(120.0)
    with pytest.raises(EOFError):
        theirs.receive()
    theirs.close()


@pytest.mark.parametrize("header", [(MOST_BYTES + 1, 0), (4, MOST_DESCRIPTORS + 1)])
def test_a_message_beyond_the_bounds_ends_the_channel(header):
    end, other = socket.socketpair()
    theirs = Channel(other)
    end.sendall(HEADER.pack(*header) + b"data" + b"f")
    assert theirs.waiting(120.0)
    with pytest.raises(ConnectionError, match="at most"):
        theirs.receive()
    end.close()
    theirs.close()


def test_a_message_that_cannot_be_unpickled_leaves_the_next_one_readable():
    end, other = socket.socketpair()
    theirs = Channel(other)
    end.sendall(HEADER.pack(4, 0) + b"\xff" * 4)
    ours = Channel(end)
    ours.send("next")
    with pytest.raises(pickle.UnpicklingError):
        theirs.receive()
    assert theirs.receive() == ("next", [])
    ours.close()
    theirs.close()


def test_posted_messages_wait_for_a_reader_and_block_nobody():
    ours, theirs = (Channel(end) for end in socket.socketpair())
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
    ours.close()


def test_messages_sent_before_an_end_arrive_although_that_end_left_messages_unread():
    ours, theirs = (Channel(end) for end in socket.socketpair())
    ours.send("unread")
    theirs.send("last words")
    theirs.close()
    assert ours.receive() == ("last words", [])
    with pytest.raises(EOFError):
        ours.receive()
    ours.close()
