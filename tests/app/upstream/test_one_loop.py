"""Bokeh calls an application's functions in the event loop's thread, with 3.9 and with 3.10."""

from __future__ import annotations

import asyncio
import threading

import bokeh.server.contexts
import bokeh.server.session
import bokeh.server.tornado
from bokeh.document import Document
from bokeh.server.session import ServerSession
from bokeh.util.token import generate_session_id
from tornado.ioloop import IOLoop

from app.upstream import one_loop


def test_a_locked_callback_runs_in_the_thread_of_the_loop(monkeypatch):
    for module, name in (
        (bokeh.server.tornado, "_ServerExecutor"),
        (bokeh.server.session, "_run_in_executor"),
        (bokeh.server.contexts, "_run_in_executor"),
    ):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, getattr(module, name))
    one_loop.install()
    threads = []

    async def run():
        session = ServerSession(generate_session_id(), Document(), io_loop=IOLoop.current())
        await session.with_document_locked(lambda: threads.append(threading.current_thread()))

    asyncio.run(run())
    assert threads == [threading.current_thread()]


def test_the_executor_calls_in_the_thread_of_the_loop():
    async def run():
        return await one_loop.LoopExecutor().run(lambda number: (number, threading.current_thread()), 7)

    assert asyncio.run(run()) == (7, threading.current_thread())
