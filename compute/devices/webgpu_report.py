"""A report on this machine's WebGPU, for machines that the authors do not have: `fieldlab info --webgpu`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from compute.devices import webgpu_probe
from compute.devices.webgpu import WebGpu
from compute.devices.webgpu_exactness import exactness
from compute.devices.webgpu_passes import LIMITS

LEVELS = (0, 1, 2)  # of `exact`: see WgslProgram
ROUNDS = 16  # of the chains of multiply-adds
COPIED = 2**26  # bytes
REPEATS = 3  # of a timed launch; the shortest counts
GRID, STEPS = 512, 20  # cells per side and steps of the timed diffusion


def report(index: int = 0) -> dict[str, Any]:
    """Return adapter, features, limits, clock, exactness by level of `exact`, and rates of GPU `index`.

    exactness: shares of random pairs. rates: bytes per second of a copy, float32 multiply-adds and cells of diffusion
    per second.
    """
    device = WebGpu(index)
    adapter = device.gpu.adapter
    with device.lock:
        return {
            "adapter": dict(adapter.info),
            "wgpu": version("wgpu"),
            "features": sorted(adapter.features),
            "limits": {name: adapter.limits[name] for name in LIMITS},
            "clock": {"kind": device.clock, "nanoseconds_per_tick": device.gpu.tick},
            "exactness": {str(level): exactness(device, level) for level in LEVELS},
            "rates": rates(device),
        }


def rates(device: WebGpu) -> dict[str, float]:
    """Return the rates of a copy, of multiply-adds and of diffusion, each a second, from the shortest of REPEATS."""
    nbytes = min(COPIED, device.gpu.largest)
    source, target = (device.allocate((nbytes // 4,), np.float32) for _ in range(2))
    copy = _shortest(device, lambda: webgpu_probe.copy(source, target))
    out = device.allocate((webgpu_probe.GROUPS * webgpu_probe.THREADS,), np.float32)
    chains = _shortest(device, lambda: webgpu_probe.multiply_adds(out, ROUNDS))
    kernels = import_module("compute.labs.diffusion.gpu_wgpu")
    u, spare = device.upload(np.ones((GRID, GRID), np.float32)), device.allocate((GRID, GRID), np.float32)
    steps = _shortest(device, lambda: kernels.step(u, spare, 0.2, "periodic", STEPS))
    return {
        "copy [bytes/s]": 2 * nbytes / copy,
        "multiply-adds [1/s]": webgpu_probe.count(ROUNDS) / chains,
        "diffusion 512 x 512 [cells/s]": GRID**2 * STEPS / steps,
    }


def _shortest(device: WebGpu, work: Any) -> float:
    """Return the shortest time of `work` in seconds, after a first run that compiles."""
    seconds = []
    for _ in range(REPEATS + 1):
        with device.stopwatch() as watch:
            work()
        seconds.append(watch.seconds())
    return min(seconds[1:])


def show(found: Mapping[str, Any], console: Console) -> None:
    """Print a report as a table."""
    table = Table.grid(padding=(0, 3))
    table.add_column()
    table.add_column(overflow="fold")
    info, clock = found["adapter"], found["clock"]
    table.add_row("Adapter", f"{info['device']}, {info['backend_type']}, {info['adapter_type']}, {info['description']}")
    table.add_row("wgpu-py", found["wgpu"])
    table.add_row("Clock", f"{clock['kind']}, {clock['nanoseconds_per_tick']} ns per tick")
    for level, shares in found["exactness"].items():
        words = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
        table.add_row(f"exact={level}", words)
    for name, rate in found["rates"].items():
        table.add_row(name, f"{rate:.3g}")
    table.add_row("Limits", ", ".join(f"{name} {value}" for name, value in found["limits"].items()))
    table.add_row("Features", ", ".join(found["features"]))
    console.print(table)
