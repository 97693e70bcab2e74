"""Frames per second: counted for simulated workers with known frames, and the output of the command."""

from __future__ import annotations

import json
import sys

import pytest

from compute.__main__ import main
from compute.export import benchmark
from compute.export.benchmark import Encoder, Pool, Trial
from compute.export.film import Film
from compute.export.scene import Scene
from compute.measure.statistics import Spread

SMALL = Scene("mandelbrot", {"max_iterations": 50}, (12, 16))


class Known:
    """Simulated workers, each with its start time, its time for the first frame, and its time for the others."""

    workers = 2

    def __init__(self, *takes):
        self.takes = takes  # for each worker: start, seconds of the first frame, seconds of the others

    def make(self, _work, numbers):
        now = [begin for begin, _, _ in self.takes]
        count = [0] * len(now)
        for number in numbers:
            who = min(range(len(now)), key=lambda k: now[k] + self.takes[k][1 if not count[k] else 2])
            start = now[who]
            now[who] += self.takes[who][1 if not count[who] else 2]
            count[who] += 1
            yield number, json.dumps([who, str(who), start, now[who]]).encode()


@pytest.mark.parametrize(
    ("takes", "rate"),
    [
        (((0, 3, 0.5), (0, 3, 0.5)), 4.0),
        (((0, 9, 0.5), (2, 30, 0.25)), 6.0),
        (((100, 1, 2.0), (0, 50, 3.0)), 1 / 2 + 1 / 3),
    ],
)
def test_counted_is_what_is_made_while_all_workers_are_at_work(takes, rate):
    for seconds in (20.0, 1e-3):  # every worker has some frames in the count, however long they take
        found, devices = benchmark._steady(Trial(SMALL), Known(*takes), seconds)
        assert found == pytest.approx(rate, rel=1e-9)
        assert devices == {"0", "1"}


def test_real_workers_are_timed(monkeypatch):
    monkeypatch.setitem(benchmark.SCENES, "light", SMALL)
    (pool,) = benchmark.pools(["light"], [2], {"backend": "cpu_numpy"}, gpu=False, rounds=1, seconds=0.05)
    assert (pool.workers, pool.rate.n) == (2, 1)
    assert pool.rate.median > 0


def test_every_encoder_is_timed_or_says_why_not(monkeypatch):
    monkeypatch.setattr(benchmark, "ENCODED", Film(Scene("diffusion", {"ny": 24, "nx": 32}, (24, 32)), 4, every=5))
    found = {each.ending: each for each in benchmark.encoders(3)}
    assert list(found) == list(benchmark.ENDINGS) == [".png", ".mp4", ".webm", ".gif", ".webp"]
    assert all(each.rate.n == 3 and each.frame_bytes > 20 for each in found.values())
    monkeypatch.setitem(sys.modules, "av", None)
    found = {each.ending: each for each in benchmark.encoders(1)}
    assert "fieldlab[video]" in found[".mp4"].missing
    assert (found[".mp4"].rate.n, found[".gif"].rate.n) == (0, 1)


def test_the_command_shows_and_saves_what_was_measured(tmp_path, monkeypatch, capsys):
    steady = Spread.of([9.9, 10.0, 10.1, 10.0, 10.0])
    twice = Spread.of([19.0] * 5)
    monkeypatch.setattr(
        benchmark, "encoders", lambda _: [Encoder(".gif", steady, 5000.0), Encoder(".mp4", Spread.of([]), 0.0, "no av")]
    )
    monkeypatch.setattr(
        benchmark, "pools", lambda *_: iter([Pool("light", 1, steady, ("0",)), Pool("light", 2, twice, ("0", "1"))])
    )
    path = tmp_path / "record.json"
    assert main(["bench", "export", "--backend", "cpu_numpy", "--save", str(path)]) == 0
    shown = capsys.readouterr().out
    for text in ("no av", "1.90", "0 1", "5.0", "100.0"):
        assert text in shown
    document = json.loads(path.read_text(encoding="utf-8"))
    assert [each["times"] for each in document["workers"]] == [1.0, 1.9]
    assert document["machine"]["cpu"]
    assert "NaN" not in path.read_text(encoding="utf-8")
    assert main(["bench", "export", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "fieldlab-export-bench/1"
    for wrong in (["--workers", "0"], ["--scenes", "moon"], ["--rounds", "0"], ["--backend", "abacus"]):
        assert main(["bench", "export", *wrong]) == 2
