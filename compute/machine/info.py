"""`fieldlab info`: the machine, its driver and versions, and why a backend is unavailable."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from compute.devices import kernel_cache
from compute.devices.backends import BACKENDS
from compute.labs import labs, outside
from compute.machine import machine
from compute.machine.cuda_extra import cuda_extra, in_words
from compute.measure import kept_roofs


def facts() -> dict[str, Any]:
    """Return machine, versions, commit, every backend and every lab, as plain values."""
    backends = [
        {"name": b.name, "label": b.label, "device": b.device, "missing": b.missing, "install": b.install}
        for b in BACKENDS
    ]
    here, versions = machine.machine(), machine.versions()
    of_webgpu = any("interface" in gpu for gpu in here["gpus"])
    extra, reason = cuda_extra(None if of_webgpu else here["driver"], versions)
    return {
        "machine": here,
        "versions": versions,
        "cuda_extra": {"extra": extra, "reason": reason},
        "commit": machine.commit(),
        "date": machine.now(),
        "roofs": _roofs(),
        "backends": backends,
        "labs": [
            {"name": lab.LAB, "title": lab.TITLE, "package": lab.PACKAGE, "backends": [b.name for b in lab.backends()]}
            for lab in labs()
        ],
        "kernel_cache": {"folder": str(kernel_cache.folder()), "problem": kernel_cache.problem()},
        "problems": [str(problem) for problem in outside().problems],
        "fixes": _fixes(),
    }


def _fixes() -> list[dict[str, Any]]:
    """Return the fixes of Panel and Bokeh with their states; [] without the package app."""
    if find_spec("app") is None:
        return []
    found: list[dict[str, Any]] = import_module("app.upstream.fixes").facts()
    return found


def _roofs() -> dict[str, Any] | None:
    """Return the stored roofs: rates by device, their date, and the processor share of other programs; None without."""
    kept = kept_roofs.read()
    if kept is None:
        return None
    return {"date": kept.date.isoformat(timespec="seconds"), "others": kept.others, "rates": kept.rates}


def version() -> str:
    """Return Fieldlab's version, or a note that it is a checkout that is not installed."""
    return machine.versions().get("fieldlab", "from its source, not installed")


def show(found: dict[str, Any], console: Console) -> None:
    """Print the facts as a table."""
    here = found["machine"]
    table = Table.grid(padding=(0, 3))
    table.add_column()
    table.add_column(overflow="fold")
    table.add_row("Fieldlab", version())
    table.add_row("Commit", found["commit"] or "none: this is not a checkout")
    memory = f"{here['memory'] / 2**30:.1f} GiB"
    table.add_row("CPU", f"{here['cpu']}, {here['cores']} cores, {here['threads']} threads usable, {memory}")
    if limited := here.get("container"):
        parts = [f"{limited['processors']:g} processors"] if "processors" in limited else []
        parts += [f"{limited['memory'] / 2**30:.3g} GiB"] if "memory" in limited else []
        table.add_row("Container", f"limited to {' and '.join(parts)}")
    gpus = [", ".join([gpu["name"], gpu.get("interface", f"{gpu['memory'] / 2**30:.0f} GiB")]) for gpu in here["gpus"]]
    table.add_row("GPU", "\n".join(gpus) or "none: neither nvidia-smi nor WebGPU finds one")
    table.add_row("Driver", here["driver"] or "none")
    table.add_row("CUDA", Text(in_words(**found["cuda_extra"])))
    table.add_row("System", here["system"])
    versions = [f"{name} {number}" for name, number in found["versions"].items() if name != "fieldlab"]
    table.add_row("Versions", ", ".join(versions))
    table.add_row("Labs", ", ".join(lab["name"] for lab in found["labs"]))
    table.add_row("Roofs", _roofs_text(found["roofs"]))
    kept = found["kernel_cache"]
    words = f"compiled kernels are not cached: {kept['problem']}" if kept["problem"] else kept["folder"]
    table.add_row("Kernels", Text(words, style="yellow" if kept["problem"] else ""))
    table.add_row(
        "Fixes", Text("\n".join(f"{fix['name']} ({fix['package']}): {fix['state']}" for fix in found["fixes"]))
    )
    for problem in found["problems"]:
        table.add_row("", Text(f"not there: {problem}", style="yellow"))
    console.print(table)
    console.print()
    for line in _backends(found["backends"]):
        console.print(line, soft_wrap=True)


def _roofs_text(roofs: dict[str, Any] | None) -> str:
    """Return the roofs as text, one line per device."""
    if roofs is None:
        return "not measured on this machine yet: run `fieldlab info --roofs`, or start a server"
    lines = []
    for device, rates in roofs["rates"].items():
        fma = {kind.removeprefix("fma "): rate for kind, rate in rates.items() if kind.startswith("fma ")}
        rates_text = [f"{rate / 1e9:.3g} G {dtype} FMA/s" for dtype, rate in fma.items()]
        lines.append(", ".join([f"{device}: copies {rates['copy'] / 1e9:.3g} GB/s", *rates_text]))
    load = (
        f", while other programs used {roofs['others']:.0%} of the processors"
        if roofs["others"] > kept_roofs.CALM
        else ""
    )
    return "\n".join([*lines, f"measured {roofs['date']}{load}; to repeat: fieldlab info --roofs"])


def _backends(backends: list[dict[str, Any]]) -> Iterator[Text]:
    """Yield one line per backend, and one with its install command: not wrapped at any width, to be copied."""
    for backend in backends:
        state = Text(f"absent: {backend['missing']}", "yellow") if backend["missing"] else Text("ready", "green")
        yield Text.assemble(f"{backend['name']:12} {backend['label']:12} ", state)
        if backend["install"]:
            yield Text(f"    {backend['install']}")
