// One step in type REAL and its escape test, for the fast and the slow direct kernels.

__device__ __forceinline__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }

__device__ __forceinline__ bool bounded(REAL x, REAL y) { return fused(x, x, y * y) <= REAL(4); }

struct Plain {};

// z = z^2 + c: 3 fused multiply-adds and one addition.
__device__ __forceinline__ void step(Plain, REAL& x, REAL& y, REAL cr, REAL ci)
{
    const REAL t = fused(-y, y, cr), d = x + x;
    y = fused(d, y, ci);
    x = fused(x, x, t);
}
