// From a field of numbers to one that can be coloured, in CUDA C. One thread a pixel; the histogram has its own cut.

#define THREADS 256  // a block
#define BINS 2048    // of a histogram that a block counts at once, in shared memory

__device__ __forceinline__ bool is_finite(float value) { return value - value == 0; }

// out (size) = log2(values) where values > 0, else NaN.
extern "C" __global__ void __launch_bounds__(256)
logarithm(const float* __restrict__ values, float* out, int size)
{
    const int k = blockIdx.x * THREADS + threadIdx.x;
    if (k < size) out[k] = values[k] > 0 ? log2f(values[k]) : nanf("");
}

// ---- histogram ----------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(256)
clear(unsigned long long* out, int bins)
{
    const int k = blockIdx.x * THREADS + threadIdx.x;
    if (k < bins) out[k] = 0;
}

// out += counts of values (ny, nx): block (x, y) counts rows x, x + gridDim.x, .. into the BINS bins from BINS y on.
extern "C" __global__ void __launch_bounds__(256)
histogram(const float* __restrict__ values, unsigned long long* out, int ny, int nx, int bins, double low, double high,
          double scale)
{
    __shared__ unsigned seen[BINS];
    const int first = blockIdx.y * BINS, here = min(bins - first, BINS);
    for (int k = threadIdx.x; k < here; k += THREADS) seen[k] = 0;
    __syncthreads();
    for (int i = blockIdx.x; i < ny; i += gridDim.x)
        for (int j = threadIdx.x; j < nx; j += THREADS) {
            const double value = values[(size_t)i * nx + j];
            if (!(value >= low && value <= high)) continue;
            const int k = min((int)((value - low) * scale), bins - 1) - first;
            if (k >= 0 && k < here) atomicAdd(&seen[k], 1u);
        }
    __syncthreads();
    for (int k = threadIdx.x; k < here; k += THREADS)
        if (seen[k]) atomicAdd(&out[first + k], (unsigned long long)seen[k]);
}

// ---- levels -------------------------------------------------------------------------------------------------------

// The share of values below this one. Rounded as in NumPy: no fused steps.
__device__ __forceinline__ double share_below(double value, double low, double high, const float* table, int bins)
{
    if (low == high && value == low) return 0.5;
    double place = value < low ? 0 : bins;
    if (low < high) place = min(max((value - low) * (bins / (high - low)), 0.0), (double)bins);
    const int left = min((int)place, bins - 1);
    const double before = table[left], after = table[left + 1];
    return __dadd_rn(before, __dmul_rn(place - left, after - before));
}

extern "C" __global__ void __launch_bounds__(256)
equalise(const float* __restrict__ values, unsigned char* out, int size, double low, double high,
         const float* __restrict__ table, int bins)
{
    const int k = blockIdx.x * THREADS + threadIdx.x;
    if (k >= size) return;
    const float value = values[k];
    if (!is_finite(value)) out[k] = 255;
    else out[k] = (unsigned char)floor(__dadd_rn(__dmul_rn(254, share_below(value, low, high, table, bins)), 0.5));
}

// Of an unfinished picture: out (py, px) = 254 where it is 255 and the count of a sample of its block is below 0; what is
// 254 becomes 253. Samples are every stride-th pixel of counts (ny, nx).
extern "C" __global__ void __launch_bounds__(256)
mark(const int* __restrict__ counts, unsigned char* out, int ny, int nx, int py, int px, int y0, int x0, int factor,
     int stride)
{
    const int k = blockIdx.x * THREADS + threadIdx.x;
    if (k >= py * px || out[k] < 254) return;
    if (out[k] == 254) { out[k] = 253; return; }
    const int top = y0 + k / px * factor, left = x0 + k % px * factor;
    const int rows = min((ny - 1) / stride + 1, top + factor), columns = min((nx - 1) / stride + 1, left + factor);
    for (int i = top; i < rows; ++i)
        for (int j = left; j < columns; ++j)
            if (counts[(size_t)i * stride * nx + (size_t)j * stride] < 0) { out[k] = 254; return; }
}

// ---- distance -----------------------------------------------------------------------------------------------------

// The difference per pixel between neighbours, 0 where neither is finite; sets `known` where one is.
__device__ __forceinline__ float slope(float before, float here, float after, bool& known)
{
    const bool left = is_finite(before), right = is_finite(after);
    known = known || left || right;
    if (left && right) return 0.5f * (after - before);
    return left ? here - before : right ? after - here : 0.0f;
}

// Row i is blockIdx.y.
extern "C" __global__ void __launch_bounds__(256)
distance(const float* __restrict__ values, float* out, int ny, int nx)
{
    const int j = blockIdx.x * THREADS + threadIdx.x, i = blockIdx.y;
    if (j >= nx) return;
    const size_t k = (size_t)i * nx + j;
    const float here = values[k], nothing = nanf("");
    bool known = false;
    const float dy = slope(i > 0 ? values[k - nx] : nothing, here, i + 1 < ny ? values[k + nx] : nothing, known);
    const float dx = slope(j > 0 ? values[k - 1] : nothing, here, j + 1 < nx ? values[k + 1] : nothing, known);
    const float least = 5.9604645e-8f * max(fabsf(here), 1.0f);  // 2^-24: half of float32's last digit
    const float estimate = 1.0f / (0.69314718f * max(sqrtf(dx * dx + dy * dy), least));
    out[k] = known && is_finite(here) ? estimate : nothing;
}

// ---- averages -----------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(256)
blend(const float* __restrict__ values, float* sums, int* hits, int size)
{
    const int k = blockIdx.x * THREADS + threadIdx.x;
    if (k >= size || !(values[k] > 0) || !is_finite(values[k])) return;
    sums[k] += logf(values[k]);
    hits[k]++;
}

extern "C" __global__ void __launch_bounds__(256)
resolve(const float* __restrict__ sums, const int* __restrict__ hits, int samples, float* out, int size)
{
    const int k = blockIdx.x * THREADS + threadIdx.x;
    if (k >= size) return;
    const int n = hits[k];
    out[k] = n > 0 && 2LL * n >= samples ? expf(sums[k] / n) : nanf("");
}
