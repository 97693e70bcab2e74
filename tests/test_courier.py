"""Files that are brought piece by piece, with a browser that answers as the test wants it."""

from __future__ import annotations

import pytest

from app.export import courier as courier_module
from app.export.courier import Courier

SIZE = 10


@pytest.fixture
def courier(monkeypatch):
    monkeypatch.setattr(courier_module, "PIECE", SIZE)
    return Courier()


def acknowledge(courier, number=None):
    piece = courier.piece
    courier._hear({"file": piece["file"], "number": piece["number"] if number is None else number})


def test_pieces_follow_each_other_and_files_too(courier, tmp_path):
    texts = {"a.txt": b"0123456789abcdefghij!", "b.txt": b""}
    got, done = dict.fromkeys(texts, b""), []
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
        courier.send(tmp_path / name, name, lambda name=name: done.append(name))
    while courier.piece:
        got[courier.piece["name"]] += courier.piece["data"]
        acknowledge(courier)
    assert got == texts
    assert done == ["a.txt", "b.txt"]


def test_an_answer_that_comes_twice_skips_nothing(courier, tmp_path):
    (tmp_path / "a.txt").write_bytes(bytes(3 * SIZE))
    courier.send(tmp_path / "a.txt", "a.txt", lambda: None)
    acknowledge(courier)
    acknowledge(courier, 0)
    assert courier.piece["number"] == 1
    acknowledge(courier, 7)
    assert courier.piece["number"] == 1
