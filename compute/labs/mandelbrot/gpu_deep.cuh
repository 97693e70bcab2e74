// Deep views in CUDA C: perturbation with rebasing and bilinear approximation, as in deep.py, in float64 and with
// exponents beyond its range. Arrays and table are those of state.py and bla.py.

#include "pixels.cuh"

#define VANISHED (-(1 << 30))  // exponent of 0
#define LOST (-1000)           // a part smaller than the sum by this power of two is below every bit of it

// The longest stretch that begins at index m and may be used at this size of delta: its entry, -1 if none, and its length.
__device__ __forceinline__ long long longest(const double* radius, const long long* start, int levels, int last, double size,
                                             int m, int most, int& jump)
{
    long long best = -1;
    const int j = m - 1;
    for (int level = 0; m > 0 && level < levels && (j & ((1 << level) - 1)) == 0; level++) {
        const long long entry = start[level] + (j >> level);
        const int length = min(1 << level, last - 1 - j);
        if (entry >= start[level + 1] || !(size < radius[entry]) || length > most) break;
        best = entry;
        jump = length;
    }
    return best;
}

extern "C" __global__ void __launch_bounds__(256)
perturbed(const double* re, const double* im, double* z, int* place, int* count, float* smooth, unsigned long long* totals,
          const double* orbit, const double* table, const double* radius, const long long* start, int end_of_orbit,
          int levels, double centre_x, double centre_y, double spacing, double margin,
          int ny, int nx, int first, int last, int stride, int iterations, int limit, int top, int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    const Pixel p = find(part, count);
    int n = p.done, left = 0;
    if (p.wanted) {
        const size_t other = p.at + (size_t)part.ny * part.nx;
        const double cx = re[p.j] * spacing, cy = im[p.i] * spacing;
        const int end = min(n + part.iterations, part.limit);
        double dx = 0, dy = 0, zx = 0, zy = 0, seen_x = 8, seen_y = 8;
        int m = 0, age = 0, power = 1, found = ACTIVE;
        if (n > 0) {
            dx = z[p.at];
            dy = z[other];
            m = place[p.at];
        } else if (part.shortcuts && inside<double>(centre_x + cx, centre_y + cy, margin)) {
            found = PERIODIC;
        }
        while (found == ACTIVE && n < end) {
            int jump = 1;
            const long long best = longest(radius, start, levels, end_of_orbit, fabs(dx) + fabs(dy), m, part.top - n, jump);
            double ax, ay, bx = 1, by = 0;
            if (best >= 0) {
                const double* entry = table + 4 * best;
                ax = entry[0];
                ay = entry[1];
                bx = entry[2];
                by = entry[3];
            } else {
                ax = 2 * orbit[2 * (size_t)m] + dx;
                ay = 2 * orbit[2 * (size_t)m + 1] + dy;
            }
            const double nx = ax * dx - ay * dy + (bx * cx - by * cy);
            dy = ax * dy + ay * dx + (bx * cy + by * cx);
            dx = nx;
            m += jump;
            n += jump;
            zx = orbit[2 * (size_t)m] + dx;
            zy = orbit[2 * (size_t)m + 1] + dy;
            if (!(zx * zx + zy * zy <= 4)) {
                found = ESCAPED;
            } else if (fabs(zx) + fabs(zy) < fabs(dx) + fabs(dy) || m == end_of_orbit) {
                dx = zx;
                dy = zy;
                m = 0;
                if (part.shortcuts && dx == seen_x && dy == seen_y) found = PERIODIC;
                if (++age == power) {
                    seen_x = dx;
                    seen_y = dy;
                    age = 0;
                    power *= 2;
                }
            }
        }
        if (settle(part, p.at, n, found, count, smooth)) {
            z[p.at] = dx;
            z[other] = dy;
            place[p.at] = m;
            left = n < part.limit;
        }
        if (found == ESCAPED) smooth[p.at] = smooth_count<double>(zx, zy, centre_x + cx, centre_y + cy, n);
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

extern "C" __global__ void __launch_bounds__(256)
far(const double* re, const double* im, double* z, int* place, int* count, float* smooth, unsigned long long* totals,
    const double* orbit, const int* exponents, const double* table, const int* powers, const double* radius,
    const long long* start, int end_of_orbit, int levels, double centre_x, double centre_y, double spacing, int exponent,
    int ny, int nx, int first, int last, int stride, int iterations, int limit, int top, int shortcuts)
{
    const Part part = {ny, nx, first, last, stride, iterations, limit, top, shortcuts};
    const Pixel p = find(part, count);
    int n = p.done, left = 0;
    if (p.wanted) {
        const size_t other = p.at + (size_t)part.ny * part.nx;
        const Wide dc = normal(re[p.j] * spacing, im[p.i] * spacing, exponent);
        const int end = min(n + part.iterations, part.limit);
        Wide d = {0, 0, VANISHED};
        double fx = 0, fy = 0;
        int m = 0, found = ACTIVE;
        if (n > 0) {
            d = {z[p.at], z[other], place[other]};
            m = place[p.at];
        }
        while (found == ACTIVE && n < end) {
            int jump = 1;
            const double size = fabs(d.x) + fabs(d.y);
            const double log2_size = size > 0 ? log2(size) + d.e : -1e17;
            const long long best = longest(radius, start, levels, end_of_orbit, log2_size, m, part.top - n, jump);
            if (best >= 0) {
                const Wide a = {table[4 * best], table[4 * best + 1], powers[2 * best]};
                const Wide b = {table[4 * best + 2], table[4 * best + 3], powers[2 * best + 1]};
                d = plus(times(a, d), times(b, dc));
            } else {
                const Wide twice = {2 * orbit[2 * (size_t)m], 2 * orbit[2 * (size_t)m + 1], exponents[m]};
                d = plus(times(d, plus(twice, d)), dc);
            }
            m += jump;
            n += jump;
            const Wide here = {orbit[2 * (size_t)m], orbit[2 * (size_t)m + 1], exponents[m]};
            const Wide full = plus(here, d);
            fx = scaled(full.x, full.e);
            fy = scaled(full.y, full.e);
            if (!(fx * fx + fy * fy <= 4)) {
                found = ESCAPED;
            } else if (smaller(full, d) || m == end_of_orbit) {
                d = full;
                m = 0;
            }
        }
        if (settle(part, p.at, n, found, count, smooth)) {
            z[p.at] = d.x;
            z[other] = d.y;
            place[p.at] = m;
            place[other] = d.e;
            left = n < part.limit;
        }
        if (found == ESCAPED) smooth[p.at] = smooth_count<double>(fx, fy, centre_x, centre_y, n);
    }
    add_up(totals, n - p.done, left);
}
