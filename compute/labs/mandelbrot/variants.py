"""What each way to write the direct kernel costs, and why the slow ones are slow: for a reader, not for a kernel."""

from __future__ import annotations

from collections.abc import Mapping

FUSED, ADDED, REAL = "3 FMA + 1 ADD", "3 FMA + 1 integer ADD", "4 FMA"
EACH = "2 FMA + 3 MUL + 3 ADD + 1 comparison + 3 of the loop"
NUMBA_EACH = "3 FMA + 2 MUL + 2 ADD + 1 comparison + those of the loop"
HOST, HOST_EACH = "3 MUL + 4 ADD", "5 MUL + 5 ADD + 1 comparison"
POWER = "a call of pow, one of hypot"

REASONS: Mapping[str, str] = {
    "doubling by addition": (
        "Doubles by x + x. On Hopper a float32 addition goes to one of two pipes only, and a float64 one shares the "
        "pipe of the fused multiply-adds; 2x + 0 and an addition to the exponent do not."
    ),
    "test each step": (
        "Computes |z|² and compares after each step: 12 instructions or more where 4 do the work. A test of the last "
        "of many steps is enough, because |z| > 2 only grows. It shows where pixels stay long, little in 20 iterations."
    ),
    "float64 literals": (
        "Written with 2 and 4.0, which are float64: float32 numbers are then computed in float64, at half the rate on "
        "this kind of GPU and at 1/32 or 1/64 on others. In float64 it costs nothing."
    ),
    "complex z**2": (
        "z**2 is the general complex power and abs(z) a hypotenuse: hundreds of instructions a step. z * z would do."
    ),
}
"""By variant: why it is slow. The default has nothing to explain."""

_BOTH = ("float32", "float64")
MIX: Mapping[tuple[str, str, str], str] = {
    **{("cpu_numpy", "block", dtype): f"{HOST}, each an array operation" for dtype in _BOTH},
    **{("cpu_numba", "block", dtype): f"{HOST}, a test each 16 steps" for dtype in _BOTH},
    **{("cpu_numba", "test each step", dtype): f"{HOST_EACH}" for dtype in _BOTH},
    **{("cpu_numba", "complex z**2", dtype): POWER for dtype in _BOTH},
    **{("gpu_numba", "block", dtype): f"{FUSED}, a test each 16 steps" for dtype in _BOTH},
    **{("gpu_numba", "test each step", dtype): NUMBA_EACH for dtype in _BOTH},
    ("gpu_numba", "float64 literals", "float32"): f"{NUMBA_EACH}, all in float64",
    ("gpu_numba", "float64 literals", "float64"): NUMBA_EACH,
    **{("gpu_numba", "complex z**2", dtype): POWER for dtype in _BOTH},
    ("gpu_cupy", "block", "float32"): f"{REAL}, a test each 128 steps",
    ("gpu_cupy", "block", "float64"): f"{ADDED}, a test each 128 steps",
    **{("gpu_cupy", "doubling by addition", dtype): f"{FUSED}, a test each 32 steps" for dtype in _BOTH},
    **{("gpu_cupy", "test each step", dtype): EACH for dtype in _BOTH},
}
"""By backend, variant and dtype: the instructions of one step, counted in the machine code for sm_90 (GPU) or in the
source (host, where nothing is fused)."""
