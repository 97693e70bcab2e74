"""Diffusion on several GPUs: the functions of gpu_cupy.py for a SlabArray, with bit-identical results.

The kernels are those of one GPU; gpu_slabs.cu only selects the rows of a launch. slabs.py plans launches and copies,
gpu_slab_streams.py executes them. Launches that are shorter than their launch overhead on the host are recorded as CUDA
graphs and replayed many at a time.

Measured on two H200 with NVLink, float32, zero flux, Gcell/s, one and two GPUs sampled in turn:
                                                          4096^2  8192^2  16384^2  32768^2
  one GPU                                                   2254    2590     3000     3055
  exchange after every launch, launched one by one          1698    4732     5446     5607
  the same in graphs                                        3676    4794     5417
  exchange after 4 launches, in graphs                      3487    4843     5586     6049 (no graphs)
  exchange after 8 launches, in graphs                      3572    4891     5593     5997 (no graphs)
  rows copied by a kernel, after 8 launches, in graphs      3628    4896     5548
Four H200, after slabs were cut into whole waves of warps: 5352, 8418, 10822 and 11889, that is 2.46, 3.17, 3.50 and
about 3.8 times one; with 16384^2 cells on each 12010, 0.99 of four times one. At 65536^2 four reached about 12000, and
one, on another machine, 3250 (3600 for a smooth field, which draws less power). Ghost rows for 2, 4, 8 and 16 launches
gave 10480, 10620, 10740 and 10580 at 16384^2.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.devices.cuda_source import compile_cuda
from compute.devices.devices import Array
from compute.labs.diffusion import gpu_cupy
from compute.labs.diffusion.gpu_cupy import TILINGS, WARP, Tiling, multiprocessors, tilings
from compute.labs.diffusion.gpu_slab_device import SlabArray
from compute.labs.diffusion.scheme import PERIODIC, edge_code, launches
from compute.labs.diffusion.slabs import Launch, SlabLayout, SlabWork, plan

SOURCE = Path(__file__).with_suffix(".cu")
SIZES = (8, 4, 2, 1)  # steps per launch
RECORDED = (64, 8, 2)  # launches per graph; even, so that it ends in the grid in which it begins
SHORT = 7.5e7  # cells of a slab, per slab that the host serves, up to which recording pays off
KEPT = 12  # graphs per pair of grids


def step(u: SlabArray, out: SlabArray, r: float, edges: str, steps: int) -> None:
    """Advance `steps` >= 1 forward-Euler steps of u_t = D lap(u) with r = D dt / dx^2, stable for r <= 1/4.

    u, out: (ny, nx) float32 or float64 of one dtype, of equal layout. The result is written to `out`; u is scratch. The
    result equals that of gpu_cupy.step bit for bit.
    """
    refresh(u, edges)
    sizes = launches(steps, SIZES)
    whole = sizes.count(SIZES[0])
    graphs = []
    for length in RECORDED if _short(u) else ():
        while whole >= length and (graph := _recorded(u, out, r, edges, length)):
            graphs.append(graph)
            whole -= length
            del sizes[:length]
    streams, periodic = u.device.streams, edge_code(edges) == PERIODIC
    if graphs:
        streams.replay(graphs)
    streams.run(_planned(u.layout, periodic, tuple(sizes)), (u.parts, out.parts), _launcher_of(u, out, r, edges))
    u.wrapped, out.wrapped = None, periodic


def laplacian(u: SlabArray, out: SlabArray, edges: str) -> None:
    """Write +lap(u) with unit spacing to out. u, out: (ny, nx), float32 or float64, equal layout; ghosts by `edges`."""
    refresh(u, edges)
    periodic = edge_code(edges) == PERIODIC
    for number in range(u.layout.count):
        gpu_cupy.laplacian(u.span(number, periodic), out.span(number, periodic), edges)
    out.wrapped = None


def refresh(u: SlabArray, edges: str) -> None:
    """Update invalid ghost rows of u, for `edges`."""
    periodic = edge_code(edges) == PERIODIC
    if u.layout.count > 1 and (u.wrapped is None or (periodic and not u.wrapped)):
        u.device.streams.run(u.layout.exchange(periodic), (u.parts, u.parts), _launcher_of(u, u, 0.0, edges))
        u.wrapped = periodic


@lru_cache(maxsize=64)
def _planned(layout: SlabLayout, periodic: bool, sizes: tuple[int, ...]) -> list[SlabWork]:
    """Return the plan of these launches, cached: planning can cost the host more time than the plan costs a GPU."""
    return plan(layout, periodic, sizes)


# -- graphs


def _short(u: SlabArray) -> bool:
    """Return whether launches on this grid finish sooner than the host issues them."""
    count = u.layout.count
    return count > 1 and not u.device.streams.unrecorded and u.size / count <= SHORT * count


def _recorded(u: SlabArray, out: SlabArray, r: float, edges: str, length: int) -> Any:
    """Return the graph of `length` launches of SIZES[0] steps from u back to u; None the first time, which compiles."""
    key = id(out), r, edges, length
    known = u.graphs.get(key)
    if known is None or known[0]() is not out:
        if len(u.graphs) >= KEPT:
            u.graphs.clear()
        u.graphs[key] = weakref.ref(out), None
        return None
    if known[1] is None:
        works = plan(u.layout, edge_code(edges) == PERIODIC, [SIZES[0]] * length)
        try:
            graph = u.device.streams.record(works, (u.parts, out.parts), _launcher_of(u, out, r, edges))
        except RuntimeError as error:  # from CUDA: this driver cannot record them; continue without graphs
            u.device.streams.unrecorded = str(error)
            return None
        u.graphs[key] = known[0], graph
    return u.graphs[key][1]


# -- launches


def _launcher_of(u: SlabArray, out: SlabArray, r: float, edges: str) -> Callable[[Launch], None]:
    """Return a function that launches a work of a plan on the current stream."""
    periodic, code = edge_code(edges) == PERIODIC, np.int32(edge_code(edges))
    real: Any = u.dtype.type
    ratio = real(r)
    views = [[grid.span(number, periodic) for number in range(grid.layout.count)] for grid in (u, out)]
    spans = [u.layout.span(number, periodic)[0] for number in range(u.layout.count)]
    sizes = [(slab.rows, u.shape[1]) for slab in u.layout.slabs]
    cuts = [u.layout.strips(number, periodic) for number in range(u.layout.count)]

    dtype = u.dtype.name
    known: dict[tuple[int, int, tuple[tuple[int, int], ...]], Callable[..., None]] = {}

    def launch(work: Launch) -> None:
        """Launch the work."""
        key = work.slab, work.steps, work.bands
        if key not in known:
            bands = tuple((first - spans[work.slab], last - spans[work.slab]) for first, last in work.bands)
            view = views[0][work.slab]
            tiling = _tiling(sizes[work.slab], dtype, view.device.id, work.steps)
            strips, middle = cuts[work.slab]
            concurrent = len(strips) if list(work.bands) == middle else 0
            known[key] = _slab_launcher(view.shape, dtype, view.device.id, tiling, bands, work.strip, concurrent)
        known[key](views[work.source][work.slab], views[1 - work.source][work.slab], ratio, code)

    return launch


@cache
def _tiling(slab: tuple[int, int], dtype: str, gpu: int, steps: int) -> Tiling:
    """Return how launches of `steps` steps cut a slab of that shape."""
    known = {tiling.steps: tiling for tiling in tilings(slab, dtype, gpu)}
    return known.get(steps) or replace(TILINGS[dtype][-1], steps=steps)


@cache
def _slab_launcher(
    shape: tuple[int, int],
    dtype: str,
    gpu: int,
    tiling: Tiling,
    bands: tuple[tuple[int, int], ...],
    strip: bool,
    concurrent: int,
) -> Callable[..., None]:
    """Return a function (u, out, r, edge code) that launches tiling.steps steps on that GPU, for the rows in `bands`.

    concurrent: number of bands of a concurrent launch; as many warps are left out of each column of the grid.
    """
    first, last = bands[0]
    if strip:
        blocks, rows = -(-shape[1] // tiling.width) * len(bands), last - first
    else:
        blocks, rows = tiling.cut(last - first, shape[1], multiprocessors(gpu), concurrent)
    apart = bands[1][0] - first if len(bands) > 1 else rows
    kernel = compile_cuda(SOURCE, defines=tiling.defines(dtype)).get_function("slab_steps")
    numbers = [np.int32(number) for number in (rows, first, bands[-1][1], apart)]
    ny, nx = (np.int32(number) for number in shape)

    def launch(u: Array, out: Array, r: np.floating[Any], edges: np.int32) -> None:
        """Launch the steps from `u` into `out`."""
        kernel((blocks,), (WARP,), (u, out, ny, nx, r, edges, *numbers))

    return launch


VARIANTS: dict[str, Callable[..., None]] = {"T-step": step}
