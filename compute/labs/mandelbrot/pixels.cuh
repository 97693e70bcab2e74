// What the Mandelbrot kernels share: which pixel a thread owns, and what is written when it is finished.

enum { ACTIVE, ESCAPED, PERIODIC };

#define THREADS 128  // of a block, as in gpu_launch.py: warps of 8 x 4 pixels, one below the other

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

// log2 of a normal number, in one instruction: __log2f adds three for those that are not.
__device__ __forceinline__ float log2_normal(float value)
{
#ifdef __CUDA_ARCH__
    float out;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(value));
    return out;
#else
    return __log2f(value);
#endif
}

// A step in float32 for as long as |z| is below 1e4; counted.
__device__ __forceinline__ bool grow(float& a, float& b, float& size, float re, float im, int& k)
{
    if (size >= 1e8f) return false;
    const float t = re - b * b;
    b = 2 * a * b + im;
    a = a * a + t;
    size = a * a + b * b;
    k++;
    return true;
}

// n + 1 - log2(ln|z_n| / ln 2), read off a few steps later where it is accurate: to 1e-6, less than a float32 holds from
// n = 16 on. Only until |z| = 4 can a step magnify an error (near c = -2), so that float32 is enough for the steps after.
template <class T> __device__ __forceinline__ float smooth_count(T x, T y, T cr, T ci, int n)
{
    int k = 1;
    #pragma unroll 1
    for (; k < 62 && x * x + y * y < T(16); k++) {
        const T t = cr - y * y;
        y = T(2) * x * y + ci;
        x = x * x + t;
    }
    float a = x, b = y, size = a * a + b * b;
    const float re = cr, im = ci;
    if (!(size < 1e30f)) {  // only from z_1 = c, far outside, can it have come here: read off there
        a = re;
        b = im;
        size = a * a + b * b;
        n = 1;
        k = 1;
    }
    if (grow(a, b, size, re, im, k) && grow(a, b, size, re, im, k)) grow(a, b, size, re, im, k);  // 4, 14, 194, 37600
    return float(n) + (float(k) - log2_normal(log2_normal(size) * 0.5f));
}

// totals[0] += done, totals[1] += left, summed over the block first: an atomic addition a warp took 0.11 ms for the
// 187 500 warps of 3000 x 2000 pixels, longer than all else. Every thread must come here, once.
__device__ __forceinline__ void add_up(unsigned long long* totals, int done, int left)
{
    __shared__ unsigned sums[THREADS / 32];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned sum = __reduce_add_sync(0xffffffffu, unsigned(done));  // 32 x 1e8 iterations fit in
    if (thread % 32 == 0) sums[thread / 32] = sum;
    const unsigned rest = __syncthreads_count(left);
#else
    __shared__ unsigned rests[THREADS / 32];
    unsigned sum = done, rest = left;
    for (int by = 16; by > 0; by /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, by);
        rest += __shfl_down_sync(0xffffffffu, rest, by);
    }
    if (thread % 32 == 0) {
        sums[thread / 32] = sum;
        rests[thread / 32] = rest;
    }
    __syncthreads();
    rest = 0;
    for (int k = 0; k < THREADS / 32; k++) rest += rests[k];
#endif
    if (thread > 0) return;
    unsigned long long all = 0;
    #pragma unroll
    for (int k = 0; k < THREADS / 32; k++) all += sums[k];
    if (all) atomicAdd(totals, all);
    if (rest) atomicAdd(totals + 1, (unsigned long long)rest);
}
