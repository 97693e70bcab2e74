"""Measure a visitor's waiting times: `python -m tests.browser.first_visit` serves a copy of this checkout.

The copy has no caches, so its first start is that of a fresh clone and its second that of a server that was used
before. Each start is followed by a visit with an empty browser cache, one with a full cache and one from another
browser context. Printed are the seconds from the start of the navigation (on the first visit also from the printed
address) to the first canvas, picture and moving picture; requests and kB of the load; and each request to another
host. The script asserts nothing, because the times depend on the load of the machine.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.chromium import find
from tests.browser.conftest import FLAGS
from tests.browser.lab_page import ALL_MODELS
from tests.browser.serving import ROOT, Server, answers, bound, environment, free_port, stop

PATIENCE = 120.0  # s, the timeout of each step
# Times in ms since the navigation began: when a plot has a canvas, when its centre shows a picture (20 colours or
# more), and when the picture changes. Polling is necessary because observers do not see into the canvases' shadow
# roots.
WATCH = """(() => {
  const seen = window.seen = {canvas: 0, picture: 0, moving: 0};
  const SIDE = 32, small = new OffscreenCanvas(SIDE, SIDE), pen = small.getContext('2d', {willReadFrequently: true});
  const canvases = (root, found = []) => {
    for (const node of root.querySelectorAll('*')) {
      if (node.tagName == 'CANVAS' && node.clientWidth > 200 && node.clientHeight > 150) found.push(node);
      if (node.shadowRoot) canvases(node.shadowRoot, found);
    }
    return found;
  };
  const before = new Map();
  const look = () => {
    if (!seen.moving && document.body) for (const canvas of canvases(document.body)) {
      const {width, height} = canvas;
      pen.clearRect(0, 0, SIDE, SIDE);
      pen.drawImage(canvas, width / 4, height / 4, width / 2, height / 2, 0, 0, SIDE, SIDE);
      const pixels = new Uint32Array(pen.getImageData(0, 0, SIDE, SIDE).data.buffer), colours = new Set(pixels).size;
      const now = performance.now(), last = before.get(canvas);
      seen.canvas ||= now;
      if (colours < 20) continue;
      seen.picture ||= now;
      if (last && pixels.some((value, i) => value != last[i])) seen.moving ||= now;
      before.set(canvas, pixels);
    }
    setTimeout(look, 40);
  };
  look();
})()"""


@dataclass
class Traffic:
    """Network traffic of a page load, as reported by the browser."""

    requests: Counter[str] = field(default_factory=Counter)  # by kind
    bytes: Counter[str] = field(default_factory=Counter)  # on the wire, by kind
    sizes: dict[str, int] = field(default_factory=dict)  # on the wire, by address
    cached: int = 0
    elsewhere: list[str] = field(default_factory=list)
    socket: int = 0  # bytes received through the WebSocket
    kinds: dict[str, tuple[str, str]] = field(default_factory=dict)

    def watch(self, page: Page, host: str) -> None:
        """Record the browser's network events from now on."""
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.responseReceived", self._received)
        session.on("Network.loadingFinished", self._finished)
        session.on("Network.requestServedFromCache", lambda event: self._count_cached())
        session.on("Network.webSocketFrameReceived", self._frame)
        page.on("request", lambda request: self._requested(request.url, host))

    def _count_cached(self) -> None:
        self.cached += 1

    def _requested(self, url: str, host: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"data", "blob"} and parts.netloc != host:
            self.elsewhere.append(url)

    def _received(self, event: dict[str, Any]) -> None:
        response = event["response"]
        self.kinds[event["requestId"]] = event["type"], response["url"]
        if not response["url"].startswith(("data:", "blob:")):
            self.requests[event["type"]] += 1
            if response.get("fromDiskCache"):
                self.cached += 1

    def _finished(self, event: dict[str, Any]) -> None:
        kind, url = self.kinds.get(event["requestId"], ("Other", ""))
        if not url.startswith(("data:", "blob:")):
            self.bytes[kind] += int(event["encodedDataLength"])
            self.sizes[url] = int(event["encodedDataLength"])

    def _frame(self, event: dict[str, Any]) -> None:
        self.socket += len(event["response"]["payloadData"])

    def summary(self, most: int = 0) -> str:
        """Return a summary with the `most` largest files."""
        lines = [
            f"{sum(self.requests.values())} requests ({self.cached} from the cache), "
            f"{sum(self.bytes.values()) / 1e3:.0f} kB, of which "
            + ", ".join(f"{kind} {number}: {self.bytes[kind] / 1e3:.0f} kB" for kind, number in self.requests.items())
        ]
        heavy = sorted(self.sizes.items(), key=lambda item: -item[1])[:most]
        lines += [f"  {size / 1e3:8.1f} kB {re.sub(r'^http://[^/]+', '', url)[:110]}" for url, size in heavy]
        return "\n".join([*lines, *(f"  ELSEWHERE {url}" for url in self.elsewhere)])


def start(folder: Path, command: list[str], log: Path) -> tuple[Server, float]:
    """Start a server in `folder`; return it and the time.monotonic() at which it printed its address."""
    port = free_port()
    with log.open("wb") as output:
        process = psutil.Popen(
            bound([part.format(port=port) for part in command]),
            cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env={**environment(), "PYTHONPATH": str(folder)}, start_new_session=True,
        )  # fmt: skip
    server, begun = Server(port, process, log), time.monotonic()
    while f"Fieldlab: http://localhost:{port}/app" not in server.text():
        assert process.poll() is None, server.text()
        assert time.monotonic() < begun + PATIENCE, server.text()
        time.sleep(0.02)
    printed = time.monotonic()
    print(f"the address was printed {printed - begun:.2f} s after the start", flush=True)
    return server, printed


def visit(browser: Browser, server: Server, printed: float | None, heaviest: int, name: str) -> Page:
    """Load the page in a new browser context and print the timings; the page stays open."""
    page = browser.new_context(viewport={"width": 1280, "height": 720}).new_page()
    load(page, server, printed, heaviest, name)
    return page


def load(page: Page, server: Server, printed: float | None, heaviest: int, name: str) -> None:
    """Load the page, wait for a moving picture, and print timings and traffic."""
    page.set_default_timeout(PATIENCE * 1000)
    page.add_init_script(WATCH)
    traffic = Traffic()
    traffic.watch(page, f"localhost:{server.port}")
    while not answers(server.port):
        time.sleep(0.02)
    begun = time.monotonic()
    page.goto(server.url, wait_until="commit")
    page.wait_for_function("window.seen && window.seen.moving", polling=50)
    ended = time.monotonic()
    seen = page.evaluate("window.seen")
    since = f"; {ended - printed:.2f} s since the address was printed" if printed else ""
    parts = ", ".join(f"{part} {seen[part] / 1e3:.2f} s" for part in ("canvas", "picture", "moving"))
    said = f"{name}: {parts} ({ended - begun:.2f}{since})"
    models = page.evaluate(f"{ALL_MODELS}.length")
    print(f"{said}; {models} models\n{traffic.summary(heaviest)}", flush=True)


def fresh_copy(folder: Path) -> Path:
    """Copy tracked files, with uncommitted changes and new files, into `folder`; compiled files are not copied."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in names:
        if not (ROOT / name).is_file() or (ROOT / name).is_symlink():
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def main() -> None:
    """Start the server twice, visit it and print the timings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", default=f"{sys.executable} -m compute serve --port {{port}}", help="the command")
    parser.add_argument("--here", action="store_true", help="serve this checkout with its caches, not a fresh copy")
    parser.add_argument("--heaviest", type=int, default=0, help="files to name")
    parser.add_argument("--quick", action="store_true", help="each server's first visit alone")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="first-visit-") as name, sync_playwright() as playwright:
        folder = ROOT if chosen.here else fresh_copy(Path(name, "fieldlab"))
        log = Path(name, "log")
        browser = playwright.chromium.launch(
            executable_path=find(), args=[*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        )
        for kind in ("first start", "second start"):
            server, printed = start(folder, chosen.serve.split(), log)
            try:
                page = visit(browser, server, printed, chosen.heaviest, f"{kind}, first visit")
                if chosen.quick:
                    page.context.close()
                    continue
                time.sleep(8)
                load(page, server, None, 0, f"{kind}, reload")
                page.context.close()
                page = visit(browser, server, None, 0, f"{kind}, another visitor")
                page.context.close()
            finally:
                print(server.text()[-1500:] if "-v" in sys.argv else "", end="")
                left = stop(server)
                if left:
                    print("left behind:", left)
        browser.close()


if __name__ == "__main__":
    main()
