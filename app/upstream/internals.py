"""Functions that wrap private names of Bokeh, Panel and Tornado without a public counterpart.

`missing` lists the names that the installed releases do not have; with any missing name the server does not start.
"""

# ruff: noqa: SLF001 - the only place that reads private names of these libraries, apart from the fixes

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import panel as pn
import panel.io.document
import panel.io.location
from bokeh.application.handlers.document_lifecycle import DocumentLifecycleHandler
from bokeh.document import Document
from bokeh.model import Model
from bokeh.server.connection import ServerConnection
from bokeh.server.contexts import ApplicationContext
from bokeh.server.session import ServerSession
from bokeh.server.views import ws
from panel.auth import BasicLoginHandler

NAMES = (  # module:name of each private class or function used below; attributes of instances are not listed
    "bokeh.application.handlers.document_lifecycle:DocumentLifecycleHandler",
    "bokeh.server.contexts:ApplicationContext._discard_session",
    "bokeh.server.views.ws:WSHandler._async_open",
    "bokeh.server.views.ws:WSHandler._internal_error",
    "bokeh.server.views.ws:WSHandler._protocol_error",
    "panel.auth:BasicLoginHandler._validate",
    "panel.io.document:_garbage_collect",
    "panel.io.location:_get_location_params",
    "panel.io.state:_state._on_load",
    "panel.reactive:Syncable._process_property_change",
    "tornado.websocket:WebSocketProtocol13._write_frame",
)
PropertyChange = Callable[[Any, dict[str, Any]], dict[str, Any]]


def missing() -> list[str]:
    """Return the NAMES that the installed releases do not have."""
    return [place for place in NAMES if not _exists(place)]


def _exists(place: str) -> bool:
    module, _, name = place.partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = inspect.getattr_static(found, part, None)
    return found is not None


# -- sessions and their connections


def connections(session: ServerSession) -> list[ServerConnection]:
    """Return the connections of a session's browsers; Bokeh's public API has only their number."""
    return list(session._subscribed_connections)


def socket_of(connection: ServerConnection) -> ws.WSHandler:
    """Return the WebSocket of a connection."""
    return connection._socket


def session_ids(context: ApplicationContext) -> set[str]:
    """Return the ids of all sessions, including sessions that are being created."""
    return {*context._sessions, *context._pending_sessions}


async def discard(context: ApplicationContext, session: ServerSession) -> None:
    """End a session if no browser is connected to it, as Bokeh does every 17 s."""
    await context._discard_session(session, lambda one: not one.connection_count)


def is_unlocked(session: ServerSession) -> bool:
    """Return whether the lock of a session is free and has no waiter, so that it can be acquired without waiting."""
    lock: Any = session._lock
    if isinstance(lock, asyncio.Lock):  # since Bokeh 3.10
        return not lock.locked()
    acquired = lock.acquire()
    if acquired.done():
        lock.release()
        return True
    acquired.cancel()
    return False


def document_of(session_context: Any) -> Document:
    """Return the document of a session context, also before the session exists."""
    document: Document = session_context._document
    return document


# -- documents


def is_destroyed(document: Document) -> bool:
    """Return whether a document is destroyed: it then rejects callbacks."""
    return isinstance(document, Document) and not hasattr(document, "_roots")


def held_events(document: Document) -> list[Any]:
    """Return the list of a document's held events; events removed from it are not dispatched later."""
    held: list[Any] = document.callbacks._held_events
    return held


def write_later(session: ServerSession, write: Awaitable[Any]) -> None:
    """Make a locked session await `write` once its callback has returned; Bokeh 3.9 only."""
    session._pending_writes.append(write)  # type: ignore[union-attr]


def new_models(document: Document) -> frozenset[Model]:
    """Return the models of a document that no browser has received yet."""
    return frozenset(document.models._new_models)


def set_loaded(document: Document) -> None:
    """Mark the page of a document as loaded, and run the callbacks of `pn.state.onload`."""
    pn.state._on_load(document)


def builder_thread(document: Document, thread: int | None) -> int | None:
    """Set the thread id that Panel stores for a document, or remove it for None; return the previous one."""
    threads, before = pn.state._thread_id_, pn.state._thread_id_.get(document)
    if thread is None:
        threads.pop(document, None)
    else:
        threads[document] = thread
    return before


# -- sockets


def write_frame(protocol: Any, opcode: int, message: bytes) -> None:
    """Write a WebSocket frame without the task that Tornado's write_message creates for each message."""
    protocol._write_frame(True, opcode, message)


def unread_bytes(protocol: Any) -> int:
    """Return the number of bytes in a WebSocket's write buffer; 0 once it is closed."""
    return len(protocol.stream._write_buffer or b"")


def on_websocket_error(protocol: Callable[[Any, str], None], internal: Callable[[Any, str], None]) -> None:
    """Call protocol(handler, words) for messages that violate the protocol, internal(...) for errors of the server."""
    ws.WSHandler._protocol_error = protocol
    ws.WSHandler._internal_error = internal


def wrap_open(wrap: Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]) -> None:
    """Wrap the function that opens a session's WebSocket."""
    ws.WSHandler._async_open = wrap(ws.WSHandler._async_open)


# -- widgets, login, addresses, memory


def wrap_property_change(kind: type[Any], wrap: Callable[[PropertyChange], PropertyChange]) -> None:
    """Wrap the function by which widgets of `kind` read messages from browsers."""
    kind._process_property_change = wrap(kind._process_property_change)


def is_valid_login(handler: BasicLoginHandler, user: str, password: str) -> bool:
    """Return whether Panel's basic authentication accepts a user name and a password."""
    return bool(handler._validate(user, password))


def login_address(handler: Any) -> str:
    """Return the address of Panel's login page."""
    address: str = handler._login_endpoint
    return address


def wrap_location_params(wrap: Callable[[Callable[..., dict[str, Any]]], Callable[..., dict[str, Any]]]) -> None:
    """Wrap Panel's parser of request addresses."""
    panel.io.location._get_location_params = wrap(panel.io.location._get_location_params)


def replace_collections(collect: Callable[[], None], handlers: Any, session_ended: Callable[[Any], None]) -> None:
    """Replace Panel's garbage collection by `collect`, and Bokeh's at the end of each session by `session_ended`."""
    panel.io.document._garbage_collect = collect
    for handler in handlers:
        if isinstance(handler, DocumentLifecycleHandler):
            handler._on_session_destroyed = session_ended
