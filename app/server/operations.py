"""Monitoring of this server: /health for a load balancer, /metrics for Prometheus.

/health answers 200 while the server can serve pages, otherwise 503, with a few numbers as JSON. /metrics, enabled by
FIELDLAB_METRICS=1, reports the same and counters since the start, in Prometheus' text format. Both contain only numbers
and names of engines: no person, no path, no version. As for every request, the Host must be on the allow-list
(app/server/access.py).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from bokeh.server.tornado import BokehTornado
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

from app.server import access, admission, routes
from app.server.admission import SessionLimiter, session_limiter
from compute.export.jobs import JOBS, JobQueue
from compute.machine.freed_memory import in_use

METRICS = "FIELDLAB_METRICS"
STATES = ("starting", "ready", "busy", "restarting", "broken", "closed")  # of an engine
FAILED_STATES = ("broken", "closed")
LEAST_FREE = 100e6  # bytes: with less, recordings and films fail
LOOK, LOOKS = 1.0, 60  # seconds between two measurements of the loop's delay, and how many are kept


def metrics_enabled() -> bool:
    """Return True if FIELDLAB_METRICS is 1; ValueError for values other than 0 and 1."""
    text = os.environ.get(METRICS, "0")
    if text not in {"0", "1"}:
        raise ValueError(f"{METRICS} must be 0 or 1, not {text!r}")
    return text == "1"


class LoopClock:
    """Measure the delay of the event loop in seconds, once per LOOK."""

    def __init__(self) -> None:
        self._late: deque[float] = deque(maxlen=LOOKS)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start on the running loop; further calls have no effect."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def latest(self) -> float:
        """The largest delay of the last minute, in seconds."""
        return max(self._late, default=0.0)

    async def _run(self) -> None:
        while True:
            due = time.monotonic() + LOOK
            await asyncio.sleep(LOOK)
            self._late.append(max(0.0, time.monotonic() - due))


@dataclass(frozen=True)
class Status:
    """The state of the server at one moment.

    engines: name -> (state, restarts, labs); waiting, running: export jobs; free: bytes left for temporary files; late:
    largest delay of the loop in the last minute, in seconds.
    """

    pages: int
    pages_limit: int
    engines: dict[str, tuple[str, int, int]]
    waiting: int
    running: int
    free: int
    late: float

    @classmethod
    def now(cls, pages: SessionLimiter, jobs: JobQueue, clock: LoopClock) -> Status:
        """Return the current state of this server."""
        engines = {name: (one.state, one.restarts, one.open_labs) for name, one in pages.started_engines().items()}
        waiting, running = jobs.counts()
        free = shutil.disk_usage(tempfile.gettempdir()).free
        return cls(len(pages.pages), pages.limit, engines, waiting, running, free, clock.latest)

    @property
    def problems(self) -> list[str]:
        """The parts that do not work, as sentences; empty if the server is healthy."""
        found = [f"engine {name} is {state}" for name, (state, *_) in self.engines.items() if state in FAILED_STATES]
        if self.free < LEAST_FREE:
            found.append("the disk for temporary files is full")
        return found

    @property
    def failing(self) -> bool:
        """Whether no page can be served, because the host's engine, the fallback of all others, has stopped."""
        return self.engines.get("host", ("ready",))[0] in FAILED_STATES

    def as_json(self) -> dict[str, Any]:
        """Return the answer of /health."""
        return {
            "status": "failing" if self.failing else "degraded" if self.problems else "ok",
            "problems": self.problems,
            "pages": {"open": self.pages, "limit": self.pages_limit},
            "engines": {
                name: {"state": state, "restarts": restarts, "labs": labs}
                for name, (state, restarts, labs) in self.engines.items()
            },
            "jobs": {"waiting": self.waiting, "running": self.running},
            "temporary_bytes_free": self.free,
            "loop_late_seconds": round(self.late, 4),
        }

    def metrics(self) -> Iterator[Metric]:
        """Return the same as metrics for Prometheus, in base units."""
        for name, words, value in (
            ("pages_open", "Open pages, including those whose browser may reconnect.", self.pages),
            ("pages_limit", "Limit on open pages.", self.pages_limit),
            ("jobs_waiting", "Queued exports.", self.waiting),
            ("jobs_running", "Exports that run.", self.running),
            ("temporary_free_bytes", "Free space for temporary files.", self.free),
            ("loop_late_seconds", "Largest delay of the event loop in the last minute.", self.late),
        ):
            yield GaugeMetricFamily(f"fieldlab_{name}", words, value)
        yield from self._engine_metrics()

    def _engine_metrics(self) -> Iterator[Metric]:
        state = GaugeMetricFamily("fieldlab_engine_state", "1 for the current state.", labels=["engine", "state"])
        restarts = CounterMetricFamily("fieldlab_engine_restarts", "Restarted processes.", labels=["engine"])
        labs = GaugeMetricFamily("fieldlab_engine_labs", "Open labs.", labels=["engine"])
        for name, (its, again, opened) in self.engines.items():
            for one in STATES:
                state.add_metric([name, one], float(one == its))
            restarts.add_metric([name], again)
            labs.add_metric([name], opened)
        yield from (state, restarts, labs)


_sources: dict[str, Callable[[], Iterable[Metric]]] = {}


def add_metrics(name: str, source: Callable[[], Iterable[Metric]]) -> None:
    """Report the metrics that `source` returns as well; it replaces a source of the same name."""
    _sources[name] = source


class ServerMetrics(Collector):
    """The metrics of one scrape of /metrics."""

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics; Prometheus' registry calls this for each answer."""
        yield from status().metrics()
        yield _counted("requests_refused", "status", "Requests refused before a page was built.", access.REFUSED)
        yield from memory_metrics()
        for source in _sources.values():
            yield from source()
        yield _counted(
            "pages_refused", "reason", "Pages refused because the server was full or busy.", admission.REFUSED
        )


def memory_metrics() -> Iterator[Metric]:
    """Return the memory that the server's process has allocated. Growth over days means a leak."""
    now = in_use()
    words = "Blocks that Python has allocated and not freed."
    yield GaugeMetricFamily("fieldlab_python_blocks", words, now.blocks)
    yield GaugeMetricFamily(
        "fieldlab_malloc_bytes", "Bytes that the C library has allocated and not freed.", now.malloc
    )


def _counted(name: str, label: str, words: str, counts: Counter[Any]) -> Metric:
    family = CounterMetricFamily(f"fieldlab_{name}", words, labels=[label])
    for kind, times in counts.items():
        family.add_metric([str(kind)], times)
    return family


@cache
def loop_clock() -> LoopClock:
    """Return the clock of this process's loop."""
    return LoopClock()


def status() -> Status:
    """Return the current state of this server."""
    return Status.now(session_limiter(), JOBS, loop_clock())


class Health(RequestHandler):
    """Answers GET /health with the server's state as JSON."""

    def get(self) -> None:
        """Answer with the state."""
        found = status()
        self.set_status(503 if found.failing else 200)
        self.set_header("Cache-Control", "no-store")
        self.finish(found.as_json())


class Metrics(RequestHandler):
    """Answers GET /metrics in the format of Prometheus."""

    def get(self) -> None:
        """Answer with the metrics."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(ServerMetrics())
        self.set_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
        self.set_header("Cache-Control", "no-store")
        self.finish(generate_latest(registry))


def install() -> None:
    """Serve these addresses under the server's prefix; further calls have no effect. Called on the loop."""
    loop_clock().start()
    handlers: dict[str, type[RequestHandler]] = {"/health": Health}
    if metrics_enabled():
        handlers["/metrics"] = Metrics

    def route(server: BokehTornado, request: HTTPServerRequest) -> Any:
        """Return the delegate of one of these addresses."""
        own = handlers.get(request.path.removeprefix(server.prefix))
        return server.get_handler_delegate(request, own) if own else None

    routes.add("operations", route)
