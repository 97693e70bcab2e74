"""A short fuzz of the served app: `make fuzz` sends 100 000 messages, this test a few hundred."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from app.load.server import Server
from tests.fuzz.campaign import LABS, Campaign, fuzzed_server

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve the app with the limits for public servers."""
    with fuzzed_server(tmp_path_factory.mktemp("fuzz") / "log") as found:
        yield found


def test_hostile_messages_harm_neither_the_server_nor_another_page(server: Server) -> None:
    found = asyncio.run(Campaign(server, seed=1).messages(300, batch=150, pages=2))
    assert found.sent.total() == 300
    assert found.closed > 10  # messages that no page sends close the connection
    assert found.refused > 10  # values that no model accepts are answered with an error
    assert found.restarts == 0
    assert found.ours == []


def test_widgets_session_engine_and_link_agree_after_any_sequence(server: Server) -> None:
    found = asyncio.run(Campaign(server, seed=1).sequences(16, batch=16))
    assert found.sent.total() == 16
    assert set(found.sent) == set(LABS)
    assert set(found.longest) == set(found.sent)  # the longest wait for agreement in each lab
