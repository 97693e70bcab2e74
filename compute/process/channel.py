"""Connection between a process and its child: pickled messages and file descriptors over a UNIX socket.

Unpickling is safe, since both ends run the same program. A message consists of a header (the bytes of its pickle and
its number of descriptors), the pickle, and one byte that carries the descriptors, if any. A header beyond the bounds,
which a child with corrupted memory may send, ends the channel.
"""

from __future__ import annotations

import io
import os
import pickle
import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

HEADER = struct.Struct(">QB")  # bytes of the pickle, number of descriptors
MARK = b"f"  # the byte that carries descriptors
CHUNK = 2**16  # bytes per read or write
MOST_BYTES = 2**40  # of a message: more than any computer's memory
MOST_DESCRIPTORS = 8  # per message
CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Channel:
    """One end of a connection. One thread may send while another receives.

    Each read fetches all available data, even several messages, because every system call lets other threads run first.
    references: dispatch table of a pickler that replaces objects of some classes by references to objects that the
    other end has.
    """

    def __init__(self, end: socket.socket, references: Mapping[type, Any] | None = None) -> None:
        self._socket, self._references = end, references
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)
        self._received, self._unsent = bytearray(), bytearray()
        self._descriptors: list[int] = []
        self._ended = False

    @classmethod
    def inherited(cls, descriptor: int, references: Mapping[type, Any] | None = None) -> Channel:
        """Return the child's end from the descriptor passed to it, which its own children do not inherit."""
        os.set_inheritable(descriptor, False)
        return cls(socket.socket(fileno=descriptor), references)

    def fileno(self) -> int:
        """Return the descriptor of the socket, to poll several channels together."""
        return self._socket.fileno()

    def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Send `message` with copies of `descriptors`. Block while the other end does not read.

        OSError if the other end is closed; the pickler's error, before anything is sent, for a bad message.
        """
        self._socket.sendall(self._packed(message, len(descriptors)))
        if descriptors:
            socket.send_fds(self._socket, [MARK], list(descriptors))

    def post(self, message: object) -> None:
        """Queue `message` for `flush`. A channel uses either `send` or `post`."""
        self._unsent += self._packed(message, 0)

    def flush(self) -> bool:
        """Send posted messages until the socket would block; return whether all are sent.

        Messages to a closed end are dropped: reading reports the end.
        """
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent[:CHUNK], socket.MSG_DONTWAIT)]
        except BlockingIOError:
            return False
        except OSError:
            self._unsent.clear()
        return True

    def waiting(self, seconds: float) -> bool:
        """Return whether a complete message or the end of the channel arrives within `seconds`."""
        until = time.monotonic() + seconds if seconds else 0.0
        while not self._complete():
            if not self._poll.poll(1e3 * max(0.0, until - time.monotonic()) if seconds else 0):
                return False
            self._read()
        return True

    def receive(self) -> tuple[Any, list[int]]:
        """Return the next message and its descriptors, which the caller closes. Block until a message arrives.

        EOFError or OSError at the end of the channel. If this process is at its limit of descriptors, fewer arrive; the
        messages after them stay readable.
        """
        while not self._complete():
            self._read()
        length, count = self._header()
        end = HEADER.size + length
        if length > MOST_BYTES or count > MOST_DESCRIPTORS:
            raise ConnectionError(f"a message must have at most {MOST_BYTES} bytes and {MOST_DESCRIPTORS} descriptors")
        if len(self._received) < end + (count > 0):
            raise EOFError
        descriptors, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        try:
            with memoryview(self._received) as received, received[HEADER.size : end] as data:
                return pickle.loads(data), descriptors  # noqa: S301 - from our own process
        finally:
            del self._received[: end + (count > 0)]

    def close(self) -> None:
        """Close this end."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._socket.close()

    def _packed(self, message: object, descriptors: int) -> bytes:
        if self._references is None:
            data = pickle.dumps(message, protocol=5)
        else:
            out = io.BytesIO()
            pickler = pickle.Pickler(out, protocol=5)
            pickler.dispatch_table = self._references
            pickler.dump(message)
            data = out.getvalue()
        return HEADER.pack(len(data), descriptors) + data

    def _header(self) -> tuple[int, int]:
        """Return the next message's length and number of descriptors, 0 and 0 before they have arrived."""
        return HEADER.unpack_from(self._received) if len(self._received) >= HEADER.size else (0, 0)

    def _complete(self) -> bool:
        """Return whether `receive` does not block."""
        length, count = self._header()
        return self._ended or length > MOST_BYTES or len(self._received) >= HEADER.size + length + (count > 0)

    def _read(self) -> None:
        data = b""
        with suppress(ConnectionResetError):  # the other end was closed before it had read everything
            data, descriptors, _, _ = socket.recv_fds(self._socket, CHUNK, MOST_DESCRIPTORS, CLOSE_ON_EXEC)
            self._descriptors += descriptors
        self._received += data
        self._ended = not data
