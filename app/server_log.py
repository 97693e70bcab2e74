"""The server's log: what strangers can write into it, short records and few of them; and its form, text or JSON.

Libraries log what a client sent as it is, with a traceback for each message. A filter on every handler of the process
cuts a record to MOST_CHARACTERS and a traceback to its last lines, indents every line but the first and escapes what is
no printable character, so that nobody forges a record, and lets a warning or an error of one place in the code through
BURST times, then once in PAUSE seconds, with the number of those that were left out. Of records that quote a visitor's
message (QUOTING) it keeps the template, numbers and the traceback's lines, and replaces other values by type and size.

FIELDLAB_LOG=json makes each record one JSON object a line, for programs that collect logs: {"time": when, in UTC;
"level"; "logger"; "message"; "trace": the last lines of a traceback, if there is one}. Of a request that failed only
the status, the method and the path are told: neither who asked nor what they asked for with it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import unquote

from bokeh.util.warnings import BokehUserWarning
from tornado.web import RequestHandler

MOST_CHARACTERS = 1500  # of a message: Bokeh puts tracebacks of ours into some
MOST_TRACEBACK = 3000  # characters, the last ones
BURST, PAUSE = 10, 5.0  # records of one place at once; seconds between two of them afterwards
VISITOR = re.compile(r"\b([A-Z]+ [^\s?]{1,200})(?:\?\S*)? \([0-9A-Fa-f.:]+\)")  # of its summary of a request
MOST_PLACES = 500  # in the code that are remembered
QUOTING = ("bokeh.server.views.ws", "bokeh.server.protocol_handler", "bokeh.server.views.session_handler")  # loggers
MALFORMED = "Malformed HTTP message"  # a record of Tornado with this prefix quotes a request


class BoundedLog(logging.Filter):
    """A filter for handlers; `clock` in seconds, never back. Any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._lock = clock, threading.Lock()
        self._allowed: dict[tuple[str, int], tuple[float, float]] = {}  # records that may come, as of that moment
        self._left_out: dict[tuple[str, int], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether `record` is written; it is cut for that, once, however many handlers there are."""
        verdict = getattr(record, "bounded", None)
        if verdict is None:
            verdict = record.bounded = self._passes(record)
            if verdict:
                self._cut(record)
        return bool(verdict)

    def _passes(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        place = record.pathname, record.lineno
        with self._lock:
            if len(self._allowed) > MOST_PLACES:
                self._allowed.clear()
            now = self._clock()
            left, then = self._allowed.get(place, (BURST, now))
            left = min(BURST, left + (now - then) / PAUSE)
            self._allowed[place] = (left - 1 if left >= 1 else left), now
            if left < 1:
                self._left_out[place] = self._left_out.get(place, 0) + 1
                return False
            record.left_out = self._left_out.pop(place, 0)
        return True

    def _cut(self, record: logging.LogRecord) -> None:
        if record.name.startswith(QUOTING) or str(record.msg).startswith(MALFORMED):
            _unquote(record)
        try:
            words = record.getMessage()
        except (TypeError, ValueError, KeyError):  # what it was given does not fit its template
            words = str(record.msg)
        if record.name.startswith("tornado"):
            words = _without_visitor(words)
        if record.exc_info and record.exc_info[0] is not None:
            text = "".join(traceback.format_exception(*record.exc_info, limit=-8)).rstrip()
            record.exc_text, record.exc_info = f"  {_shown(text, MOST_TRACEBACK, last=True)}", None
        more = getattr(record, "left_out", 0)
        record.msg = _shown(words, MOST_CHARACTERS) + (f" [{more} more like this were left out]" if more else "")
        record.args = ()


def _unquote(record: logging.LogRecord) -> None:
    """Replace the values of a record by their types and sizes, and its exception's text by the type."""
    quoted = record.args if isinstance(record.args, tuple) else (record.args,) if record.args else ()
    record.args = tuple(_kind(one) for one in quoted)
    _, error, trace = record.exc_info or (None, None, None)
    if error is not None:
        places = traceback.format_tb(trace, limit=-8)
        record.exc_text, record.exc_info = _shown(f"{''.join(places)}{_kind(error)}", MOST_TRACEBACK, last=True), None


def _kind(value: object) -> object:
    """Return numbers unchanged, and for other values the type and, if defined, the length."""
    if value is None or isinstance(value, int | float):
        return value
    size = f", {len(value)} long" if isinstance(value, str | bytes | list | dict) else ""
    return _Words(f"<{type(value).__name__}{size}>")


class _Words(str):
    """A string that %r formats without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _without_visitor(words: str) -> str:
    """What Tornado says of a request, without the visitor's address and what follows a "?"."""
    return VISITOR.sub(r"\1", words.partition("\nHTTPServerRequest(")[0])


def _shown(text: str, most: int, last: bool = False) -> str:
    """About `most` characters of `text`, its last ones or both of its ends; lines but the first are indented.

    Some libraries put a traceback into a message: what was raised is its last line.
    """
    half = most // 2
    both = f"{text[:half]}… ({len(text)} characters) …{text[-half:]}"
    cut = text if len(text) <= most else f"… {text[-most:]}" if last else both
    return "".join(one if one.isprintable() else "\n  " if one == "\n" else ascii(one)[1:-1] for one in cut)


def install() -> None:
    """Bound every handler that there is now; harmless if called twice."""
    logging.captureWarnings(True)
    # its text holds an id of the client's choice, and Python remembers every text that it has warned of
    warnings.filterwarnings("ignore", "reference already known", BokehUserWarning)
    bounded, handlers = BoundedLog(), _handlers()
    write_json_lines(handlers)
    for handler in handlers:
        if not any(isinstance(one, BoundedLog) for one in handler.filters):
            handler.addFilter(bounded)


def _handlers() -> set[logging.Handler]:
    """Those of all loggers, and the one that is used where a logger has none."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    found = {handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers}
    return found | ({logging.lastResort} if logging.lastResort else set())


# -- the log as lines of JSON

LOG_VARIABLE = "FIELDLAB_LOG"
LOG_KINDS = ("text", "json")
MOST_PATH = 120  # characters
requests_log = logging.getLogger("fieldlab.requests")


def log_kind() -> str:
    """FIELDLAB_LOG, or "text"; ValueError if it is neither of LOG_KINDS."""
    text = os.environ.get(LOG_VARIABLE, LOG_KINDS[0])
    if text not in LOG_KINDS:
        raise ValueError(f"{LOG_VARIABLE} must be one of {', '.join(LOG_KINDS)}, not {text[:40]!r}")
    return text


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line of JSON."""
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
        level = logging.ERROR if status >= 500 else logging.WARNING
        requests_log.log(level, "%d %s %s", status, handler.request.method, path)


def write_json_lines(handlers: set[logging.Handler]) -> None:
    """Let these handlers write lines of JSON, if that is wanted."""
    if log_kind() == "json":
        for one in handlers:
            one.setFormatter(JsonLines())
