"""The server's log: limits for records that clients can cause, and the output format, text or JSON.

Libraries log client input verbatim, with a traceback for each message. A filter on every handler of the process
truncates a record to MOST_CHARACTERS and a traceback to its last lines. It indents every line except the first and
escapes unprintable characters, so that no client can forge a record. A warning or an error from one place in the code
passes BURST times, then once in PAUSE seconds, with the number of suppressed records. For loggers that quote a client's
message (QUOTING), it keeps the template, numbers and the traceback's lines, and replaces other values by type and size.

FIELDLAB_LOG=json writes each record as one JSON object per line, for log collectors: {"time": in UTC; "level";
"logger"; "message"; "trace": the last lines of a traceback, if any}. For a failed request, only the status, the method
and the path are logged: neither the client's address nor the query.
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

MOST_CHARACTERS = 1500  # of a message: Bokeh includes this project's tracebacks in some
MOST_TRACEBACK = 3000  # characters, the last ones
BURST, PAUSE = 10, 5.0  # records of one place in a burst; then seconds between two of them
VISITOR = re.compile(r"\b([A-Z]+ [^\s?]{1,200})(?:\?\S*)? \([0-9A-Fa-f.:]+\)")  # of Tornado's summary of a request
MOST_PLACES = 500  # remembered places in the code
QUOTING = ("bokeh.server.views.ws", "bokeh.server.protocol_handler", "bokeh.server.views.session_handler")  # loggers
MALFORMED = "Malformed HTTP message"  # a record of Tornado with this prefix quotes a request


class BoundedLog(logging.Filter):
    """Filter for handlers; `clock` returns monotonic seconds. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._lock = clock, threading.Lock()
        self._allowed: dict[tuple[str, int], tuple[float, float]] = {}  # remaining records, and the time of that count
        self._left_out: dict[tuple[str, int], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if `record` is to be written; it is truncated once, regardless of the number of handlers."""
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
        except (TypeError, ValueError, KeyError):  # the arguments do not match the template
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
    """Return Tornado's summary of a request without the client's address and the query."""
    return VISITOR.sub(r"\1", words.partition("\nHTTPServerRequest(")[0])


def _shown(text: str, most: int, last: bool = False) -> str:
    """Return about `most` characters of `text`: its end if `last`, otherwise both ends; later lines are indented.

    Both ends are kept because some libraries put a traceback, whose last line is the exception, into a message.
    """
    half = most // 2
    both = f"{text[:half]}… ({len(text)} characters) …{text[-half:]}"
    cut = text if len(text) <= most else f"… {text[-most:]}" if last else both
    return "".join(one if one.isprintable() else "\n  " if one == "\n" else ascii(one)[1:-1] for one in cut)


def install() -> None:
    """Add the filter to all present handlers; further calls have no effect."""
    logging.captureWarnings(True)
    # its text contains an id chosen by the client, and Python remembers the text of every warning
    warnings.filterwarnings("ignore", "reference already known", BokehUserWarning)
    bounded, handlers = BoundedLog(), _handlers()
    write_json_lines(handlers)
    for handler in handlers:
        if not any(isinstance(one, BoundedLog) for one in handler.filters):
            handler.addFilter(bounded)


def _handlers() -> set[logging.Handler]:
    """Return the handlers of all loggers, and the fallback for loggers without one."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    found = {handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers}
    return found | ({logging.lastResort} if logging.lastResort else set())


# -- the log as lines of JSON

LOG_VARIABLE = "FIELDLAB_LOG"
LOG_KINDS = ("text", "json")
MOST_PATH = 120  # characters
requests_log = logging.getLogger("fieldlab.requests")


def log_kind() -> str:
    """Return FIELDLAB_LOG, by default "text"; ValueError for a value outside LOG_KINDS."""
    text = os.environ.get(LOG_VARIABLE, LOG_KINDS[0])
    if text not in LOG_KINDS:
        raise ValueError(f"{LOG_VARIABLE} must be one of {', '.join(LOG_KINDS)}, not {text[:40]!r}")
    return text


class JsonLines(logging.Formatter):
    """Format a record as one line of JSON."""

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
    """Log a failed request, without the client's address; replaces Tornado's log function."""
    status = handler.get_status()
    if status >= 400:
        path = unquote(handler.request.path)[:MOST_PATH]
        level = logging.ERROR if status >= 500 else logging.WARNING
        requests_log.log(level, "%d %s %s", status, handler.request.method, path)


def write_json_lines(handlers: set[logging.Handler]) -> None:
    """Set the JSON format on these handlers if FIELDLAB_LOG selects it."""
    if log_kind() == "json":
        for one in handlers:
            one.setFormatter(JsonLines())
