// From a field to what the screen needs, in CUDA C. Compile with -DREAL=float|double|int, the type of the field.

#define EVERY_LANE 0xffffffffu
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)

__device__ __forceinline__ bool is_finite(double value)
{
    return value - value == 0;
}

// ---- survey: minimum, maximum, sum of the finite cells and the number of the others -------------------------------

struct Seen { double low, high, sum, bad; };

__device__ __forceinline__ void include(Seen& seen, double low, double high, double sum, double bad)
{
    seen.low = min(seen.low, low);
    seen.high = max(seen.high, high);
    seen.sum += sum;
    seen.bad += bad;
}

// Joins what the 256 threads of a block saw, always in the same order, into out[0..3].
__device__ __forceinline__ void join(Seen seen, double* out)
{
    __shared__ Seen warps[8];
    for (int step = 16; step; step /= 2)
        include(seen, __shfl_down_sync(EVERY_LANE, seen.low, step), __shfl_down_sync(EVERY_LANE, seen.high, step),
                __shfl_down_sync(EVERY_LANE, seen.sum, step), __shfl_down_sync(EVERY_LANE, seen.bad, step));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = seen;
    __syncthreads();
    if (threadIdx.x) return;
    for (int w = 1; w < 8; w++) include(seen, warps[w].low, warps[w].high, warps[w].sum, warps[w].bad);
    out[0] = seen.low;
    out[1] = seen.high;
    out[2] = seen.sum;
    out[3] = seen.bad;
}

__device__ unsigned int surveyed = 0;  // blocks that are done with the survey under way, of which there is one at a time

// out (4) of u (cells). work (gridDim.x, 4): what each block saw; the last one that is done joins that. A second launch for
// it would take the host 10 us.
extern "C" __global__ void __launch_bounds__(256)
survey(const REAL* __restrict__ u, double* work, double* out, long long cells)
{
    Seen seen = {INFINITE, -INFINITE, 0, 0};
    #pragma unroll 4
    for (long long i = blockIdx.x * 256 + threadIdx.x; i < cells; i += gridDim.x * 256) {
        const double value = u[i];
        if (is_finite(value)) include(seen, value, value, value, 0);
        else seen.bad += 1;
    }
    join(seen, work + 4 * blockIdx.x);

    __shared__ bool last;
    if (threadIdx.x == 0) {
        __threadfence();  // what this block saw is to be seen before it counts as done
        last = atomicInc(&surveyed, gridDim.x - 1) == gridDim.x - 1;  // which makes it 0 again
    }
    __syncthreads();
    if (!last) return;
    const volatile double* parts = work;  // other blocks wrote it: not from this one's cache
    Seen all = {INFINITE, -INFINITE, 0, 0};
    for (unsigned int i = threadIdx.x; i < gridDim.x; i += 256)
        include(all, parts[4 * i], parts[4 * i + 1], parts[4 * i + 2], parts[4 * i + 3]);
    join(all, out);
}

// out = u, `value` where mask is 1 or larger
extern "C" __global__ void __launch_bounds__(256)
exclude(const REAL* __restrict__ u, const REAL* __restrict__ mask, REAL value, REAL* out, long long cells)
{
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i < cells) out[i] = mask[i] >= 1 ? value : u[i];
}

// ---- reduce: means of square blocks -------------------------------------------------------------------------------

// Blocks of cells, py x px of them from cell (y0, x0) on, each of factor x factor cells but for the last ones.
struct Blocks { int ny, nx, y0, x0, factor, py, px; };

// The mean of block `pixel`, in the first of the `lanes` neighbouring threads (a power of two up to 32) that share it and
// read along its rows; all of a warp must call it.
__device__ __forceinline__ float block_mean(const REAL* __restrict__ u, const Blocks& at, long long pixel, int lanes)
{
    const int top = at.y0 + (int)(pixel / at.px) * at.factor, left = at.x0 + (int)(pixel % at.px) * at.factor;
    const int bottom = min(top + at.factor, at.ny), right = min(left + at.factor, at.nx), lane = threadIdx.x % lanes;
    double sum = 0;
    for (int y = top; y < bottom; y++)
        for (int x = left + lane; x < right; x += lanes) sum += u[(long long)y * at.nx + x];
    for (int step = lanes / 2; step; step /= 2) sum += __shfl_down_sync(EVERY_LANE, sum, step);
    return (float)(sum / ((double)(bottom - top) * (right - left)));
}

__device__ __forceinline__ unsigned char level_of(double value, double low, double high)
{
    if (!is_finite(value)) return 255;
    if (low == high) return value < low ? 0 : value == low ? 127 : 254;
    return (unsigned char)rint(min(max((value - low) * (254 / (high - low)), 0.0), 254.0));
}

extern "C" __global__ void __launch_bounds__(256)
block_means(const REAL* __restrict__ u, float* out, int ny, int nx, int y0, int x0, int factor, int py, int px,
            int lanes)
{
    const long long pixels = (long long)py * px, mine = ((long long)blockIdx.x * 256 + threadIdx.x) / lanes;
    const long long pixel = min(mine, pixels - 1);  // threads beyond the last pixel stay for the shuffles
    const float mean = block_mean(u, Blocks{ny, nx, y0, x0, factor, py, px}, pixel, lanes);
    if (threadIdx.x % lanes == 0 && mine < pixels) out[mine] = mean;
}

// The same and to_levels in one: a picture takes one launch less, and no memory for the means.
extern "C" __global__ void __launch_bounds__(256)
block_levels(const REAL* __restrict__ u, unsigned char* out, int ny, int nx, int y0, int x0, int factor, int py, int px,
             int lanes, double low, double high)
{
    const long long pixels = (long long)py * px, mine = ((long long)blockIdx.x * 256 + threadIdx.x) / lanes;
    const long long pixel = min(mine, pixels - 1);
    const float mean = block_mean(u, Blocks{ny, nx, y0, x0, factor, py, px}, pixel, lanes);
    if (threadIdx.x % lanes == 0 && mine < pixels) out[mine] = level_of(mean, low, high);
}

// ---- levels, window, disc, gather: one thread a cell --------------------------------------------------------------

extern "C" __global__ void
to_levels(const float* __restrict__ values, unsigned char* out, int cells, double low, double high)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < cells) out[i] = level_of(values[i], low, high);
}

// out (height, width) from u (.., nx), upper left cell (y0, x0).
extern "C" __global__ void
copy_window(const REAL* __restrict__ u, double* out, int nx, int y0, int x0, int height, int width)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < width) out[(long long)y * width + x] = u[(long long)(y0 + y) * nx + x0 + x];
}

// Cell (top + i, left + j) has its centre at (i + dy, j + dx) from the disc's. Rounded as in NumPy: no fused steps.
extern "C" __global__ void
fill_disc(REAL* u, int nx, int top, int left, int width, double dy, double dx, double square, REAL value)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= width) return;
    const double y = i + dy, x = j + dx;
    if (__dadd_rn(__dmul_rn(y, y), __dmul_rn(x, x)) <= square) u[(long long)(top + i) * nx + left + j] = value;
}

// out (gridDim.y, width) = source (height, nx) at ((i num + y0) / den, (j num + x0) / den) where both are whole and in it.
extern "C" __global__ void
copy_meeting(const REAL* __restrict__ source, REAL* out, int height, int nx, int width, int num, int den, int y0, int x0,
             REAL fill)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    const int p = i * num + y0, q = j * num + x0;
    if (j >= width) return;
    const bool meets = p >= 0 && q >= 0 && p % den == 0 && q % den == 0 && p / den < height && q / den < nx;
    out[(long long)i * width + j] = meets ? source[(long long)(p / den) * nx + q / den] : fill;
}
