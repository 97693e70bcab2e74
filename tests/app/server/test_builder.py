"""Pages built in the builder's thread equal those built on the loop, share no parts, and do not block the loop."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace

import pytest
from bokeh.document import Document
from bokeh.io import curdoc
from bokeh.server.session import ServerSession
from tornado.ioloop import IOLoop

from app.server.builder import Builder
from tests.app.served_page import run_script

pytestmark = pytest.mark.extended

PAGES = 6
# Real pages, each with its first lab: some are built on the loop, then the builder receives PAGES requests together,
# while the loop's thread is scheduled thousands of times a second. Reports each page's models by kind, and the objects
# that belong to another document.
SCRIPT = """
import asyncio, json, sys, time
import app.server.builder
from collections import Counter
import panel as pn
from bokeh.application.handlers.function import FunctionHandler
from bokeh.server.contexts import ApplicationContext
from panel.io.application import Application
from panel.io.state import set_curdoc
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.ioloop import IOLoop
from app.server.builder import builder
from app.page.page import Page

pages = {}

def fill(document):
    if pn.state.curdoc is None:  # the builder has it there already
        with set_curdoc(document):
            return fill(document)
    pn.extension(reconnect=True)
    pages[document.session_context.id] = Page()
    pages[document.session_context.id].servable()

async def main():
    application = Application(FunctionHandler(fill))
    context = ApplicationContext(application, IOLoop.current(), url="/app")

    async def build(name):
        line, headers = RequestStartLine("GET", "/app", "HTTP/1.1"), HTTPHeaders({"Host": "localhost"})
        request = HTTPServerRequest(start_line=line, headers=headers)
        session = await context.create_session_if_needed(name, request)
        document, page = session.document, pages[name]
        views = [(pane, theirs) for pane, root, theirs, comm in pn.state._views.values() if theirs is document]
        strange = [str(one) for one in document.models if one.document is not document]
        strange += [] if page.document is document else ["page"]
        kinds = Counter(type(one).__name__ for one in document.models)
        long = len(json.dumps(document.to_json(deferred=False)["roots"], default=str))
        return {"kinds": kinds, "views": len(views), "strange": strange, "long": long}

    async def tick(turns):
        while True:
            turns.append(time.perf_counter())
            await asyncio.sleep(0)

    await build("first")  # what is made once for all pages
    result = {"loop": [await build(f"loop {n}") for n in range(2)]}
    builder().install(application)
    app.server.builder.SWITCH = 1e-5
    turns = []
    ticking = asyncio.create_task(tick(turns))
    result["builder"] = await asyncio.gather(*(build(f"builder {n}") for n in range(int(sys.argv[1]))))
    ticking.cancel()
    result["turns"] = len(turns)
    print(json.dumps(result))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def result():
    done = run_script(SCRIPT, str(PAGES))
    return json.loads(done.stdout)


def test_pages_equal_those_built_on_the_loop_which_runs_meanwhile(result):
    (expected, again), pages = result["loop"], result["builder"]
    assert expected["kinds"] == again["kinds"]
    assert len(pages) == PAGES
    for page in pages:
        assert page["kinds"] == expected["kinds"]
        assert page["views"] == expected["views"]
        assert abs(page["long"] - expected["long"]) < 0.01 * expected["long"]  # names of objects contain a counter
    assert [page["strange"] for page in (*result["loop"], *pages)] == [[]] * (2 + PAGES)  # objects of another page
    assert result["turns"] > 100 * PAGES  # pages built on the loop would leave a handful of turns each


def test_turns_are_granted_one_at_a_time_in_the_order_of_the_requests():
    done, built = [], Builder()
    first, second = Document(), Document()

    def work(name, document):
        def call():
            assert curdoc() is document
            assert threading.current_thread() is not threading.main_thread()
            done.append(name)

        return call

    async def run(name, document):
        async with built.turn():
            await built.work(document, work(name, document))

    async def main():
        jobs = (("a", first), ("b", second), ("c", second), ("d", first))
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(run(*job))

    asyncio.run(main())
    assert done == ["a", "b", "c", "d"]
    assert not built.busy


def test_an_error_is_raised_and_the_next_turn_follows():
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


@pytest.mark.parametrize("granted", [False, True])
def test_a_cancelled_request_leaves_its_turn_to_the_next(granted):
    """granted: its turn has been granted, but its task has not resumed."""

    async def main():
        builder, took = Builder(), []

        async def wait(name):
            async with builder.turn():
                took.append(name)

        async with builder.turn():
            tasks = [asyncio.ensure_future(wait(name)) for name in ("gone", "next")]
            await asyncio.sleep(0)
            if not granted:
                tasks[0].cancel()
        if granted:
            tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return took, builder.busy

    assert asyncio.run(asyncio.wait_for(main(), 60)) == (["next"], False)


def test_a_page_that_no_loop_serves_is_changed_immediately():
    builder, changed = Builder(), []
    builder.queue_or_call(Document(), lambda: changed.append("no loop"))

    async def within_a_loop():
        builder.queue_or_call(Document(), lambda: changed.append("not served"))

    asyncio.run(within_a_loop())
    assert changed == ["no loop", "not served"]


class SlowPage:
    """An open page with a real Bokeh session and a browser that reads nothing until `reads` is set."""

    def __init__(self):
        self.document, self.reads = Document(), asyncio.Event()
        self.session = ServerSession("session", self.document, io_loop=IOLoop.current())
        self.document._session_context = lambda: SimpleNamespace(session=self.session)
        self.session.subscribe(self)
        self._socket = self

    async def send_patch_document(self, event):
        """Wait for `reads`, like Bokeh's connection."""
        await self.reads.wait()

    send_message = send_patch_document

    def tick(self):
        """Write to the document, as the page's callback does four times a second."""
        return asyncio.ensure_future(self.session.with_document_locked(setattr, self.document, "title", "tick"))


@pytest.mark.parametrize("when", ["before", "by the change"])
def test_a_browser_that_does_not_read_delays_only_its_own_page(when):
    """The page's lock is held until the pending write is sent, before a change or after it."""

    async def main():
        builder, changed, loop = Builder(), [], asyncio.get_running_loop()
        slow, other, made = SlowPage(), SlowPage(), {name: asyncio.Event() for name in ("slow", "other")}
        other.reads.set()
        loop_task = slow.tick() if when == "before" else None
        await asyncio.sleep(0)

        def change(page, name):
            def call():
                page.document.title = name
                changed.append(name)
                loop.call_soon_threadsafe(made[name].set)

            return call

        builder.change(slow.document, change(slow, "slow"))
        await asyncio.sleep(0.05)
        builder.change(other.document, change(other, "other"))
        await asyncio.wait_for(made["other"].wait(), 60)
        before = list(changed)
        slow.reads.set()
        await asyncio.wait_for(made["slow"].wait(), 60)
        async with builder.turn():
            pass
        if loop_task is not None:
            await loop_task
        return before, changed

    before, changed = asyncio.run(main())
    assert before == (["other"] if when == "before" else ["slow", "other"])
    assert set(changed) == {"slow", "other"}


def test_a_locked_page_is_changed_once_it_is_free_and_has_the_turn():
    async def main():
        builder, page, seen = Builder(), SlowPage(), []

        async def work(turn):
            other = page.tick()  # waits for the page's lock, which the builder holds
            for _ in range(20):
                await asyncio.sleep(0)
            seen.append((builder.busy, other.done()))
            turn.end()
            return builder.busy

        held = page.tick()
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(builder.with_page(page.session, work))
        await asyncio.sleep(0.05)
        assert not seen
        assert not builder.busy
        page.reads.set()
        result = await asyncio.wait_for(waiting, 60)
        await held
        return seen, result, builder.busy

    assert asyncio.run(main()) == ([(True, False)], False, False)
