"""Equations in Numba on all cores: the rows are shared among threads, the cells of a row become vector instructions.

If the plan permits it, fields are computed in tiles that stay in a core's cache, several steps in one pass through
memory and with one start of the threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numba import config, from_dtype, int64, njit, typeof
from numpy.typing import NDArray

from compute.devices import numba_threads
from compute.devices.devices import Array
from compute.labs.equations.forms import Program
from compute.labs.equations.forms.numba_steps_form import MOST_STEPS, CacheTiling, arrays_read
from compute.labs.equations.kept import module_of
from compute.labs.equations.stepping import Launch, State, advance

numba_threads.choose_layer()

PROBE = 64, 512  # cells whose passes determine the time per cell: small grids run on one thread
PROBE_STEPS = 4  # of a pass in tiles
VECTOR = 64  # bytes to which a tile is aligned

_kept = threading.local()  # memory: of the tiles in the last call of this thread


def step(program: Program, state: State, numbers: Mapping[str, float], dt: float, steps: int) -> None:
    """Advance `state` by `steps` >= 1 steps of dt.

    state: of stepping.begin for `program`, float32 or float64, any shape from 1 x 1; numbers: the value of each
    parameter. The first call with a program compiles it, if neither this process nor an earlier one has.
    """
    if program.cache_tiling(state.dtype.name) is None:
        one_step(program, state, numbers, dt, steps)
    else:
        many_steps(program, state, numbers, dt, steps)


def many_steps(program: Program, state: State, numbers: Mapping[str, float], dt: float, steps: int) -> None:
    """Advance as `step`, in tiles; `program` must have a cache_tiling. The results are equal bit for bit."""
    dtype = state.dtype.name
    kernel, tiling = program.kept(("numba tiles", dtype), lambda: _tile_kernel(program, dtype))
    seconds = program.kept(("numba tile seconds", dtype), lambda: _tile_seconds(program, kernel, tiling, dtype))
    (ny, nx), (passed,) = state.shape, program.kernels
    passes = -(-steps // MOST_STEPS)
    with numba_threads.shared(seconds * ny * nx * steps / passes, passes) as threads:
        size = tiling.cut(ny, nx, threads)
        tiles = -(-ny // size[0]) * -(-nx // size[1])
        memory = _memory(min(threads, tiles), tiling.arrays * tiling.array_cells, state.dtype)

        def launch(_: int, read: Sequence[Array], written: Sequence[Array], scalars: Sequence[Any]) -> None:
            """Compute a pass."""
            inputs = dict(zip(passed.cell.sources, read, strict=True))
            outputs = dict(zip(passed.cell.targets, written, strict=True))
            arrays = *(inputs[name] for name in arrays_read(passed)), *(outputs[name] for name in program.system.fields)
            kernel(*arrays, memory, *size, count, *scalars)

        for k in range(passes):
            count = (k + 1) * steps // passes - k * steps // passes
            advance(program, launch, state, numbers, dt, count, count)


def one_step(program: Program, state: State, numbers: Mapping[str, float], dt: float, steps: int) -> None:
    """Advance as `step`, with a pass through memory for each step."""
    dtype = state.dtype.name
    launch = program.kept(("numba kernels", dtype), lambda: _kernels(program, dtype))
    seconds = program.kept(("numba seconds", dtype), lambda: _seconds(program, launch, dtype))
    regions = steps * len(program.plan.stages) * len(program.kernels)
    ny, nx = state.shape
    with numba_threads.shared(seconds * ny * nx, regions):
        advance(program, launch, state, numbers, dt, steps)


def load(program: Program, variant: str, dtype: str, index: int) -> None:
    """Load the kernels of a program from the cache, or compile them. index: number of the GPU."""
    if VARIANTS.get(variant) is one_step or program.cache_tiling(dtype) is None:
        program.kept(("numba kernels", dtype), lambda: _kernels(program, dtype))
    else:
        program.kept(("numba tiles", dtype), lambda: _tile_kernel(program, dtype))


def target(index: int) -> str | None:
    """Return the processor for which kernels are compiled: "", because Numba's cache distinguishes processors."""
    return ""


def build(program: Program, variant: str, dtype: str, target: str) -> None:
    """Compile the kernels of a program into the cache, for the processor `target`."""
    load(program, variant, dtype, 0)


def warm_up() -> None:
    """Compile a short function: a process's first compilation by Numba takes 0.5 s of processor time longer."""
    if not config.DISABLE_JIT:
        njit(lambda x: x).compile((int64,))


def _kernels(program: Program, dtype: str) -> Launch:
    (text,) = program.sources("numba", dtype)
    functions = [getattr(module_of(text), each.step_name) for each in program.kernels]
    for function, each in zip(functions, program.kernels, strict=True):
        real, array = from_dtype(np.dtype(dtype)), typeof(np.empty((1, 1), dtype))
        _compile(function, [array] * len(each.read + each.written) + [real] * len(each.cell.numbers))

    def launch(k: int, read: Sequence[Array], written: Sequence[Array], scalars: Sequence[Any]) -> None:
        """Compute pass k."""
        functions[k](*read, *written, *scalars)

    return launch


def _seconds(program: Program, launch: Launch, dtype: str) -> float:
    """Return the seconds that one thread needs for a pass, per cell."""

    def probe() -> None:
        """Compute each pass of a small grid."""
        for k, each in enumerate(program.kernels):
            read, written = ([np.ones(PROBE, dtype) for _ in names] for names in (each.read, each.written))
            launch(k, read, written, [np.dtype(dtype).type(1)] * len(each.cell.numbers))

    return numba_threads.seconds_alone(probe) / (np.prod(PROBE) * len(program.kernels))


def _tile_kernel(program: Program, dtype: str) -> tuple[Callable[..., None], CacheTiling]:
    """Return the kernel of tiles, and their sizes."""
    tiling = program.cache_tiling(dtype)
    assert tiling is not None  # noqa: S101 - the caller's condition
    kernel: Callable[..., None] = module_of(program.steps_source("numba", dtype)).many_steps
    arrays, memory, scalars = _tile_arguments(program, tiling, dtype)
    _compile(kernel, [*map(typeof, (*arrays, memory)), *[int64] * 3, *map(typeof, scalars)])
    return kernel, tiling


def _tile_seconds(program: Program, kernel: Callable[..., None], tiling: CacheTiling, dtype: str) -> float:
    """Return the seconds that one thread needs for a step in tiles, per cell."""
    arrays, memory, scalars = _tile_arguments(program, tiling, dtype)
    size = tiling.cut(*PROBE, 1)
    seconds = numba_threads.seconds_alone(lambda: kernel(*arrays, memory, *size, PROBE_STEPS, *scalars))
    return seconds / (np.prod(PROBE) * PROBE_STEPS)


def _tile_arguments(program: Program, tiling: CacheTiling, dtype: str) -> tuple[list[Any], NDArray[Any], list[Any]]:
    """Return arrays of PROBE cells, the memory of a tile, and numbers, for a call of the kernel of tiles."""
    arrays = [np.ones(PROBE, dtype) for _ in range(tiling.arrays + len(program.system.fields))]
    memory = _memory(1, tiling.arrays * tiling.array_cells, np.dtype(dtype))
    return arrays, memory, [np.dtype(dtype).type(1)] * len(program.kernels[0].cell.numbers)


def _compile(function: Any, types: Sequence[Any]) -> None:
    """Compile a kernel for arguments of these types, or load it from the cache."""
    if not config.DISABLE_JIT:
        function.compile(tuple(types))


def _memory(threads: int, cells: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return two tiles for each thread, aligned for vectors; kept until a call of this thread needs another shape."""
    like = threads, cells, dtype
    if getattr(_kept, "like", None) != like:
        found = np.zeros(2 * threads * cells + VECTOR // dtype.itemsize, dtype)
        begin = -found.ctypes.data % VECTOR // dtype.itemsize
        _kept.like, _kept.memory = like, found[begin : begin + 2 * threads * cells].reshape(threads, 2, cells)
    memory: NDArray[Any] = _kept.memory
    return memory


VARIANTS: dict[str, Callable[..., None]] = {"T-step": step, "one-step": one_step}
QUICK = "one-step"  # compiles in half the time of the kernel of tiles
