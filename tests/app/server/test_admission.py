"""Admission of pages: bounded numbers of pages without a browser, and no page is built beyond them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from app.server import admission
from app.server.admission import BUSY_AGAIN, FULL_AGAIN, MAX_PENDING, PATIENCE, Admission, NotAdmitted, SessionLimiter
from app.server.page_ids import GONE
from compute import BACKENDS
from tests.app.served_page import VISITS, run_script

HALF = MAX_PENDING // 2


class House:
    """An admission with its limiter and a set of live sessions."""

    def __init__(self, limit=64):
        self.limiter, self.now = SessionLimiter(limit), 0.0
        self.admission, self.alive = Admission(self.limiter, lambda: self.now), set()

    def ask(self, name, address="10.0.0.1"):
        self.admission.admit(name, address, set(self.alive))
        self.alive.add(name)

    def refuses(self, name="another", address="10.0.0.9"):
        with pytest.raises(NotAdmitted) as refused:
            self.ask(name, address)
        return refused.value


def test_pending_pages_are_limited_per_address_and_in_total():
    house = House()
    for number in range(HALF):
        house.ask(f"a{number}")
    assert house.refuses("one more", "10.0.0.1").again == BUSY_AGAIN
    for number in range(MAX_PENDING - HALF):
        house.ask(f"b{number}", f"10.0.1.{number}")
    assert house.refuses().again == BUSY_AGAIN


def test_ready_and_closed_pages_are_not_pending():
    house = House()
    for number in range(HALF):
        house.ask(f"{number}")
    house.limiter.add(object(), "0")
    house.ask("next")
    house.refuses("after", "10.0.0.1")
    house.alive.discard("1")
    house.ask("after")
    house.refuses("last", "10.0.0.1")


def test_a_missing_seat_is_reported_only_if_nothing_else_is_missing():
    house = House(limit=HALF + 1)
    house.limiter.add(object(), "left")
    for number in range(HALF):
        assert not house.admission.lacks_a_seat("10.0.0.1", house.alive)
        house.ask(f"{number}")
    assert not house.admission.lacks_a_seat("10.0.0.1", house.alive)  # this address has reached its own limit
    assert house.admission.lacks_a_seat("10.0.0.2", house.alive)


def test_only_pages_that_are_pending_too_long_are_late():
    house = House()
    house.ask("slow")
    house.ask("ready")
    house.ask("gone")
    house.now = PATIENCE
    house.ask("young")
    assert house.admission.late(house.alive) == []
    house.now += 1.0
    house.limiter.add(object(), "ready")
    house.alive.discard("gone")
    assert house.admission.late(house.alive) == ["slow"]


def test_a_class_can_open_the_page_simultaneously():
    house = House(limit=60)
    for number in range(60):
        house.ask(f"{number}", "192.168.0.1")
        if number >= HALF - 1:
            house.limiter.add(object(), f"{number - HALF + 1}")
    assert len(house.limiter.pages) == 60 - HALF + 1


def test_pending_pages_count_towards_the_limit():
    house = House(limit=3)
    house.ask("1")
    house.ask("2")
    house.ask("3")
    assert house.refuses().again == BUSY_AGAIN
    for page in "123":
        house.limiter.add(object(), page)
    full = house.refuses()
    assert full.again == FULL_AGAIN
    assert "3 open browser tabs" in full.words


FLOOD = """
from app.server import access, admission
access.install(); admission.install(); admission.install()
built = []

async def main():
    server = started(lambda: built.append(1) or "page")
    found = [(await get(server, f"?{number % 2}"))[0] for number in range(200)]
    for _ in range(20):
        assert await heard(await connect(server)) is None  # closed
    last = found[-2]
    print(json.dumps({"built": len(built), "codes": [one.code for one in found], "page": last.body.decode(),
                      "headers": dict(last.headers)}))

asyncio.run(main())
"""


def test_a_flood_of_requests_builds_few_pages():
    """A flood of GETs, and of WebSockets without a preceding GET."""
    result = json.loads(run_script(VISITS + FLOOD).stdout)
    assert result["built"] == HALF
    assert result["codes"].count(200) == HALF
    assert result["codes"].count(503) == 200 - HALF
    assert len(result["page"]) < 1000
    assert "Refresh" in result["headers"]
    assert result["headers"]["X-Content-Type-Options"] == "nosniff"


RETURNED = """
import time
from app.server import access, admission, page_ids
access.install(); admission.install(); page_ids.install()
limiter = admission.session_limiter()

def page():
    made = object()
    limiter.add(made, pn.state.curdoc.session_context.id)  # its browser is ready at once
    pn.state.on_session_destroyed(lambda _context: limiter.remove(made))
    return "page"

async def main():
    server = started(page)

    async def joined(answer, token, cookie):
        socket = await connect(server, token, cookie)
        said = await heard(socket)
        return socket, said and json.loads(said)["msgtype"], socket.close_code

    pages = [await get(server) for _ in range(3)]
    sockets = [(await joined(*page))[0] for page in pages]
    refused, *_ = await get(server)
    for socket in sockets[2], sockets[0]:  # the last page's browser leaves, then the first one's
        socket.close()
        while sum(one.connection_count for one in server.get_sessions("/app")) > len(sockets) - 1:
            await asyncio.sleep(0.01)
        sockets.remove(socket)
        await asyncio.sleep(0.05)
    newcomer = await get(server)
    sockets.append((await joined(*newcomer))[0])
    kept, gone = [await joined(*pages[number]) for number in (0, 2)]
    last, *_ = await get(server)
    print(json.dumps({
        "lasts": get_token_payload(pages[0][1])["session_expiry"] - time.time(), "refused": refused.code,
        "page": refused.body.decode(), "headers": dict(refused.headers), "newcomer": newcomer[0].code,
        "kept": kept[1:], "gone": gone[1:], "last": last.code, "pages": len(limiter.pages)}))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def returned():
    """Return the results of four browsers on a server for three: the third left, then the first; both returned."""
    done = run_script(VISITS + RETURNED, environment={"FIELDLAB_MAX_SESSIONS": "3"})
    return json.loads(done.stdout)


def test_a_refused_page_refreshes_itself(returned):
    assert returned["refused"] == 503
    assert "This page retries" in returned["page"]
    assert FULL_AGAIN <= int(returned["headers"]["Refresh"]) < 2 * FULL_AGAIN


def test_a_new_visitor_gets_the_seat_that_was_left_first(returned):
    """If a whole hall reloads the page, its own abandoned pages would occupy every seat."""
    assert returned["newcomer"] == 200
    assert returned["pages"] == 3
    assert returned["last"] == 503  # no page with a browser is ended


def test_a_returning_browser_rejoins_its_page_or_learns_that_it_was_closed(returned):
    """Every attempt after five minutes was refused although the page still existed."""
    assert returned["kept"] == ["ACK", None]
    assert returned["gone"] == [None, GONE]
    assert returned["lasts"] > 12 * 3600  # a lecture


IDLE = """
from app.server import access, admission
access.install(); admission.install()
limiter, drawn, built, ended = admission.session_limiter(), ["first"], [], []

def page():
    built.append(1)
    if drawn:
        limiter.add(drawn.pop(), pn.state.curdoc.session_context.id)  # its browser is ready at once
    pn.state.on_session_destroyed(lambda _context: ended.append(1))
    return "page"

async def main():
    server, sockets = started(page), []
    for _ in range(1 + admission.MAX_PENDING // 2):
        sockets.append(await connect(server, (await get(server))[1]))
        for _ in "head", "metadata", "content":
            assert await heard(sockets[-1])
    sockets.pop(0).close()  # the browser of the page that is ready leaves
    while sum(one.connection_count for one in server.get_sessions("/app")) > len(sockets):
        await asyncio.sleep(0.01)
    early, spared = (await get(server))[0].code, not ended
    admission.PATIENCE = -1.0  # as if it had passed
    late = (await get(server))[0].code
    said = [await heard(socket) for socket in sockets]
    print(json.dumps({"early": early, "late": late, "spared": spared, "said": said,
                      "codes": [one.close_code for one in sockets],
                      "built": len(built), "ended": len(ended), "left": len(list(server.get_sessions("/app")))}))

asyncio.run(main())
"""


def test_idle_connections_lose_their_seats_after_a_while():
    """A server with one free seat; idle connections of one address use all others, and could lock out newcomers.

    No page is closed for a visitor that does not get its seat.
    """
    done = run_script(VISITS + IDLE, environment={"FIELDLAB_MAX_SESSIONS": str(HALF + 1)})
    assert "Traceback" not in done.stderr
    idle = json.loads(done.stdout)
    assert (idle["early"], idle["spared"], idle["late"]) == (503, True, 200)
    assert idle["said"] == [None] * HALF
    assert idle["codes"] == [GONE] * HALF
    assert (idle["built"], idle["ended"], idle["left"]) == (HALF + 2, HALF, 2)  # pages that are ready are kept


@pytest.mark.parametrize(("device", "engines"), [("host", ["host"]), ("cuda", ["host", "cuda:0"])])
def test_engines_are_started_before_the_first_page(monkeypatch, device, engines):
    started = []
    limiter = SessionLimiter(2)
    monkeypatch.setattr(SessionLimiter, "engines", SimpleNamespace(get=started.append))
    monkeypatch.setattr(admission, "preferred", lambda: next(one for one in BACKENDS if one.device == device))
    limiter.warm()
    assert started == engines
