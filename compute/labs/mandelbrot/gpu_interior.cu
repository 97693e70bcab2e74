// The multiplier of the attracting cycle in CUDA C, as formula.py, which has the reasons. A thread owns a pixel.

#define FIRST 16       // iterations before the first try
#define NEWTON 32      // steps at most
#define STILL2 1e-26   // squared length of a step after which there is nothing to gain
#define CLOSE2 1e-16   // of the last step of a cycle that is accepted, and squared distance of points that count as one
#define SLACK 1e-7     // by which rounding may lift |multiplier| above 1
#define NOTHING -1.0   // no cycle

struct Complex { double x, y; };

__device__ __forceinline__ double size2(Complex z) { return z.x * z.x + z.y * z.y; }
__device__ __forceinline__ Complex minus(Complex a, Complex b) { return {a.x - b.x, a.y - b.y}; }
__device__ __forceinline__ Complex step(Complex z, Complex c)
{
    return {__fma_rn(z.x, z.x, __fma_rn(-z.y, z.y, c.x)), __fma_rn(z.x + z.x, z.y, c.y)};
}

// One step, and the derivative of the steps so far: slope = 2 z slope.
__device__ __forceinline__ void step_with_slope(Complex& z, Complex& slope, Complex c)
{
    slope = {2 * (z.x * slope.x - z.y * slope.y), 2 * (z.x * slope.y + z.y * slope.x)};
    z = step(z, c);
}

// Moves z to the point near it that returns after `period` steps, by Newton's method; whether it converged.
__device__ bool settle_on(Complex& z, Complex c, int period)
{
    double move = 1;
    for (int k = 0; k < NEWTON && move > STILL2; k++) {
        Complex w = z, slope = {1, 0};
        #pragma unroll 1
        for (int n = 0; n < period; n++) step_with_slope(w, slope, c);
        const Complex off = minus(w, z), r = {slope.x - 1, slope.y};
        const double size = size2(r);
        if (!(size > 0 && size2(w) <= 16)) return false;  // no direction, or far away from every bounded orbit
        const Complex by = {(off.x * r.x + off.y * r.y) / size, (off.y * r.x - off.x * r.y) / size};
        z = minus(z, by);
        move = size2(by);
    }
    return move <= CLOSE2 && size2(z) <= 4;
}

// |product of 2 z| over the cycle of z, whose true period divides `period`; NOTHING if it does not attract.
__device__ double strength(Complex z, Complex c, int period)
{
    Complex w = z, slope = {1, 0};
    #pragma unroll 1
    for (int n = 0; n < period; n++) {
        step_with_slope(w, slope, c);
        if (size2(minus(w, z)) <= CLOSE2) break;
    }
    const double size = sqrt(size2(slope));
    return size <= 1 + SLACK ? min(size, 1.0) : NOTHING;
}

// Tries the periods up to `longest` after which the orbit comes closer to z than ever before.
__device__ double attraction(Complex z, Complex c, int longest)
{
    double best = 1e300;
    Complex w = z;
    for (int period = 1; period <= longest; period++) {
        w = step(w, c);
        const double apart = size2(minus(w, z));
        if (!(apart < best)) continue;
        best = apart;
        Complex at = z;
        const double size = settle_on(at, c, period) ? strength(at, c, period) : NOTHING;
        if (size >= 0) return size;
    }
    return NOTHING;
}

// re (nx), im (ny): parts of c. count, out (ny, nx).
extern "C" __global__ void __launch_bounds__(128)
multiplier(const double* re, const double* im, const int* count, float* out, int ny, int nx, int max_iterations,
           int settle, int longest)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= ny || j >= nx) return;
    const size_t at = (size_t)i * nx + j;
    double size = NOTHING;
    if (count[at] == max_iterations) {
        const Complex c = {re[j], im[i]};
        Complex z = {0, 0};
        for (int n = 0, wanted = FIRST; n < settle && size < 0; wanted *= 2) {
            const int stop = min(wanted, settle);
            for (; n < stop; n++) z = step(z, c);
            if (!(size2(z) <= 4)) break;
            size = attraction(z, c, min(longest, n));
        }
    }
    out[at] = size < 0 ? nanf("") : (float)size;
}
