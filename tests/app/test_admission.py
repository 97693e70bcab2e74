"""Who gets a page: at most so many that no browser has looked at, and nothing is built for others."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from app import admission
from app.admission import WAITING, Admission, NotAdmitted, SessionLimiter

HALF = WAITING // 2


class House:
    """An admission with its limiter, and the sessions that there are."""

    def __init__(self, limit=64):
        self.limiter = SessionLimiter(limit)
        self.admission, self.alive = Admission(self.limiter), set()

    def ask(self, name, address="10.0.0.1"):
        self.admission.admit(name, address, set(self.alive))
        self.alive.add(name)

    def refuses(self, name="another", address="10.0.0.9"):
        with pytest.raises(NotAdmitted) as refused:
            self.ask(name, address)
        return refused.value


def test_pages_that_wait_are_bounded_for_an_address_and_in_all():
    house = House()
    for number in range(HALF):
        house.ask(f"a{number}")
    assert house.refuses("one more", "10.0.0.1").again
    for number in range(WAITING - HALF):
        house.ask(f"b{number}", f"10.0.1.{number}")
    assert house.refuses().again


def test_who_is_ready_or_gone_waits_no_longer():
    house = House()
    for number in range(HALF):
        house.ask(f"{number}")
    house.limiter.add(object(), "0")
    house.ask("next")
    house.refuses("after", "10.0.0.1")
    house.alive.discard("1")
    house.ask("after")
    house.refuses("last", "10.0.0.1")


def test_a_class_that_opens_the_page_at_once_gets_it():
    house = House(limit=60)
    for number in range(60):
        house.ask(f"{number}", "192.168.0.1")
        if number >= HALF - 1:
            house.limiter.add(object(), f"{number - HALF + 1}")
    assert len(house.limiter.pages) == 60 - HALF + 1


def test_pages_that_wait_count_for_the_cap():
    house = House(limit=3)
    house.ask("1")
    house.ask("2")
    house.ask("3")
    assert house.refuses().again
    for page in "123":
        house.limiter.add(object(), page)
    full = house.refuses()
    assert not full.again
    assert "3 browser tabs" in full.words


FLOOD = """
import asyncio, json, tornado.httpclient, tornado.websocket
from bokeh.util.token import generate_jwt_token, generate_session_id
from panel.io.server import get_server
from app import access, admission
access.install(); admission.install(); admission.install()
built = []

async def main():
    page = lambda: built.append(1) or "page"
    server = get_server({"/app": page}, address="127.0.0.1", websocket_origin=["localhost"],
                        unused_session_lifetime_milliseconds=600_000)  # no page is given up while this lasts
    server.start()
    client = tornado.httpclient.AsyncHTTPClient()
    found = []
    for number in range(200):
        path = ["app", "app/autoload.js?bokeh-autoload-element=1"][number % 2]
        address = f"http://127.0.0.1:{server.port}/{path}"
        found.append(await client.fetch(address, raise_error=False, request_timeout=240))
    for _ in range(20):
        protocols = ["bokeh", generate_jwt_token(generate_session_id())]
        address = f"ws://127.0.0.1:{server.port}/app/ws"
        socket = await tornado.websocket.websocket_connect(address, subprotocols=protocols)
        assert await asyncio.wait_for(socket.read_message(), 240) is None  # closed
    last = found[-2]
    print(json.dumps({"built": len(built), "codes": [one.code for one in found], "page": last.body.decode(),
                      "headers": dict(last.headers)}))

asyncio.run(main())
"""


def test_a_flood_has_few_pages_built():
    """By GETs, by the script for other pages, and by WebSockets that nobody gave a page."""
    done = subprocess.run([sys.executable, "-c", FLOOD], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["built"] == HALF
    assert told["codes"].count(200) == HALF
    assert told["codes"].count(503) == 200 - HALF
    assert "tries again by itself" in told["page"]
    assert len(told["page"]) < 1000
    assert "Refresh" in told["headers"]
    assert told["headers"]["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(("device", "engines"), [("host", ["host"]), ("cuda", ["host", "cuda:0"])])
def test_the_engines_of_the_first_page_are_started_before_it(monkeypatch, device, engines):
    started = []
    limiter = SessionLimiter(2)
    monkeypatch.setattr(SessionLimiter, "engines", SimpleNamespace(get=started.append))
    monkeypatch.setattr(admission, "preferred", lambda: SimpleNamespace(device=device))
    limiter.warm()
    assert started == engines
