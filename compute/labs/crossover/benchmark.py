"""What `fieldlab bench crossover` times: every way of every workload against n, by the sweep that the lab runs live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, nan
from typing import Any

from rich.console import Console

from compute.bench.rates import Rate
from compute.bench.rows import Plan as BenchPlan
from compute.bench.rows import Results
from compute.bench.run import Progress
from compute.bench.workload import Option
from compute.labs.crossover import table
from compute.labs.crossover.benching import LONGEST, LONGEST_CALL, Bench, ways_of
from compute.labs.crossover.catalogue import DTYPES, Workload, workload, workloads
from compute.labs.crossover.claims import LikeForLike, Ratio
from compute.labs.crossover.conclusions import claims
from compute.labs.crossover.results import Case

__all__ = ["DTYPES"]

LONGEST_LIMIT = 86_400.0
QUICK_BYTES = 700 * 2**20  # n that need more are left out by default, unless a tutorial took them
MOST_SIZES, FEW_DECADES = 6, 5  # n of a workload by default; a range of fewer decades has more n in each
WRONG: Mapping[str, str] = {}
PARAMETERS: Mapping[str, Any] = {"seed": 0, "longest_s": LONGEST, "longest_call_s": LONGEST_CALL}
RATE = Rate("Gelement/s", "elements", "call", "copy", "bytes", lambda _dtype: nan)
INCLUDED = (
    "A time is that of a call, when many follow each other, on data that lie on the device, warm: between two CUDA "
    "events on a GPU, wall time on the host and for JAX. Arrays that a way makes for itself are included. Transfer: "
    "inputs to the device and results back, apart. Of the workload transfer: wall time from data in main memory to "
    "results there. Each visit is on the quickest of a few cores. Bytes and operations are the least that a way's work "
    "asks for."
)


def _size(text: str) -> int:
    most = max(w.sizes[1] for w in workloads())
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise ValueError(f"{text!r} is not a whole number n from 1 to {most}")
    return int(text)


def _workload(text: str) -> str:
    return workload(text).name


def _limit(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= LONGEST_LIMIT:
        raise ValueError(f"{text!r} is not a number of seconds from 1 to {LONGEST_LIMIT:.0f}")
    return value


def _way(text: str) -> str:
    known = sorted({way.name for w in workloads() for way in w.ways()})
    if text not in known:
        raise ValueError(f"must be some of {', '.join(known)}, not {text!r}")
    return text


OPTIONS = (
    Option("workloads", _workload, f"some of {','.join(w.name for w in workloads())} (default: all)"),
    Option("ways", _way, "names of files, for example cpu_numba,gpu_cupy_fuse (default: all there are)"),
    Option("sizes", _size, "n, where a workload takes it (default: six powers of ten, and the tutorials' own)"),
    Option("limit", _limit, "seconds in all, checks included, after which nothing is begun (default: none)"),
)


def cases(chosen: Mapping[str, Sequence[Any]], dtypes: Sequence[str], gpu: bool) -> list[Case]:  # noqa: ARG001 for all
    """Every workload, choice of its settings, type and n; ValueError if no workload has such a way or n."""
    limit = min(chosen["limit"], default=inf)
    found = [
        Case(w.name, n, dtype, tuple(settings.items()), tuple(chosen["ways"]), limit=limit)
        for dtype in dtypes for w in workloads() if w.name in (chosen["workloads"] or [w.name])
        if ways_of(w, chosen["ways"])
        for settings in w.choices() for n in _sizes(w, chosen["sizes"], dtype)
    ]  # fmt: skip
    if not found:
        raise ValueError("none of the workloads asked for has such a way at such an n")
    return sorted(found, key=_rank)


def _rank(case: Case) -> int:
    """What tutorials drew conclusions from comes first, so that a limit cuts off the rest."""
    tests = [claim.test for claim in claims(workload(case.workload))]
    return 0 if any(getattr(test, "dtype", "") == case.dtype for test in tests) else 1


def _sizes(of: Workload, wanted: Sequence[int], dtype: str) -> tuple[int, ...]:
    """The n asked for that the workload takes; else powers of ten that are quick to handle, and what tutorials took."""
    if wanted:
        return tuple(n for n in sorted(wanted) if n <= of.sizes[1])
    tens = of.grid(per_decade=1)
    grid = tens if len(tens) >= FEW_DECADES else of.grid(per_decade=2)
    small = [n for n in grid if of.case(n, dtype).work().held <= QUICK_BYTES]
    tests = [claim.test for claim in claims(of) if isinstance(claim.test, Ratio | LikeForLike)]
    others = [test.n for test in tests if test.dtype == dtype]
    others += [cited.n for cited in of.folder.CITED if cited.dtype in ("", dtype)]
    return tuple(sorted({*small[-MOST_SIZES:], *(n for n in others if n <= of.sizes[1])}))


def run(plan: BenchPlan, say: Progress) -> Results:
    """A sweep for each curve; the budget is shared equally."""
    return Bench(plan, say).run()


def show(results: Results, console: Console) -> None:
    """A table for each curve: ways by n."""
    table.show(results, console)
