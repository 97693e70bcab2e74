"""Host headers: their syntax, and IPv6 addresses in policies; tests/browser/test_ipv6.py opens a page at one."""

from __future__ import annotations

import pytest
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from app.server import hosts
from app.server.hosts import is_host, socket_sources


@pytest.mark.parametrize(
    ("host", "well_formed"),
    [
        ("localhost", True),
        ("localhost:5006", True),
        ("lab.uni-x.example:80", True),
        ("my_lab:1", True),
        ("127.0.0.1:65535", True),
        ("[::1]", True),
        ("[::1]:5006", True),
        ("[::ffff:127.0.0.1]:80", True),
        ("", False),
        ("localhost:", False),
        ("localhost:abc", False),
        ("localhost:65536", False),
        ("localhost:5006:5006", False),
        ("localhost:٣", False),
        ("::1", False),
        ("[::1", False),
        ("[::1]x", False),
        ("[g::1]:80", False),
        ("a b", False),
        ("user@host", False),
        ("host/path", False),
    ],
)
def test_host_syntax(host: str, well_formed: bool) -> None:
    assert is_host(host) is well_formed


@pytest.mark.parametrize(
    ("host", "sources"),
    [
        ("localhost:5006", " ws://localhost:5006 wss://localhost:5006"),
        ("[::1]:5006", ""),
        ("localhost; script-src *", ""),
    ],
)
def test_policy_sources_of_a_host(host: str, sources: str) -> None:
    assert socket_sources(host) == sources


def test_a_missing_host_is_not_malformed() -> None:
    """It is refused later, as a host that is not on the allow-list."""
    line = RequestStartLine("GET", "/app", "HTTP/1.0")
    for host, status in ((None, None), ("localhost:abc", 400), ("localhost:5006", None)):
        given = HTTPHeaders({} if host is None else {"Host": host})
        found = hosts.malformed(HTTPServerRequest(start_line=line, headers=given))
        assert (found and found[0]) == status
