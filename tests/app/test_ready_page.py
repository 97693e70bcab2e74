"""A page that is built ahead: who gets it, and that it is a session like any other from then on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from app import ready_page
from app.admission import CROWD
from app.ready_page import ReadyPage, is_plain

# A server whose page says how many were built before it, and for which path. The waiting page outlives those that
# somebody has asked for, whose time is up at once; a page that was handed over is such a one again.
SCRIPT = """
import asyncio, html, json, re, tornado.httpclient, tornado.ioloop, tornado.websocket
import panel as pn
from panel.io.server import get_server
from app import admission, ready_page
ready = ready_page.ready_page()
admission.install(ready)
built, gone = [], []

def page():
    context = pn.state.curdoc.session_context
    number = len(built)
    built.append(ready.builds(context.id))
    pn.state.on_session_destroyed(lambda context: gone.append(number))
    return pn.pane.Str(f"page {number}")

async def main():
    lives = {"unused_session_lifetime_milliseconds": 500, "check_unused_sessions_milliseconds": 100}
    server = get_server({"/app": page}, address="127.0.0.1", websocket_origin=["*"], **lives)
    server.start()
    context = server._tornado.applications["/app"]
    client = tornado.httpclient.AsyncHTTPClient()
    told, later, loop = {}, [], tornado.ioloop.IOLoop.current()
    call_later = loop.call_later

    def held(delay, callback, *given, **named):
        # what is to build another page, until this script says that the time has come
        if callback != ready.build:
            return call_later(delay, callback, *given, **named)
        later.append((delay, given))

    loop.call_later = held

    async def get(path="/app", number=None):
        address = f"http://127.0.0.1:{server.port}{path}"
        reply = await client.fetch(address, headers={"X-Visitor": str(number)}, request_timeout=240)
        token = re.search(rb'"token":\\s*"([^"]+)"', reply.body)[1].decode()
        socket = await tornado.websocket.websocket_connect(
            f"ws://127.0.0.1:{server.port}/app/ws", subprotocols=["bokeh", token])
        assert await socket.read_message()  # a session that there is
        for _ in range(2):
            await socket.read_message()
        (socket_session,) = [one for one in context.sessions if one.token == token]
        request = socket_session.document.session_context.request
        text = re.sub("<[^>]*>", "", html.unescape(socket_session.document.roots[0].text))
        return text, dict(request.headers)["X-Visitor"], socket

    await ready.build(context)
    told["ahead"] = list(built)
    await asyncio.sleep(1.5)
    told["lives while it waits"] = not gone
    server._tornado._unused_session_lifetime_milliseconds = 60_000  # a busy machine's visitor connects late
    told["first"] = (await get(number=1))[:2]
    told["at once after it"] = (await get(number=2))[:2]
    told["asked for"] = [seconds == ready_page.PAUSE for seconds, _ in later]
    await ready.build(*later[0][1])
    told["built again"] = list(built)
    told["with a link"] = (await get("/app?scene=1", number=3))[:2]
    *told["later"], socket = await get(number=4)
    socket.close()
    server._tornado._unused_session_lifetime_milliseconds = 500
    for _ in range(1200):
        await asyncio.sleep(0.1 if not gone else 0.5)
        if gone:
            break
    told["gone"] = list(gone)
    print(json.dumps(told))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def told():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_the_first_plain_visitor_gets_it(told):
    assert told["ahead"] == [True]
    assert told["first"] == ["page 0", "1"]


def test_others_have_one_built(told):
    """Who comes before another is ready, and who follows a link."""
    assert told["at once after it"] == ["page 1", "2"]
    assert told["with a link"] == ["page 3", "3"]


def test_another_is_built_a_while_later(told):
    assert told["asked for"] == [True]  # once for both visitors
    assert told["built again"] == [True, False, True]
    assert told["later"] == ["page 2", "4"]


def test_it_lives_until_its_visitor_has_gone(told):
    assert told["lives while it waits"]
    assert told["gone"] == [2]


class BrokenContext:
    """An application whose page cannot be built."""

    url = "/app"

    def __init__(self, error=None):
        self._error = error

    async def create_session_if_needed(self, name, request):
        if self._error:
            raise self._error
        return SimpleNamespace(document=SimpleNamespace(roots=[]))


@pytest.mark.parametrize("error", [None, RuntimeError("on purpose")])
def test_a_page_that_cannot_be_built_ahead_is_left_to_its_visitor(error):
    """Bokeh logs what fails in a page, and makes a session of what there is of it."""

    async def visit():
        ready, context = ReadyPage(), BrokenContext(error)
        await ready.build(context)
        return ready.take(context, "visitor", SimpleNamespace(path="/app", arguments={}), None)

    assert asyncio.run(visit()) is None


@pytest.mark.parametrize(("pages", "waits"), [(0, True), (CROWD, False)])
def test_none_is_built_while_somebody_waits_for_something_to_be_built_or_a_crowd_is_there(monkeypatch, pages, waits):
    """It is looked again later, as that may be over by then."""
    busy, there, asked, built = SimpleNamespace(busy=waits), [object()] * pages, [], []
    monkeypatch.setattr(ready_page, "builder", lambda: busy)
    monkeypatch.setattr(ready_page, "session_limiter", lambda: SimpleNamespace(pages=there, full=False))
    loop = SimpleNamespace(call_later=lambda seconds, build, context: asked.append((seconds, build, context)))
    monkeypatch.setattr(ready_page.IOLoop, "current", lambda: loop)

    class Context(BrokenContext):
        """One that notes what is built."""

        async def create_session_if_needed(self, name, request):
            built.append(name)
            return await super().create_session_if_needed(name, request)

    ready, context = ReadyPage(), Context()
    asyncio.run(ready.build(context))
    assert (built, asked) == ([], [(ready_page.PAUSE, ready.build, context)])
    busy.busy = False
    there[CROWD - 1 :] = []
    asyncio.run(ready.build(context))
    assert len(built) == 1
    assert len(asked) == 1


def test_only_a_plain_request_for_the_page_gets_it():
    def request(path, **arguments):
        return SimpleNamespace(path=path, arguments=arguments)

    assert is_plain(request("/app"), "/app")
    assert not is_plain(request("/app", scene=[b"x"]), "/app")
    assert not is_plain(request("/app/ws"), "/app")
    assert not is_plain(None, "/app")
