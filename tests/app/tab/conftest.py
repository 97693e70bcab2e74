"""Engines with a faulty lab, and pages on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from app.tab import session as module
from compute.engine import Supervisor
from tests.app.tab.pages import LivePage
from tests.compute.engine.faulty import running


@pytest.fixture(scope="module")
def engines() -> Iterator[dict[str, Supervisor]]:
    """Two engines, both on the host."""
    lives = {name: running(name) for name in ("host", "host:b")}
    yield {name: next(life) for name, life in lives.items()}
    for life in lives.values():
        next(life, None)


@pytest.fixture
def live_page(engines, monkeypatch) -> Iterator[Callable[..., LivePage]]:
    """A function that opens a page on these engines (the second one for any unknown name) and closes it at the end."""
    pool = SimpleNamespace(get=lambda name: engines.get(name, engines["host:b"]))
    monkeypatch.setattr(module, "session_limiter", lambda: SimpleNamespace(engines=pool))
    pages: list[LivePage] = []

    def open_page(**values: object) -> LivePage:
        pages.append(LivePage(**values))
        return pages[-1]

    yield open_page
    for page in pages:
        page.session.close()
