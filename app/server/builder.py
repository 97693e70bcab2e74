"""Builds pages and labs, one at a time, in a thread separate from the event loop that all tabs share.

A page takes 0.4 s of Python, and so does a lab that is shown for the first time. On the event loop, this would freeze
all tabs. While the builder's thread runs, Python switches to the loop at least every SWITCH seconds, so that frames
continue.

No other thread changes the document of a build, which is Bokeh's current document while it runs: a new page has no
browser yet, and for an open page the builder acquires the session's lock, like any callback. The document is also held,
so that the thread writes no messages: the changes are encoded here as one message, which the loop sends, and requests
to the loop (timers, callbacks) are passed to it afterwards.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from bokeh.application import Application
from bokeh.document import Document
from bokeh.document.callbacks import invoke_with_curdoc
from bokeh.io.state import curstate
from bokeh.server.session import ServerSession
from panel.io.state import set_curdoc
from tornado.ioloop import IOLoop

from app.upstream.document_changes import encode_held
from app.upstream.internals import builder_thread, document_of, is_unlocked

SWITCH = 0.0005  # s between thread switches while the builder runs; Python's default is ten times as long
Made = TypeVar("Made")


class _Thread(threading.local):
    """The event loop for which the current thread builds; None in other threads."""

    loop: IOLoop | None = None


class BuildTurn:
    """Exclusive use of the builder; pass_on() starts the next turn."""

    def __init__(self, pass_on: Callable[[], None]) -> None:
        self._pass_on: Callable[[], None] | None = pass_on

    def end(self) -> None:
        """End the turn and start the next one; a second call has no effect."""
        pass_on, self._pass_on = self._pass_on, None
        if pass_on is not None:
            pass_on()


class Builder:
    """A thread that builds in turns, granted in the order of the requests."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="builder")
        self._thread = _Thread()
        self.busy = False  # whether a turn is active
        self._queue: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[BuildTurn]:
        """Wait for a turn, which ends with `end` or with the block.

        Callers that also need the lock of an open page must use `with_page`.
        """
        if self.busy:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if not mine.cancelled():  # the turn was granted at the same moment: pass it on
                    self.busy = self._next()
                raise
        self.busy = True
        turn = BuildTurn(self._pass_on)
        try:
            yield turn
        finally:
            turn.end()

    async def with_page(self, session: ServerSession, work: Callable[[BuildTurn], Awaitable[Made]]) -> Made | None:
        """Call `work` with a turn and the page's lock, and return its result; None if the page is closed.

        The lock of a page stays locked while its browser does not read the messages sent to it. So this method never
        waits for a lock during a turn, and `work` should end the turn before its changes are written, because that
        happens under the lock.
        """
        async with self.turn() as turn:
            if is_unlocked(session):
                return await session.with_document_locked(work, turn)

        async def within_the_lock() -> Made:
            """Wait for a turn while owning the lock, which delays only this page."""
            async with self.turn() as turn:
                return await work(turn)

        return await session.with_document_locked(within_the_lock)

    def _pass_on(self) -> None:
        self.busy = self._next()

    def _next(self) -> bool:
        """Start the next turn; return False if none is queued."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():  # done: the queued task was cancelled
                turn.set_result(None)
                return True
        return False

    async def work(self, document: Document, work: Callable[[], Made]) -> Made:
        """Call `work` in the builder's thread with `document` as the current document, and return its result.

        The caller must have the turn, and no other task may change `document` until this returns.
        """
        running = asyncio.get_running_loop()
        return await running.run_in_executor(self._pool, self._work, IOLoop.current(), document, work)

    def _work(self, loop: IOLoop, document: Document, work: Callable[[], Made]) -> Made:
        theirs = builder_thread(document, threading.get_ident())
        self._thread.loop = loop
        usual, bokeh, current = sys.getswitchinterval(), curstate(), curstate().document
        sys.setswitchinterval(SWITCH)
        try:
            with set_curdoc(document):
                return _in(document, work)
        finally:
            sys.setswitchinterval(usual)
            bokeh.document = current  # Panel sets the document here as well, and does not restore it
            self._thread.loop = None
            builder_thread(document, theirs)

    def change(self, document: Document, change: Callable[[], object]) -> None:
        """Queue `change` of the open page of `document`; call this in the event loop or in the builder's thread."""
        loop = self.loop()
        if loop is None:
            raise RuntimeError("a page is changed on the loop that serves it")
        loop.add_callback(self._change, document, change)

    def queue_or_call(self, document: Document, change: Callable[[], object]) -> None:
        """Queue `change` if this is the event loop of a served `document`, otherwise call it immediately."""
        try:
            asyncio.get_running_loop()
            served = _session(document) is not None
        except RuntimeError:
            served = False
        if served:
            self.change(document, change)
        else:
            change()

    async def _change(self, document: Document, change: Callable[[], object]) -> None:
        session = _session(document)
        if session is not None:
            await self.with_page(session, partial(self._change_locked, document, change))

    async def _change_locked(self, document: Document, change: Callable[[], object], turn: BuildTurn) -> None:
        if document.callbacks.hold_value:  # the owner of the hold sends the changes
            await self.work(document, change)
            return
        document.hold("combine")
        try:
            send = await self.work(document, partial(_changed, document, change))
            if send is not None:
                send()
        finally:
            document.unhold()
            turn.end()

    def loop(self) -> IOLoop | None:
        """Return the event loop that runs in this thread or for which it builds; None without one."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._thread.loop
        return IOLoop.current()

    def install(self, application: Application) -> None:
        """Build every page of `application` in the builder's thread; sessions wait for their page."""
        begin, build = application.on_session_created, application.initialize_document
        built: WeakKeyDictionary[Document, Exception | None] = WeakKeyDictionary()

        async def created(session_context: Any) -> None:
            """Call Bokeh's own hook, then build the page: Bokeh awaits only this hook, not `initialize_document`."""
            document = document_of(session_context)
            try:
                await begin(session_context)
            finally:
                async with self.turn():
                    built[document] = await self.work(document, partial(_tried, build, document))
                builder_thread(document, threading.get_ident())

        def initialize(document: Document) -> None:
            """Raise the error of the build, if any; the document is already built."""
            if error := built.pop(document):
                raise error

        application.on_session_created = created  # type: ignore[method-assign]
        application.initialize_document = initialize  # type: ignore[method-assign]


def _session(document: Document) -> Any:
    """Return the session of an open page; None for a document that is not served."""
    return document.session_context.session if document.session_context else None


def _in(document: Document, work: Callable[[], Made]) -> Made:
    """Call `work` with `document` as Bokeh's current document; restore the former one even after an error."""
    found: list[Made] = []
    failed: list[BaseException] = []

    def call() -> None:
        """Store the result or the error."""
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001 raised below
            failed.append(error)

    invoke_with_curdoc(document, call)
    if failed:
        raise failed[0]
    return found[0]


def _changed(document: Document, change: Callable[[], object]) -> Callable[[], None] | None:
    """Call `change`; return a function that sends its message, or None without one."""
    change()
    return encode_held(document)


def _tried(build: Callable[[Document], None], document: Document) -> Exception | None:
    """Build a page; return its error, or None."""
    try:
        build(document)
    except Exception as error:  # noqa: BLE001 Bokeh gets the error when it calls `initialize_document`
        return error
    return None


@cache
def builder() -> Builder:
    """Return the builder of this process."""
    return Builder()
