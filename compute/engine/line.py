"""The pipe between server and worker: pickled messages, and file descriptors beside them."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Line:
    """One end of a multiprocessing pipe (a UNIX socket). One thread may send while another receives."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Send `message`; copies of `descriptors` go with it. Blocks while the other side does not read.

        Raises OSError when the other side is gone.
        """
        self._connection.send((message, len(descriptors)))
        if descriptors:
            socket.send_fds(self._socket, [b"f"], list(descriptors))

    def waiting(self, seconds: float) -> bool:
        """Whether a message, or the end, arrives within `seconds`."""
        return bool(self._poll.poll(1e3 * seconds))

    def receive(self) -> tuple[Any, list[int]]:
        """The next message and its descriptors, which the caller closes. EOFError or OSError at the end."""
        message, count = self._connection.recv()
        if not count:
            return message, []
        data, descriptors, _, _ = socket.recv_fds(self._socket, 1, count, CLOSE_ON_EXEC)
        if not data:
            raise EOFError
        return message, descriptors

    def close(self) -> None:
        """Close this end."""
        self._socket.close()
        self._connection.close()
