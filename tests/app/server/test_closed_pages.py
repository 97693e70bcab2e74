"""Leaks of closed pages in a server, counted in objects and in descriptors.

Ten pages are opened and used by clients without a browser. Once their sessions are closed, the server must have at most
as many objects as after a few such pages before.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from app.load.client import Client
from app.load.server import APP, kinds_of
from app.server.serve import ADDRESS

pytestmark = pytest.mark.extended

# A server that answers each line of its input with its objects by class, counted after a collection. Sessions without a
# browser end soon, but live long enough for a slow machine.
SERVE = """
import asyncio, gc, json, sys, threading
from collections import Counter
from bokeh.model import Model
from panel.command import main
from panel.viewable import Viewable
from tornado.ioloop import IOLoop
from app.server.builder import builder

def held():
    if builder().busy:  # inspecting a tuple under construction corrupts it
        IOLoop.current().call_later(0.05, held)
        return
    gc.collect()
    kinds = Counter()
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, Model):
            kinds["Bokeh's models"] += 1
        elif issubclass(kind, Viewable):
            kinds["Panel's components"] += 1
        elif kind.__name__ in NAMES:
            kinds[kind.__name__] += 1
    print("HELD " + json.dumps(kinds), flush=True)

def answer(loop):
    for line in sys.stdin:
        loop.add_callback(held)

NAMES = set(sys.argv.pop(1).split(","))
threading.Thread(target=answer, args=[IOLoop.current()], daemon=True).start()
main()
"""
NAMES = (
    "Document", "ServerSession", "ServerConnection", "WSHandler", "Page", "LabTab", "Session", "FrameGate",
    "FrameSource", "LabHandle", "LabState", "Comparison", "TabRecording", "LabAddress", "Restorer", "AudienceMode",
    "PageFeed", "RaceTrack", "StoryTeller", "CodePanel", "ExportCard", "SystemCard", "Outbox",
)  # fmt: skip
LIVES = ("--unused-session-lifetime", "10000", "--check-unused-sessions", "200")  # ms
PATIENCE = 240.0  # s until the server is ready, or has released everything
FEW, PAGES = 6, 10  # the few visit every lab and press every key; the others repeat that
KEYS = "eukqt"  # each opens or closes something: export, system, code, audience, stories


class Server:
    """A server that reports its objects."""

    def __init__(self, folder: Path) -> None:
        self.said, self.log = folder / "said", folder / "log"
        command = [sys.executable, "-c", SERVE, ",".join(NAMES), "serve", str(APP), "--address", "localhost"]
        with self.said.open("wb") as said, self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--port", "0", *LIVES], env=os.environ | {ADDRESS: "ready"}, stdin=subprocess.PIPE,
                stdout=said, stderr=log, text=True,
            )  # fmt: skip

    def until(self, condition):
        """Poll the condition and return its first true value; fail after PATIENCE with the end of the log."""
        end = time.monotonic() + PATIENCE
        while not (value := condition()):
            text = self.log.read_text(errors="replace")[-2000:]
            assert self.process.poll() is None, text
            assert time.monotonic() < end, text
            time.sleep(0.1)
        return value

    def address(self):
        """Return the server's address once it is ready."""
        self.until(lambda: "Fieldlab: ready" in self.log.read_text() + self.said.read_text())
        text = self.log.read_text()
        return next(word for word in text.split() if word.startswith("http") and word.endswith("/app"))

    def held(self):
        """Return the number of the server's objects by class."""
        known = len(self._answers())
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.until(lambda: len(self._answers()) > known)
        return Counter(self._answers()[-1])

    def settled(self, condition):
        """Return the counts as soon as condition(counts) is true, or after PATIENCE."""
        end = time.monotonic() + PATIENCE
        while not condition(held := self.held()) and time.monotonic() < end:
            time.sleep(0.5)
        return held

    def _answers(self):
        whole_lines = self.said.read_text().split("\n")[:-1]
        return [json.loads(line[5:]) for line in whole_lines if line.startswith("HELD ")]

    def descriptors(self):
        """Return the server's number of descriptors, and how many shared-memory descriptors it and its engines have."""
        engines = psutil.Process(self.process.pid).children(recursive=True)
        kinds = [kinds_of(process) for process in (self.process.pid, *(engine.pid for engine in engines))]
        shared = sum(count for each in kinds for kind, count in each.items() if "memfd" in kind)
        return sum(kinds[0].values()), shared


async def visit(address, number):
    """Open a page, switch to another lab in every second one, press a key that opens something, and close it."""
    page = Client(address, PATIENCE)
    await page.open()
    if number % 2:
        page.choose(1 + number // 2 % 3)
    page.press(KEYS[number % len(KEYS)])
    page.send_change()
    async with asyncio.timeout(PATIENCE):
        while not page.answers:  # noqa: ASYNC110 the client sends no event
            await asyncio.sleep(0.02)
    await page.close()


def visits(address, count):
    async def all_of_them():
        for number in range(count):
            await visit(address, number)

    asyncio.run(all_of_them())


def test_closed_pages_leave_no_objects_and_no_descriptors(tmp_path):
    """The number of objects must not grow. One or two descriptors may be another job's, but not one per page."""
    server = Server(tmp_path)
    try:
        address = server.address()
        visits(address, FEW)  # objects made once: engines, tables of libraries
        before = server.settled(lambda held: held["Page"] == 1)
        assert before["Page"] == 1, before  # the page prepared for the next visitor
        descriptors = server.descriptors()[0]
        visits(address, PAGES)
        more = server.settled(lambda held: not held - before) - before
        assert not more
        if kinds_of(os.getpid()):  # otherwise this system does not report kinds
            server.until(lambda: server.descriptors()[1] == 0)
            assert server.descriptors()[0] < descriptors + PAGES / 2
    finally:
        server.process.terminate()
        server.process.communicate(timeout=120)
