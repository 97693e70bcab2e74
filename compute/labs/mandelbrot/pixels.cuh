// What the Mandelbrot kernels share: which pixel a thread owns, and what is written when it is finished.

enum { ACTIVE, ESCAPED, PERIODIC };

#define THREADS 128  // of a block, as BLOCK in state.py: warps of 8 x 4 pixels, one below the other
#define SLOTS 64     // pairs of totals, and numbers from one to the next, as in state.py: a line of the cache each
#define LINE 16

// As Part in state.py, with the size of the picture.
struct Part {
    int ny, nx, first, last, stride, iterations, limit, top, shortcuts;
};

// there: it belongs to the part. wanted: it is also unfinished and below the limit. done: iterations so far. at: its
// place in an array of 2^28 or fewer.
struct Pixel {
    bool there, wanted;
    int i, j, at, done;
};

__device__ __forceinline__ Pixel find(const Part& part, const int* count)
{
    Pixel p;
    p.j = (blockIdx.x * blockDim.x + threadIdx.x) * part.stride;
    const int row = blockIdx.y * blockDim.y + threadIdx.y + part.first;
    p.i = row * part.stride;
    p.at = p.i * part.nx + p.j;
    p.there = row < part.last && p.j < part.nx;
    p.done = p.there ? -1 - count[p.at] : 0;
    p.wanted = p.there && p.done >= 0 && p.done < part.limit;
    return p;
}

// Whether c lies in the main cardioid or the disc of period 2, by at least `margin`, so that rounding is no risk.
template <class T> __device__ __forceinline__ bool inside(T cr, T ci, T margin)
{
    const T a = cr - T(0.25), y2 = ci * ci, q = a * a + y2, left = cr + T(1);
    return q * (q + a) + margin <= T(0.25) * y2 || left * left + y2 + margin <= T(0.0625);
}

// Writes the count of a pixel that is finished, or how far it is; true if its z must be kept.
__device__ __forceinline__ bool settle(const Part& part, int at, int n, int found, int* count, float* smooth)
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

// n + 1 - log2(ln|z_n| / ln 2), read off a few steps later where it is accurate: to 1e-6, less than a float32 holds from
// n = 16 on. Only until |z| = 4 can a step magnify an error (near c = -2), so that float32 is enough for the steps after.
template <class T> __device__ __forceinline__ float smooth_count(T x, T y, T cr, T ci, int n)
{
    int k = 0;
    #pragma unroll 1
    for (; k < 61 && x * x + y * y < T(16); k++) {
        const T t = x * x - y * y + cr;
        y = T(2) * x * y + ci;
        x = t;
    }
    float a = x, b = y, size = a * a + b * b;
    const float re = cr, im = ci;
    if (!(size < 1e30f)) {  // only from z_1 = c, far outside, can it have come here: read off there
        a = re;
        b = im;
        size = a * a + b * b;
        n = 1;
        k = 0;
    }
    #pragma unroll
    for (int j = 0; j < 3; j++)  // |z|: 4, 14, 194, 37600 at least
        if (size < 1e8f) {
            const float t = re - b * b;
            b = 2 * a * b + im;
            a = a * a + t;
            size = a * a + b * b;
            k++;
        }
    return float(n) + (float(k + 1) - __log2f(__log2f(size) * 0.5f));
}

// The same for less in float64: read off where |z| >= 1000, from the exponent of |z|^2 and the upper 20 bits of the rest.
// A conversion of z and c to float32, for the same steps, took longer than the steps: the lesson's scene takes 47 us on
// an H100 and took 55.
__device__ __forceinline__ float smooth_value(double x, double y, double cr, double ci, int n)
{
    double size = x * x + y * y;
    if (!(size < 1e200)) {  // only from z_1 = c, likewise
        x = cr;
        y = ci;
        size = x * x + y * y;
        n = 1;
    }
    #pragma unroll 1
    for (int k = 0; k < 64 && __double2hiint(size) < 0x412e8480; k++) {  // 1e6
        const double t = cr - y * y;
        y = (x + x) * y + ci;
        x = x * x + t;
        size = x * x + y * y;
        n++;
    }
    const int upper = __double2hiint(size);
    const float exponent = float((upper >> 20) - 1023), rest = __int_as_float((upper & 0xfffff) << 3 | 0x3f800000);
    return float(n + 1) - __log2f((exponent + __log2f(rest)) * 0.5f);
}

__device__ __forceinline__ float smooth_value(float x, float y, float cr, float ci, int n)
{
    return smooth_count<float>(x, y, cr, ci, n);
}

// Adds to one of the pairs of totals: the iterations done, and the pixels that are left, of a warp. Added to one pair,
// those of all warps queue: 0.11 ms for the 187 500 of 3000 x 2000 pixels. In SLOTS lines of the cache they do not, and
// no warp waits for the others of its block: 53 us for the lesson's scene in float32, against 60 with a sum over the
// block first. Every thread must come here, once.
__device__ __forceinline__ void add_up(unsigned long long* totals, int done, int left)
{
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned sum = __reduce_add_sync(0xffffffffu, unsigned(done));  // 32 x 1e8 iterations fit in
    const unsigned rest = __popc(__ballot_sync(0xffffffffu, left));
#else
    unsigned sum = done, rest = left;
    for (int by = 16; by > 0; by /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, by);
        rest += __shfl_down_sync(0xffffffffu, rest, by);
    }
#endif
    if (thread % 32) return;
    totals += LINE * ((blockIdx.y * 29 + blockIdx.x * (THREADS / 32) + thread / 32) % SLOTS);
    if (sum) atomicAdd(totals, (unsigned long long)sum);
    if (rest) atomicAdd(totals + 1, (unsigned long long)rest);
}
