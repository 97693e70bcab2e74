// Slow on purpose, in CUDA C: same counts as `direct` in gpu_cupy.cu, no shortcuts. Compile with -DREAL=float|double.

#include "pixels.cuh"
#include "step.cuh"

#define BLOCK 32  // steps between two tests of `additions`

// The textbook's loop: a test after each step.
struct EachStep {};

// A test once a block of steps, doubling by x + x: 3 fused multiply-adds and one addition, which in float64 takes the
// same unit as they do.
struct Additions {};

__device__ __forceinline__ int iterate(EachStep, REAL& x, REAL& y, REAL cr, REAL ci, int& n, int end)
{
    #pragma unroll 1
    while (n < end) {
        const REAL t = x * x - y * y + cr;
        y = REAL(2) * x * y + ci;
        x = t;
        n++;
        if (x * x + y * y > REAL(4)) return ESCAPED;
    }
    return ACTIVE;
}

__device__ __forceinline__ int iterate(Additions, REAL& x, REAL& y, REAL cr, REAL ci, int& n, int end)
{
    #pragma unroll 1
    while (n + BLOCK <= end) {
        REAL a = x, b = y;
        #pragma unroll
        for (int k = 0; k < BLOCK; k++) step(Plain(), a, b, cr, ci);
        if (!bounded(a, b)) break;
        x = a;
        y = b;
        n += BLOCK;
    }
    #pragma unroll 1
    while (n < end) {
        step(Plain(), x, y, cr, ci);
        n++;
        if (!bounded(x, y)) return ESCAPED;
    }
    return ACTIVE;
}

template <class Way>
__device__ __forceinline__ void slice(const REAL* re, const REAL* im, REAL* z, int* count, float* smooth,
                                      unsigned long long* totals, const Part& part)
{
    const Pixel p = find(part, count);
    int n = p.done, left = 0;
    if (p.wanted) {
        const REAL cr = re[p.j], ci = im[p.i];
        REAL x = 0, y = 0;
        if (n > 0) {
            x = z[p.at];
            y = z[p.at + part.ny * part.nx];
        }
        const int found = iterate(Way(), x, y, cr, ci, n, min(n + part.iterations, part.limit));
        if (settle(part, p.at, n, found, count, smooth)) {
            z[p.at] = x;
            z[p.at + part.ny * part.nx] = y;
            left = n < part.limit;
        }
        // not smooth_value: what follows a loop changes how the compiler contracts it
        if (found == ESCAPED) smooth[p.at] = smooth_count<REAL>(x, y, cr, ci, n);
    }
    add_up(totals, n - p.done, left);
}

extern "C" __global__ void __launch_bounds__(THREADS)
each_step(const REAL* re, const REAL* im, REAL* z, int* count, float* smooth, unsigned long long* totals, REAL margin,
          int ny, int nx, int first, int last, int stride, int iterations, int limit, int top, int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    slice<EachStep>(re, im, z, count, smooth, totals, part);
}

extern "C" __global__ void __launch_bounds__(THREADS)
additions(const REAL* re, const REAL* im, REAL* z, int* count, float* smooth, unsigned long long* totals, REAL margin,
          int ny, int nx, int first, int last, int stride, int iterations, int limit, int top, int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    slice<Additions>(re, im, z, count, smooth, totals, part);
}
