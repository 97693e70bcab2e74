// The Mandelbrot set in CUDA C: direct iteration. Compile with -DREAL=float|double.
//
// A thread owns a pixel, a warp 8 x 4 of them, which differ little in their counts. The arrays are those of state.py.
//
// The lesson's scene, 3000 x 2000 pixels and 20 iterations, on an H200, in us, float32 / float64:
//   as it is                                                   53 / 62
//   without smooth counts                                      46 / 54   the lesson's own kernels have none either
//   by tiles, each pixel from a count of its own               42 / 51   its steps unrolled 46 / 57, predicated 51 / 58
//   with smooth counts likewise, tiles of 8, of 4           54 52 / 67 63
//   by tiles of fresh pixels: `few`, with smooth counts        41 / 56   rounds unrolled, a case each: 44 / 54
//   float64 on an H100, 55.4 like that; converting nothing, as it is now: 47.2. Left for float32 at |z| = 2.25 instead of
//   4: 56.2; by integer operations 57.7; which step left found in float32 first, counts 44.5 where `few_counts` has 38.2
//   `few_counts`, without                                      32 / 40   c_im tested for every row: 32 / 45
//   without smooth counts and totals                           43 / 50
//   its 46 875 blocks, empty                                   31 / 31   but blocks of 256 gain nothing any more
//   tests of |z|^2 as integers, off the FP64 pipe              58 / 63   with totals added up a block: 58 / 62 without
//   the last steps kept, to find the one that left             57 / 61   likewise; the interior view 8 % slower
//   2, 4, 8 pixels a thread, one after the other       53 51 52 / 63 62 62   the interior view 3 to 6 % slower

#include "pixels.cuh"
#include "step.cuh"

// Steps between two escape tests. A point that stays in goes from SHORT to MIDDLE after EARLY steps and to LONG after
// SOON more; one that leaves in a long block goes back to its begin and takes shorter ones, at last single steps.
#define SHORT 4
#define MIDDLE 32
#define LONG 128
#define EARLY 16
#define SOON 256

struct Quick {};

// The bits of a Plain step for less: the doubling leaves the busiest unit. FFMA may go to either FP32 pipe, FADD to one.
__device__ __forceinline__ void step(Quick, float& x, float& y, float cr, float ci)
{
    const float t = fused(-y, y, cr), d = fused(x, 2.0f, 0.0f);
    y = fused(d, y, ci);
    x = fused(x, x, t);
}

// In float64 the exponent of xy + c_im / 2 is raised by one: an integer addition beside three on the FP64 pipe. That is
// doubling wherever it matters. Exponent field 0: 0 becomes 2e-308 (see `usual`). 0x7fe: the double is not a float64, and
// what comes out is inf or NaN, both beyond |z| = 2. 0x7ff, inf or NaN already: the addition runs into the sign and gives
// 0 or next to it, but then |x y| has reached 2^1024 (c_im / 2 of an image is no match for 2^970), so that |x| or |y| has
// reached 2^512, its square is inf, and x becomes inf or NaN; it never comes back from there, whatever y is, so the test
// at the end of the block sees it. Tested in test_overflow.py with c = 1e154 (1 +- 2^-52) and 3 + 3i.
__device__ __forceinline__ void step(Quick, double& x, double& y, double cr, double ci)
{
    const double t = fused(-y, y, cr), half = fused(x, y, 0.5 * ci);
    x = fused(x, x, t);
    y = __hiloint2double(__double2hiint(half) + 0x100000, __double2loint(half));
}

// Whether Quick may be used. In float64 it takes 0 for 2e-308, which the next ci swallows unless that is as small.
__device__ __forceinline__ bool usual(float) { return true; }
__device__ __forceinline__ bool usual(double ci) { return fabs(ci) > 1e-280; }

// SIZE steps, or none if they would leave; false then. |z| > 2 grows without bound, inf and NaN included, so one test at
// the end misses nothing.
template <class Kind, int SIZE>
__device__ __forceinline__ bool leap(REAL& x, REAL& y, REAL cr, REAL ci)
{
    REAL a = x, b = y;
    #pragma unroll
    for (int k = 0; k < SIZE; k++) step(Kind(), a, b, cr, ci);
    if (!bounded(a, b)) return false;
    x = a;
    y = b;
    return true;
}

// Blocks of SIZE steps while they fit in before `end`; false if the next one leaves.
template <class Kind, int SIZE>
__device__ __forceinline__ bool blocks(REAL& x, REAL& y, REAL cr, REAL ci, int& n, int end)
{
    #pragma unroll 1
    while (n + SIZE <= end) {
        if (!leap<Kind, SIZE>(x, y, cr, ci)) return false;
        n += SIZE;
    }
    return true;
}

// The same until z repeats: a z equal to an earlier one in every bit never escapes (Brent). Returns whether it does.
template <class Kind, int SIZE>
__device__ __forceinline__ bool repeats(REAL& x, REAL& y, REAL cr, REAL ci, int& n, int end)
{
    REAL seen_x = x, seen_y = y;
    int age = 0, power = 1;
    #pragma unroll 1
    while (n + SIZE <= end) {
        if (!leap<Kind, SIZE>(x, y, cr, ci)) return false;
        n += SIZE;
        if (x == seen_x && y == seen_y) return true;
        if (++age == power) {
            seen_x = x;
            seen_y = y;
            age = 0;
            power *= 2;
        }
    }
    return false;
}

// SIZE steps of which one leaves; n becomes its number. z goes on to the last of them.
template <int SIZE>
__device__ __forceinline__ void leave(REAL& x, REAL& y, REAL cr, REAL ci, int& n)
{
    int out = n + 1;
    #pragma unroll
    for (int k = 1; k <= SIZE; k++) {
        step(Plain(), x, y, cr, ci);
        if (k < SIZE) out += bounded(x, y);
    }
    n = out;
}

// The first steps; false if one of them leaves.
__device__ __forceinline__ bool early(REAL& x, REAL& y, REAL cr, REAL ci, int& n, int end)
{
    if (n + EARLY > end) return true;
    #pragma unroll
    for (int k = 0; k < EARLY / SHORT; k++) {
        if (!leap<Quick, SHORT>(x, y, cr, ci)) return false;
        n += SHORT;
    }
    return true;
}

// Single steps up to `end`; what is left after the blocks.
__device__ __forceinline__ int singles(REAL& x, REAL& y, REAL cr, REAL ci, int& n, int& m, int end)
{
    #pragma unroll 1
    while (n < end) {
        step(Plain(), x, y, cr, ci);
        m = ++n;
        if (!bounded(x, y)) return ESCAPED;
    }
    return ACTIVE;
}

// Continues from z_n = x + iy until |z|^2 > 4, until z repeats (if REPEATS asks for that), or until n = end. After an
// escape x + iy is z_m.
template <bool REPEATS>
__device__ __forceinline__ int iterate(REAL& x, REAL& y, REAL cr, REAL ci, int& n, int& m, int end)
{
    bool in;
    if (usual(ci)) {
        in = early(x, y, cr, ci, n, end);
        if (in && REPEATS) {
            if (repeats<Quick, MIDDLE>(x, y, cr, ci, n, end)) return PERIODIC;
        } else if (in && n + MIDDLE <= end) {
            in = blocks<Quick, MIDDLE>(x, y, cr, ci, n, min(end, n + SOON));
            if (in && n + LONG <= end) {
                blocks<Quick, LONG>(x, y, cr, ci, n, end);
                blocks<Quick, MIDDLE>(x, y, cr, ci, n, end);
            }
            in = true;
        }
        if (in) in = blocks<Quick, SHORT>(x, y, cr, ci, n, end);
    } else {
        if (REPEATS && repeats<Plain, MIDDLE>(x, y, cr, ci, n, end)) return PERIODIC;
        blocks<Plain, MIDDLE>(x, y, cr, ci, n, end);
        in = blocks<Plain, SHORT>(x, y, cr, ci, n, end);
    }
    if (!in) {
        m = n + SHORT;
        leave<SHORT>(x, y, cr, ci, n);
        return ESCAPED;
    }
    return singles(x, y, cr, ci, n, m, end);
}

// One slice of the pixels of a part: see Part in state.py. SHORTCUTS decides, not the part. SMOOTH: with smooth counts.
template <bool SHORTCUTS, bool SMOOTH>
__device__ __forceinline__ void slice(const REAL* re, const REAL* im, REAL* z, int* count, float* smooth,
                                      unsigned long long* totals, REAL margin, const Part& part)
{
    const Pixel p = find(part, count);
    const REAL ci = p.there ? im[p.i] : 0, cr = p.there ? re[p.j] : 0;  // without waiting for the count
    int n = p.done, m = n, left = 0;
    if (p.wanted) {
        REAL x = 0, y = 0;
        if (n > 0) {
            x = z[p.at];
            y = z[p.at + part.ny * part.nx];
        }
        const int end = min(n + part.iterations, part.limit);
        int found = PERIODIC;
        if (!SHORTCUTS || n > 0 || !inside<REAL>(cr, ci, margin)) found = iterate<SHORTCUTS>(x, y, cr, ci, n, m, end);
        if (settle(part, p.at, n, found, count, smooth)) {
            z[p.at] = x;
            z[p.at + part.ny * part.nx] = y;
            left = n < part.limit;
        }
        if (SMOOTH && found == ESCAPED) smooth[p.at] = smooth_value(x, y, cr, ci, m);
    }
    add_up(totals, n - p.done, left);
}

extern "C" __global__ void __launch_bounds__(THREADS)
direct(const REAL* re, const REAL* im, REAL* z, int* count, float* smooth, unsigned long long* totals, REAL margin,
       int ny, int nx, int first, int last, int stride, int iterations, int limit, int top, int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    slice<false, true>(re, im, z, count, smooth, totals, margin, part);
}

extern "C" __global__ void __launch_bounds__(THREADS)
direct_shortcuts(const REAL* re, const REAL* im, REAL* z, int* count, float* smooth, unsigned long long* totals,
                 REAL margin, int ny, int nx, int first, int last, int stride, int iterations, int limit, int top,
                 int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    slice<true, true>(re, im, z, count, smooth, totals, margin, part);
}

// As `direct`, but for the smooth counts: what the lesson's own kernels compute.
extern "C" __global__ void __launch_bounds__(THREADS)
counts_only(const REAL* re, const REAL* im, REAL* z, int* count, float* smooth, unsigned long long* totals, REAL margin,
            int ny, int nx, int first, int last, int stride, int iterations, int limit, int top, int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    slice<false, false>(re, im, z, count, smooth, totals, margin, part);
}

// -- few iterations

// Rows of a warp's tile, 32 pixels wide. Where a pixel has some ten iterations, launching blocks is most of the work: the
// lesson's scene has 46 875 of THREADS pixels, which take 31 us empty, and 11 750 of tiles.
#define TALL 4
#define TEST 5  // steps from one escape test to the next: the lesson's 20 are four of them
constexpr int TOGETHER = sizeof(REAL) == 4 ? 12 : 10;  // blocks on an SM

// `rounds` times TEST steps from z = 0, as long as they stay. False if some leave: a + ib is z after them, x + iy before.
__device__ __forceinline__ bool rounds_of(REAL& x, REAL& y, REAL& a, REAL& b, REAL cr, REAL ci, int rounds, int& n)
{
    bool in = true;
    #pragma unroll 1
    for (int k = 0; k < rounds; k++) {
        x = a;
        y = b;
        #pragma unroll
        for (int i = 0; i < TEST; i++) step(Quick(), a, b, cr, ci);
        in = bounded(a, b);
        n = k * TEST;
        if (!in) break;
    }
    return in;
}

// As `slice` for fresh pixels of which each is taken to the last iteration: nothing is read but c, and nothing is written
// of what a fresh pixel has already. All threads do the same number of rounds, which the compiler turns into less than
// where each goes on from a count of its own. Quick may be used for any ci: where it takes 0 for 2e-308, as on the real
// axis, 64 steps bring that to 1e-269 at most, whose square is 0.
template <bool SMOOTH>
__device__ __forceinline__ void tile(const REAL* re, const REAL* im, int* count, float* smooth,
                                     unsigned long long* totals, const Part& part)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    const int begin = part.first + (blockIdx.y * blockDim.y + threadIdx.y) * TALL, end = min(part.last, begin + TALL);
    const int rounds = part.top / TEST, rest = part.top - rounds * TEST;
    const REAL cr = j < part.nx ? re[j] : 0;
    int sum = 0;
    #pragma unroll 1
    for (int i = begin; i < end; i++) {
        if (j >= part.nx) continue;
        const int at = i * part.nx + j;
        const REAL ci = im[i];
        REAL a = 0, b = 0, x = 0, y = 0;
        int n = 0;
        bool in = rounds_of(x, y, a, b, cr, ci, rounds, n);
        int m = n + TEST;
        if (in) {
            n = rounds * TEST;
            #pragma unroll 1
            for (int k = 0; k < rest && in; k++) {
                step(Plain(), a, b, cr, ci);
                in = bounded(a, b);
                n++;
            }
            m = n;
        } else {
            n++;
            #pragma unroll
            for (int k = 1; k < TEST; k++) {
                step(Quick(), x, y, cr, ci);
                n += bounded(x, y);
            }
        }
        count[at] = n;
        if (SMOOTH && !in) smooth[at] = smooth_value(a, b, cr, ci, m);
        sum += n;
    }
    add_up(totals, sum, 0);
}

// As `direct`, for a part that is `few` (state.py).
extern "C" __global__ void __launch_bounds__(THREADS, TOGETHER)
few(const REAL* re, const REAL* im, REAL* z, int* count, float* smooth, unsigned long long* totals, REAL margin,
    int ny, int nx, int first, int last, int stride, int iterations, int limit, int top, int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    tile<true>(re, im, count, smooth, totals, part);
}

// As `counts_only`, likewise.
extern "C" __global__ void __launch_bounds__(THREADS, TOGETHER)
few_counts(const REAL* re, const REAL* im, REAL* z, int* count, float* smooth, unsigned long long* totals, REAL margin,
           int ny, int nx, int first, int last, int stride, int iterations, int limit, int top, int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    tile<false>(re, im, count, smooth, totals, part);
}

// out (py, px) = every stride-th value of values (ny, nx), from (0, 0) on.
extern "C" __global__ void __launch_bounds__(256)
pick(const float* values, float* out, int nx, int px, int size, int stride)
{
    const int k = blockIdx.x * 256 + threadIdx.x;
    if (k < size) out[k] = values[(size_t)(k / px * stride) * nx + k % px * stride];
}
