"""The log: short records, one line each, at a bounded rate, without visitors' addresses; as text or as JSON lines."""

from __future__ import annotations

import io
import json
import logging
import sys
from pathlib import Path

import pytest

from app.server import server_log
from app.server.server_log import BURST, MOST_CHARACTERS, MOST_PLACES, MOST_TRACEBACK, PAUSE, BoundedLog
from tests.app.served_page import run_script


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def bounded(clock):
    return BoundedLog(clock)


def record(words, *given, line=1, level=logging.ERROR, trouble=None):
    return logging.LogRecord("bokeh.server", level, "ws.py", line, words, given, trouble)


def raised(words):
    try:
        int(words)
    except ValueError:
        error = ValueError(words)
        return ValueError, error, error.__traceback__ or sys.exc_info()[2]
    raise AssertionError(words)


def written(bounded, made):
    return logging.Formatter("%(message)s").format(made) if bounded.filter(made) else None


def test_text_from_a_client_is_shortened(bounded):
    text = written(bounded, record("error: %r", "x" * 10**6))
    assert text.startswith("error: 'xxx")
    assert len(text) < MOST_CHARACTERS + 60
    assert "1000009 characters" in text


def test_a_shortened_message_keeps_the_error_at_its_end(bounded):
    text = written(bounded, record(f"{'x' * 10**6}\nZeroDivisionError: division by zero"))
    assert text.startswith("xxx")
    assert text.endswith("\n  ZeroDivisionError: division by zero")


def test_text_from_a_client_starts_no_line(bounded):
    text = written(bounded, record("refused %s", "a\n2026-01-01 all is well\x1b[2K\u2028"))
    assert text == "refused a\n  2026-01-01 all is well\\x1b[2K\\u2028"


def test_a_traceback_keeps_its_end(bounded):
    text = written(bounded, record("failed", trouble=raised("y" * 10**6 + "the end")))
    assert len(text) < MOST_CHARACTERS + MOST_TRACEBACK + 60
    assert text.endswith("the end")


def test_a_short_record_is_unchanged(bounded):
    text = written(bounded, record("%d λ of %s", 3, "b", trouble=raised("why")))
    assert text.startswith("3 λ of b\n  Traceback (most recent call last):\n    File")
    assert written(bounded, record("100 %", line=2)) == "100 %"
    assert written(bounded, record("%d", "no number", line=3)) == "%d"


def test_the_rate_of_one_place_in_the_code_is_limited(bounded, clock):
    said = [written(bounded, record("again %d", number)) for number in range(100)]
    assert said == [f"again {number}" for number in range(BURST)] + [None] * (100 - BURST)
    assert written(bounded, record("another", line=2)) == "another"
    clock.now += PAUSE * 1.01
    assert written(bounded, record("again")) == f"again [{100 - BURST} more like this were left out]"
    assert written(bounded, record("again")) is None
    clock.now += 100 * PAUSE
    assert [written(bounded, record("calm")) for _ in range(BURST + 1)].count(None) == 1


def test_a_record_about_a_message_quotes_nothing_of_it(bounded):
    """The record's own text, numbers, and the traceback's locations are kept."""
    words = "error: %r of %s, %d", ValueError("secret"), "secret", 7
    made = logging.LogRecord("bokeh.server.views.ws", logging.ERROR, "ws.py", 1, words[0], words[1:], raised("secret"))
    text = written(bounded, made)
    assert text.startswith("error: <ValueError> of <str, 6 long>, 7\n  File ")
    assert text.endswith("\n  <ValueError>")
    assert "secret" not in text


def test_a_malformed_request_is_not_quoted(bounded):
    made = logging.LogRecord("tornado.general", logging.INFO, "x.py", 1, "Malformed HTTP message from %s: %s",
                             ("10.0.0.7", ValueError("secret")), None)  # fmt: skip
    assert written(bounded, made) == "Malformed HTTP message from <str, 8 long>: <ValueError>"


def test_only_warnings_are_limited(bounded):
    assert all(written(bounded, record("200 GET /app", level=logging.INFO)) for _ in range(100))


def test_several_handlers_write_the_same(bounded):
    made = record("x" * 1000)
    assert [written(bounded, made), written(bounded, made)] == [written(bounded, made)] * 2


def test_places_that_are_remembered_are_bounded(bounded):
    for line in range(3 * MOST_PLACES):
        bounded.filter(record("x", line=line))
    assert len(bounded._allowed) <= MOST_PLACES + 1


# -- the log as JSON lines


@pytest.fixture
def lines(monkeypatch):
    """Return write(name, ...), which logs with that logger and returns all lines as objects."""
    monkeypatch.setenv(server_log.LOG_VARIABLE, "json")
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(BoundedLog())
    server_log.write_json_lines({handler})

    def write(name, *arguments, level=logging.WARNING, **options):
        logger = logging.getLogger(name)
        known = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)  # Dask, which other tests import, silences Tornado
        try:
            logger.log(level, *arguments, **options)
        finally:
            logger.removeHandler(handler)
            logger.setLevel(known)
        return [json.loads(line) for line in out.getvalue().splitlines()]

    return write


def test_a_record_is_one_line_with_its_time_in_utc(lines):
    (line,) = lines("app.x", "%s of\n%d", "one", 2)
    assert line["time"].endswith("+00:00")
    assert (line["level"], line["logger"], line["message"]) == ("warning", "app.x", "one of\n  2")
    assert "trace" not in line
    try:
        {}["planted"]
    except KeyError:
        _, failed = lines("app.x", "failed", level=logging.ERROR, exc_info=True)
    assert failed["level"] == "error"
    assert "planted" in failed["trace"]


REQUEST = "HTTPServerRequest(protocol='http', uri='/app?who=ada', remote_ip='192.0.2.7')"
SAID = [
    ("tornado.access", "%d %s %.2fms", (404, "GET /app?who=ada (192.0.2.7)", 1.0), "404 GET /app 1.00ms"),
    ("tornado.general", "%d %s: no", (400, "POST /a/b (2001:db8::7)"), "400 POST /a/b: no"),
    ("tornado.application", "Uncaught exception %s\n%r", ("GET /app (192.0.2.7)", REQUEST), None),
]


@pytest.mark.parametrize(("name", "text", "arguments", "expected"), SAID)
def test_tornados_records_contain_no_visitors_address(lines, name, text, arguments, expected):
    class Shown(str):
        __slots__ = ()
        __repr__ = str.__str__

    (line,) = lines(name, text, *(Shown(one) if isinstance(one, str) else one for one in arguments))
    assert line["message"] == (expected or "Uncaught exception GET /app")


def test_only_failed_requests_are_logged_with_their_path(caplog):
    class Handler:
        class request:  # noqa: N801
            method, path, remote_ip = "GET", "/nowhere%0aforged", "192.0.2.7"

        def __init__(self, status):
            self.get_status = lambda: status

    for status in (200, 302, 404, 500):
        server_log.log_request(Handler(status))
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert all("192.0.2.7" not in record.getMessage() for record in caplog.records)


def test_another_log_format_is_refused(monkeypatch):
    monkeypatch.setenv(server_log.LOG_VARIABLE, "xml")
    with pytest.raises(ValueError, match="FIELDLAB_LOG must be one of text, json, not 'xml'"):
        server_log.log_kind()


# -- the whole log

FUZZED = """
import asyncio, json, logging, sys, tornado.iostream, tornado.websocket
from bokeh.models import ColumnDataSource
from bokeh.server.server import Server
from bokeh.util.token import generate_jwt_token, generate_session_id
import panel.io.server
from app.server import message_bounds, server_log

logging.basicConfig(level=logging.INFO)
message_bounds.install()
server_log.install(); server_log.install()
delay = tornado.iostream.IOStream.set_nodelay
tornado.iostream.IOStream.set_nodelay = lambda stream, never: delay(stream, True)  # each small answer would wait 40 ms
LONG = "stranger" * 12_500

async def main():
    shown = lambda document: document.add_root(ColumnDataSource(name="one"))
    server = Server({"/": shown}, port=0, address="127.0.0.1")
    server.start()
    protocols = ["bokeh", generate_jwt_token(generate_session_id())]
    socket = await tornado.websocket.websocket_connect(f"ws://127.0.0.1:{server.port}/ws", subprotocols=protocols)
    for _ in range(3):
        await socket.read_message()
    replies = []
    for number in range(300):
        model = {"type": "object", "name": LONG if number % 3 else "ColumnDataSource", "id": f"{number}{LONG}"}
        events = [{"kind": ["ModelChanged", "MessageSent", LONG][number % 3], "model": {"id": f"{number}{LONG}"},
                   "attr": LONG, "new": model, "msg_type": LONG, "msg_data": model}]
        for text in {"msgid": str(number), "msgtype": "PATCH-DOC"}, {}, {"events": events}:
            await socket.write_message(json.dumps(text))
        replies.append("".join([str(await socket.read_message()) for _ in range(3)]))
    print(json.dumps(replies))

asyncio.run(main())
"""


def test_malformed_messages_disclose_nothing_and_fill_no_disk():
    """300 messages of 100 kB each, all malformed."""
    done = run_script(FUZZED)
    replies = json.loads(done.stdout)
    assert len(replies) == 300
    for reply in replies:
        assert '"ERROR"' in reply
        assert "Traceback" not in reply
        assert ".py" not in reply
        assert str(Path(sys.prefix)) not in reply
        assert "stranger" not in reply
    assert "error handling message" in done.stderr  # the operator can still see the error
    assert "stranger" not in done.stderr  # but not the message
    assert len(done.stderr) < 200_000
    assert max(map(len, done.stderr.splitlines())) < MOST_TRACEBACK + 500
