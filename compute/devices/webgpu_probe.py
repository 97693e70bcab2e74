"""Measurements of a GPU of WebGPU by kernels of webgpu_probe.wgsl: copies, multiply-adds and subgroups."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from compute.devices.webgpu_passes import WORD, Gpu, TimestampStopwatch, WallStopwatch, WgpuArray
from compute.devices.wgsl import WgslProgram, folded, kernel

UNROLLED = 16  # multiply-adds in a round, on each of NUMBERS numbers of a thread
NUMBERS, THREADS = 4, 256  # as in webgpu_probe.wgsl
SUBGROUP_THREADS = 128  # as in webgpu_subgroups.wgsl; the largest subgroup that WebGPU knows
GROUPS = 1024  # workgroups of a measurement: enough for every GPU
LONGEST, RESOLUTION = 1.5, 1e-3  # a timestamp may exceed the host's time by this factor and these seconds
VECTOR = 4 * WORD  # bytes


def _program(element: str) -> WgslProgram:
    return WgslProgram(Path(__file__).with_suffix(".wgsl"), (("UNROLLED", UNROLLED), ("TYPE", element)), exact=0)


_SUBGROUPS = WgslProgram(Path(__file__).with_name("webgpu_subgroups.wgsl"), exact=0)
_WORDS, _VECTORS = _program("u32"), _program("vec4<u32>")


def copy(source: WgpuArray, target: WgpuArray) -> None:
    """Copy the words of `source` to `target`, by a kernel. They may be parts of buffers, but not of the same."""
    starts = [each.offset * each.dtype.itemsize for each in (source, target)]
    whole = all(nbytes % VECTOR == 0 for nbytes in (source.nbytes, *starts))
    program, size = (_VECTORS, VECTOR) if whole else (_WORDS, WORD)
    count = -(-source.nbytes // size)
    numbers = np.uint32(count), *(np.uint32(start // size) for start in starts)
    unused = np.uint32(0), np.float32(0), np.float32(0)
    grid = folded(-(-count // THREADS))
    kernel(source.gpu, program, "copy")(grid, [source.storage, target.storage], *numbers, *unused)


def count(rounds: int) -> int:
    """Return the number of multiply-adds of a launch of `multiply_adds`."""
    return GROUPS * THREADS * rounds * UNROLLED * NUMBERS


def multiply_adds(out: WgpuArray, rounds: int) -> None:
    """Launch chains of float32 multiply-adds in GROUPS workgroups. out: float32 (n,), results."""
    numbers = np.uint32(out.size), np.uint32(0), np.uint32(0), np.uint32(rounds), np.float32(0.5), np.float32(0.25)
    kernel(out.gpu, _WORDS, "fma_chains")((GROUPS,), [out.gpu.padding(0), out.storage], *numbers)


def subgroup_of(gpu: Gpu) -> int:
    """Return the threads of a subgroup if workgroups are divided into subgroups in order, else 0."""
    found = WgpuArray(gpu.storage(WORD * SUBGROUP_THREADS), (SUBGROUP_THREADS,), np.dtype(np.uint32))
    kernel(gpu, _SUBGROUPS, "sizes")((1,), [found.storage])
    with gpu.lock, gpu.errors():
        gpu.submit()
        sizes = np.frombuffer(gpu.device.queue.read_buffer(found.storage.buffer), np.uint32)
    return int(sizes[0]) if (sizes == sizes[0]).all() else 0


def time_is_plausible(gpu: Gpu, nbytes: int) -> bool:
    """Whether the timestamps around a copy of `nbytes` bytes are positive and not longer than the host's time."""
    source, target = (WgpuArray(gpu.storage(nbytes), (nbytes,), np.dtype(np.uint8)) for _ in range(2))
    copy(source, target)  # compiles
    with WallStopwatch(gpu) as wall, TimestampStopwatch(gpu) as watch:
        copy(source, target)
    return 0 < watch.seconds() <= LONGEST * wall.seconds() + RESOLUTION
