"""Requests from pages of other origins: links are allowed; scripts, forms and frames are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from app.server.fetch_metadata import foreign

ALLOWED = ["localhost:5006", "lab.example"]


def request(method: str = "GET", **headers: str) -> HTTPServerRequest:
    given = HTTPHeaders({"Host": "localhost:5006", **{name.replace("_", "-"): its for name, its in headers.items()}})
    return HTTPServerRequest(start_line=RequestStartLine(method, "/app", "HTTP/1.1"), headers=given)


def fetched(site: str, mode: str, dest: str, method: str = "GET") -> HTTPServerRequest:
    return request(method, Sec_Fetch_Site=site, Sec_Fetch_Mode=mode, Sec_Fetch_Dest=dest)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "something-new"])
@pytest.mark.parametrize(
    ("mode", "dest", "method", "answered"),
    [
        ("navigate", "document", "GET", True),
        ("navigate", "document", "HEAD", True),
        ("navigate", "document", "POST", False),
        ("navigate", "iframe", "GET", False),
        ("navigate", "object", "GET", False),
        ("no-cors", "script", "GET", False),
        ("cors", "document", "GET", False),
    ],
)
def test_another_origin_may_only_link(site: str, mode: str, dest: str, method: str, answered: bool) -> None:
    found = foreign(fetched(site, mode, dest, method), ALLOWED)
    assert (found is None) is answered
    assert found is None or found[0] == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_own_pages_and_the_address_bar_may_do_anything(site: str, method: str) -> None:
    assert foreign(fetched(site, "cors", "script", method), ALLOWED) is None


def test_listed_origins_may_frame_the_page(limited: Callable[..., None]) -> None:
    limited(embed=("https://course.example",))
    assert foreign(fetched("cross-site", "navigate", "iframe"), ALLOWED) is None
    assert foreign(fetched("cross-site", "navigate", "object"), ALLOWED) is not None
    assert foreign(fetched("cross-site", "no-cors", "script"), ALLOWED) is not None
    assert foreign(fetched("cross-site", "navigate", "iframe", "POST"), ALLOWED) is not None


@pytest.mark.parametrize(
    ("origin", "answered"),
    [(None, True), ("http://localhost:5006", True), ("https://lab.example", True), ("http://localhost:8000", False),
     ("http://evil.example", False), ("null", False), ("http://[::1", False), ("", False)]
)  # fmt: skip
def test_without_fetch_metadata_a_form_needs_an_own_origin(origin: str | None, answered: bool) -> None:
    """None: a program."""
    given = {} if origin is None else {"Origin": origin}
    assert (foreign(request("POST", **given), ALLOWED) is None) is answered
    assert foreign(request("GET", **given), ALLOWED) is None


def test_websocket_requests_are_checked_by_the_allow_list_instead() -> None:
    """Firefox sends Sec-Fetch headers with WebSocket requests, Chromium does not."""
    handshake = request(Upgrade="websocket", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="websocket")
    assert foreign(handshake, ALLOWED) is None
