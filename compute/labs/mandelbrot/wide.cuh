// Numbers (x + iy) 2^e beyond the range of float64, as in deep.py.

#define VANISHED (-(1 << 30))  // exponent of 0
#define LOST (-1000)           // a part smaller than the sum by this power of two is below every bit of it

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
