// The Mandelbrot set in CUDA C: direct iteration. Compile with -DREAL=float|double.
//
// A thread owns a pixel, a warp 8 x 4 of them, which differ little in their counts. The arrays are those of state.py.

#include "pixels.cuh"

#define BLOCK 32  // steps between two escape tests; the block in which a point escapes is replayed step by step

__device__ __forceinline__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }

// z = z^2 + c: 3 fused multiply-adds and one addition.
__device__ __forceinline__ void step(REAL& x, REAL& y, REAL cr, REAL ci)
{
    const REAL t = fused(-y, y, cr), d = x + x;
    y = fused(d, y, ci);
    x = fused(x, x, t);
}

__device__ __forceinline__ bool bounded(REAL x, REAL y) { return fused(x, x, y * y) <= REAL(4); }

// Continues from z_n = x + iy until |z|^2 > 4, until z repeats, or until n = end. |z| > 2 grows without bound, inf and NaN
// included, so a test each BLOCK steps misses nothing. A z equal to an earlier one in every bit never escapes (Brent).
template <bool PERIODIC_TEST>
__device__ __forceinline__ int iterate(REAL& x, REAL& y, REAL cr, REAL ci, int& n, int end)
{
    REAL seen_x = x, seen_y = y;
    int age = 0, power = 1;
    while (n + BLOCK <= end) {
        const REAL begin_x = x, begin_y = y;
        #pragma unroll
        for (int k = 0; k < BLOCK; k++) step(x, y, cr, ci);
        if (!bounded(x, y)) {
            x = begin_x;
            y = begin_y;
            break;
        }
        n += BLOCK;
        if (PERIODIC_TEST) {
            if (x == seen_x && y == seen_y) return PERIODIC;
            if (++age == power) {
                seen_x = x;
                seen_y = y;
                age = 0;
                power *= 2;
            }
        }
    }
    #pragma unroll 1
    while (n < end) {
        step(x, y, cr, ci);
        n++;
        if (!bounded(x, y)) return ESCAPED;
    }
    return ACTIVE;
}

// One slice of the pixels of a part: see Part in state.py.
extern "C" __global__ void __launch_bounds__(256)
direct(const REAL* re, const REAL* im, REAL* z, int* count, float* smooth, unsigned long long* totals, REAL margin,
       int ny, int nx, int first, int last, int stride, int iterations, int limit, int top, int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    const Pixel p = find(part, count);
    int n = p.done, left = 0;
    if (p.wanted) {
        const size_t other = p.at + (size_t)part.ny * part.nx;
        const REAL cr = re[p.j], ci = im[p.i];
        REAL x = 0, y = 0;
        if (n > 0) {
            x = z[p.at];
            y = z[other];
        }
        const int end = min(n + part.iterations, part.limit);
        int found = PERIODIC;
        if (!part.shortcuts)
            found = iterate<false>(x, y, cr, ci, n, end);
        else if (n > 0 || !inside<REAL>(cr, ci, margin))
            found = iterate<true>(x, y, cr, ci, n, end);
        if (settle(part, p.at, n, found, count, smooth)) {
            z[p.at] = x;
            z[other] = y;
            left = n < part.limit;
        }
        if (found == ESCAPED) smooth[p.at] = smooth_count<REAL>(x, y, cr, ci, n);
    }
    add_up(totals, n - p.done, left);
}

// out (py, px) = every stride-th value of values (ny, nx), from (0, 0) on.
extern "C" __global__ void __launch_bounds__(256)
pick(const float* values, float* out, int nx, int px, int size, int stride)
{
    const int k = blockIdx.x * 256 + threadIdx.x;
    if (k < size) out[k] = values[(size_t)(k / px * stride) * nx + k % px * stride];
}
