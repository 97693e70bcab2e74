"""Freed memory is returned to the system after a delay."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from compute.machine import freed_memory
from compute.machine.freed_memory import PAUSE, FreedMemory, InUse

HOLES = """
import sys
import numpy, psutil
from compute.machine.freed_memory import give_back
kept, parts = [], [numpy.ones(12_500) for _ in range(1500)]  # of 100 kB, which come from the heap
kept = parts[::100]
del parts
own = lambda: psutil.Process().memory_full_info().uss / 2**20
before = own()
give_back()
print(before - own())
"""
ELSEWHERE = """
import ctypes
ctypes.CDLL = lambda name: object()  # without malloc_trim and mallinfo2
from compute.machine.freed_memory import give_back, in_use
print(give_back(), in_use().malloc)
"""
COUNTED = """
import gc
import numpy
from compute.machine.freed_memory import in_use
gc.disable()
readings = [in_use()]
small, large = [(number,) for number in range(50_000)], numpy.ones(2**20)
readings.append(in_use())
del small, large
readings.append(in_use())
for one in readings:
    print(one.blocks, one.malloc)
"""


def test_memory_is_returned_once_and_not_before_a_pause(monkeypatch):
    looked = []
    monkeypatch.setattr(freed_memory, "give_back", lambda: looked.append("given back"))
    monkeypatch.setattr(freed_memory.gc, "collect", lambda: looked.append("collected"))
    memory = FreedMemory()
    memory.look(1e9)
    assert not looked
    memory.freed(100.0)
    memory.freed(100.0 + PAUSE / 2)  # repeated calls do not postpone it
    memory.look(100.0 + 0.9 * PAUSE)
    assert not looked
    memory.look(100.0 + PAUSE)
    memory.look(100.0 + 3 * PAUSE)
    assert looked == ["collected", "given back"]


def output(program):
    """Return the output of a separate process: other objects in this one would be collected or allocated."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such function")
def test_a_fragmented_heap_is_returned():
    assert float(output(HOLES)) > 100  # MB, of 150


def test_other_c_libraries_release_nothing_and_report_no_bytes():
    assert output(ELSEWHERE).split() == ["None", "0"]


def test_memory_in_use_is_counted_until_it_is_freed():
    before, during, after = (InUse(*map(int, line.split())) for line in output(COUNTED).splitlines())
    assert before.blocks > 10_000
    assert during.blocks - before.blocks >= 50_000
    assert during.malloc == 0 or during.malloc - before.malloc >= 8 * 2**20
    assert abs(after.blocks - before.blocks) < 10_000
    assert after.malloc - before.malloc < 2**20
