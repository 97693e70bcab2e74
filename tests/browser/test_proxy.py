"""Behind nginx with TLS and a path, by the recipes of deploy/ with only ports, names and certificates replaced."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from app.page.qr_code import qr
from tests.browser.conftest import WAIT
from tests.browser.console import ConsoleErrors
from tests.browser.lab_page import OPENING, LabPage
from tests.browser.serving import ROOT, Server, bound, free_port, has_ipv6, serve, wait_until_ready
from tests.browser.test_audience import NUMBER

pytestmark = pytest.mark.extended

DEPLOY = ROOT / "deploy"
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

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/fieldlab"

    @property
    def public(self) -> str:
        """The same with a public-looking name: browsers resolve *.localhost to this machine."""
        return f"https://{PUBLIC}:{self.port}/fieldlab"


LOOPBACKS = ["127.0.0.1", "::1"] if has_ipv6() else ["127.0.0.1"]


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
        "listen [::]:443 ssl": f"listen [::1]:{port} ssl",
        "listen 80": f"listen 127.0.0.1:{plain}",
        "listen [::]:80": f"listen [::1]:{plain}",
        "lectures.example": "localhost",
    }.items():
        assert old in site, old
        site = site.replace(old, new)
    if LOOPBACKS == ["127.0.0.1"]:
        site = re.sub(r"^ *listen \[::1\].*\n", "", site, flags=re.MULTILINE)
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
            wait_until_ready(Server(port, nginx, folder / "error.log"))
            yield Proxied(server, port)
        finally:
            nginx.send_signal(signal.SIGTERM)
            nginx.wait(120)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Return a browser context that accepts the proxy's certificate."""
    context = browser.new_context(ignore_https_errors=True)
    context.set_default_timeout(WAIT)
    yield context
    context.close()


def watched(context: BrowserContext) -> tuple[Page, list[str], ConsoleErrors]:
    """Return a new page, and the lists to which its requests and its errors will be added."""
    page, requested, errors = context.new_page(), [], ConsoleErrors()
    page.on("request", lambda request: requested.append(request.url))
    page.on("websocket", lambda socket: requested.append(socket.url))
    errors.watch(page)
    return page, requested, errors


def outside(requested: list[str], address: str) -> list[str]:
    """Return the requested URLs that are not below `address`."""
    own = f"{address}/", f"wss{address.removeprefix('https')}/", "data:", "blob:"
    return [url for url in requested if not url.startswith(own)]


def test_links_qr_codes_and_followers_use_the_public_address(
    browser: Browser, context: BrowserContext, proxied: Proxied
) -> None:
    """A phone follows by the link; all requests of both stay below the path, and the consoles have no errors."""
    page, visited, wrong = watched(context)
    lab = LabPage.of(page)
    page.goto(f"{proxied.public}/app", wait_until="commit")
    lab.until(lambda: lab.step() > 0, OPENING)
    lab.drawn()
    lab.key("e")
    page.get_by_role("button", name="Link", exact=True).click()
    page.get_by_role("button", name="Copy the link").click()
    code = page.get_by_role("button", name="QR code of the link; enlarge it").locator("path")
    code.wait_for(state="attached", timeout=1000 * OPENING)
    link = page.get_by_label("Address").input_value()
    assert link.startswith(f"{proxied.public}/app?scene=1.")
    assert code.get_attribute("d") == qr(link)["path"]
    lab.key("e")

    lab.key("q")
    card = page.locator(".audience")
    card.get_by_role("button", name="Let the room follow").click()
    room = card.locator(".code").inner_text()
    link = card.locator("a.link").get_attribute("href") or ""
    assert link == f"{proxied.public}/follow/{room}"
    assert card.locator("svg path").get_attribute("d") == qr(link)["path"]

    other = browser.new_context(ignore_https_errors=True, viewport={"width": 390, "height": 844})
    other.set_default_timeout(WAIT)
    phone, requested, errors = watched(other)
    phone.goto(link)
    lab.until(lambda: phone.locator("#picture").is_visible() and phone.evaluate(NUMBER) > 0)
    shown = phone.evaluate(NUMBER)
    lab.until(lambda: phone.evaluate(NUMBER) > shown)
    card.get_by_text("1 follower").wait_for()
    assert phone.evaluate("document.getElementById('try').href").startswith(f"{proxied.public}/app?")
    other.close()
    assert outside(visited + requested, proxied.public) == wrong.texts == errors.texts == []


def test_the_health_report_metrics_and_redirect_are_reachable(context: BrowserContext, proxied: Proxied) -> None:
    health = context.request.get(f"{proxied.url}/health")
    assert health.status == 200
    assert json.loads(health.text())["status"] == "ok"
    assert "fieldlab_pages_limit 64.0" in context.request.get(f"{proxied.url}/metrics").text()
    moved = context.request.get(proxied.url, max_redirects=0)
    assert (moved.status, moved.headers["location"].endswith("/fieldlab/")) == (301, True)
    assert "nginx/" not in moved.headers.get("server", "")


@pytest.mark.parametrize("address", LOOPBACKS)
def test_http_2_is_offered(proxied: Proxied, address: str) -> None:
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    unchecked.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_connection((address, proxied.port), timeout=60) as plain, unchecked.wrap_socket(plain) as secure:
        assert secure.selected_alpn_protocol() == "h2"
