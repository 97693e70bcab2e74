// Deep views in CUDA C: perturbation with rebasing and bilinear approximation, as in deep.py, in float64 and with
// exponents beyond its range. Arrays and table are those of state.py and bla.py.
//
// What was learned on an H200, 1920 x 1080, all iterations in one launch, in ms (views of views.py):
//                                                             e14    e113   e323   e1007
//   a look-up at each step, levels far apart in memory        3.5    12.6   40     30     issue bound: 112 instructions a step
//   levels interleaved, none looked up beyond reach, Z kept   2.7     9.4   11.9    8.1
//   jump and step in branches of their own                    1.7     7.1   11.9    8.1   both were issued, one masked out
//   four steps before the next look at the table              1.4     6.6    8.0    5.3   22 instructions a step, 16 of them FP64
//   escape asked once in four steps, the other two tests by upper halves: 10 of FP64 a step instead of 16, every bit equal,
//   on an H100, and slower: e113 6.6 -> 7.0, e323 8.0 -> 8.5, e1007 5.3 -> 5.7 (e14 1.4 both). FP64 is not what it waits for.
// Far views gained most because all but a few of their steps now are in plain float64. 84 % of the steps of e113 are single
// ones (its delta is beyond reach), in 92 % of the lanes; the table lies in the caches (99.6 % of the loads hit L1).
// Looking for repetitions shares its test with the end of the slice; it took 3 % of e113 and 10 % of e14 before the last line.

#include "pixels.cuh"
#include "wide.cuh"

#define FAR_BELOW (-200)       // exponents under this belong to numbers that are not beyond reach

#define DIRECT_STEPS 4         // done before it is asked again whether an entry of the table may serve

struct __align__(16) Pair {
    double x, y;
};
struct __align__(16) Entry {
    Pair a, b;
};

// Steps of the longest entry that begins at index m and serves a delta of this size, 0 if none: the entries with one
// beginning lie side by side, shortest first. room: steps that may be taken.
__device__ __forceinline__ int longest(const double* radius, double size, int m, int room)
{
    const int j = m - 1;
    int best = 0, length = 1;
    while (length <= room && !(j & (length - 1)) && size < radius[2 * j + length - 1]) {
        best = length;
        length *= 2;
    }
    return best;
}

// d' = (2 Z + d) d + dc.
__device__ __forceinline__ Pair step(const Pair& d, const Pair& z, const Pair& dc)
{
    const double tx = 2 * z.x + d.x, ty = 2 * z.y + d.y;
    return {d.x * tx + (dc.x - d.y * ty), d.x * ty + (d.y * tx + dc.y)};
}

// A d + B dc.
__device__ __forceinline__ Pair leap(const Pair& d, const Entry& use, const Pair& dc)
{
    return {use.a.x * d.x - use.a.y * d.y + (use.b.x * dc.x - use.b.y * dc.y),
            use.a.x * d.y + use.a.y * d.x + (use.b.x * dc.y + use.b.y * dc.x)};
}

// Whether the orbit goes on from both indices through the same numbers.
__device__ __forceinline__ bool alike(int m, int other, int settled, int cycle)
{
    return m == other || (min(m, other) >= settled && (m - other) % cycle == 0);
}

// A pixel at index m of the orbit, where Z is `here`: delta, and z = Z + delta.
struct Track {
    Pair d, here, full;
    double size, full_size;
    int m, n;
};

// After a move to the next index; whether all is as nearly always: z has not escaped and is no nearer to 0 than to Z.
__device__ __forceinline__ bool ordinary(Track& t, const Pair& here, int end_of_orbit, int stop)
{
    t.here = here;
    t.full = {t.here.x + t.d.x, t.here.y + t.d.y};
    t.size = fabs(t.d.x) + fabs(t.d.y);
    t.full_size = fabs(t.full.x) + fabs(t.full.y);
    return t.full_size >= t.size && t.m != end_of_orbit && t.n < stop && t.full.x * t.full.x + t.full.y * t.full.y <= 4;
}

extern "C" __global__ void __launch_bounds__(256)
perturbed(const double* re, const double* im, double* z, int* place, int* count, float* smooth, unsigned long long* totals,
          const Pair* orbit, const Entry* table, const double* radius, double reach, int end_of_orbit,
          double centre_x, double centre_y, double spacing, double margin, int settled, int cycle,
          int ny, int nx, int first, int last, int stride, int iterations, int limit, int top, int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    const Pixel p = find(part, count);
    Track t = {{0, 0}, {0, 0}, {0, 0}, 0, 0, 0, p.done};
    int left = 0;
    if (p.wanted) {
        const size_t other = p.at + (size_t)part.ny * part.nx;
        const Pair dc = {re[p.j] * spacing, im[p.i] * spacing};
        const int end = min(t.n + part.iterations, part.limit);
        Pair seen = {8, 8};
        int seen_m = 0, age = 0, power = 1, found = ACTIVE;
        if (t.n > 0) {
            t.d = {z[p.at], z[other]};
            t.m = place[p.at];
        } else if (part.shortcuts && inside<double>(centre_x + dc.x, centre_y + dc.y, margin)) {
            found = PERIODIC;
        }
        int stop = part.shortcuts ? min(end, t.n + cycle) : end;
        t.here = orbit[t.m];
        t.size = fabs(t.d.x) + fabs(t.d.y);
        while (found == ACTIVE && t.n < end) {
            bool same;
            int jump = 0;
            if (t.size < reach && t.m > 0)
                jump = longest(radius, t.size, t.m, min(end_of_orbit - t.m, part.top - t.n));
            if (jump) {
                t.d = leap(t.d, table[2 * (t.m - 1) + jump - 1], dc);
                t.m += jump;
                t.n += jump;
                same = ordinary(t, orbit[t.m], end_of_orbit, stop);
            } else {
                #pragma unroll
                for (int k = 0; k < DIRECT_STEPS; k++) {
                    t.d = step(t.d, t.here, dc);
                    t.m++;
                    t.n++;
                    same = ordinary(t, orbit[t.m], end_of_orbit, stop);
                    if (!same || t.size < reach) break;
                }
            }
            if (same) continue;
            if (!(t.full.x * t.full.x + t.full.y * t.full.y <= 4)) {
                found = ESCAPED;
                break;
            }
            const bool nearer = t.full_size < t.size || t.m == end_of_orbit;
            if (nearer) {
                t.d = t.full;
                t.size = t.full_size;
                t.here = {0, 0};
                t.m = 0;
            }
            if (!part.shortcuts || !(nearer || t.n >= stop)) continue;
            if (t.d.x == seen.x && t.d.y == seen.y && alike(t.m, seen_m, settled, cycle)) found = PERIODIC;
            stop = min(end, t.n + cycle);
            if (++age == power) {
                seen = t.d;
                seen_m = t.m;
                age = 0;
                power *= 2;
            }
        }
        if (settle(part, p.at, t.n, found, count, smooth)) {
            z[p.at] = t.d.x;
            z[other] = t.d.y;
            place[p.at] = t.m;
            left = t.n < part.limit;
        }
        if (found == ESCAPED)
            smooth[p.at] = smooth_value(t.full.x, t.full.y, centre_x + dc.x, centre_y + dc.y, t.n);
    }
    add_up(totals, t.n - p.done, left);
}

// ---- exponents of their own ----------------------------------------------------------------------------------------

// The same number with e = 0 if it is beyond reach.
__device__ __forceinline__ void level(Wide& d, double reach)
{
    if (d.e == 0 || d.e < FAR_BELOW) return;
    const double x = scaled(d.x, d.e), y = scaled(d.y, d.e);
    if (fabs(x) + fabs(y) >= reach) d = {x, y, 0};
}

// Z as a plain number; 0 for a tiny one, which counts for nothing beside a delta beyond reach.
__device__ __forceinline__ Pair above(const Wide& z)
{
    return z.e == 0 ? Pair{z.x, z.y} : Pair{0, 0};
}

__device__ __forceinline__ Wide at(const Pair* orbit, const int* exponents, int m)
{
    const Pair z = orbit[m];
    return {z.x, z.y, exponents[m]};
}

// One stretch of the table or one step from index m, where Z is `here`, in numbers of any size; gives its steps.
__device__ __forceinline__ int advance(Wide& d, const Wide& here, const Wide& dc, const Entry* table, const int* powers,
                                       const double* radius, int m, int room)
{
    d = normal(d.x, d.y, d.e);
    const double size = fabs(d.x) + fabs(d.y);
    const double log2_size = size > 0 ? log2f((float)size) + (double)d.e : -1e17;
    const int jump = m > 0 ? longest(radius, log2_size, m, room) : 0;
    if (jump) {
        const size_t i = 2 * (m - 1) + jump - 1;
        const Entry use = table[i];
        const Wide a = {use.a.x, use.a.y, powers[2 * i]}, b = {use.b.x, use.b.y, powers[2 * i + 1]};
        d = plus(times(a, d), times(b, dc));
        return jump;
    }
    const Wide twice = {2 * here.x, 2 * here.y, here.e};
    d = plus(times(d, plus(twice, d)), dc);
    return 1;
}

// Nearly all the work is done with a delta beyond reach: no entry serves it and it is far above the smallest float64.
extern "C" __global__ void __launch_bounds__(256)
far(const double* re, const double* im, double* z, int* place, int* count, float* smooth, unsigned long long* totals,
    const Pair* orbit, const int* exponents, const Entry* table, const int* powers, const double* radius, double reach,
    int end_of_orbit, double centre_x, double centre_y, double spacing, int exponent,
    int ny, int nx, int first, int last, int stride, int iterations, int limit, int top, int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    const Pixel p = find(part, count);
    Track t = {{0, 0}, {0, 0}, {0, 0}, 0, 0, 0, p.done};
    int left = 0;
    if (p.wanted) {
        const size_t other = p.at + (size_t)part.ny * part.nx;
        const Wide dc = normal(re[p.j] * spacing, im[p.i] * spacing, exponent);
        const Pair plain_dc = {scaled(dc.x, dc.e), scaled(dc.y, dc.e)};
        const int end = min(t.n + part.iterations, part.limit);
        Wide d = {0, 0, VANISHED};
        int found = ACTIVE;
        if (t.n > 0) {
            d = {z[p.at], z[other], place[other]};
            t.m = place[p.at];
        }
        while (found == ACTIVE && t.n < end) {
            Wide next;
            bool nearer;
            if (d.e == 0 && fabs(d.x) + fabs(d.y) >= reach) {
                bool same = true;
                t.d = {d.x, d.y};
                t.here = above(at(orbit, exponents, t.m));
                #pragma unroll
                for (int k = 0; k < DIRECT_STEPS; k++) {
                    t.d = step(t.d, t.here, plain_dc);
                    t.m++;
                    t.n++;
                    same = ordinary(t, above(at(orbit, exponents, t.m)), end_of_orbit, end);
                    if (!same || t.size < reach) break;
                }
                d = {t.d.x, t.d.y, 0};
                if (same) continue;
                next = {t.full.x, t.full.y, 0};
                nearer = t.full_size < t.size;
            } else {
                const Wide here = at(orbit, exponents, t.m);
                const int room = min(end_of_orbit - t.m, part.top - t.n);
                const int jump = advance(d, here, dc, table, powers, radius, t.m, room);
                t.m += jump;
                t.n += jump;
                next = plus(at(orbit, exponents, t.m), d);
                t.full = {scaled(next.x, next.e), scaled(next.y, next.e)};
                nearer = smaller(next, d);
            }
            if (!(t.full.x * t.full.x + t.full.y * t.full.y <= 4)) {
                found = ESCAPED;
            } else if (nearer || t.m == end_of_orbit) {
                d = next;
                t.m = 0;
            }
            level(d, reach);
        }
        if (settle(part, p.at, t.n, found, count, smooth)) {
            z[p.at] = d.x;
            z[other] = d.y;
            place[p.at] = t.m;
            place[other] = d.e;
            left = t.n < part.limit;
        }
        if (found == ESCAPED) smooth[p.at] = smooth_value(t.full.x, t.full.y, centre_x, centre_y, t.n);
    }
    add_up(totals, t.n - p.done, left);
}
