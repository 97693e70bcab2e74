"""What is built beside the loop is what is built on it: no page gets another's parts, and the loop goes on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading

import pytest
from bokeh.document import Document
from bokeh.io import curdoc

from app.builder import Builder

PAGES = 6
# Real pages, each with its first lab: some built on the loop, then PAGES at once by the builder, while the loop's
# thread is let in thousands of times a second. Tells of each its models by kind, and what belongs to another document.
SCRIPT = """
import asyncio, json, sys, time
import app.builder
from collections import Counter
import panel as pn
from bokeh.application.handlers.function import FunctionHandler
from bokeh.server.contexts import ApplicationContext
from panel.io.application import Application
from panel.io.state import set_curdoc
from tornado.httputil import HTTPServerRequest, RequestStartLine
from tornado.ioloop import IOLoop
from app.builder import builder
from app.page import Page
from app.ready_page import NOBODY

pages = {}

def fill(document):
    if pn.state.curdoc is None:  # the builder has it there already
        with set_curdoc(document):
            return fill(document)
    pn.extension(reconnect=True)
    page = pages[document.session_context.id] = Page()
    page.prepare()
    page.servable()

async def main():
    application = Application(FunctionHandler(fill))
    context = ApplicationContext(application, IOLoop.current(), url="/app")

    async def build(name):
        request = HTTPServerRequest(start_line=RequestStartLine("GET", "/app", "HTTP/1.1"), headers=NOBODY)
        session = await context.create_session_if_needed(name, request)
        document, page = session.document, pages[name]
        views = [(pane, theirs) for pane, root, theirs, comm in pn.state._views.values() if theirs is document]
        strange = [str(one) for one in document.models if one.document is not document]
        strange += [] if page.document is document and page.current.session.document is document else ["page"]
        strange += [] if page.current.session._loop is IOLoop.current() else ["loop"]
        kinds = Counter(type(one).__name__ for one in document.models)
        long = len(json.dumps(document.to_json(deferred=False)["roots"], default=str))
        return {"kinds": kinds, "views": len(views), "strange": strange, "long": long}

    async def tick(turns):
        while True:
            turns.append(time.perf_counter())
            await asyncio.sleep(0)

    await build("first")  # what is made once for all pages
    told = {"loop": [await build(f"loop {n}") for n in range(2)]}
    builder().install(application)
    app.builder.SWITCH = 1e-5
    turns = []
    ticking = asyncio.create_task(tick(turns))
    told["builder"] = await asyncio.gather(*(build(f"builder {n}") for n in range(int(sys.argv[1]))))
    ticking.cancel()
    told["turns"] = len(turns)
    print(json.dumps(told))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def told():
    command = [sys.executable, "-c", SCRIPT, str(PAGES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_pages_are_those_that_the_loop_would_build(told):
    (wanted, again), built = told["loop"], told["builder"]
    assert wanted["kinds"] == again["kinds"]
    assert len(built) == PAGES
    for page in built:
        assert page["kinds"] == wanted["kinds"]
        assert page["views"] == wanted["views"]
        assert abs(page["long"] - wanted["long"]) < 0.01 * wanted["long"]  # names of objects are counted up


def test_nothing_belongs_to_another_page(told):
    assert [page["strange"] for page in (*told["loop"], *told["builder"])] == [[]] * (2 + PAGES)


def test_the_loop_goes_on(told):
    assert told["turns"] > 100 * PAGES  # on it there would be a handful for each page


def test_one_thing_is_built_at_a_time_and_what_is_short_first():
    done, built = [], Builder()
    first, second = Document(), Document()

    def work(name, document):
        def call():
            assert curdoc() is document
            assert threading.current_thread() is not threading.main_thread()
            done.append(name)

        return call

    async def run(name, document, short):
        async with built.turn(short):
            await built.work(document, work(name, document))

    async def main():
        jobs = (("a", first, False), ("b", second, False), ("c", second, True), ("d", first, False))
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(run(*job))

    asyncio.run(main())
    assert done == ["a", "c", "b", "d"]
    assert not built.busy


def test_what_fails_is_told_and_the_next_goes_on():
    built, document = Builder(), Document()

    def fail():
        raise ValueError("on purpose")

    async def main():
        async with built.turn():
            with pytest.raises(ValueError, match="on purpose"):
                await built.work(document, fail)
        async with built.turn():
            return await built.work(document, lambda: 1)

    assert asyncio.run(main()) == 1
    assert not built.busy


def test_who_waits_no_longer_is_passed_over():
    built = Builder()

    async def main():
        async with built.turn():
            waiting = asyncio.create_task(built.turn().__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.sleep(0)
        async with asyncio.timeout(10), built.turn():
            pass

    asyncio.run(main())
    assert not built.busy


def test_a_turn_that_comes_as_its_owner_is_cancelled_goes_to_the_next():
    async def main():
        builder, took = Builder(), []

        async def wait(name):
            async with builder.turn():
                took.append(name)

        async with builder.turn():
            tasks = [asyncio.ensure_future(wait(name)) for name in ("gone", "next")]
            await asyncio.sleep(0)
        tasks[0].cancel()  # its turn is there, and it has not gone on yet
        await asyncio.gather(*tasks, return_exceptions=True)
        return took, builder.busy

    assert asyncio.run(asyncio.wait_for(main(), 10)) == (["next"], False)
