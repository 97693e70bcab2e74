"""Tabs on one engine of WebGPU: one reconnects, one confirms no frames for a while, and the engine is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import psutil
import pytest

from app.load import run
from app.load.client import Client
from app.load.server import Server, serving
from app.tab.frame_channel import AHEAD
from compute.devices.backends import backend
from compute.devices.webgpu import SOFTWARE
from tests.conftest import require

pytestmark = pytest.mark.extended

VALUES = {
    "diffusion": {"ny": 64, "nx": 64, "dtype": "float32"},
    "equations": {"ny": 64, "nx": 64, "dtype": "float32"},
}
TABS = 4
PATIENCE = 120.0  # s


async def frames_on(tabs: Sequence[Client], count: int = 3) -> None:
    """Wait until each tab has received `count` more frames."""
    goals = [len(tab.arrivals) + count for tab in tabs]
    async with asyncio.timeout(PATIENCE):
        while any(len(tab.arrivals) < goal for tab, goal in zip(tabs, goals, strict=True)):  # noqa: ASYNC110 clients send no event
            await asyncio.sleep(0.1)


async def reconnect(tab: Client) -> None:
    """Lose both connections of a tab, and continue its session."""
    tab.reading.cancel()
    for socket in (tab._socket, tab._frames):
        socket.close()
    tab._framing = None
    await tab.connect()
    tab._event("client_reconnected")


def engines(server: Server) -> list[psutil.Process]:
    """Return the processes of the engine of WebGPU, its spare included."""
    return [each for each in server.process.children(recursive=True) if each.cmdline()[-1] == "webgpu"]


async def used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open tabs and disturb them."""
    tabs = []
    for number in range(TABS):
        lab = list(VALUES)[number % len(VALUES)]
        page = run.address(server.address, lab, {**VALUES[lab], "backend": "gpu_wgpu", "variant": ""})
        tabs.append(Client(page, PATIENCE))
        await tabs[-1].open()
        await tabs[-1].run()
    await frames_on(tabs)

    await reconnect(tabs[0])
    await frames_on(tabs)

    unconfirmed: list[bytes] = []
    with monkeypatch.context() as patch:
        patch.setattr(tabs[1], "_confirm_directly", unconfirmed.append)
        await frames_on([tabs[0], *tabs[2:]], 4 * AHEAD)
        assert 0 < len(unconfirmed) <= AHEAD
    for message in unconfirmed:
        tabs[1]._confirm_directly(message)
    await frames_on(tabs)

    before = engines(server)
    assert before
    for each in before:
        each.kill()
    await frames_on(tabs)
    assert not {each.pid for each in before} & {each.pid for each in engines(server)}
    assert {tab.state for tab in tabs} == {"running"}
    for tab in tabs:
        await tab.close()


def test_tabs_on_webgpu_survive_a_reconnection_a_slow_client_and_the_death_of_the_engine(monkeypatch):
    monkeypatch.delenv(SOFTWARE, raising=False)
    require(backend("gpu_wgpu"), monkeypatch)
    with serving() as server:
        asyncio.run(used(server, monkeypatch))
