// The table of bla.py in CUDA C (its first_plain, merge_plain, first_far, merge_far), a launch a level, a thread an entry.
// Entry i of level k begins at m = 1 + i 2^k and stands at 2 i 2^k + 2^k - 1.

#define NEVER (-1e18)                 // log2 of the radius of an entry that must not be used
#define MARGIN 1e-9                   // part of 4 by which |Z|^2 stays below it where it is jumped over, at least
#define LEAST 1e-9                    // the terms of a radius must differ by this power of two at least
#define PART (1 - 6.93147180369e-10)  // 2^-LEAST
#define SMALL 9.332636185032189e-302  // 2^-1000
#define LARGE 5.357543035931337e+300  // 2^999

struct __align__(16) Pair {
    double x, y;
};
struct __align__(16) Entry {
    Pair a, b;
};
struct Powers {
    int a, b;
};

__device__ __forceinline__ Pair product(const Pair& a, const Pair& b)
{
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}

__device__ __forceinline__ double length(const Pair& a)
{
    return hypot(a.x, a.y);
}

// |Z|^2 up to which an index may be jumped over; why: bla.py.
__device__ __forceinline__ double escape_bound(double epsilon)
{
    return 4 * (1 - max(MARGIN, 8 * epsilon));
}

// ---- plain float64, R = 0 where an entry must not be used ----------------------------------------------------------

// False for NaN.
__device__ __forceinline__ bool in_range(const Pair& a)
{
    const double size = max(fabs(a.x), fabs(a.y));
    return size >= SMALL && size < LARGE && a.x == a.x && a.y == a.y;
}

__device__ __forceinline__ double less(double a, double b)
{
    return b < a * PART ? a - b : 0;
}

extern "C" __global__ void __launch_bounds__(128)
first_plain(const Pair* orbit, Entry* table, double* radius, int count, double dc, double epsilon)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Pair a = {2 * orbit[i + 1].x, 2 * orbit[i + 1].y}, after = orbit[i + 2];
    const size_t at = 2 * (size_t)i;
    table[at] = {a, {1, 0}};
    const double size = length(a);
    const bool usable = in_range(a) && after.x * after.x + after.y * after.y <= escape_bound(epsilon);
    radius[at] = usable ? less(epsilon * size, dc / size) : 0;
}

extern "C" __global__ void __launch_bounds__(128)
merge_plain(Entry* table, double* radius, int count, int level, double dc)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const size_t half = (size_t)1 << (level - 1), x = 4 * half * i + half - 1, y = x + 2 * half, at = x + half;
    const Entry first = table[x], then = table[y];
    const Pair a = product(then.a, first.a);
    Pair b = product(then.a, first.b);
    b = {b.x + then.b.x, b.y + then.b.y};
    table[at] = {a, b};
    const bool usable = in_range(a) && (in_range(b) || (b.x == 0 && b.y == 0));
    double reach = 0;
    if (usable && radius[x] > 0 && radius[y] > 0)
        reach = min(radius[x], less(radius[y], length(first.b) * dc) / length(first.a));
    radius[at] = reach > SMALL ? reach : 0;
}

// ---- mantissas and powers of two, log2 R ---------------------------------------------------------------------------

// The larger part between 1/2 and 1; 0 has the power 0.
__device__ __forceinline__ Pair normal(const Pair& a, int& power)
{
    const double largest = max(fabs(a.x), fabs(a.y));
    if (largest == 0) {
        power = 0;
        return {0, 0};
    }
    const int shift = ilogb(largest) + 1;
    power += shift;
    return {ldexp(a.x, -shift), ldexp(a.y, -shift)};
}

__device__ __forceinline__ double log2_of(const Pair& a, int power)
{
    const double size = length(a);
    return size > 0 ? log2(size) + power : NEVER;
}

// log2(2^a - 2^b), NEVER where that is not positive.
__device__ __forceinline__ double minus(double a, double b)
{
    return b < a - LEAST ? a + log2(1 - exp2(b - a)) : NEVER;
}

extern "C" __global__ void __launch_bounds__(128)
first_far(const Pair* orbit, const int* exponents, Entry* table, Powers* powers, double* radius, int count, double log2_dc,
          double log2_epsilon)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Pair after = orbit[i + 2];
    int power = exponents[i + 1];
    const Pair a = normal({2 * orbit[i + 1].x, 2 * orbit[i + 1].y}, power);
    const size_t at = 2 * (size_t)i;
    table[at] = {a, {1, 0}};
    powers[at] = {power, 0};
    const double size = log2_of(a, power);
    const bool usable = after.x * after.x + after.y * after.y <= escape_bound(exp2(log2_epsilon)) && size > NEVER;
    radius[at] = usable ? minus(log2_epsilon + size, log2_dc - size) : NEVER;
}

extern "C" __global__ void __launch_bounds__(128)
merge_far(Entry* table, Powers* powers, double* radius, int count, int level, double log2_dc)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const size_t half = (size_t)1 << (level - 1), x = 4 * half * i + half - 1, y = x + 2 * half, at = x + half;
    const Entry first = table[x], then = table[y];
    const Powers before = powers[x], after = powers[y];
    Powers made = {before.a + after.a, before.b + after.a};
    const Pair a = normal(product(then.a, first.a), made.a), c = product(then.a, first.b);
    const bool nothing = c.x == 0 && c.y == 0, alone = then.b.x == 0 && then.b.y == 0;
    const int top = nothing ? after.b : alone ? made.b : max(made.b, after.b);
    const int down = max(made.b - top, -2000), other = max(after.b - top, -2000);
    made.b = top;
    const Pair b = normal({ldexp(c.x, down) + ldexp(then.b.x, other), ldexp(c.y, down) + ldexp(then.b.y, other)}, made.b);
    table[at] = {a, b};
    powers[at] = made;
    double reach = NEVER;
    if (radius[x] > NEVER && radius[y] > NEVER && (a.x != 0 || a.y != 0))
        reach = min(radius[x], minus(radius[y], log2_of(first.b, before.b) + log2_dc) - log2_of(first.a, before.a));
    radius[at] = max(reach, NEVER);
}
