"""What `fieldlab bench crossover` times: every way of every workload against n, by the sweep that the lab runs live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console

from compute.backends import BACKENDS
from compute.bench.bandwidth import copy_bandwidth
from compute.bench.fma import fma_rate
from compute.bench.rates import Rate
from compute.bench.rows import Plan as BenchPlan
from compute.bench.rows import Results, Row
from compute.bench.run import Progress, simulated
from compute.bench.workload import Option
from compute.labs.crossover import results as made
from compute.labs.crossover import table
from compute.labs.crossover.catalogue import DTYPES, Way, Workload, workload, workloads
from compute.labs.crossover.claims import LikeForLike, Ratio
from compute.labs.crossover.conclusions import claims
from compute.labs.crossover.plan import Plan
from compute.labs.crossover.results import Case
from compute.labs.crossover.roofline import Roof, roof_of
from compute.labs.crossover.sweep import CHECKS, Sweep

__all__ = ["DTYPES"]

LONGEST = 6.0  # seconds that a call, a reference or a comparison may take: larger n are skipped
QUICK_BYTES = 2**30  # n that need more are left out by default, unless a tutorial took them: handling takes seconds
MOST_SIZES, FEW_DECADES = 6, 5  # n of a workload by default; a range of fewer decades has more n in each
WRONG: Mapping[str, str] = {}
PARAMETERS: Mapping[str, Any] = {"seed": 0, "longest_s": LONGEST}
RATE = Rate("Gelement/s", "elements", "call", "copy", "bytes", lambda _dtype: float("nan"))
INCLUDED = (
    "A time is that of a call, when many follow each other, on data that lie on the device, warm: between two CUDA "
    "events on a GPU, wall time on the host and for JAX. Arrays that a way makes for itself are included. Transfer: "
    "inputs to the device and results back, apart. Of the workload transfer: wall time from data in main memory to "
    "results there. Bytes and operations are the least that a way's work asks for."
)


def _size(text: str) -> int:
    most = max(w.sizes[1] for w in workloads())
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise ValueError(f"{text!r} is not a whole number n from 1 to {most}")
    return int(text)


def _workload(text: str) -> str:
    return workload(text).name


def _way(text: str) -> str:
    known = sorted({way.name for w in workloads() for way in w.ways()})
    if text not in known:
        raise ValueError(f"must be some of {', '.join(known)}, not {text!r}")
    return text


OPTIONS = (
    Option("workloads", _workload, f"some of {','.join(w.name for w in workloads())} (default: all)"),
    Option("ways", _way, "names of files, for example cpu_numba,gpu_cupy_fuse (default: all there are)"),
    Option(
        "sizes",
        _size,
        "n, where a workload takes it (default: about six powers of ten of each workload's range, and what tutorials took)",
    ),
)


def cases(chosen: Mapping[str, Sequence[Any]], dtypes: Sequence[str], gpu: bool) -> list[Case]:  # noqa: ARG001 for all
    """Every workload, choice of its settings, type and n; ValueError if no workload has such a way or n."""
    found = [
        Case(w.name, n, dtype, tuple(settings.items()), tuple(chosen["ways"]))
        for w in workloads() if w.name in (chosen["workloads"] or [w.name])
        if _ways(w, chosen["ways"])
        for settings in w.choices() for dtype in dtypes for n in _sizes(w, chosen["sizes"], dtype)
    ]  # fmt: skip
    if not found:
        raise ValueError("none of the workloads asked for has such a way at such an n")
    return found


def _sizes(of: Workload, wanted: Sequence[int], dtype: str) -> tuple[int, ...]:
    """The n asked for that the workload takes; else powers of ten that are quick to handle, and what tutorials took."""
    if wanted:
        return tuple(n for n in sorted(wanted) if n <= of.sizes[1])
    tens = of.grid(per_decade=1)
    grid = tens if len(tens) >= FEW_DECADES else of.grid(per_decade=2)
    small = [n for n in grid if of.case(n, dtype).work().held <= QUICK_BYTES]
    others = {claim.test.n for claim in claims(of) if isinstance(claim.test, Ratio | LikeForLike)}
    others |= {cited.n for cited in of.folder.CITED if cited.dtype in ("", dtype)}
    return tuple(sorted({*small[-MOST_SIZES:], *(n for n in others if n <= of.sizes[1])}))


def _ways(of: Workload, names: Sequence[str]) -> tuple[Way, ...]:
    return tuple(way for way in of.ways() if way.name in (names or [way.name]))


def run(plan: BenchPlan, say: Progress) -> Results:
    """A sweep for each curve; the budget is shared equally."""
    results = Results()
    groups = [list(group) for _, group in groupby(plan.cases, key=lambda case: case.group)]
    absent: dict[str, Row] = {}
    for number, group in enumerate(groups):
        ways = tuple(_present(_ways(workload(group[0].workload), group[0].ways), plan.backends, absent))
        if not ways:
            continue
        sweep = Sweep(_plan(group, ways, plan.budget / len(groups), plan.listen))
        for progress in sweep.measure():
            doing = "timing" if progress.done > CHECKS else "checking"
            say(f"{group[0].group}: {doing}", (number + progress.done) / len(groups))
        results.conditions.note(group[0].group)
        results.rows += made.rows(sweep, _roofs(ways, group[0].dtype, results))
    results.rows = [*absent.values(), *results.rows]
    return results


def show(results: Results, console: Console) -> None:
    """A table for each curve: ways by n."""
    table.show(results, console)


def _plan(group: Sequence[Case], ways: tuple[Way, ...], budget: float, listen: bool) -> Plan:
    first, sizes = group[0], tuple(case.size for case in group)
    return Plan(
        workload(first.workload), ways, sizes, first.dtype, dict(first.settings), budget,
        split=True, longest=LONGEST, listen=listen,
    )  # fmt: skip


def _present(ways: Sequence[Way], backends: Sequence[str], absent: dict[str, Row]) -> Iterator[Way]:
    """Those of the backends asked for that can be timed here; the others' libraries go into `absent`.

    Libraries that are no backend of the house are asked for with all of them.
    """
    known = {b.name for b in BACKENDS}
    for way in ways:
        name = way.backend.name
        if name not in backends and (name in known or set(backends) != known):
            continue
        reason = way.missing or simulated(way.backend)
        if reason:
            absent[name] = Row(name, "", None, "missing", reason)
        else:
            yield way


def _roofs(ways: Sequence[Way], dtype: str, results: Results) -> dict[str, Roof]:
    """The roofs of the devices that these ways use, measured once a process; noted in the results."""
    found: dict[str, Roof] = {}
    for way in ways:
        if way.backend.device in found or way.backend.name not in {b.name for b in BACKENDS}:
            continue
        device = way.backend.open_device()
        found[way.backend.device] = roof_of(device, dtype)
        results.bandwidths[device.name] = copy_bandwidth(device)
        if fma := fma_rate(device, dtype):
            results.fma[device.name, dtype] = fma
    return found
