// Deep views in CUDA C: perturbation with rebasing and bilinear approximation, as in deep.py, in float64 and with
// exponents beyond its range. Arrays and table are those of state.py and bla.py.

#include "pixels.cuh"

#define VANISHED (-(1 << 30))  // exponent of 0
#define LOST (-1000)           // a part smaller than the sum by this power of two is below every bit of it
#define FAR_BELOW (-200)       // exponents under this belong to numbers that are not beyond reach

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

// Whether the orbit goes on from both indices through the same numbers.
__device__ __forceinline__ bool alike(int m, int other, int settled, int cycle)
{
    return m == other || (min(m, other) >= settled && (m - other) % cycle == 0);
}

extern "C" __global__ void __launch_bounds__(256)
perturbed(const double* re, const double* im, double* z, int* place, int* count, float* smooth, unsigned long long* totals,
          const Pair* orbit, const Entry* table, const double* radius, double reach, int end_of_orbit,
          double centre_x, double centre_y, double spacing, double margin, int settled, int cycle,
          int ny, int nx, int first, int last, int stride, int iterations, int limit, int top, int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    const Pixel p = find(part, count);
    int n = p.done, left = 0;
    if (p.wanted) {
        const size_t other = p.at + (size_t)part.ny * part.nx;
        const Pair dc = {re[p.j] * spacing, im[p.i] * spacing};
        const int end = min(n + part.iterations, part.limit);
        Pair d = {0, 0}, full = {0, 0}, seen = {8, 8};
        int m = 0, seen_m = 0, age = 0, power = 1, found = ACTIVE;
        if (n > 0) {
            d = {z[p.at], z[other]};
            m = place[p.at];
        } else if (part.shortcuts && inside<double>(centre_x + dc.x, centre_y + dc.y, margin)) {
            found = PERIODIC;
        }
        int look = part.shortcuts ? n + cycle : 0x7fffffff;
        Pair here = orbit[m];
        double size = fabs(d.x) + fabs(d.y);
        while (found == ACTIVE && n < end) {
            int jump = 0;
            if (size < reach && m > 0) {
                jump = longest(radius, size, m, min(end_of_orbit - m, part.top - n));
                if (jump) {
                    const Entry use = table[2 * (m - 1) + jump - 1];
                    d = {use.a.x * d.x - use.a.y * d.y + (use.b.x * dc.x - use.b.y * dc.y),
                         use.a.x * d.y + use.a.y * d.x + (use.b.x * dc.y + use.b.y * dc.x)};
                    m += jump;
                    n += jump;
                }
            }
            if (!jump) {
                d = step(d, here, dc);
                m++;
                n++;
            }
            here = orbit[m];
            full = {here.x + d.x, here.y + d.y};
            size = fabs(d.x) + fabs(d.y);
            const double full_size = fabs(full.x) + fabs(full.y), square = full.x * full.x + full.y * full.y;
            const bool nearer = full_size < size || m == end_of_orbit;
            if (!nearer && n < look && square <= 4) continue;  // nearly always
            if (!(square <= 4)) {
                found = ESCAPED;
                break;
            }
            if (nearer) {
                d = full;
                size = full_size;
                here = {0, 0};
                m = 0;
            }
            if (!part.shortcuts) continue;
            if (d.x == seen.x && d.y == seen.y && alike(m, seen_m, settled, cycle)) found = PERIODIC;
            look = n + cycle;
            if (++age == power) {
                seen = d;
                seen_m = m;
                age = 0;
                power *= 2;
            }
        }
        if (settle(part, p.at, n, found, count, smooth)) {
            z[p.at] = d.x;
            z[other] = d.y;
            place[p.at] = m;
            left = n < part.limit;
        }
        if (found == ESCAPED)
            smooth[p.at] = smooth_count<double>(full.x, full.y, centre_x + dc.x, centre_y + dc.y, n);
    }
    add_up(totals, n - p.done, left);
}

// ---- numbers (x + iy) 2^e ------------------------------------------------------------------------------------------

struct Wide {
    double x, y;
    int e;
};

// x 2^power; 0 where that is too small.
__device__ __forceinline__ double scaled(double x, int power)
{
    return power < LOST ? 0 : x * __longlong_as_double((long long)(power + 1023) << 52);
}

// The same number with mantissas within 2^40 of 1, so that squares and sums of a few stay in range.
__device__ __forceinline__ Wide normal(double x, double y, int e)
{
    const double largest = max(fabs(x), fabs(y));
    if (largest > 1e-12 && largest < 1e12) return {x, y, e};
    if (largest == 0) return {0, 0, VANISHED};
    const int shift = ilogb(largest) + 1;
    return {ldexp(x, -shift), ldexp(y, -shift), e + shift};
}

__device__ __forceinline__ Wide plus(const Wide& a, const Wide& b)
{
    const bool swap = a.e < b.e;
    const Wide &high = swap ? b : a, &low = swap ? a : b;
    const int down = low.e - high.e;
    return normal(high.x + scaled(low.x, down), high.y + scaled(low.y, down), high.e);
}

__device__ __forceinline__ Wide times(const Wide& a, const Wide& b)
{
    return normal(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x, max(a.e + b.e, VANISHED));
}

// Whether |a| < |b|, in the norm |x| + |y|.
__device__ __forceinline__ bool smaller(const Wide& a, const Wide& b)
{
    const int shift = a.e - b.e;
    if (shift > 100) return false;
    if (shift < -100) return true;
    return scaled(fabs(a.x) + fabs(a.y), shift) < fabs(b.x) + fabs(b.y);
}

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
    int n = p.done, left = 0;
    if (p.wanted) {
        const size_t other = p.at + (size_t)part.ny * part.nx;
        const Wide dc = normal(re[p.j] * spacing, im[p.i] * spacing, exponent);
        const Pair plain_dc = {scaled(dc.x, dc.e), scaled(dc.y, dc.e)};
        const int end = min(n + part.iterations, part.limit);
        Wide d = {0, 0, VANISHED};
        Pair full = {0, 0};
        int m = 0, found = ACTIVE;
        if (n > 0) {
            d = {z[p.at], z[other], place[other]};
            m = place[p.at];
        }
        Wide here = at(orbit, exponents, m);
        while (found == ACTIVE && n < end) {
            Wide next;
            bool nearer;
            if (d.e == 0 && fabs(d.x) + fabs(d.y) >= reach) {
                const Pair moved = step({d.x, d.y}, above(here), plain_dc);
                d = {moved.x, moved.y, 0};
                m++;
                n++;
                here = at(orbit, exponents, m);
                full = above(here);
                full = {full.x + d.x, full.y + d.y};
                next = {full.x, full.y, 0};
                nearer = fabs(full.x) + fabs(full.y) < fabs(d.x) + fabs(d.y);
            } else {
                const int jump = advance(d, here, dc, table, powers, radius, m, min(end_of_orbit - m, part.top - n));
                m += jump;
                n += jump;
                here = at(orbit, exponents, m);
                next = plus(here, d);
                full = {scaled(next.x, next.e), scaled(next.y, next.e)};
                nearer = smaller(next, d);
            }
            if (!(full.x * full.x + full.y * full.y <= 4)) {
                found = ESCAPED;
            } else if (nearer || m == end_of_orbit) {
                d = next;
                m = 0;
                here = {0, 0, VANISHED};
            }
            level(d, reach);
        }
        if (settle(part, p.at, n, found, count, smooth)) {
            z[p.at] = d.x;
            z[other] = d.y;
            place[p.at] = m;
            place[other] = d.e;
            left = n < part.limit;
        }
        if (found == ESCAPED) smooth[p.at] = smooth_count<double>(full.x, full.y, centre_x, centre_y, n);
    }
    add_up(totals, n - p.done, left);
}
