"""`fieldlab info` names the extra that fits the driver and an installed CuPy."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from compute.machine import info, machine
from compute.machine.cuda_extra import cuda_extra

CUPY12, CUPY13 = {"cupy-cuda12x": "14.0"}, {"cupy-cuda13x": "14.0"}


@pytest.mark.parametrize(
    ("driver", "versions", "extra", "word"),
    [
        ("580.65.06", {}, "cuda13", "supports CUDA 13"),
        ("612.1", {}, "cuda13", "supports CUDA 13"),
        ("579.99", {}, "cuda12", "older than 580"),
        ("525.60.13", {}, "cuda12", "older than 580"),
        ("524.9", {}, "", "older than 525"),
        ("580.65.06", CUPY12, "cuda12", "cupy-cuda12x is installed"),
        ("580.65.06", CUPY13, "cuda13", "supports CUDA 13"),
        ("550.54.15", CUPY13, "cuda12", "older than 580"),
        ("470.1", CUPY12, "", "older than 525"),
        ("[N/A]", {}, "", "not a number"),
        (None, {}, "", "no NVIDIA driver"),
    ],
)
def test_the_extra_fits_driver_and_cupy(driver, versions, extra, word):
    found, reason = cuda_extra(driver, versions)
    assert found == extra
    assert word in reason


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ([{"name": "NVIDIA T4", "memory": 2**34}], "pip install 'fieldlab[cuda12]': driver 550.54.15 is older"),
        ([{"name": "Radeon", "memory": 0, "interface": "Vulkan"}], "no extra: no NVIDIA driver is installed"),
    ],
)
def test_info_shows_it_and_ignores_drivers_of_other_gpus(monkeypatch, gpus, words):
    here = {**machine.machine(), "gpus": gpus, "driver": "550.54.15"}
    monkeypatch.setattr(machine, "machine", lambda: here)
    monkeypatch.setattr(machine, "versions", lambda: {"python": "3.12"})
    out = io.StringIO()
    info.show(info.facts(), Console(file=out, width=200))
    assert words in out.getvalue()
