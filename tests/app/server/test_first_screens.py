"""Advance compilation: its messages, and that no failure there prevents the page."""

from __future__ import annotations

import io
import os
import re
import time
from dataclasses import replace
from functools import partial

import psutil
import pytest

from app.server import first_screens
from app.server.first_screens import Part
from compute.devices import kernel_cache

FINE = Part("the wave kernels", partial(time.sleep, 0.0))
FAILING = Part("the wave kernels", partial(int, "no room"))
REST = Part("the rest", partial(time.sleep, 0.0))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path


def said(*parts, out=None):
    """Return whether all parts succeeded, and the lines after the first, with N for seconds."""
    out = out or io.StringIO()
    fine = first_screens.compile_first(out, lambda: parts)
    begin, *lines = re.sub(r"\d+ s\b", "N s", out.getvalue()).splitlines()
    assert "Compiling the kernels of the first screens" in begin
    return fine, lines


def test_each_part_is_reported_with_its_seconds():
    fine, lines = said(FINE, REST)
    assert fine
    assert sorted(line.partition(": ")[2] for line in lines) == ["the rest, N s", "the wave kernels, N s"]
    assert [line.partition(": ")[0] for line in lines] == ["1 of 2", "2 of 2"]
    assert (kernel_cache.folder() / kernel_cache.RECORD).is_file()


def test_a_failed_part_is_reported_and_the_rest_continues():
    fine, (first, second) = said(FAILING, replace(REST, alone=True))
    assert not fine
    assert first.startswith("1 of 2: the wave kernels: failed")
    assert "no room" in first
    assert second == "2 of 2: the rest, N s"
    assert not (kernel_cache.folder() / kernel_cache.RECORD).exists()  # so the next start tries again


def test_a_process_that_dies_is_reported():
    fine, lines = said(Part("the wave kernels", partial(os._exit, 3)), replace(REST, alone=True))
    assert not fine
    assert lines == [
        "not compiled in advance, but on first use: the compiling process was lost: it ended with exit code 3"
    ]


def test_a_process_that_takes_too_long_is_killed(monkeypatch):
    monkeypatch.setattr(first_screens, "MOST_SECONDS", 0.3)
    before = set(psutil.Process().children())
    fine, lines = said(Part("the wave kernels", partial(time.sleep, 600)))
    assert not fine
    assert "it took longer than" in lines[-1]
    assert set(psutil.Process().children()) <= before


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_each_part_while_it_is_compiled():
    out = Terminal()
    said(FINE, out=out)
    assert re.search(rf"{re.escape(first_screens.CLEAR_LINE)}compiling the wave kernels \d+ s", out.getvalue())
    assert re.search(rf"{re.escape(first_screens.CLEAR_LINE)}1 of 1: the wave kernels, \d+ s\n$", out.getvalue())


def meet(folder, name, other):
    """Wait until a part of the other name has begun."""
    (folder / name).touch()
    until = time.monotonic() + 60
    while not (folder / other).exists():
        assert time.monotonic() < until, f"{other} does not begin"
        time.sleep(0.01)


def found(folder):
    assert {path.name for path in folder.glob("*.ended")} == {"a.ended", "b.ended"}


def last(folder, name):
    time.sleep(0.2)
    (folder / f"{name}.ended").touch()


def test_two_parts_are_compiled_at_the_same_time(tmp_path, monkeypatch):
    monkeypatch.setattr(first_screens, "cpu_count", lambda: 2)
    parts = (Part(name, partial(meet, tmp_path, name, other)) for name, other in (("a", "b"), ("b", "a")))
    fine, _ = said(*parts)
    assert fine


def test_a_part_that_measures_runs_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(first_screens, "cpu_count", lambda: 2)
    parts = (Part(name, partial(last, tmp_path, name)) for name in "ab")
    fine, lines = said(*parts, Part("the roofs", partial(found, tmp_path), alone=True))
    assert fine, lines


def test_current_kernels_are_not_compiled_again(monkeypatch):
    monkeypatch.setattr(kernel_cache, "is_current", lambda: True)
    out = io.StringIO()
    assert first_screens.compile_first(out)
    assert out.getvalue() == ""
