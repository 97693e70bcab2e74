"""Retry a lost connection until it succeeds, and reload the page if the server no longer has its session."""

from __future__ import annotations

from app.upstream.fix import BOKEHJS, Code, Fix

FIX = Fix(
    name="reconnecting",
    package="bokehjs",
    versions="3.9, 3.10",
    kind="fault",
    purpose="a page gave up after five tries to reconnect, or stood still if a message had been cut",
    report=(
        "ClientConnection gives up after five attempts, within 30 s, and all clients try at the same moments. After a "
        "connection that broke within a message, the receiver keeps the first half and closes the next connection with "
        "code 1002. Keep trying with a random delay, retry on 'online', and create a new Receiver in connect()."
    ),
    replaces=(
        Code(f"{BOKEHJS}:ClientConnection.connect", ("64995a14eb21",)),
        Code(f"{BOKEHJS}:ClientConnection._try_reconnect", ("623d87ab3053",)),
        Code(f"{BOKEHJS}:ClientConnection._reconnect_delay", ("de4ea23788f0",)),
        Code(f"{BOKEHJS}:ClientConnection._on_close", ("d6ce2d67420f",)),
        Code(f"{BOKEHJS}:ClientConnection._schedule_reconnect", ("202021ad7d9c",)),
    ),
)
