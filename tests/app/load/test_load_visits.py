"""`python -m app.load.soak --visits`: the requests of its pages, and the criterion for a leak."""

from __future__ import annotations

import asyncio
import json
from math import nan

import numpy as np
import psutil
import pytest

from app.load import visits
from app.load.client import ClientError
from app.load.server import Server, serving
from app.load.visits import MemoryReading, judged, noise_image, scene_of, verdict
from app.server.serve import METRICS
from compute.export.link import packed
from tests.waiting import until

pytestmark = pytest.mark.extended

VISITS = 18  # of the short soak: three of each kind of upload, one of each kind of link


def test_a_short_soak_visits_links_and_uploads(monkeypatch):
    """Every kind of page works; so few visits cannot show whether memory grows."""
    monkeypatch.setattr(visits, "COLLECTED", 1.0)
    monkeypatch.setattr(visits, "PATIENCE", 300.0)  # s: on a busy machine that compiles the kernels for the first time
    reported: list[MemoryReading] = []
    with serving({METRICS: "1"}) as server:
        readings, counts = asyncio.run(
            visits.visit_all(server, VISITS, lambda reading, counts: reported.append(reading), warm=9, readings=1)
        )
    assert counts == {"plain": VISITS // 3, "link": VISITS // 3, "upload": VISITS // 3}
    assert reported == readings
    assert [one.visits for one in readings] == [9, 18]
    assert all(min(one.server, one.engines, one.malloc) > 2**20 and one.blocks > 1000 for one in readings)
    assert readings[-1].restarts == 0
    assert verdict(readings) == "undecided"
    record = json.loads(json.dumps(visits.record_of(readings, counts, "test"), allow_nan=False))
    assert set(record["slopes_a_visit"]) == {"server", "engines", "blocks", "malloc"}


def reading(at: int, **held: float) -> MemoryReading:
    usual = {"server": 300 * 2**20, "engines": 200 * 2**20, "others": 0.0, "blocks": 1.5e6, "malloc": 70 * 2**20}
    return MemoryReading(at, at / 60, **{**usual, **held}, restarts=0.0)


def series(name: str, values: list[float]) -> list[MemoryReading]:
    return [reading(100 * at, **{name: value}) for at, value in enumerate(values, 1)]


@pytest.mark.parametrize("name", ["server", "engines", "blocks", "malloc"])
def test_steady_growth_is_a_leak_and_one_step_is_not(name):
    usual, allowed = getattr(reading(0), name), visits.ALLOWED[name]
    noise = np.random.default_rng(3).normal(0, 20 * allowed, 10)
    flat = series(name, list(usual + noise))
    step = series(name, [usual] * 3 + [usual + 2000 * allowed] * 7)
    leak = series(name, [usual + 300 * allowed * at for at in range(10)])
    noisy_leak = series(name, [usual + 300 * allowed * at + noise[at] for at in range(10)])
    assert [verdict(each) for each in (flat, step, leak, noisy_leak)] == ["flat", "flat", "leaks", "leaks"]


def test_too_few_readings_are_undecided_and_missing_ones_are_not_judged():
    assert verdict(series("malloc", [1e8, 2e8, 3e8])) == verdict(series("malloc", [1e8])) == "undecided"
    assert "blocks" not in judged([reading(100 * at, blocks=nan) for at in range(9)])


def test_links_and_files_differ_from_visit_to_visit():
    scenes = [scene_of(number) for number in range(1, 60, 3)]
    assert {scene.lab for scene in scenes} == {"diffusion", "mandelbrot", "l_curve", "crossover"}
    links = [packed(scene) for scene in scenes if scene.lab != "crossover"]  # whose links have no varying part
    assert len(set(links)) == len(links)
    assert noise_image(2) != noise_image(4)


def test_too_many_failed_visits_end_a_soak(monkeypatch):
    async def refuse(address: str, number: int) -> None:
        raise ClientError(f"the page at http://localhost:1/app?scene={number} is broken")

    monkeypatch.setattr(visits, "visit_of", lambda number: ("plain", refuse))
    with pytest.raises(ClientError, match="12 of 12 visits failed") as reported:
        asyncio.run(visits.visit_all(Server("http://localhost:1/app"), 12, print))
    assert "plain: the page at … is broken" in str(reported.value)


def use_and_kill() -> None:
    """Use a server that is killed during the use."""
    with serving() as server:
        server.process.kill()
        until(lambda: server.process.status() == psutil.STATUS_ZOMBIE)
        raise ClientError("the page is gone")


def test_a_server_that_ends_is_reported_with_its_exit_code():
    with pytest.raises(OSError, match="the server ended with exit code -9"):
        use_and_kill()
