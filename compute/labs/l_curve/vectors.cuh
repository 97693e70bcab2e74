// What the L-curve lab's kernels share: sums over a warp or a block, and norms. Compile with -DREAL=float|double.

#define WARP 32
#define EVERY 0xffffffffu                   // lanes that take part in a shuffle
#define VECTOR (16 / (int)sizeof(REAL))     // reals in 16 bytes, the most that a thread loads at once

struct __align__(16) Vector { REAL v[VECTOR]; };

// The sum over the COUNT threads of a group, in its first one.
template <int COUNT, class T> __device__ __forceinline__ T group_sum(T value)
{
    #pragma unroll
    for (int by = COUNT / 2; by; by /= 2) value += __shfl_down_sync(EVERY, value, by);
    return value;
}

// made[block] = the sum of value over the block, of at most 32 warps, in a fixed order.
__device__ __forceinline__ void block_total(double value, double* made)
{
    __shared__ double totals[WARP];
    value = group_sum<WARP>(value);
    if (threadIdx.x % WARP == 0) totals[threadIdx.x / WARP] = value;
    __syncthreads();
    if (threadIdx.x < WARP) {
        value = group_sum<WARP>(threadIdx.x < blockDim.x / WARP ? totals[threadIdx.x] : 0.0);
        if (threadIdx.x == 0) made[blockIdx.x] = value;
    }
}

// A part of the sum of squares[0 ... counted - 1], in the threads of the block's first warp: loads that others may follow.
__device__ __forceinline__ double root_part(const double* squares, int counted)
{
    double sum = 0;
    if (threadIdx.x < WARP)
        for (int i = threadIdx.x; i < counted; i += WARP) sum += squares[i];
    return sum;
}

// The root of the sum of these parts, 0 if it is at most *tiny (0 for null); the same bits in every block. All threads of
// the block must call it; it is a barrier. tiny lies in memory since a CUDA graph keeps its arguments.
__device__ __forceinline__ double root_from(double part, const double* tiny)
{
    __shared__ double root;
    if (threadIdx.x < WARP) {
        const double sum = sqrt(group_sum<WARP>(part));
        if (threadIdx.x == 0) root = sum <= (tiny ? *tiny : 0.0) ? 0.0 : sum;
    }
    __syncthreads();
    return root;
}

__device__ __forceinline__ double root_of(const double* squares, int counted, const double* tiny)
{
    return root_from(root_part(squares, counted), tiny);
}

// What a vector of this norm is multiplied by to normalise it; 0 for a norm of 0.
__device__ __forceinline__ REAL inverse(double norm)
{
    return norm == 0 ? REAL(0) : REAL(1 / norm);
}

// x = source (width,), the block's threads together; many loads at once, since nothing else hides their latency.
__device__ __forceinline__ void copy_in(const REAL* source, int width, REAL* x)
{
    if (width % VECTOR == 0 && (size_t)source % 16 == 0 && (size_t)x % 16 == 0) {
        #pragma unroll 8
        for (int i = threadIdx.x; i < width / VECTOR; i += blockDim.x) ((Vector*)x)[i] = ((const Vector*)source)[i];
    } else {
        #pragma unroll 8
        for (int i = threadIdx.x; i < width; i += blockDim.x) x[i] = source[i];
    }
}

// x *= factor, each thread what it has copied.
__device__ __forceinline__ void scale_in(REAL factor, const REAL* source, int width, REAL* x)
{
    const bool vectors = width % VECTOR == 0 && (size_t)source % 16 == 0 && (size_t)x % 16 == 0;
    const int each = vectors ? VECTOR : 1;
    for (int i = threadIdx.x; i < width / each; i += blockDim.x)
        for (int k = 0; k < each; k++) x[i * each + k] *= factor;
}
