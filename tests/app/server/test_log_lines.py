"""The log as JSON lines: the fields of a line, and the absence of visitors' addresses."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from app.server import server_log
from app.server.server_log import BoundedLog, JsonLines


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


def test_a_traceback_stays_in_its_line(lines):
    try:
        {}["planted"]
    except KeyError:
        (line,) = lines("app.x", "failed", level=logging.ERROR, exc_info=True)
    assert line["level"] == "error"
    assert "planted" in line["trace"]


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


def test_plain_text_is_the_default(monkeypatch):
    monkeypatch.delenv(server_log.LOG_VARIABLE, raising=False)
    handler = logging.StreamHandler(sys.stderr)
    server_log.write_json_lines({handler})
    assert not isinstance(handler.formatter, JsonLines)
