"""The follower benchmark: its counts for a crowd, compared with a server that shows a known number of pictures."""

from __future__ import annotations

import asyncio
import time

import pytest

from app.features.audience.broadcast import ENDED
from app.load import followers
from app.load.__main__ import main
from app.load.client import ClientError
from app.load.followers import crowd
from tests.app.features.audience.test_handlers import rooms as _rooms
from tests.app.features.audience.test_handlers import served, until
from tests.app.features.audience.test_rooms import Fed

rooms = _rooms  # the fixture


def test_a_crowd_gets_what_is_shown_and_says_how_late(rooms, monkeypatch, capsys):
    monkeypatch.setattr(followers, "SETTLE", 0.0)
    feed = Fed()
    code = rooms.open(feed)

    async def test(address: str) -> None:
        task = asyncio.create_task(crowd(f"ws://{address}/follow/{code}/ws", 5, 3.0))
        await until(lambda: "there" in capsys.readouterr().out)
        shown = 0
        while not task.done():
            feed.followers.show_picture(b"x" * 100, time.monotonic() - 2.0)
            shown += 1
            await asyncio.sleep(0.02)
        found = await task
        assert 0 < found["slowest"] <= found["frames"] <= (shown + 1) / found["seconds"]
        assert found["latency_p95"] >= found["latency"] >= 2.0
        assert found["bytes"] > 100

    served(test)


def test_a_crowd_votes_while_a_vote_is_open(rooms, monkeypatch, capsys):
    monkeypatch.setattr(followers, "SETTLE", 0.0)
    monkeypatch.setattr(followers, "REVOTE", 0.0)
    feed = Fed()
    code = rooms.open(feed)

    async def test(address: str) -> None:
        task = asyncio.create_task(crowd(f"ws://{address}/follow/{code}/ws", 5, 1.5))
        await until(lambda: "there" in capsys.readouterr().out)
        feed.followers.show_state({"vote": feed.poll.shown()})
        await until(lambda: sum(feed.poll.counts) == 5)
        found = await task
        assert 0 < found["voted"] <= found["voted_p95"]
        assert feed.poll.tokens == 5

    served(test)


def test_a_follower_who_is_sent_away_is_told(rooms, monkeypatch):
    monkeypatch.setattr(followers, "SETTLE", 0.0)
    feed = Fed()
    code = rooms.open(feed)

    async def test(address: str) -> None:
        task = asyncio.create_task(crowd(f"ws://{address}/follow/{code}/ws", 3, 50.0))
        await until(lambda: len(feed.followers) == 3)
        feed.followers.end(ENDED, "over")
        with pytest.raises(ClientError, match="over"):
            await task

    served(test)


@pytest.mark.parametrize("count", ["-1", "2001"])
def test_the_number_of_followers_is_bounded(count, capsys):
    assert main(["--followers", count]) == 2
    assert f"followers must be from 1 to 2000, not {count}" in capsys.readouterr().err
