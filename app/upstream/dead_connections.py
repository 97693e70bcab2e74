"""Close the previous connection of a page when its browser opens another, and silent connections after 40 s."""

# ruff: noqa: SLF001 - Bokeh has no public name for a session's connections

from __future__ import annotations

from bokeh.server.connection import ServerConnection
from bokeh.server.session import ServerSession
from bokeh.server.views import ws

from app.upstream.fix import Code, Fix

PING = 20.0  # s between pings of a silent browser, and timeout of the answer


def install() -> None:
    """Close the older connections of a session when a new one subscribes, and ping silent browsers every PING s."""
    subscribe = ServerSession.subscribe

    def subscribe_alone(session: ServerSession, connection: ServerConnection) -> None:
        """Subscribe `connection` and close the previous ones."""
        for older in session._subscribed_connections:
            if (protocol := older._socket.ws_connection) is not None:
                protocol.stream.close()
        subscribe(session, connection)

    ServerSession.subscribe = subscribe_alone
    ws.WSHandler.ping_interval = PING


FIX = Fix(
    name="dead_connections",
    package="bokeh",
    versions="3.9, 3.10",
    kind="fault",
    purpose="a laptop that changed its network blocked its page for 15 minutes",
    report=(
        "When a client reconnects to a session, the server keeps the old WebSocket until TCP gives up, and awaits "
        "writes to it while it holds the document lock. Close older connections of the same client on subscribe, and "
        "set Tornado's websocket ping so that silent ones end."
    ),
    replaces=(Code("bokeh.server.session:ServerSession.subscribe", ("de03004f5a14", "daf4cca82e64")),),
    install=install,
)
