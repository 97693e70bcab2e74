"""Diffusion in WGSL for any GPU: many steps per launch, one step per launch, a racing kernel. float32 only.

All kernels are in gpu_wgpu.wgsl and round like cpu_numpy.py, so that the results are bit-identical to NumPy's in
float32. The functions only launch: they neither allocate, wait nor measure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from compute.devices.devices import Array
from compute.devices.wgsl import WgslProgram, folded, launch
from compute.labs.diffusion.scheme import edge_code, launches

SOURCE = Path(__file__).with_suffix(".wgsl")
SWEEP, RUN = (32, 8), 4  # threads of a workgroup of a sweep in x and y, and cells per thread, one below the other
VECTOR = (4, 2)  # cells per thread in x and y where rows consist of whole vectors
SIDE = 16  # cells per side of a workgroup of the racing kernel, as in gpu_wgpu.wgsl
WAVES = {False: (512, 1024), True: (1056, 1584)}  # workgroups of a launch of many steps on a large GPU, by `shuffles`
ALONE = {False: 1.05, True: 1.16}  # extra time of the fewer workgroups relative to their rows: less hides their waiting
LEAST_ROWS = 6  # per workgroup
SMALL = 2**19  # cells; on smaller grids a thread has fewer columns, so that more threads share the work


@dataclass(frozen=True)
class Strips:
    """How a launch of `steps` steps cuts the grid: strips of `threads` * `columns` columns, with the halo.

    ahead: turns between loading and using a row, even; shuffles: whether a workgroup is a subgroup, whose threads
    exchange cells by shuffles.
    """

    steps: int
    threads: int = 64
    columns: int = 4
    ahead: int = 4
    shuffles: bool = False

    @property
    def apron(self) -> int:
        """Columns that a launch makes invalid at either side of a strip: whole threads."""
        return -(-self.steps // self.columns) * self.columns

    def cut(self, ny: int, nx: int) -> tuple[int, int, int]:
        """Return the strips, the workgroups per strip, and the rows that each writes, for ny x nx cells."""
        count = -(-nx // (self.threads * self.columns - 2 * self.apron))

        def rows_of(groups: int) -> int:
            """Return the rows per workgroup."""
            return min(ny, max(LEAST_ROWS, -(-ny // max(1, groups // count))))

        waves = WAVES[self.shuffles]

        def cost(groups: int) -> float:
            """Return the rows that all workgroups read, weighted by how badly they hide their waiting."""
            return groups * (rows_of(groups) + 2 * self.steps) * (ALONE[self.shuffles] if groups == waves[0] else 1)

        rows = rows_of(min(waves, key=cost))
        return count, -(-ny // rows), rows


SIZES = tuple(map(Strips, (10, 6, 4, 2)))  # most steps first; each is the sum of two smaller ones, or of two steps
MOST_STEPS = SIZES[0].steps
LEAST_SUBGROUP = 32  # threads; a narrower strip would consist of halo


def strips_for(subgroup: int, cells: int) -> tuple[Strips, ...]:
    """Return the strips for a grid on a GPU with subgroups of `subgroup` threads, 0 if unknown: most steps first."""
    columns = 2 if cells < SMALL else 4
    if subgroup < LEAST_SUBGROUP:
        return tuple(replace(strips, columns=columns) for strips in SIZES)
    ahead = 2 if cells < SMALL else 4
    return tuple(Strips(strips.steps, subgroup, columns, ahead, shuffles=True) for strips in SIZES)


@cache
def _program(strips: Strips = SIZES[0]) -> WgslProgram:
    sizes = {"STEPS": strips.steps, "THREADS": strips.threads, "COLUMNS": strips.columns, "APRON": strips.apron}
    ends = ("ENDS", "ends_by_shuffles" if strips.shuffles else "ends_by_memory"), ("SLOTS", 2 * strips.steps)
    return WgslProgram(SOURCE, (("RUN", RUN), ("AHEAD", strips.ahead), *ends, *sizes.items()), exact=1)


PROGRAMS = {  # for the code panel
    f"{MOST_STEPS} steps per launch": _program(),
    f"{MOST_STEPS} steps per launch, by shuffles": _program(strips_for(LEAST_SUBGROUP, SMALL)[0]),
}


def step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance `steps` >= 1 forward-Euler steps of u_t = D lap(u) with r = D dt / dx^2, stable for r <= 1/4.

    u, out: (ny, nx) float32, any shape from 1 x 1. The result is written to `out`; u is unchanged after one step, and
    scratch for more. The result equals that of `one_step` bit for bit.
    """
    sizes = {strips.steps: strips for strips in strips_for(u.gpu.subgroup, u.size)}
    for size in launches(steps, (*sizes, 1)):
        if size == 1:
            _sweep("one_step", u, out, r, edges)
        else:
            *groups, rows = sizes[size].cut(*u.shape)
            _launch("many_steps", groups, u, out, r, edges, sizes[size], rows)
        u, out = out, u


def one_step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance as `step`, but with one launch per step."""
    source, target = u, out
    for _ in range(steps):
        _sweep("one_step", source, target, r, edges)
        source, target = target, source
    if source is not out:
        _copy(source, out)


def racing_step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance as `step`, but in place in `out` while neighbouring groups still read it: a race, wrong on purpose."""
    ny, nx = u.shape
    _copy(u, out)
    for _ in range(steps):
        _launch("racing_step", (-(-nx // SIDE), -(-ny // SIDE)), u, out, r, edges)


def laplacian(u: Array, out: Array, edges: str) -> None:
    """Write +lap(u) with unit spacing to out. u, out: (ny, nx) float32; ghost cells by `edges`."""
    _sweep("laplacian", u, out, 0.0, edges)


def _sweep(name: str, u: Array, out: Array, r: float, edges: str) -> None:
    ny, nx = u.shape
    if nx % VECTOR[0] == 0:
        columns, rows = (threads * own for threads, own in zip(SWEEP, VECTOR, strict=True))
        _launch(f"{name}_of_vectors", (-(-nx // columns), -(-ny // rows)), u, out, r, edges)
        return
    _launch(name, (-(-nx // SWEEP[0]), -(-ny // (SWEEP[1] * RUN))), u, out, r, edges)


def _copy(source: Array, out: Array) -> None:
    _launch("copy", folded(-(-source.size // 256)), source, out, 0.0, "periodic")


def _launch(
    name: str,
    groups: Sequence[int],
    u: Array,
    out: Array,
    r: float,
    edges: str,
    strips: Strips = SIZES[0],
    rows: int = 0,
) -> None:
    numbers = (*map(np.int32, (*u.shape, edge_code(edges))), np.float32(r), np.int32(rows))
    launch(_program(strips), name, groups, (u, out), *numbers)


VARIANTS: dict[str, Callable[..., None]] = {"T-step": step, "one-step": one_step, "racing": racing_step}
