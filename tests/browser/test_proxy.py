"""Behind nginx with TLS and a path, by the recipes of deploy/ with only ports, names and certificates replaced."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser

from app.page.qr_code import qr
from tests.browser.conftest import WAIT
from tests.browser.lab_page import OPENING, LabPage
from tests.browser.serving import ROOT, Server, answers, bound, free_port, serve
from tests.browser.test_audience import NUMBER

pytestmark = pytest.mark.extended

DEPLOY = ROOT / "deploy"
START = 120.0  # s until nginx must respond
PUBLIC = "lectures.localhost"
BARE = """
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
    include /etc/nginx/mime.types;
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


@dataclass(frozen=True)
class Proxied:
    """A server and the proxy before it."""

    server: Server
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/fieldlab"

    @property
    def public(self) -> str:
        """The same with a public-looking name: browsers resolve *.localhost to this machine."""
        return f"https://{PUBLIC}:{self.port}/fieldlab"


def options() -> list[str]:
    """Return the options of `fieldlab serve` in the systemd unit, without address and port."""
    text = (DEPLOY / "fieldlab.service").read_text().replace("\\\n", " ")
    command = re.search(r"^ExecStart=\S+ serve (.*)$", text, re.MULTILINE)[1].split()
    assert command[:4] == ["--address", "127.0.0.1", "--port", "5006"]
    return command[4:]


def written(folder: Path, port: int, plain: int, upstream: int) -> Path:
    """Write nginx's configuration to `folder` and return its path.

    It is the recipe, listening on `port` (TLS) and `plain`, with `upstream` as the port of the server.
    """
    certificate, key = folder / "own.pem", folder / "own.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    passed = (DEPLOY / "fieldlab_proxy.conf").read_text()
    (folder / "fieldlab_proxy.conf").write_text(passed.replace("127.0.0.1:5006", f"127.0.0.1:{upstream}"))
    site = (DEPLOY / "nginx.conf").read_text()
    for old, new in {
        "/etc/letsencrypt/live/lectures.example/fullchain.pem": str(certificate),
        "/etc/letsencrypt/live/lectures.example/privkey.pem": str(key),
        "/etc/nginx/fieldlab_proxy.conf": str(folder / "fieldlab_proxy.conf"),
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "listen 80": f"listen 127.0.0.1:{plain}",
        "lectures.example": "localhost",
    }.items():
        assert old in site, old
        site = site.replace(old, new)
    (folder / "site.conf").write_text(site)
    (folder / "nginx.conf").write_text(BARE.format(folder=folder))
    return folder / "nginx.conf"


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    folder = tmp_path_factory.mktemp("nginx")
    given = options()
    assert given[given.index("--origin") + 1] == "lectures.example"
    port = free_port()
    named = f"localhost:{port}"  # browsers omit a port only if it is the default of https
    origins = ["--allow-websocket-origin", named, "--allow-websocket-origin", f"{PUBLIC}:{port}"]
    own = [*origins, "--prefix", given[given.index("--prefix") + 1], "--use-xheaders"]
    with serve(folder, own, {"FIELDLAB_METRICS": "1"}) as server:
        settings = written(folder, port, free_port(), server.port)
        subprocess.run([program, "-t", "-c", str(settings)], check=True, capture_output=True)
        nginx = psutil.Popen(bound([program, "-c", str(settings), "-g", "daemon off;"]))
        try:
            end = time.monotonic() + START
            while not answers(port):
                assert nginx.poll() is None
                assert time.monotonic() < end
                time.sleep(0.05)
            yield Proxied(server, port, folder / "access.log")
        finally:
            nginx.send_signal(signal.SIGTERM)
            nginx.wait(120)


def test_a_lab_runs_behind_it(browser: Browser, proxied: Proxied) -> None:
    """The lab advances, each request stays below the path, and the console has no errors."""
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.set_default_timeout(WAIT)
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{proxied.url}/app")
    lab = LabPage.__new__(LabPage)
    lab.page = page
    before = lab.until(lambda: max(0, lab.step()), OPENING)
    lab.until(lambda: lab.step() > before)
    context.close()
    own = f"{proxied.url}/", f"wss{proxied.url.removeprefix('https')}/", "data:", "blob:"
    assert not [url for url in asked if not url.startswith(own)]
    assert not said


def test_a_phone_follows_by_the_public_address(browser: Browser, proxied: Proxied) -> None:
    """Link and QR code contain it, pictures are received, and each request stays below the path."""
    context = browser.new_context(ignore_https_errors=True)
    context.set_default_timeout(WAIT)
    page, asked, said = context.new_page(), [], []
    lab = LabPage.__new__(LabPage)
    lab.page = page
    page.goto(f"{proxied.public}/app", wait_until="commit")
    lab.until(lambda: lab.step() > 0, OPENING)
    lab.key("q")
    card = page.locator(".audience")
    card.get_by_role("button", name="Let the room follow").click()
    code = card.locator(".code").inner_text()
    link = card.locator("a.link").get_attribute("href") or ""
    assert link == f"{proxied.public}/follow/{code}"
    assert card.locator("svg path").get_attribute("d") == qr(link)["path"]

    phone = browser.new_context(ignore_https_errors=True, viewport={"width": 390, "height": 844}).new_page()
    phone.set_default_timeout(WAIT)
    phone.on("request", lambda request: asked.append(request.url))
    phone.on("websocket", lambda socket: asked.append(socket.url))
    phone.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    phone.on("pageerror", lambda error: said.append(str(error)))
    phone.goto(link)
    lab.until(lambda: phone.locator("#picture").is_visible() and phone.evaluate(NUMBER) > 0)
    seen = phone.evaluate(NUMBER)
    lab.until(lambda: phone.evaluate(NUMBER) > seen)
    card.get_by_text("1 follower").wait_for()
    assert phone.evaluate("document.getElementById('try').href").startswith(f"{proxied.public}/app?")
    own = f"{proxied.public}/", f"wss{proxied.public.removeprefix('https')}/", "data:", "blob:"
    assert not [url for url in asked if not url.startswith(own)]
    assert not said
    phone.context.close()
    context.close()


def test_a_link_to_a_state_and_its_qr_code_carry_the_public_address(browser: Browser, proxied: Proxied) -> None:
    """Both contain the path before the app, by which another browser opens it."""
    context = browser.new_context(ignore_https_errors=True)
    context.set_default_timeout(WAIT)
    page = context.new_page()
    lab = LabPage.__new__(LabPage)
    lab.page = page
    page.goto(f"{proxied.public}/app", wait_until="commit")
    lab.until(lambda: lab.step() > 0, OPENING)
    lab.key("e")
    page.get_by_role("button", name="Link", exact=True).click()
    page.get_by_role("button", name="Copy the link").click()
    code = page.get_by_role("button", name="QR code of the link; enlarge it").locator("path")
    code.wait_for(state="attached", timeout=1000 * OPENING)
    link = page.get_by_label("Address").input_value()
    assert link.startswith(f"{proxied.public}/app?scene=1.")
    assert code.get_attribute("d") == qr(link)["path"]
    context.close()


def test_the_address_without_the_last_slash_and_the_health(browser: Browser, proxied: Proxied) -> None:
    context = browser.new_context(ignore_https_errors=True)
    context.set_default_timeout(WAIT)
    try:
        health = context.request.get(f"{proxied.url}/health")
        assert health.status == 200
        assert json.loads(health.text())["status"] == "ok"
        metrics = context.request.get(f"{proxied.url}/metrics")
        assert "fieldlab_pages_limit 64.0" in metrics.text()
        moved = context.request.get(proxied.url, max_redirects=0)
        assert (moved.status, moved.headers["location"].endswith("/fieldlab/")) == (301, True)
        assert "nginx/" not in moved.headers.get("server", "")
    finally:
        context.close()
