"""The log as one JSON object a line, for programs that collect logs; FIELDLAB_LOG=json switches it on.

{"time": when, in UTC; "level"; "logger"; "message"; "trace": the last lines of a traceback, if there is one}. What a
record may hold and how many there may be is bounded before, as for the plain log (log_bounds.py). Of a request that
failed only the status, the method and the path are told: neither who asked nor what they asked for with it.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from urllib.parse import unquote

from tornado.web import RequestHandler

VARIABLE = "FIELDLAB_LOG"
KINDS = ("text", "json")
MOST_PATH = 120  # characters
log = logging.getLogger("fieldlab.requests")


def kind() -> str:
    """FIELDLAB_LOG, or "text"; ValueError if it is neither of KINDS."""
    text = os.environ.get(VARIABLE, KINDS[0])
    if text not in KINDS:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(KINDS)}, not {text[:40]!r}")
    return text


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["trace"] = record.exc_text
        return json.dumps(line, ensure_ascii=False)


def log_request(handler: RequestHandler) -> None:
    """Tornado's log of a request that was answered: those that failed, without the visitor's address."""
    status = handler.get_status()
    if status >= 400:
        path = unquote(handler.request.path)[:MOST_PATH]
        log.log(logging.ERROR if status >= 500 else logging.WARNING, "%d %s %s", status, handler.request.method, path)


def install(handlers: set[logging.Handler]) -> None:
    """Let these handlers write lines of JSON, if that is wanted."""
    if kind() == "json":
        for one in handlers:
            one.setFormatter(JsonLines())
