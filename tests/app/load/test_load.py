"""`fieldlab bench load` and `make soak`: tabs receive what browsers receive, and verdicts follow from the numbers."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from contextlib import suppress
from dataclasses import replace
from math import nan

import pytest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from app.load import __main__ as load_command
from app.load import run, soak
from app.load.__main__ import main
from app.load.client import Client, ClientError
from app.load.server import Server, Use, serving
from compute.measure.conditions import Watch
from compute.measure.statistics import Spread

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def server():
    with serving() as server:
        yield server


def test_tabs_get_frames_and_answers(server, monkeypatch):
    """Two tabs of a link's lab, which starts paused: both run, and both receive answers."""

    monkeypatch.setattr(run, "BETWEEN", 0.3)
    monkeypatch.setattr(run, "SETTLE", 0.3)

    async def measured():
        opened = []
        page = run.address(server.address, "diffusion", {"ny": 64, "nx": 64})
        return [load async for load in run.loads(server, page, (2, 1), 4.0, opened.append)], opened

    (one, two), opened = asyncio.run(measured())
    assert opened == [1, 2]
    assert (one.tabs, two.tabs) == (1, 2)
    assert min(one.slowest, two.slowest, two.server, two.engines) > 0
    assert 0 < two.answer <= two.answer_p95
    assert two.memory > 2**20
    assert two.received > 64 * 64  # bytes/s: at least one picture per second


def test_a_record_has_null_for_missing_measurements():
    """A single tab has no interval, and a few seconds no answer."""
    load = run.Load(1, 3.0, Spread.of([40.0]), 40.0, nan, nan, 0.2, 0.7, 0.1, 2.0**28, 1e6)
    record = load_command._record([load], {1: nan}, {"ny": 64}, "fieldlab bench load", Watch())
    (row,) = json.loads(load_command._as_document(record), parse_constant=pytest.fail)["loads"]
    assert (row["answer"], row["engine_alone"], row["frames"]["low"]) == (None, None, None)
    assert row["frames"]["median"] == 40.0


@pytest.mark.parametrize("act", ["open", "connect"])
def test_a_server_that_does_not_answer_is_reported(act):
    """A WebSocket has the same timeout as a page: the tab's patience, not Tornado's."""
    with socket.create_server(("localhost", 0)) as deaf:
        tab = Client(f"http://localhost:{deaf.getsockname()[1]}/app", patience=1.0)
        with pytest.raises(ClientError, match="did not answer within 1 s"):
            asyncio.run(getattr(tab, act)())


def test_the_rate_of_an_engine_without_a_server_is_measured():
    assert run.engine_alone("diffusion", {"ny": 64, "nx": 64}, 2, 1.5) > 2


def test_a_soak_goes_through_its_rounds(server, monkeypatch):
    """Tabs are opened and closed and visit labs other than the first; after some rounds no tab is open."""
    for name, value in (("USED", 1.0), ("REST", 0.2), ("ROUNDS", 2), ("LEAST", 2)):
        monkeypatch.setattr(soak, name, value)
    monkeypatch.setattr(soak, "_wait_for_sessions", lambda server: asyncio.sleep(0.5))
    random.seed(3)
    found = asyncio.run(soak.soak(server, 2, 0.01, lambda rounds: None))
    assert [held.tabs for held in found] == [2, 2, 0, 2, 2, 0]
    assert [held.opened for held in found] == [2, 3, 3, 5, 6, 6]
    assert all(min(held.use.memory, held.use.engines_memory) > 2**20 for held in found)


def test_a_soak_samples_after_the_server_has_discarded_the_closed_pages(monkeypatch):
    """A busy server takes longer, and pages that it still has to release are no growth; but it must release them."""
    for name in ("SESSION_LIFETIME", "REST", "COLLECTED"):
        monkeypatch.setattr(soak, name, 0.01)
    kept = [2, 1, 0, 5]

    class Health(RequestHandler):
        def get(self):
            self.finish({"pages": {"open": kept.pop(0) if len(kept) > 1 else kept[0]}})

    async def waited():
        (listening,) = bind_sockets(0, "127.0.0.1")
        http = HTTPServer(Application([("/health", Health)]))
        http.add_sockets([listening])
        fake = Server(f"http://127.0.0.1:{listening.getsockname()[1]}/app")
        await soak._wait_for_sessions(fake)
        assert kept == [5]
        monkeypatch.setattr(soak, "SESSION_DEADLINE", 0.1)
        with pytest.raises(ClientError, match="keeps 5 pages"):
            await soak._wait_for_sessions(fake)
        http.stop()

    asyncio.run(waited())


def held(megabytes, descriptors):
    """Return one reading per minute without tabs, and half a minute later one with tabs and twice the amount."""
    found = []
    for at, (each, many) in enumerate(zip(megabytes, descriptors, strict=True)):
        found += [soak.Held(at + part, 3 * (factor - 1), Use(0, 0, factor * each * 2**20, factor * many, 100 * 2**20))
                  for part, factor in ((0.0, 1), (0.5, 2))]  # fmt: skip
    return found


def test_growth_is_that_of_the_last_two_thirds():
    """The slope is per half hour: a MB per minute is 30."""
    still = soak.judged(held([50, 80, 100, *[100] * 6], [10, 30, 40, *[40] * 6]))
    assert (still["memory"].trend.slope, still["descriptors"].trend.slope) == (0, 0)
    growing = soak.judged(held([100, 100, 100, 110, 111, 112, 113, 114, 115], [40, 40, 40, 40, 40, 41, 41, 42, 42]))
    assert growing["memory"].trend.slope == pytest.approx(30 * 2**20)
    assert growing["descriptors"].trend.slope == pytest.approx(30 * 8 / 17.5)  # by hand
    assert growing["engines_memory"].trend.slope == 0
    assert {each.verdict for each in still.values()} == {"flat"}


STEPS = [100, 100, 100, 140, 100, 140, 100, 140, 140]  # MB of a process, with the memory that its allocators retain


@pytest.mark.parametrize(
    ("memory", "descriptors", "blocks", "malloc", "said"),
    [
        ([100] * 9, [40] * 9, None, None, "flat"),
        ([100 + at for at in range(9)], [40] * 9, None, None, "grows"),
        ([100] * 9, [40 + at for at in range(9)], None, None, "grows"),
        ([100] * 3, [40] * 3, None, None, "undecided"),
        ([100] * 9, [40, 40, 40, 40, 47, 40, 40, 40, 40], None, None, "undecided"),
        (STEPS, [40] * 9, None, None, "undecided"),
        # allocated memory decides, and not the size of the process
        (STEPS, [40] * 9, [1000] * 9, [50] * 9, "flat"),
        (STEPS, [40] * 9, [1000 + 9 * at for at in range(9)], [50] * 9, "grows"),
        (STEPS, [40] * 9, [1000] * 9, [50 + at for at in range(9)], "grows"),
    ],
)
def test_a_soak_is_judged_by_all_that_is_held(memory, descriptors, blocks, malloc, said):
    looks = held(memory, descriptors)
    if blocks:
        alone = [one for one in looks if not one.tabs]
        looks = [replace(one, blocks=b, malloc=m) for one, b, m in zip(alone, blocks, malloc, strict=True)]
    assert soak.verdict(looks) == said


def test_a_soak_is_recorded():
    """The complete curves and the verdict; JSON has no NumPy numbers and no infinite ones."""
    found = held([100, 100, 100, 110, 120, 130], [40] * 5 + [49])
    record = json.loads(json.dumps(soak.record_of(found, tabs=2), allow_nan=False))
    assert [each["memory"] / 2**20 for each in record["rounds"] if not each["tabs"]] == [100, 100, 100, 110, 120, 130]
    assert [each["descriptors"] for each in record["rounds"][::2]] == [40] * 5 + [49]
    assert (record["tabs"], record["verdict"]) == (2, "grows")
    assert record["in_half_an_hour"]["memory"]["slope"] == pytest.approx(300 * 2**20)
    first = json.loads(json.dumps(soak.record_of(found[:1], tabs=2), allow_nan=False))
    assert (first["verdict"], first["in_half_an_hour"]["memory"]["high"]) == ("undecided", None)


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        (soak.main, ["--tabs", "0"], "'0'"), (soak.main, ["--minutes", "nan"], "'nan'"),
        (soak.main, ["--visits", "0"], "visits"), (soak.main, ["--visits", "100001"], "visits"),
        (soak.main, ["--visits", "9", "--tabs", "3"], "visits"), (main, ["--tabs", "0"], "'0'"),
        (main, ["--tabs", "1,501"], "500"), (main, ["--grid", "0", "--tabs", "1"], "fieldlab: "),
        (main, ["--url", "http://localhost:9/app", "--tabs", "1"], "fieldlab: "),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(command, arguments, said, capfd):
    with suppress(SystemExit):
        assert command(arguments) == 2
    assert said in capfd.readouterr().err
