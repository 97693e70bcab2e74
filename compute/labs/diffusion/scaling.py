"""`fieldlab bench diffusion --devices 1,2,4`: the speed-up of several GPUs over one.

Strong scaling: one grid on an increasing number of GPUs. Weak scaling: the same number of cells per GPU, so that the
grid grows. A result is correct if every cell is bit-identical to that of one GPU from the same start; other results get
no time. All numbers of GPUs are sampled in shuffled rounds and compared only with one GPU of the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compute.devices.devices import Array
from compute.devices.gpu_devices import Cuda
from compute.labs.diffusion import gpu_cupy
from compute.labs.diffusion.gpu_slab_device import COMPARED, SlabArray, SlabDevice, different_cells
from compute.measure.agreement import error_line, memory_shortage
from compute.measure.case import Results, Row
from compute.measure.report import INTERVALS
from compute.measure.run import BenchProgress, silent
from compute.measure.sampling import Budget, interleave, steps_for
from compute.measure.statistics import Measurement, SpeedUp
from compute.measure.timing import Sample, Timing, take_sample

BACKEND = "gpu_cupy"
ONE = "T-step"  # the kernel on one GPU
R = 0.2
STRONG = (4096, 8192, 16384, 32768, 65536)  # cells per side, by default
WEAK = 16384  # cells per side on each GPU
LARGEST = 65536
NOISE_ROWS = 251  # rows of noise that the start repeats; does not divide the first rows of slabs
CHECKED = (25, 8 * 75, 8 * 75, 8 * 75)  # steps per advance before the comparison: remainders, and recorded graphs
REFERENCE = "gpu_cupy on one GPU, bit for bit"
INCLUDED = (
    "A time is that between two CUDA events on the first GPU, before and after the work of all of them; "
    "the exchange of ghost rows is in it. A result is right if all its cells have the bits that one GPU gives."
)


@dataclass(frozen=True)
class ScalingCase:
    """One table: `side` x `side` cells in all (strong) or per GPU (weak), on every number of GPUs in `counts`."""

    kind: Literal["strong", "weak"]
    side: int
    dtype: str
    edges: str
    counts: tuple[int, ...]
    tolerance: ClassVar[float] = 0.0
    plain: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """The grid as text."""
        whose = "" if self.kind == "strong" else " a GPU"
        return f"{self.kind} scaling  {self.side} x {self.side}{whose}  {self.dtype}  {self.edges}"

    def shape(self, count: int) -> tuple[int, int]:
        """Return (ny, nx) on `count` GPUs."""
        return self.side * (count if self.kind == "weak" else 1), self.side

    def needed_bytes(self, count: int, held: Collection[int] = ()) -> int:
        """Return the bytes needed on the first GPU: its slab of both grids, and one GPU's grids for the comparison.

        held: numbers of GPUs with grids that are already allocated; those of one GPU serve for the comparison if they
        have the same size.
        """
        cells = self.shape(count)[0] * self.side
        slab, whole = cells // count, 0 if count == 1 or self.alone(count, held) else cells
        return 2 * (slab + whole) * np.dtype(self.dtype).itemsize + (8 * COMPARED if count > 1 else 0)

    def alone(self, count: int, held: Collection[int]) -> bool:
        """Return whether one GPU already has a grid of this size."""
        return 1 in held and self.shape(1) == self.shape(count)

    def facts(self) -> dict[str, Any]:
        """Return the fields of the record; each row adds its own ny."""
        return {"ny": self.side, "nx": self.side, "dtype": self.dtype, "edges": self.edges, "scaling": self.kind}


def scaling_cases(
    counts: Sequence[int], sizes: Sequence[int], dtypes: Sequence[str], edges: Sequence[str]
) -> list[ScalingCase]:
    """Return the cases of strong scaling at every size, then of weak scaling at WEAK or the only given size."""
    weak = [sizes[0] if len(sizes) == 1 else WEAK]
    grids: list[tuple[Literal["strong", "weak"], int]] = [("strong", side) for side in sorted(sizes or STRONG)]
    grids += [("weak", side) for side in weak]
    ordered = tuple(sorted(set(counts)))
    return [ScalingCase(kind, side, dtype, edge, ordered) for kind, side in grids for edge in edges for dtype in dtypes]


@dataclass
class Grids:
    """A pair of grids on one or more GPUs, with the function that advances them."""

    device: Cuda | SlabDevice
    u: Any
    out: Any
    step: Callable[..., None]

    def advance(self, edges: str, steps: int, variant: str) -> Timing:
        """Run the steps and return their device time."""
        stopwatch = self.device.stopwatch()
        with self.device.lock, stopwatch:
            self.step(self.u, self.out, R, edges, steps)
        seconds = stopwatch.seconds()
        self.u, self.out = self.out, self.u
        return Timing(BACKEND, variant, steps, self.u.shape[0] * self.u.shape[1], stopwatch.launch, seconds)

    def begin(self) -> None:
        """Write the start: NOISE_ROWS rows of noise, repeated."""
        if isinstance(self.u, SlabArray):
            for number, slab in enumerate(self.u.layout.slabs):
                _fill(self.device.gpus[number], self.u.own(number), slab.first)  # type: ignore[union-attr]
            self.u.wrapped = None
        else:
            _fill(self.device, self.u, 0)


def _fill(gpu: Any, rows: Array, first: int) -> None:
    """Set row q of the grid to row q % NOISE_ROWS of the noise; `rows` begins with row `first`."""
    width = rows.shape[1]
    noise = gpu.upload(np.random.default_rng(width).random((NOISE_ROWS, width), np.float32).astype(rows.dtype))
    done = 0
    while done < rows.shape[0]:
        start = (first + done) % NOISE_ROWS
        many = min(NOISE_ROWS - start, rows.shape[0] - done)
        with rows.device:
            rows[done : done + many] = noise[start : start + many]
        done += many
    gpu.synchronise()


class ScalingRun:
    """Check and time cases until `budget` seconds are used up."""

    def __init__(self, cases: Sequence[ScalingCase], budget: float, progress: BenchProgress = silent) -> None:
        self._cases, self._progress, self._budget = cases, progress, Budget(budget)
        self.results = Results()

    def run(self) -> Results:
        """Run every case, in order; rows of cases without time left contain the reason."""
        try:
            for number, case in enumerate(self._cases):
                self._progress(f"{case.title}: checking", number / len(self._cases))
                self.results.rows += self._rows(case, self._budget.left / (len(self._cases) - number), number)
                self.results.conditions.note(case.title)
        except KeyboardInterrupt as stop:  # earlier measurements are kept
            self.results.interrupted = stop
        return self.results

    def _rows(self, case: ScalingCase, share: float, number: int) -> list[Row]:
        rows = [Row(BACKEND, _variant(count), case, "skipped", reference=REFERENCE, extra=_extra(case, count))
                for count in case.counts]  # fmt: skip
        if share <= 0:
            return [replace(row, reason=f"the budget of {self._budget.seconds:.0f} s is over") for row in rows]
        grids: dict[int, Grids] = {}
        try:
            rows = [self._checked(case, row, count, grids) for row, count in zip(rows, case.counts, strict=True)]
            return self._timed(case, rows, grids, share, number)
        finally:
            grids.clear()
            for index in range(Cuda.count()):
                Cuda(index).close()
            Cuda(0)

    def _checked(self, case: ScalingCase, row: Row, count: int, grids: dict[int, Grids]) -> Row:
        """Compare with one GPU; keep the grids if the result is correct."""
        more = ", with one GPU's grids to compare with" if count > 1 and not case.alone(count, grids) else ""
        if reason := memory_shortage(case.needed_bytes(count, grids), Cuda(0).free_bytes(), f" on cuda:0{more}"):
            return replace(row, reason=reason)
        try:
            made = open_grids(case.shape(count), case.dtype, count)
            first, different = check(made, case, count, grids.get(1) if case.alone(count, grids) else None)
        except Exception as error:  # noqa: BLE001  one number of GPUs that fails must not lose the others' figures
            return replace(row, status="failed", reason=error_line(error))
        row = replace(row, device=made.device.name, difference=different, largest=None, samples=(first,),
                      extra={**row.extra, **_facts(made)})  # fmt: skip
        if different:
            return replace(row, status="disagrees", reason=f"{different:.1e} of the cells differ")
        grids[count] = made
        return replace(row, status="measured")

    def _timed(
        self, case: ScalingCase, rows: list[Row], grids: dict[int, Grids], share: float, number: int
    ) -> list[Row]:
        """Sample all correct grids in turn."""
        calls: dict[str, Callable[[], Sample]] = {}
        for count, made in grids.items():
            calls[str(count)] = self._call(case, made, count)

        def progress(part: float) -> None:
            """Report the fraction of this case that is timed."""
            self._progress(f"{case.title}: timing", (number + part) / len(self._cases))

        found = interleave(calls, Budget(min(share, self._budget.left)), progress=progress)
        done = []
        for row, count in zip(rows, case.counts, strict=True):
            samples = found.get(str(count), [])
            done.append(_measured(row, samples) if samples else row)
        return list(_with_speed_ups(case, done))

    def _call(self, case: ScalingCase, made: Grids, count: int) -> Callable[[], Sample]:
        """Return a function that takes a sample of as many steps as fit in a twentieth of a second."""
        variant, steps = _variant(count), 96
        for _ in range(3):  # the second repeats the graphs of the first; the third runs like all later calls
            seconds = made.advance(case.edges, steps, variant).step_seconds
            steps = steps_for(seconds, at_once=gpu_cupy.MOST_STEPS)
        made.advance(case.edges, steps, variant)
        made.advance(case.edges, steps, variant)
        return lambda: take_sample(lambda: made.advance(case.edges, steps, variant))


def _measured(row: Row, samples: Sequence[Sample]) -> Row:
    """Return the row with its samples; it already contains the first call."""
    cold = replace(row.samples[0], timing=replace(row.samples[0].timing, first_call=True))
    measured = Measurement.of([sample.timing for sample in (cold, *samples)])
    return replace(row, measurement=measured, steps=samples[-1].timing.steps, samples=(cold, *samples))


def open_grids(shape: tuple[int, int], dtype: str, count: int) -> Grids:
    """Return a pair of grids on the first `count` GPUs."""
    from compute.labs.diffusion import gpu_slabs

    device = SlabDevice(range(count)) if count > 1 else Cuda(0)
    u, out = (device.allocate(shape, dtype) for _ in range(2))
    return Grids(device, u, out, gpu_slabs.step if count > 1 else gpu_cupy.step)


def check(made: Grids, case: ScalingCase, count: int, alone: Grids | None = None) -> tuple[Sample, float]:
    """Return (the first call, fraction of the cells whose bits differ from those of one GPU).

    alone: the grids of one GPU right after this check of them, if available: large ones fit in memory only once.
    """
    made.begin()
    first = take_sample(lambda: made.advance(case.edges, CHECKED[0], _variant(count)))
    for steps in CHECKED[1:]:
        made.advance(case.edges, steps, _variant(count))
    if count == 1:
        return first, 0.0
    if alone is None:
        alone = open_grids(case.shape(count), case.dtype, 1)
        alone.begin()
        for steps in CHECKED:
            alone.advance(case.edges, steps, ONE)
    different = sum(
        different_cells(alone.u[slab.first : slab.last], made.u.own(number)) for number, slab in _slabs(made.u)
    )
    return first, different / (made.u.shape[0] * made.u.shape[1])


def _slabs(u: SlabArray) -> Iterator[tuple[int, Any]]:
    yield from enumerate(u.layout.slabs)


def _variant(count: int) -> str:
    """Return the variant of a row."""
    return ONE if count == 1 else f"{ONE} on {count} GPUs"


def _extra(case: ScalingCase, count: int) -> dict[str, Any]:
    """Return the fields of a row's record in addition to its case."""
    return {"gpus": count, "ny": case.shape(count)[0]}


def _facts(made: Grids) -> dict[str, Any]:
    """Return the ghost rows of a grid, and how its rows are copied."""
    if not isinstance(made.u, SlabArray):
        return {}
    return {"ghost_rows": made.u.layout.ghost, "rows_by": made.u.device.streams.way}


def _with_speed_ups(case: ScalingCase, rows: list[Row]) -> Iterator[Row]:
    """Add the speed-up of each number of GPUs over one of the same run, and the efficiency: 1 is ideal."""
    one = next((row for row, count in zip(rows, case.counts, strict=True) if count == 1 and row.measurement), None)
    for row, count in zip(rows, case.counts, strict=True):
        if row.measurement is None or one is None or one.measurement is None or row is one:
            yield row
            continue
        speed = SpeedUp.of(one.measurement.step, row.measurement.step)
        if case.kind == "weak":  # count times the work in the measured time
            speed = SpeedUp(speed.ratio * count, speed.low * count, speed.high * count, speed.noisy)
        efficiency = speed.ratio / count
        yield replace(row, speed_up=speed, over=f"{BACKEND} {ONE}", extra={**row.extra, "efficiency": efficiency})


# -- on the terminal


def show(results: Results, console: Console) -> None:
    """Print a table for each case."""
    for case in dict.fromkeys(row.case for row in results.rows):
        rows = [row for row in results.rows if row.case == case]
        console.print()
        console.print(_table(case, rows))
        for row in rows:
            if row.status != "measured":
                console.print(Text(f"{row.status}  {row.variant}: {row.reason}", style="red"))
        for text in results.conditions.warnings(case.title):
            console.print(Text(f"disturbed  {text}", style="yellow"))
    console.print()
    console.print(Text(f"{INCLUDED} {INTERVALS}", style="dim"))


def _ratio(speed: SpeedUp) -> str:
    return f"{speed.ratio:.3f}" + (f" ({speed.low:.3f} - {speed.high:.3f})" if speed.bounded else "")


def _table(case: ScalingCase, rows: list[Row]) -> Table:
    table = Table(title=case.title, title_justify="left", title_style="bold")
    table.add_column("way", no_wrap=True)
    for heading in ("cells", "us a step", "quartiles", "n", "Gcell/s", "times one GPU", "efficiency", "ghost rows"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        if row.measurement is None:
            continue
        step, speed = row.measurement.step, row.speed_up
        table.add_row(
            row.variant, f"{row.extra['ny']} x {case.side}", f"{1e6 * step.median:.4g}",
            f"{1e6 * step.q1:.4g} - {1e6 * step.q3:.4g}" + (" noisy" if row.measurement.noisy else ""), str(step.n),
            f"{row.measurement.cells_per_second / 1e9:.0f}",
            _ratio(speed) if speed else "",
            f"{row.extra['efficiency']:.3f}" if speed else "", str(row.extra.get("ghost_rows", "")),
        )  # fmt: skip
    return table
