"""Host headers: their syntax, and IPv6 addresses in policies; tests/browser/test_ipv6.py opens a page at one."""

from __future__ import annotations

import pytest

from app.server.hosts import is_host, socket_sources


def test_host_syntax() -> None:
    right = ["localhost", "lab.uni-x.example:80", "my_lab:1", "127.0.0.1:65535", "[::1]", "[::ffff:127.0.0.1]:80"]
    wrong = ["", "localhost:", "localhost:abc", "localhost:65536", "localhost:5006:5006", "localhost:٣", "::1", "[::1",
             "[::1]x", "[g::1]:80", "a b", "user@host", "host/path"]  # fmt: skip
    assert [host for host in right if not is_host(host)] == []
    assert [host for host in wrong if is_host(host)] == []


@pytest.mark.parametrize(
    ("host", "sources"),
    [
        ("localhost:5006", " ws://localhost:5006 wss://localhost:5006"),
        ("[::1]:5006", ""),
        ("localhost; script-src *", ""),
        ("x\ny", ""),
    ],
)
def test_policy_sources_of_a_host(host: str, sources: str) -> None:
    assert socket_sources(host) == sources
