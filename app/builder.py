"""Builds pages and labs beside the loop that all tabs share: one thread makes them, one after the other.

A page takes 0.4 s of Python, a lab that is shown for the first time as long. On the loop all pictures of all tabs stood
still for that. Here they go on: Python lets the loop in every SWITCH seconds, and whenever it has something to do.

One thing is built at a time, with its document as the current one, and nobody else touches that document meanwhile: a
page that is being made has no browser yet, and of an open one the builder holds the lock, as any callback does. The
document is held, too, so that nothing is written from here: what was changed becomes one message, encoded here, which
the loop writes, and what was asked of the loop (timers, callbacks) is passed to it then.
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

from app.bokeh_messages import encode_held
from app.upstream.internals import builder_thread, document_of, is_unlocked

SHORT_TURNS = 3  # at most, before one long one that waits: each page takes two, its HTML's and its document's
SWITCH = 0.0005  # seconds that the builder computes before the loop is let in; Python's own are ten times as long
Made = TypeVar("Made")


class _Thread(threading.local):
    """What a thread builds for."""

    loop: IOLoop | None = None


class BuildTurn:
    """One's turn at the builder. pass_on() lets the next one begin."""

    def __init__(self, pass_on: Callable[[], None]) -> None:
        self._pass_on: Callable[[], None] | None = pass_on

    def end(self) -> None:
        """Let the next one begin. Harmless if called twice."""
        pass_on, self._pass_on = self._pass_on, None
        if pass_on is not None:
            pass_on()


class Builder:
    """One thread that builds, whatever takes short first, then in order.

    After SHORT_TURNS in a row one that takes long has its turn: who asks for a page that he has, again and again, takes
    short ones, and would keep all that is built waiting.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="builder")
        self._thread = _Thread()
        self.busy = False  # whether something is being built
        self._waiting: dict[bool, deque[asyncio.Future[None]]] = {True: deque(), False: deque()}  # by `short`, see turn
        self._short_turns = 0  # of those who waited, since the last long one

    @asynccontextmanager
    async def turn(self, short: bool = False) -> AsyncIterator[BuildTurn]:
        """Wait until it is one's turn; until its end, or the block's, the builder is one's own. short: before what
        takes long, see Builder. For who needs the lock of an open page, too, there is `with_page`.
        """
        if self.busy:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[short].append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if not mine.cancelled():  # the turn had come in the same moment: it is the next one's
                    self.busy = self._next()
                raise
        self.busy = True
        turn = BuildTurn(self._pass_on)
        try:
            yield turn
        finally:
            turn.end()

    async def with_page(
        self, session: ServerSession, work: Callable[[BuildTurn], Awaitable[Made]], short: bool = False
    ) -> Made | None:
        """Return what `work` returns, which has a turn and the page's lock; None if the page is gone.

        A browser that does not read what is written to it keeps its page's lock. So no lock is waited for in a turn,
        and `work` should end the turn before what it has changed is written, which holds the lock.
        """
        async with self.turn(short) as turn:
            if is_unlocked(session):
                return await session.with_document_locked(work, turn)

        async def within_the_lock() -> Made:
            """Wait for a turn with the lock, which only this page then waits for."""
            async with self.turn(short) as turn:
                return await work(turn)

        return await session.with_document_locked(within_the_lock)

    def _pass_on(self) -> None:
        self.busy = self._next()

    def _next(self) -> bool:
        """Let the next one begin; False if none waits."""
        for short in (True, False) if self._short_turns < SHORT_TURNS else (False, True):
            waiting = self._waiting[short]
            while waiting:
                turn = waiting.popleft()
                if not turn.done():  # who waited may have been cancelled
                    self._short_turns = self._short_turns + 1 if short else 0
                    turn.set_result(None)
                    return True
        return False

    async def work(self, document: Document, work: Callable[[], Made]) -> Made:
        """Return what `work` returns, called in the builder's thread with `document` as the current one.

        For who has the turn. Nobody else may touch `document` meanwhile.
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
            bokeh.document = current  # Panel sets the document here as well, and would keep it: it is current already
            self._thread.loop = None
            builder_thread(document, theirs)

    def change(self, document: Document, change: Callable[[], object]) -> None:
        """Have `change` change the open page of `document` soon, after all that waits. On the loop, or built here."""
        loop = self.loop()
        if loop is None:
            raise RuntimeError("a page is changed on the loop that serves it")
        loop.add_callback(self._change, document, change)

    def beside(self, document: Document, change: Callable[[], object]) -> None:
        """Change the page of `document` beside the loop: soon where this is the loop that serves it, otherwise now."""
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
        if document.callbacks.hold_value:  # by somebody who passes on what is changed
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
        """The loop of this thread: the one that runs in it, or that it builds for; None if there is none."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._thread.loop
        return IOLoop.current()

    def install(self, application: Application) -> None:
        """Build every page of `application` here; a session waits for its own."""
        begin, build = application.on_session_created, application.initialize_document
        built: WeakKeyDictionary[Document, Exception | None] = WeakKeyDictionary()

        async def created(session_context: Any) -> None:
            """Do what Bokeh does before it has a page built, then build it: this is the last time that it waits."""
            document = document_of(session_context)
            try:
                await begin(session_context)
            finally:
                async with self.turn():
                    built[document] = await self.work(document, partial(_tried, build, document))
                builder_thread(document, threading.get_ident())

        def initialize(document: Document) -> None:
            """It has been built."""
            if error := built.pop(document):
                raise error

        application.on_session_created = created  # type: ignore[method-assign]
        application.initialize_document = initialize  # type: ignore[method-assign]


def _session(document: Document) -> Any:
    """The session of a page that is open; None of one that is not served."""
    return document.session_context.session if document.session_context else None


def _in(document: Document, work: Callable[[], Made]) -> Made:
    """Return what `work` returns, with `document` as the current one of Bokeh, which an error would leave it."""
    found: list[Made] = []
    failed: list[BaseException] = []

    def call() -> None:
        """Keep what comes of it."""
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001 raised below
            failed.append(error)

    invoke_with_curdoc(document, call)
    if failed:
        raise failed[0]
    return found[0]


def _changed(document: Document, change: Callable[[], object]) -> Callable[[], None] | None:
    """Make the change; return what passes its message on, None if there is none."""
    change()
    return encode_held(document)


def _tried(build: Callable[[Document], None], document: Document) -> Exception | None:
    """Build a page; return what has failed."""
    try:
        build(document)
    except Exception as error:  # noqa: BLE001 Bokeh hears of it, whatever it is, where it would have built the page
        return error
    return None


@cache
def builder() -> Builder:
    """This process's builder."""
    return Builder()
