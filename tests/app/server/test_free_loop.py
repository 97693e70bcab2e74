"""No action of a visitor blocks the loop of all tabs for long: pages and labs are built in the builder's thread.

The unit is measured in the same run, also in processor time: the first page and its lab in the builder's thread. The
machine's speed and load thus cancel out. The limit for the loop is a twenty-fifth of that time; building a page, a lab,
or the lab's bars on the loop takes at least a tenth of it. A new page may take PAGE of it on the loop: its HTML and its
document are written there.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.load.client import Client
from app.load.server import APP
from app.server.free_loop import VARIABLE
from app.server.serve import ADDRESS

pytestmark = pytest.mark.extended

HELD = re.compile(r"HELD (\d+) ms: (.*)")
BUILT = re.compile(r"BUILT in (\d+) ms")
# The server, reporting every callback that takes at least a millisecond; its log is limited in lines per minute.
SERVE = """
import sys, time
from panel.command import main
from app.server import builder, free_loop
work = builder._in
def timed(*about):
    start = time.thread_time()
    try:
        return work(*about)
    finally:
        print(f"BUILT in {1000 * (time.thread_time() - start):.0f} ms", flush=True)
builder._in = timed
free_loop._log = lambda seconds, where: print(f"HELD {1000 * seconds:.0f} ms: {where}", flush=True)
main()
"""
PATIENCE = 240.0  # s until the server is ready
REST = 1.0  # s for the work that a step has started
STEPS = (
    "first look", "key", "another lab", "closed", "known lab", "plots of curves", "export card", "code",
    "presenter mode", "a page of its own",
)  # fmt: skip
PART = 0.04  # of the time for the first page with its lab; measured: 0.004 to 0.023
PAGE = 0.25  # the same for a step that opens a page
OPENING = ("first look", "a page of its own")


class Server:
    """A server that logs the callbacks that block its loop."""

    def __init__(self, log: Path) -> None:
        self.log, self.read = log, 0
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVE, "serve", str(APP), "--address", "localhost", "--port", "0"],
                env=os.environ | {VARIABLE: "1", ADDRESS: "ready"}, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def wait(self) -> str:
        """Wait until the server is ready; return its address."""
        end = time.monotonic() + PATIENCE
        while "Fieldlab: ready" not in (text := self.log.read_text(errors="replace")):
            assert self.process.poll() is None, text
            assert time.monotonic() < end, text
            time.sleep(0.1)
        return re.search(r"Bokeh app running at: (\S+)", text)[1]

    def built(self) -> int:
        """Return the processor time of the builder's thread until now in ms."""
        return sum(map(int, BUILT.findall(self.log.read_text(errors="replace"))))

    def until_held(self) -> None:
        """Wait until the callback that logged "ready" has ended."""
        end = time.monotonic() + PATIENCE
        while not HELD.search((text := self.log.read_text(errors="replace")).split("Fieldlab: ready")[1]):
            assert time.monotonic() < end, text
            time.sleep(0.1)

    def longest(self) -> tuple[int, str]:
        """Return (ms, where) of the longest callback since the last call."""
        text = self.log.read_text(errors="replace")
        new, self.read = text[self.read :], len(text)
        return max(((int(ms), where) for ms, where in HELD.findall(new)), default=(0, ""))


@pytest.fixture(scope="module")
def found_steps(tmp_path_factory):
    """Return the longest callback in each step of a visitor, and the time for the first page with its lab."""
    server, found = Server(tmp_path_factory.mktemp("loop") / "log"), {}

    async def visit(address):
        client = Client(address, PATIENCE)

        async def step(name):
            """Wait until the server has finished the earlier requests and the work that they started."""
            known = len(client.answers)
            client.send_change()
            async with asyncio.timeout(PATIENCE):
                while len(client.answers) == known:  # noqa: ASYNC110 the client sends no event
                    await asyncio.sleep(0.05)
            await asyncio.sleep(REST)
            found[name] = server.longest()

        await client.open()
        await step("first look")
        found["page"] = server.built(), ""
        await step("key")
        client.choose(1)
        await step("another lab")
        await step("closed")  # closes the list of keys, which differs in the other lab
        client.choose(0)
        await step("known lab")
        await step("closed again")
        client.choose(2)
        await step("plots of curves")
        for key, name in {"e": "export card", "k": "code", "p": "presenter mode"}.items():
            client.press(key)
            await step(name)
        client = await another(client)
        await step("a page of its own")
        await client.close()

    async def another(before):
        await before.close()
        client = Client(address, PATIENCE)
        await client.open()
        return client

    try:
        address = server.wait()
        server.until_held()
        time.sleep(REST)
        server.longest()  # callbacks before the first visitor delay no page
        asyncio.run(visit(address))
    finally:
        server.process.terminate()
        server.process.wait(120)
    return found


@pytest.mark.parametrize("step", STEPS)
def test_no_step_of_a_visitor_blocks_the_loop_for_long(found_steps, step):
    unit, (held, where) = found_steps["page"][0], found_steps[step]
    assert unit > 0
    assert held <= (PAGE if step in OPENING else PART) * unit, f"{step}: {held} ms, a page takes {unit} ms: {where}"
