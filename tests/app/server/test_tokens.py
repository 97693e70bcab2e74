"""Data in a real server's answers: no cookies or headers in tokens, no tokens in scripts, no version anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from bokeh.util.token import get_token_payload

from tests.app.server.test_access import Answers, serving

SECRET = "s3cret-of-a-visitor"


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    with serving() as server:
        yield server


def ask(path: str, **headers: str) -> dict[str, Any]:
    return {"kind": "http", "path": path, "host": "localhost:PORT", "origin": None, **headers}


def test_a_token_contains_no_cookie_and_no_header(answers: Answers) -> None:
    """Neither the log-in cookie, which scripts must not read, nor the password of a proxy."""
    sent = {"Cookie": f"session={SECRET}", "Authorization": f"Basic {SECRET}", "X-Forwarded-User": SECRET}
    ((status, _, page),) = answers([ask("/app?ui=none", **sent)])
    assert status == 200
    (token,) = set(re.findall(r'"token":"([\w.-]+)"', page))
    payload = get_token_payload(token)
    assert SECRET not in repr(payload)
    assert payload["headers"] == {}
    assert payload["cookies"] == {}
    assert payload["arguments"]["ui"] == [b"none"]  # the page needs these


@pytest.mark.parametrize("path", [
    "/app/autoload.js?bokeh-autoload-element=1", '/app/autoload.js?bokeh-autoload-element=");alert(1);("',
    "/app/autoload.js", "/app/metadata", "/app/../app/autoload.js", "/app/%61utoload.js?bokeh-autoload-element=1",
])  # fmt: skip
def test_scripts_and_data_of_the_application_are_not_served(answers: Answers, path: str) -> None:
    for method in ("GET", "HEAD", "OPTIONS"):
        ((status, headers, text),) = answers([ask(path) | {"method": method}])
        assert status in {400, 404}
        assert "token" not in text
        assert "Access-Control-Allow-Origin" not in headers


def test_every_answer_is_isolated_from_other_origins(answers: Answers) -> None:
    """CORP on every answer; COOP where browsers honour it: TLS and this machine. No answer has Tornado's version."""
    paths = ["/app", "/favicon.ico", "/static/js/bokeh.min.js", "/nowhere", "/app/autoload.js", "/health", "/"]
    for status, headers, _ in answers([ask(path) for path in paths]):
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin", status
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert "Server" not in headers
    ((status, headers, _),) = answers([ask("/app") | {"host": "evil.example"}])
    assert status == 403
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Cross-Origin-Opener-Policy" not in headers


def test_another_origin_cannot_load_a_page_as_a_script(answers: Answers) -> None:
    fetched = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
    linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    found = answers([ask("/app", **fetched), ask("/static/js/bokeh.min.js", **fetched), ask("/app", **linked)])
    assert [status for status, *_ in found] == [403, 403, 200]


@pytest.mark.parametrize("host", ["localhost:abc", "localhost:99999", "localhost:5006:1", "::1", "[::1", "a]b"])
def test_a_malformed_host_is_a_client_error(answers: Answers, host: str) -> None:
    """Such a host used to cause a broken page and a traceback."""
    ((status, _, text),) = answers([ask("/app") | {"host": host}])
    assert (status, "Host" in text) == (400, True)
