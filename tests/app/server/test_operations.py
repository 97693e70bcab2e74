"""The server's health report and metrics, and the clients that may read them."""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.server import operations
from app.server.operations import LEAST_FREE, LoopClock, Status
from tests.app.server.test_access import ask, serving

FINE = {"pages": 3, "pages_limit": 64, "engines": {"host": ("ready", 0, 3)}, "waiting": 1, "running": 2,
        "free": 10**10, "late": 0.0012345}  # fmt: skip


def test_a_healthy_server_reports_ok() -> None:
    assert not Status(**{**FINE, "engines": {}}).failing
    assert Status(**FINE).as_json() == {
        "status": "ok", "problems": [], "pages": {"open": 3, "limit": 64},
        "engines": {"host": {"state": "ready", "restarts": 0, "labs": 3}}, "jobs": {"waiting": 1, "running": 2},
        "temporary_bytes_free": 10**10, "loop_late_seconds": 0.0012,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "state", "word"),
    [
        ({"engines": {"host": ("broken", 3, 1)}}, "failing", "host is broken"),
        ({"engines": {"host": ("busy", 0, 1), "cuda:0": ("broken", 3, 1)}}, "degraded", "cuda:0 is broken"),
        ({"free": int(LEAST_FREE) - 1}, "degraded", "disk"),
    ],
)
def test_a_problem_is_named(changed: dict[str, Any], state: str, word: str) -> None:
    """A GPU's broken engine does not make the server fail: its labs continue on the host."""
    status = Status(**{**FINE, **changed})
    assert status.as_json()["status"] == state
    assert word in status.problems[0]
    assert status.failing is (state == "failing")


def test_the_report_reads_disk_pages_engines_jobs_and_the_loop(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations.shutil, "disk_usage", lambda path: SimpleNamespace(free=7))
    engine = SimpleNamespace(state="busy", restarts=2, open_labs=5)
    pages = SimpleNamespace(pages={1: "a", 2: "b"}, limit=9, started_engines=lambda: {"host": engine})
    jobs, clock = SimpleNamespace(counts=lambda: (4, 6)), SimpleNamespace(latest=0.5)
    found = Status.now(pages, jobs, clock)  # type: ignore[arg-type]
    assert found == Status(2, 9, {"host": ("busy", 2, 5)}, 4, 6, 7, 0.5)


def test_the_clock_reports_the_largest_delay_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "LOOK", 0.01)

    async def blocked() -> float:
        clock, end = LoopClock(), time.monotonic() + 0.2
        clock.start()
        await asyncio.sleep(0)
        while time.monotonic() < end:
            pass
        async with asyncio.timeout(60):
            while not (late := clock.latest):  # noqa: ASYNC110 the clock sends no event
                await asyncio.sleep(0)
        return late

    assert asyncio.run(blocked()) > 0.1


@pytest.mark.parametrize("text", ["", "yes"])
def test_the_switch_is_0_or_1(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(operations.METRICS, text)
    with pytest.raises(ValueError, match="FIELDLAB_METRICS must be 0 or 1"):
        operations.metrics_enabled()


def test_the_health_report_is_public_and_metrics_need_a_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a server: a foreign host gets neither; without the switch there are no metrics."""
    monkeypatch.delenv(operations.METRICS, raising=False)
    with serving() as answers:
        found = answers([ask("/health"), ask("/health", "evil.example"), ask("/metrics")])
    (status, headers, text), (refused, *_), (absent, *_) = found
    assert (status, refused, absent) == (200, 403, 404)
    assert headers["Content-Type"].startswith("application/json")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert json.loads(text)["status"] == "ok"


def test_prometheus_can_read_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsed with Prometheus' own parser; the request refused before is counted."""
    monkeypatch.setenv(operations.METRICS, "1")
    with serving() as answers:
        replies = answers([ask("/", "evil.example"), ask("/metrics"), ask("/metrics", "evil.example")])
    _, (status, _, text), (refused, *_) = replies
    assert (status, refused) == (200, 403)
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["fieldlab_pages_open",] == 0
    assert found["fieldlab_pages_limit",] == 64
    assert found["fieldlab_requests_refused_total", "403"] == 1
    assert found["fieldlab_temporary_free_bytes",] > 0
    assert found["fieldlab_python_blocks",] > 10_000
    assert found["fieldlab_malloc_bytes",] >= 0


def test_each_engine_is_in_one_state() -> None:
    families = {one.name: one for one in Status(**{**FINE, "engines": {"host": ("busy", 2, 5)}}).metrics()}
    states = {sample.labels["state"]: sample.value for sample in families["fieldlab_engine_state"].samples}
    assert {state for state, value in states.items() if value} == {"busy"}
    assert set(states) == set(operations.STATES)
    assert [sample.value for sample in families["fieldlab_engine_restarts"].samples if "total" in sample.name] == [2]
