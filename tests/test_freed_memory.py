"""What was freed is given back to the system, a while after."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from compute import freed_memory
from compute.freed_memory import PAUSE, FreedMemory

HOLES = """
import sys
import numpy, psutil
from compute.freed_memory import give_back
kept, parts = [], [numpy.ones(12_500) for _ in range(1500)]  # of 100 kB, which come from the heap
kept = parts[::100]
del parts
own = lambda: psutil.Process().memory_full_info().uss / 2**20
before = own()
give_back()
print(before - own())
"""


def test_it_is_looked_once_and_not_before_a_pause(monkeypatch):
    looked = []
    monkeypatch.setattr(freed_memory, "give_back", lambda: looked.append("given back"))
    monkeypatch.setattr(freed_memory.gc, "collect", lambda: looked.append("collected"))
    memory = FreedMemory()
    memory.look(1e9)
    assert not looked
    memory.freed(100.0)
    memory.freed(100.0 + PAUSE / 2)  # who frees again and again does not put it off
    memory.look(100.0 + 0.9 * PAUSE)
    assert not looked
    memory.look(100.0 + PAUSE)
    memory.look(100.0 + 3 * PAUSE)
    assert looked == ["collected", "given back"]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such function")
def test_a_heap_full_of_holes_is_given_back():
    said = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    assert float(said.stdout) > 100  # MB, of 150


def test_without_that_function_nothing_happens(monkeypatch):
    monkeypatch.setattr(freed_memory, "_trim", lambda: None)
    freed_memory.give_back()
