"""The provenance of a figure: the machine, the software and the state of the source."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from compute.devices import webgpu
from compute.devices.devices import cpu_count, cpu_name
from compute.machine import container, gpu_nvml

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = (
    *("fieldlab", "numpy", "numba", "llvmlite", "scipy", "param", "pillow"),
    *("panel", "bokeh", "holoviews", "panel-material-ui", "tornado"),
    *("cupy-cuda12x", "cupy-cuda13x", "numba-cuda", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc"),
    *("wgpu", "torch", "triton", "jax", "jaxlib", "awkward", "py-pde", "pystencils"),
)
CHANGED = "+changes"  # appended to a commit if the source differs from it
PROGRAM_SECONDS = 10.0  # longest wait for git or nvidia-smi


@cache
def machine() -> dict[str, Any]:
    """Return {cpu, cores, threads, memory, gpus, driver, system}.

    cores: physical cores of the machine; threads: hardware threads this process may use; memory: bytes of main
    memory; gpus: a list of {name, memory in bytes}, without an NVIDIA GPU those of WebGPU, with their interface and
    memory 0, which it does not report; driver: its version or None; container: only in
    containers with limits, {processors, memory}.
    """
    gpus, driver = nvidia()
    if not gpus:
        gpus, driver = webgpu.listed()
    limited = container.limits()
    return {
        "cpu": cpu_name(),
        "cores": psutil.cpu_count(logical=False) or cpu_count(),
        "threads": cpu_count(),
        "memory": container.total_memory(),
        "gpus": gpus,
        "driver": driver,
        "system": f"{platform.system()} {platform.machine()}",
        **({"container": limited} if limited else {}),
    }


def nvidia() -> tuple[list[dict[str, Any]], str | None]:
    """Return the NVIDIA GPUs that CUDA_VISIBLE_DEVICES allows, and the driver's version, from nvidia-smi.

    A part of a GPU (MIG) has its profile's name and memory. ([], None) on a machine without nvidia-smi.
    """
    text = _run_program(
        "nvidia-smi", "--query-gpu=name,memory.total,driver_version,uuid", "--format=csv,noheader,nounits"
    )
    rows = [[cell.strip() for cell in line.split(",")] for line in (text or "").splitlines()]
    rows = [row for row in rows if len(row) == 4]
    order = os.environ.get("CUDA_VISIBLE_DEVICES")
    parts = gpu_parts(_run_program("nvidia-smi", "-L") or "") if rows and gpu_nvml.PART in (order or "") else {}
    gpus = []
    for entry in gpu_nvml.visible(order, [row[3] for row in rows]):
        if isinstance(entry, int):
            name, mib, *_ = rows[entry]
            gpus.append({"name": name, "memory": int(mib) * 2**20 if mib.isdigit() else 0})
        elif entry in parts:
            gpus.append(parts[entry])
        else:
            break
    return gpus, rows[0][2] if rows else None


def gpu_parts(listing: str) -> dict[str, dict[str, Any]]:
    """Return {name, memory} of each MIG part in the output of `nvidia-smi -L`, by its UUID.

    Its lines are "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)" and below it "  MIG 1g.10gb  Device 0: (UUID: MIG-…)".
    """
    found: dict[str, dict[str, Any]] = {}
    whole = ""
    for line in listing.splitlines():
        if gpu := re.match(r"GPU \d+: (.*) \(UUID: ", line):
            whole = gpu[1]
        elif part := re.match(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)", line):
            size = re.search(r"(\d+)gb", part[1])
            found[part[2]] = {"name": f"{whole} MIG {part[1]}", "memory": int(size[1]) * 2**30 if size else 0}
    return found


def versions() -> dict[str, str]:
    """Return the versions of Python and of every installed distribution that can change a figure."""
    found = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """Return the commit of the source, with "+changes" appended if the files of compute differ from it.

    Without a checkout with a commit, return the variable FIELDLAB_COMMIT, or None.
    """
    top = _run_program("git", "-C", str(ROOT), "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != ROOT:
        return os.environ.get("FIELDLAB_COMMIT")
    head = _run_program("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    if head is None:
        return os.environ.get("FIELDLAB_COMMIT")
    changed = _run_program("git", "-C", str(ROOT), "status", "--porcelain", "--", "compute")
    return f"{head}{CHANGED}" if changed else head


def now() -> str:
    """Return the current time in UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def slug(facts: dict[str, Any]) -> str:
    """Return a file name for this machine: its GPUs, or without a GPU its CPU and threads."""
    gpus = facts["gpus"]
    text = f"{len(gpus)}x {gpus[0]['name']}" if len(gpus) > 1 else gpus[0]["name"] if gpus else ""
    text = text or f"{facts['cpu']} {facts['threads']} threads"
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _run_program(program: str, *arguments: str) -> str | None:
    """Return the output of a program; None for a missing program, and if it fails or hangs."""
    path = shutil.which(program)
    if path is None:
        return None
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False)
    except (subprocess.TimeoutExpired, OSError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
