"""# float64 literals in a float32 kernel

**What you see.** The same result up to rounding, and a kernel that takes twice as long on a data-centre GPU, 32 to 64
times as long on others.

**Why.** In C a literal 0.75 is a double. float times double is double: the number is converted, multiplied and added
in float64, and converted back, in every step. Numba does the same with Python's numbers, and even with an int: an
int64 and a float32 make a float64.

**Instead.** Write 0.75f in C. In Numba pass constants as arguments of the array's type, or write np.float32(0.75). Look
at the machine code: a float32 kernel has no DMUL, DADD or DFMA.
"""

from __future__ import annotations

from time import perf_counter

import cupy as cp

from compute.ways.declaring import way

WRONG_CODE = r"""
extern "C" __global__ void relax(float* a, long long n)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i];
    for (int step = 0; step < 1000; step++)
        x = 0.75 * x + 0.5;
    a[i] = x;
}
"""
_relax_wrong = cp.RawKernel(WRONG_CODE, "relax")


@way("gpu_cupy_wrong")
def wrong(n: int = 1_000_000) -> dict[str, float]:
    """Literals without an f: each step converts to float64, computes there and converts back.

    Compute x = 3/4 x + 1/2 a thousand times for n numbers, which converge to 2.
    """
    a = cp.zeros(n, cp.float32)
    launch = (-(-n // 256),), (256,), (a, n)
    _relax_wrong(*launch)
    cp.cuda.get_current_stream().synchronize()
    start = perf_counter()
    _relax_wrong(*launch)
    cp.cuda.get_current_stream().synchronize()
    return {"microseconds": 1e6 * (perf_counter() - start), "result": float(a[0])}


RIGHT_CODE = r"""
extern "C" __global__ void relax(float* a, long long n)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i];
    for (int step = 0; step < 1000; step++)
        x = 0.75f * x + 0.5f;
    a[i] = x;
}
"""
_relax_right = cp.RawKernel(RIGHT_CODE, "relax")


@way("gpu_cupy_right")
def right(n: int = 1_000_000) -> dict[str, float]:
    """Literals with an f: everything is computed in float32.

    Compute x = 3/4 x + 1/2 a thousand times for n numbers, which converge to 2.
    """
    a = cp.zeros(n, cp.float32)
    launch = (-(-n // 256),), (256,), (a, n)
    _relax_right(*launch)
    cp.cuda.get_current_stream().synchronize()
    start = perf_counter()
    _relax_right(*launch)
    cp.cuda.get_current_stream().synchronize()
    return {"microseconds": 1e6 * (perf_counter() - start), "result": float(a[0])}
