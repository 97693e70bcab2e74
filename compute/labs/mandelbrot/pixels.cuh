// What the Mandelbrot kernels share: which pixel a thread owns, and what is written when it is finished.

enum { ACTIVE, ESCAPED, PERIODIC };

// As Part in state.py, with the size of the picture.
struct Part {
    int ny, nx, first, last, stride, iterations, limit, top, shortcuts;
};

// wanted: it is unfinished and below the limit. done: iterations so far.
struct Pixel {
    bool wanted;
    int i, j, done;
    size_t at;
};

__device__ __forceinline__ Pixel find(const Part& part, const int* count)
{
    Pixel p;
    p.j = (blockIdx.x * blockDim.x + threadIdx.x) * part.stride;
    const int row = blockIdx.y * blockDim.y + threadIdx.y + part.first;
    p.i = row * part.stride;
    p.at = (size_t)p.i * part.nx + p.j;
    p.wanted = row < part.last && p.j < part.nx;
    p.done = p.wanted ? -1 - count[p.at] : 0;
    p.wanted = p.wanted && p.done >= 0 && p.done < part.limit;
    return p;
}

// Whether c lies in the main cardioid or the disc of period 2, by at least `margin`, so that rounding is no risk.
template <class T> __device__ __forceinline__ bool inside(T cr, T ci, T margin)
{
    const T a = cr - T(0.25), y2 = ci * ci, q = a * a + y2, left = cr + T(1);
    return q * (q + a) + margin <= T(0.25) * y2 || left * left + y2 + margin <= T(0.0625);
}

// Writes the count of a pixel that is finished, or how far it is; true if its z must be kept.
__device__ __forceinline__ bool settle(const Part& part, size_t at, int n, int found, int* count, float* smooth)
{
    if (found == ESCAPED) {
        count[at] = n;
        return false;
    }
    const bool finished = found == PERIODIC || n >= part.top;
    count[at] = finished ? part.top : -1 - n;
    if (finished) smooth[at] = nanf("");
    return !finished;
}

// n + 1 - log2(ln|z_n| / ln 2), read off a few steps later where it is accurate.
template <class T> __device__ __forceinline__ float smooth_count(T x, T y, T cr, T ci, int n)
{
    int k = 0;
    #pragma unroll 1
    for (; k < 64 && x * x + y * y < T(1e8); k++) {
        const T t = x * x - y * y + cr;
        y = T(2) * x * y + ci;
        x = t;
    }
    return float(n) + (float(k + 1) - log2f(log2f(float(x * x + y * y)) * 0.5f));
}

// totals[0] += done, totals[1] += left, summed over the warp first. Every lane must come here.
__device__ __forceinline__ void add_up(unsigned long long* totals, int done, int left)
{
    long long sum = done, rest = left;
    #pragma unroll
    for (int by = 16; by > 0; by /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, by);
        rest += __shfl_down_sync(0xffffffffu, rest, by);
    }
    if ((threadIdx.y * blockDim.x + threadIdx.x) % 32) return;
    if (sum) atomicAdd(totals, (unsigned long long)sum);
    if (rest) atomicAdd(totals + 1, (unsigned long long)rest);
}
