"""What a visitor does holds the loop of all tabs only for a part of what it takes to build a page.

The unit is measured in the same run, in the loop's own processor time: the first page, which the server builds ahead,
before it is ready. So the machine's speed and load cancel out. The parts are wide, three times what was seen, and yet
below what a page that is built while its visitor waits would take, or a compilation on the loop.
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

from app.free_loop import VARIABLE
from app.load.client import Client
from app.load.server import APP
from app.serve import ADDRESS

HELD = re.compile(r"HELD (\d+) ms: (.*)")
# the server with every callback of at least a millisecond told; its log says only so many lines a minute
SERVE = """
import sys
from panel.command import main
from app import free_loop
free_loop._log = lambda seconds, where: print(f"HELD {1000 * seconds:.0f} ms: {where}", flush=True)
main()
"""
PATIENCE = 240.0  # s until the server is ready
REST = 1.0  # s in which what a step has begun goes on
# of the time for the first page; seen: 0.08, 0.01, 0.21, 0.08, where a lab's bars came with its view 0.30 and 0.21
FIRST_LOOK, KEY, ANOTHER_LAB, KNOWN_LAB = 0.25, 0.1, 0.65, 0.25


class Server:
    """A server that says in a log what holds its loop."""

    def __init__(self, log: Path) -> None:
        self.log, self.read = log, 0
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVE, "serve", str(APP), "--address", "localhost", "--port", "0"],
                env=os.environ | {VARIABLE: "1", ADDRESS: "ready"}, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def wait(self) -> str:
        """Wait until it is ready; return its address."""
        end = time.monotonic() + PATIENCE
        while "Fieldlab: ready" not in (text := self.log.read_text(errors="replace")):
            assert self.process.poll() is None, text
            assert time.monotonic() < end, text
            time.sleep(0.1)
        return re.search(r"Bokeh app running at: (\S+)", text)[1]

    def until_held(self) -> None:
        """Wait until the callback that said that the server is ready has ended."""
        end = time.monotonic() + PATIENCE
        while not HELD.search((text := self.log.read_text(errors="replace")).split("Fieldlab: ready")[1]):
            assert time.monotonic() < end, text
            time.sleep(0.1)

    def longest(self) -> tuple[int, str]:
        """Return (ms, where) of what has held the loop longest since the last call."""
        text = self.log.read_text(errors="replace")
        new, self.read = text[self.read :], len(text)
        return max(((int(ms), where) for ms, where in HELD.findall(new)), default=(0, ""))


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What held the loop longest while a page was built ahead, and in each step of its visitor."""
    server, found = Server(tmp_path_factory.mktemp("loop") / "log"), {}

    async def visit(address):
        client = Client(address, PATIENCE)

        async def step(name):
            """Wait until the server has done what it was asked for before, and for what follows from that."""
            known = len(client.answers)
            client.ask()
            async with asyncio.timeout(PATIENCE):
                while len(client.answers) == known:  # noqa: ASYNC110 the client tells nobody
                    await asyncio.sleep(0.05)
            await asyncio.sleep(REST)
            found[name] = server.longest()

        await client.open()
        await step("first look")
        await step("key")
        client.choose(1)
        await step("another lab")
        await step("closed")  # the list of keys, which is another one in the other lab
        client.choose(0)
        await step("known lab")
        await client.close()

    try:
        address = server.wait()
        server.until_held()  # the callback that built the page ends after it has said so
        time.sleep(REST)
        found["page"] = server.longest()
        asyncio.run(visit(address))
    finally:
        server.process.terminate()
        server.process.wait(120)
    return found


@pytest.mark.parametrize(
    ("step", "part"),
    [("first look", FIRST_LOOK), ("key", KEY), ("another lab", ANOTHER_LAB), ("known lab", KNOWN_LAB)],
)
def test_no_step_of_a_visitor_holds_the_loop_for_long(told, step, part):
    unit, (held, where) = told["page"][0], told[step]
    assert unit > 0
    assert held <= part * unit, f"{step}: {held} ms, a page takes {unit} ms: {where}"
