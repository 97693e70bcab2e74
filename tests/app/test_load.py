"""`fieldlab bench load` and `make soak`: their tabs get what a browser's get, and verdicts come from the numbers."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from math import nan

import pytest

from app.load import run, soak
from app.load.__main__ import main
from app.load.client import models
from app.load.server import Server, Use, serving


@pytest.fixture(scope="module")
def server():
    with serving() as server:
        yield server


def test_tabs_get_frames_and_answers(server, monkeypatch):
    """Two tabs of a link's lab, which a link brings paused: both run, both are answered."""

    monkeypatch.setattr(run, "BETWEEN", 0.5)

    async def measured():
        opened = []
        page = run.address(server.address, "diffusion", {"ny": 64, "nx": 64})
        return [load async for load in run.loads(server, page, (2, 1), 2.0, opened.append)], opened

    (one, two), opened = asyncio.run(measured())
    assert opened == [1, 2]
    assert (one.tabs, two.tabs) == (1, 2)
    assert one.slowest > 0
    assert two.slowest > 0
    assert 0 < two.answer <= two.answer_p95
    assert two.memory > 2**20
    assert two.server > 0
    assert two.engines > 0
    assert two.received > 64 * 64  # bytes/s: a picture's, once a second at least


def test_an_engine_alone_has_its_limit():
    assert run.engine_alone("diffusion", {"ny": 64, "nx": 64}, 2, 0.5) > 2


def test_a_soak_goes_through_its_rounds(server, monkeypatch):
    """Tabs come and go, and to labs beside the first; each round ends with as many tabs as the others."""
    monkeypatch.setattr(soak, "USED", 3.0)
    random.seed(3)
    told = []
    found = asyncio.run(soak.soak(server, 2, 0.01, lambda rounds: told.append(len(rounds))))
    assert told == [1, 2, 3]
    assert len(found) == 3
    assert all(held.use.memory > 2**20 for held in found)


def held(megabytes, descriptors):
    return [soak.Held(float(at), Use(0.0, 0.0, int(each * 2**20), many)) for at, (each, many) in
            enumerate(zip(megabytes, descriptors, strict=True))]  # fmt: skip


def test_growth_is_that_of_the_last_two_thirds():
    grown, more = soak.flat(held([50, 80, 100, 100, 101, 99, 100, 100, 100], [10, 30, 40, 40, 42, 40, 40, 41, 40]))
    assert abs(grown) < 2**20
    assert more == 0
    grown, more = soak.flat(held([100, 100, 100, 110, 120, 130, 140, 150, 160], [40] * 8 + [49]))
    assert grown == pytest.approx(50 * 2**20)
    assert more == 9


def test_a_soak_is_written_down():
    """The curve as a whole, and what came of it; json has no numbers of NumPy's."""
    record = json.loads(json.dumps(soak.record_of(held([100, 100, 100, 110, 120, 130], [40] * 5 + [49]), tabs=2)))
    assert [each["memory"] / 2**20 for each in record["rounds"]] == [100, 100, 100, 110, 120, 130]
    assert [each["descriptors"] for each in record["rounds"]] == [40] * 5 + [49]
    assert (record["tabs"], record["flat"]) == (2, False)
    assert record["grown"] == pytest.approx(30 * 2**20)
    assert json.loads(json.dumps(soak.record_of(held([100] * 6, [40] * 6), tabs=2)))["flat"] is True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--tabs", "0"], "'0'"), (["--tabs", "1,501"], "500"), (["--grid", "0", "--tabs", "1"], "fieldlab: "),
     (["--url", "http://localhost:9/app", "--tabs", "1"], "fieldlab: ")],
)  # fmt: skip
def test_what_cannot_be_measured_is_said(arguments, said, capfd):
    with pytest.raises(SystemExit) if said.startswith(("'", "5")) else pytest.MonkeyPatch.context():
        assert main(arguments) == 2
    assert said in capfd.readouterr().err


def test_the_command_line_leads_there():
    command = [sys.executable, "-m", "compute", "bench", "load", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0
    assert "--tabs" in done.stdout


def test_a_foreign_server_is_not_measured():
    assert Server("http://elsewhere/app").use() is None
    assert run._busy(None, None, 1.0) == pytest.approx((nan, nan), nan_ok=True)


def test_models_are_found_wherever_they_are():
    inner = [{"type": "object", "id": "2"}, {"id": "1"}]
    text = json.dumps({"roots": [{"type": "object", "id": "1", "attributes": {"x": inner}}]})
    assert [model["id"] for model in models(json.loads(text))] == ["1", "2"]
