"""CUDA C kernels on the CPU: results are right, and exactly the faults are detected in every order."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from compute.own import cuda_on_cpu
from compute.own.cuda_on_cpu import MOST_SHARED, CpuBuild, CudaOnCpu, KernelRefused, NoCompiler
from compute.own.watch import AccessWatch, Order

SOURCE = r"""
#include <cstdint>
template <bool waits> __device__ float mirrored(float x)
{ __shared__ __align__(16) float kept[64]; kept[threadIdx.x] = x; if (waits) __syncthreads();
  return kept[63 - threadIdx.x]; }
extern "C" {
__global__ void plain(const float* x, float* out, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = 2 * x[i]; }
__global__ void no_tail(const float* x, float* out, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = 2 * x[i]; }
__global__ void before(float* x, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i - 1] = 1; }
__global__ void atomic(const float* x, int* counts, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) atomicAdd(&counts[int(x[i] * 16)], 1); }
__global__ void no_atomic(const float* x, int* counts, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) counts[int(x[i] * 16)] += 1; }
__global__ void cleared_late(const float* x, int* counts, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < 16) counts[i] = 0;
  if (i < n) atomicAdd(&counts[int(x[i] * 16)], 1); }
__global__ void flag(const float* x, int* found, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && x[i] >= 0) *found = 1; }
__global__ void last_wins(const float* x, int* found, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) *found = i; }
__global__ void last_block_wins(int* found)
{ if (threadIdx.x == 0) *found = blockIdx.x; }
__global__ void turned(float* x)
{ __shared__ float tile[64]; int i = threadIdx.x; tile[i] = x[i]; __syncthreads(); x[i] = tile[63 - i]; }
__global__ void static_turned(float* x)
{ static __shared__ float t[64]; int i = threadIdx.x; t[i] = x[i]; __syncthreads(); x[i] = t[63 - i]; }
__global__ void volatile_turned(float* x)
{ volatile __shared__ float t[64]; int i = threadIdx.x; t[i] = x[i]; __syncthreads(); x[i] = t[63 - i]; }
__global__ void turned_early(float* x)
{ __shared__ float tile[64]; int i = threadIdx.x; tile[i] = x[i]; x[i] = tile[63 - i]; }
__global__ void in_template(float* x) { x[threadIdx.x] = mirrored<true>(x[threadIdx.x]); }
__global__ void in_template_early(float* x) { x[threadIdx.x] = mirrored<false>(x[threadIdx.x]); }
__device__ __forceinline__ float first(float x)
{ __shared__ float kept; if (threadIdx.x == 0) kept = x; __syncthreads(); return kept; }
__global__ void from_first(float* x)
{ __shared__ float tile[64]; tile[threadIdx.x] = first(x[threadIdx.x]); x[threadIdx.x] = tile[threadIdx.x]; }
__global__ void pairs(const float2* x, float* out, const int* none)
{ int i = threadIdx.x; out[i] = x[i].x + x[i].y + (none ? none[i] : 0); }
__global__ void in_place(float* x, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i > 0 && i < n) x[i] = x[i - 1]; }
__global__ void sum(const float* x, float* out, int n)
{ extern __shared__ float part[]; int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
  part[t] = i < n ? x[i] : 0; __syncthreads();
  for (int k = blockDim.x / 2; k >= 32; k /= 2) { if (t < k) part[t] += part[t + k]; __syncthreads(); }
  float mine = part[t % 32]; for (int k = 16; k; k /= 2) mine += __shfl_down_sync(0xffffffff, mine, k);
  if (t == 0) atomicAdd(out, mine); }
__global__ void too_little_shared(float* x)
{ extern __shared__ float part[]; part[threadIdx.x] = x[threadIdx.x]; }
__global__ void stuck(float* x) { if (threadIdx.x < 16) __syncthreads(); else __shfl_down_sync(0xffffffff, x[0], 1); }
__global__ void rows(const float* x, float* out, int width)
{ for (int k = 0; k < width; k++) out[threadIdx.x * width + k] = x[threadIdx.x * width + k]; }
__global__ void columns(const float* x, float* out, int width)
{ for (int k = 0; k < width; k++) out[k * blockDim.x + threadIdx.x] = x[k * blockDim.x + threadIdx.x]; }
__global__ void volume(int* out)
{ int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[blockIdx.z * 24 + i] = threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z; }
}
"""
N = 333


@pytest.fixture(scope="module")
def module():
    return CudaOnCpu(SOURCE, "source.cu")


@pytest.fixture
def x():
    return np.random.default_rng(1).random(N, dtype=np.float32)


def launch(module, kernel, grid, block, *arguments, order=Order.given, **more):
    with AccessWatch.watching(order, seed=3) as watch:
        module.get_function(kernel)((grid,), (block,), arguments, **more)
    (one,) = watch.launches
    return one


@pytest.mark.parametrize("order", Order)
class TestEachOrder:
    def test_right_kernels_are_right_and_have_no_fault(self, module, x, order):
        out, counts = np.zeros_like(x), np.zeros(16, np.int32)
        assert launch(module, "plain", 3, 128, x, out, N, order=order).fault is None
        np.testing.assert_array_equal(out, 2 * x)
        assert launch(module, "atomic", 3, 128, x, counts, N, order=order).fault is None
        np.testing.assert_array_equal(counts, np.histogram(x, 16, (0, 1))[0])
        some = x[:64].copy()
        assert launch(module, "turned", 1, 64, some, order=order).fault is None
        np.testing.assert_array_equal(some, x[:64][::-1])
        total = np.zeros(1, np.float32)
        assert launch(module, "sum", 3, 128, x, total, N, order=order, shared_mem=512).fault is None
        assert total[0] == pytest.approx(x.sum(dtype=np.float64), rel=1e-6)
        assert launch(module, "flag", 3, 128, x, np.zeros(1, np.int32), N, order=order).fault is None

    @pytest.mark.parametrize(
        ("kernel", "kind"),
        [("no_tail", "outside"), ("no_atomic", "race"), ("cleared_late", "race"), ("last_wins", "race")],
    )
    def test_faults_between_threads_are_noticed(self, module, x, order, kernel, kind):
        out = np.zeros(N, np.float32 if kernel == "no_tail" else np.int32)
        assert launch(module, kernel, 3, 128, x, out, N, order=order).fault[0] == kind

    def test_a_missing_barrier_and_reading_a_neighbour_in_place_are_races(self, module, x, order):
        assert launch(module, "turned_early", 1, 64, x[:64].copy(), order=order).fault[0] == "race"
        assert launch(module, "in_place", 3, 128, x, N, order=order).fault[0] == "race"

    def test_shared_memory_of_a_template_is_watched(self, module, x, order):
        some = x[:64].copy()
        assert launch(module, "in_template", 1, 64, some, order=order).fault is None
        np.testing.assert_array_equal(some, x[63::-1])
        kind, text = launch(module, "in_template_early", 1, 64, some, order=order).fault
        assert kind == "race"
        assert "shared memory" in text

    def test_blocks_are_never_ordered(self, module, order):
        found = np.full(1, -1, np.int32)
        kind, text = launch(module, "last_block_wins", 2, 64, found, order=order).fault
        assert kind == "race"
        assert re.search(r"thread 0 of block [01] writes found\[0\], thread 0 of block [01] writes it", text)


def test_shared_memory_may_be_static_or_volatile_and_of_an_inline_function(module, x):
    for kernel in ("static_turned", "volatile_turned"):
        some = x[:64].copy()
        assert launch(module, kernel, 1, 64, some).fault is None
        np.testing.assert_array_equal(some, x[63::-1])
    assert launch(module, "from_first", 1, 64, some).fault is None
    assert (some == x[63]).all()


def test_vector_types_are_laid_over_an_array_and_zero_is_a_null_pointer(module, x):
    out = np.zeros(8, np.float32)
    assert launch(module, "pairs", 1, 8, x[:16].copy(), out, 0).fault is None
    np.testing.assert_array_equal(out, x[:16:2] + x[1:16:2])


def test_unwatched_kernels_use_the_arrays_themselves_and_count_nothing(x, tmp_path):
    """A further process uses the compiled files."""
    for _ in range(2):
        module = CudaOnCpu(SOURCE, "source.cu", (), CpuBuild(watched=False, kept=tmp_path))
        out = np.zeros_like(x)
        found = launch(module, "plain", 3, 128, x, out, N)
        np.testing.assert_array_equal(out, 2 * x)
        assert (found.fault, found.reads, found.writes) == (None, 0, 0)
        assert launch(module, "stuck", 1, 32, x).fault[0] == "stuck"
        assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(KernelRefused, match="has gaps"):
        launch(module, "plain", 1, 64, x[::2], out, 64)


def test_an_access_outside_is_located_and_has_no_effect(module, x):
    out = np.zeros_like(x)
    fault = launch(module, "no_tail", 3, 128, x, out, N).fault
    assert fault == ("outside", "no_tail: thread 77 of block 2 reads x[333], but x has 333 elements")  # 2 x 128 + 77
    np.testing.assert_array_equal(out, 2 * x)
    _, text = launch(module, "before", 3, 128, x, N).fault
    assert "thread 0 of block 0 writes x[-1]" in text
    assert launch(module, "too_little_shared", 1, 64, x, shared_mem=128).fault[0] == "outside"


def test_threads_that_wait_for_each_other_are_a_fault_without_effect_on_later_launches(module, x):
    """The threads' stacks are reused by later launches, but not in the middle of another kernel."""
    _, text = launch(module, "stuck", 1, 32, x).fault
    assert text == "stuck: thread 0 of block 0 waits at a barrier that other threads never reach"
    some = x[:64].copy()
    assert launch(module, "turned", 1, 64, some).fault is None
    np.testing.assert_array_equal(some, x[:64][::-1])


def test_accesses_and_sectors_are_counted(module):
    x, out = np.zeros(32 * 8, np.float32), np.zeros(32 * 8, np.float32)
    rows, columns = (launch(module, kernel, 1, 32, x, out, 8) for kernel in ("rows", "columns"))
    assert (rows.reads, rows.writes, rows.accesses) == (256, 256, 16)
    assert columns.sectors == 16 * 4  # 32 lanes of 4 bytes, 32 bytes a sector
    assert rows.sectors == 16 * 32  # each lane in a separate sector


def test_blocks_and_threads_have_three_dimensions(module):
    out = np.full(48, -1, np.int32)
    module.get_function("volume")((1, 1, 2), (2, 3, 4), (out,))
    z, y, x = np.mgrid[:4, :3, :2]
    np.testing.assert_array_equal(out.reshape(2, 24), [(x + 10 * y + 100 * z).ravel()] * 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda x: (x, x), "plain has 3 parameters and was given 2"),
        (lambda x: (x, x.astype(np.float64), N), "argument 2 (out) of plain points to 32-bit real numbers"),
        (lambda x: (x, x, 1.0), "argument 3 (n) of plain is a whole number of 4 bytes, and was given 1.0"),
        (lambda x: (x, 3, N), "argument 2 (out) of plain is a pointer, and was given 3"),
        (lambda x: (x, x, x), "argument 3 (n) of plain is a number, and was given an array"),
    ],
)
def test_arguments_that_do_not_fit_are_named(module, x, arguments, message):
    with pytest.raises(KernelRefused) as refused:
        launch(module, "plain", 3, 128, *arguments(x))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("__popcll(0xF0F0ULL << 32)", 8),
        ("__clzll(1LL << 40)", 23),
        ("__brev(6u) >> 28", 6),  # 0110 reversed is 0110
        ("__umulhi(3000000000u, 3000000000u)", 3_000_000_000**2 >> 32),
        ("__mulhi(-2000000000, 2000000000)", -(2_000_000_000**2) >> 32),
        ("sinpi(0.25)", math.sqrt(0.5)),
        ("sinpi(1e15)", 0.0),
        ("cospi(-1.75)", math.sqrt(0.5)),
        ("cospif(0.5f)", 0.0),
        ("norm3d(2.0, 3.0, 6.0)", 7.0),
        ("__reduce_add_sync(~0u, int(threadIdx.x))", 496),
        ("__reduce_min_sync(~0u, 7 - int(threadIdx.x))", -24),
        ("make_uint4(1, 2, 3, 4).w + dim3(blockDim).x + dim3(5).y", 37),
        ("clock64() != clock64()", 1),
    ],
)
def test_built_in_functions(expression, value):
    code = f'extern "C" __global__ void k(double* out) {{ double got = {expression}; if (!threadIdx.x) *out = got; }}'
    out = np.zeros(1)
    CudaOnCpu(code, "built_in.cu").get_function("k")((1,), (32,), (out,))
    np.testing.assert_allclose(out, [value], rtol=1e-15, atol=1e-15)


def test_sources_that_cannot_be_compiled_and_launches_beyond_the_limits_are_refused(module):
    with pytest.raises(KernelRefused, match=r"own\.cu:2:.*error"):
        CudaOnCpu('extern "C" __global__ void k(float* x)\n{ x[0] = y; }', "own.cu")
    with pytest.raises(KernelRefused, match=r"own\.cu has no kernel: "):
        CudaOnCpu("void k() {}", "own.cu")
    with pytest.raises(KernelRefused, match=r"source\.cu has no kernel 'other'; it has plain, "):
        module.get_function("other")
    one = np.zeros(1, np.float32)
    with pytest.raises(KernelRefused, match="may have 1024 threads, not 2048"):
        module.get_function("turned")((1,), (2048,), (one,))
    with pytest.raises(KernelRefused, match="from 0 to 262144 bytes, not 262145"):
        module.get_function("too_little_shared")((1,), (1,), (one,), shared_mem=MOST_SHARED + 1)


def test_a_missing_compiler_is_reported(monkeypatch):
    monkeypatch.setattr(cuda_on_cpu, "COMPILERS", ())
    monkeypatch.delenv("CXX", raising=False)
    cuda_on_cpu.compiler.cache_clear()
    try:
        with pytest.raises(NoCompiler, match="there is no C"):
            CudaOnCpu('extern "C" __global__ void k(float* x) {}', "own.cu")
    finally:
        cuda_on_cpu.compiler.cache_clear()
