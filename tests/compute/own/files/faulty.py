"""Two right ways, and one way for each possible failure."""

import ctypes
import time

import numpy as np

from compute.own import way, workload


@workload(sizes=(10, 3000))
def numbers(n, dtype, rng):
    return rng.random(n, dtype=dtype)


@way("cpu_numpy", reference=True)
def doubled(x):
    return 2 * x


@way("cpu_numpy_into")
def doubled_into(x, out):
    np.multiply(x, 2, out)


@way("cpu_numpy_forever")
def forever(x):
    while True:
        time.sleep(0.05)


@way("cpu_numpy_segfault")
def segfault(x):
    ctypes.string_at(8)


@way("cpu_numpy_memory")
def memory(x):
    return np.ones(3 * 2**27)[: len(x)]  # 3 GiB


@way("cpu_numpy_exit")
def leaves(x):
    raise SystemExit


@way("cpu_numpy_large")
def wrong_if_large(x):
    return 2 * x + (x.size > 1000)


@way("cpu_awkward_absent")
def absent(x):
    import no_such_library_for_fieldlab

    return no_such_library_for_fieldlab.double(x)


@way("gpu_cupy_syntax")
def wrong_syntax(x, out):
    import cupy

    cupy.RawKernel('extern "C" __global__ void k(float* x) { x[0] = y; }', "k")((1,), (1,), (x,))
