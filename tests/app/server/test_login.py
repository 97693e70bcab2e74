"""The log-in of `--auth`: scope of its cookie, redirects, expiry and log-out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.cookies import SimpleCookie
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest

from app.server import login
from app.server.admission import GONE
from app.server.login import COOKIE, MOST_LOGINS, Logins, own_path
from tests.app.server.test_access import SERVED, Answers, serving

GUARDED = SERVED.replace(
    "    access.install(); access.install()\n",
    """    import panel as pn
    from app.server import login
    from tornado.httpserver import HTTPServer
    names, *sys.argv[1:] = sys.argv[1:]
    pn.config.basic_auth = names
    login.install(); login.install()
    access.install(); access.install()
    take = HTTPServer.handle_stream
    def behind_proxy(self, *given):
        self.xheaders = True
        return take(self, *given)
    HTTPServer.handle_stream = behind_proxy
""",
).replace('own = {"address"', 'own = {"basic_auth": names, "prefix": "/lab", "address"')
PASSWORD = "a long sentence"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    names = tmp_path_factory.mktemp("login") / "names.json"
    names.write_text(json.dumps({"course": PASSWORD}))
    with serving(str(names), script=GUARDED) as server:
        yield server


def ask(path: str, cookie: str = "", form: dict[str, str] | None = None, **more: str) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": "http", "path": f"/lab{path}", "host": "localhost:PORT", "origin": None, **more}
    if cookie:
        found["Cookie"] = cookie
    return found if form is None else found | FORM | {"method": "POST", "body": urlencode(form)}


def logged_in(answers: Answers, cookie: str = "", **more: str) -> str:
    """Log in; return the cookie as a browser sends it."""
    form = {"username": "course", "password": PASSWORD}
    ((status, headers, _),) = answers([ask("/login", cookie, form, **more)])
    assert status == 303
    return headers["Set-Cookie"].partition(";")[0]


def status_of(answers: Answers, cookie: str, path: str = "/app") -> int:
    ((status, *_),) = answers([ask(path, cookie)])
    return status


def test_a_login_returns_to_the_requested_page(answers: Answers) -> None:
    ((status, headers, _),) = answers([ask("/app?ui=none&scene=1.a-b_c")])
    assert (status, headers["Location"]) == (302, "./login?next=%2Flab%2Fapp%3Fui%3Dnone%26scene%3D1.a-b_c")
    ((_, _, page),) = answers([ask(headers["Location"][1:])])
    assert "http" not in page  # it loads nothing from another server
    (requested,) = re.findall(r'name="next" value="([^"]*)"', page)
    requested = requested.replace("&amp;", "&")
    form = {"username": "course", "password": PASSWORD, "next": requested}
    ((status, headers, _),) = answers([ask("/login", form=form)])
    assert (status, headers["Location"]) == (303, "./app?ui=none&scene=1.a-b_c")
    assert status_of(answers, headers["Set-Cookie"].partition(";")[0]) == 200


@pytest.mark.parametrize("wrong", [{"password": "wrong"}, {"username": "nobody"}, {"username": ""}])
def test_a_wrong_password_keeps_the_address(answers: Answers, wrong: dict[str, str]) -> None:
    form = {"username": "course", "password": PASSWORD, "next": "app?ui=none"} | wrong
    ((status, headers, _),) = answers([ask("/login", form=form)])
    assert (status, headers["Location"]) == (303, "login?error=1&next=%2Flab%2Fapp%3Fui%3Dnone")
    assert "Set-Cookie" not in headers


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_cookie_is_limited(answers: Answers, scheme: str) -> None:
    """Secure if the browser used TLS according to the proxy; not sent to scripts, other sites and other paths."""
    form = {"username": "course", "password": PASSWORD}
    ((_, headers, _),) = answers([ask("/login", form=form, **{"X-Forwarded-Proto": scheme})])
    cookie = SimpleCookie(headers["Set-Cookie"])
    assert list(cookie) == [COOKIE]
    its = cookie[COOKIE]
    assert (its["path"], its["samesite"], its["httponly"]) == ("/lab", "Lax", True)
    assert bool(its["secure"]) is (scheme == "https")
    assert "course" not in headers["Set-Cookie"]


def test_a_copied_cookie_is_invalid_after_the_logout(answers: Answers) -> None:
    cookie = logged_in(answers)
    assert status_of(answers, cookie) == 200
    ((status, _, page),) = answers([ask("/logout", cookie)])
    assert status == 200
    assert '<form action="logout" method="post">' in page
    assert status_of(answers, cookie) == 200  # a link does not log out
    ((status, headers, _),) = answers([ask("/logout", cookie, {})])
    assert (status, headers["Location"]) == (303, "login")
    assert headers["Set-Cookie"].startswith(f'{COOKIE}="";')
    assert status_of(answers, cookie) == 302


def test_another_login_ends_the_previous_one(answers: Answers) -> None:
    first = logged_in(answers)
    second = logged_in(answers, first)
    assert [status_of(answers, cookie) for cookie in (first, second)] == [302, 200]


@pytest.mark.parametrize("path", ["/login", "/logout"])
@pytest.mark.parametrize("foreign", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"},
                                     {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:1"}])  # fmt: skip
def test_forms_of_other_origins_are_refused(answers: Answers, path: str, foreign: dict[str, str]) -> None:
    cookie = logged_in(answers)
    form = {"username": "course", "password": PASSWORD}
    navigates = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"} if "Sec-Fetch-Site" in foreign else {}
    ((status, headers, _),) = answers([ask(path, cookie, form, **foreign, **navigates)])
    assert (status, "Set-Cookie" in headers) == (403, False)
    assert status_of(answers, cookie) == 200


@pytest.mark.parametrize("cookie", ["x", '""', "course", "user=course", f"{COOKIE}=", f"{COOKIE}=course"])
def test_forged_cookies_are_refused(answers: Answers, cookie: str) -> None:
    assert status_of(answers, cookie) == 302
    ask_socket = {"kind": "ws", "path": "/lab/app/ws", "host": "localhost:PORT", "origin": None, "Cookie": cookie}
    assert [status for status, *_ in answers([ask_socket])] == [403]


ELSEWHERE = [
    "//host", "///host/", "////host", "/\\host", "\\\\host", "/\\/host", "https:host", "https://host/", "http:/host",
    "javascript:alert(1)", "host", "", "/", "/other", "/laboratory/app", "/lab/..//host", "/lab/../x", "/lab/./x",
    "/lab//host", "/lab/\\host", "/lab/\thost", "/lab/\nhost", "\t//host", "/\t/host", " //host", "/lab/%2f%2fhost",
    "/lab/app%0d%0aSet-Cookie:x", "%2F%2Fhost", "/lab/@host", "/lab/app?x=\r\nLocation: //host", '/lab/app?"><script>',
    "/lab/app#//host", "/lab/äpp",
]  # fmt: skip


@pytest.mark.parametrize("text", ELSEWHERE)
def test_foreign_addresses_are_no_own_path(text: str) -> None:
    assert own_path(text, "/lab") == ""


@pytest.mark.parametrize("text", ["///host/", "//host", "/\\host", "https:host", "/lab//host", "\thttps://host"])
def test_a_login_redirects_to_no_other_server(answers: Answers, text: str) -> None:
    """Neither from the query, nor from the form's field, nor from a cookie like Panel's."""
    cookie = f"next_url={text}" if text.isprintable() else ""
    ((_, headers, page),) = answers([ask(f"/login?{urlencode({'next': text})}", cookie)])
    assert 'name="next" value=""' in page
    assert "Set-Cookie" not in headers
    for given in (text, text.removeprefix("/lab/")):
        form = {"username": "course", "password": PASSWORD, "next": given}
        ((status, headers, _),) = answers([ask("/login", cookie, form)])
        assert (status, headers["Location"]) == (303, "./")


def test_logins_expire_and_the_oldest_are_dropped() -> None:
    now = [0.0]
    logins = Logins(lambda: now[0])
    first = logins.begin("course", 10)
    found = logins.find(first)
    assert found
    assert found.user == "course"
    now[0] = 10
    assert logins.find(first) is None
    kept = [logins.begin("course", 10) for _ in range(MOST_LOGINS + 1)]
    assert logins.find(kept[0]) is None
    assert logins.find(kept[1])
    assert logins.find(kept[-1])


def test_the_end_of_a_login_closes_its_connections() -> None:
    class Socket:
        closed: tuple[int, str] | None = None

        def close(self, code: int, why: str) -> None:
            self.closed = code, why

    logins, socket = Logins(), Socket()
    key = logins.begin("course", 10)
    found = logins.find(key)
    assert found
    found.sockets.add(socket)  # type: ignore[arg-type]
    logins.end(key)
    logins.end(key)
    assert socket.closed == (GONE, "logged out")


def test_embedding_with_a_login_logs_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(login, "pn", SimpleNamespace(config=SimpleNamespace(basic_auth="x", oauth_provider=None)))
    for name in ("BasicAuthProvider", "BasicLoginHandler", "LogoutHandler"):
        monkeypatch.setattr(login, name, type(name, (), {}))
    monkeypatch.setattr(login.settings, "current", lambda: SimpleNamespace(embed=()))
    login.install()
    assert not caplog.records
    monkeypatch.setattr(login.settings, "current", lambda: SimpleNamespace(embed=("https://course.example",)))
    login.install()
    assert "browsers send no login cookie" in caplog.text
