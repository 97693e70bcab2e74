// Vectors and the rows of V for the L-curve lab: norms, Gram-Schmidt, sums of rows. Compile with -DREAL=float|double
// -DLINES=4 ... 32.
//
// Expected on an H200, n = 15 000, float32, averaged over k = 0 ... 580 rows (17.4 MB): `project` reads them from memory in
// 4.1 us and `subtract` again, most of them from the second-level cache; with launch and tail 6 and 5 us. `merge` reads
// 132 x 60 KB = 7.9 MB, which has just been written, from that cache: 3 us.

#include "vectors.cuh"

// ---- norms ---------------------------------------------------------------------------------------------------------

// made: sums of squares of x (count,), one a block.
extern "C" __global__ void __launch_bounds__(256)
squares(const REAL* __restrict__ x, int count, double* made)
{
    double sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        sum += double(x[i]) * double(x[i]);
    block_total(sum, made);
}

// Ends a run of steps: *alpha = |w| from its partial sums, v = w / alpha (width,), and u (height,) divided by *beta.
extern "C" __global__ void __launch_bounds__(256)
finish(const REAL* __restrict__ w, REAL* v, int width, REAL* u, int height, const double* squares, int counted,
       double* alpha, const double* beta, const double* tiny)
{
    const double size = root_of(squares, counted, tiny);
    const REAL factor = inverse(size), left = inverse(*beta);
    const int first = blockIdx.x * blockDim.x + threadIdx.x, turn = gridDim.x * blockDim.x;
    if (first == 0) *alpha = size;
    for (int i = first; i < width; i += turn) v[i] = w[i] * factor;
    for (int i = first; i < height; i += turn) u[i] *= left;
}

// ---- scalar products with rows -------------------------------------------------------------------------------------

#define FOLD 4                              // rows that a block multiplies with the same part of w

// parts[row * slices + slice] = the part of M[row] w in that slice of the columns. Grid: rows / FOLD times slices.
extern "C" __global__ void __launch_bounds__(256)
project(const REAL* __restrict__ M, int rows, int width, const REAL* __restrict__ w, int slices, REAL* parts)
{
    __shared__ REAL sums[FOLD][8];
    const int first = blockIdx.x * FOLD, wide = ((width + slices - 1) / slices + VECTOR - 1) / VECTOR * VECTOR;
    const int low = blockIdx.y * wide, high = min(width, low + wide);
    const bool aligned = width % VECTOR == 0 && (size_t)M % 16 == 0 && (size_t)w % 16 == 0;
    const REAL* line[FOLD];
    REAL sum[FOLD];
    #pragma unroll
    for (int i = 0; i < FOLD; i++) {
        line[i] = M + (size_t)min(first + i, rows - 1) * width;
        sum[i] = 0;
    }
    if (aligned) {
        for (int j = low + threadIdx.x * VECTOR; j < high; j += 256 * VECTOR) {
            const Vector x = *(const Vector*)(w + j);
            #pragma unroll
            for (int i = 0; i < FOLD; i++) {
                const Vector row = *(const Vector*)(line[i] + j);
                #pragma unroll
                for (int k = 0; k < VECTOR; k++) sum[i] += row.v[k] * x.v[k];
            }
        }
    } else {
        for (int j = low + threadIdx.x; j < high; j += 256) {
            const REAL x = w[j];
            #pragma unroll
            for (int i = 0; i < FOLD; i++) sum[i] += line[i][j] * x;
        }
    }
    #pragma unroll
    for (int i = 0; i < FOLD; i++) {
        sum[i] = group_sum<WARP>(sum[i]);
        if (threadIdx.x % WARP == 0) sums[i][threadIdx.x / WARP] = sum[i];
    }
    __syncthreads();
    const int i = threadIdx.x;
    if (i < FOLD && first + i < rows) {
        REAL all = 0;
        for (int k = 0; k < 8; k++) all += sums[i][k];
        parts[(size_t)(first + i) * slices + blockIdx.y] = all;
    }
}

// ---- sums of rows --------------------------------------------------------------------------------------------------

// A block adds LINES rows at once, a warp each, and TILE columns of them; it needs as many threads as it has columns.
#define TILE (WARP * VECTOR)
static_assert(LINES * WARP >= TILE, "LINES");
#define CHUNK (LINES * WARP)                // weights held at once

// Calls take(column, sum of weight_i M[i, column]) once for each column that the block has, in threads that differ.
// weight_i = the sum of slices parts, or 1 where slices is 0. prepare() is called by all threads, before any take.
template <class Prepare, class Take>
__device__ __forceinline__ void sum_rows(const REAL* __restrict__ M, int rows, int width, const REAL* __restrict__ parts,
                                         int slices, Prepare prepare, Take take)
{
    __shared__ REAL weights[CHUNK];
    __shared__ REAL sums[LINES][TILE];
    const int x = threadIdx.x % WARP * VECTOR, y = threadIdx.x / WARP;
    const bool aligned = width % VECTOR == 0 && (size_t)M % 16 == 0;
    for (int left = blockIdx.x * TILE; left < width; left += gridDim.x * TILE) {
        REAL total[VECTOR];
        #pragma unroll
        for (int k = 0; k < VECTOR; k++) total[k] = 0;
        for (int top = 0; top < rows; top += CHUNK) {
            __syncthreads();
            const int mine = top + threadIdx.x;
            if (mine < rows) {
                REAL weight = slices ? 0 : 1;
                for (int s = 0; s < slices; s++) weight += parts[(size_t)mine * slices + s];
                weights[threadIdx.x] = weight;
            }
            __syncthreads();
            const int count = min(CHUNK, rows - top);
            const REAL* line = M + (size_t)(top + y) * width + left + x;
            if (aligned && left + x < width) {
                #pragma unroll 4
                for (int i = y; i < count; i += LINES, line += (size_t)LINES * width) {
                    const Vector row = *(const Vector*)line;
                    #pragma unroll
                    for (int k = 0; k < VECTOR; k++) total[k] += weights[i] * row.v[k];
                }
            } else {
                for (int i = y; i < count; i += LINES, line += (size_t)LINES * width) {
                    #pragma unroll
                    for (int k = 0; k < VECTOR; k++)
                        if (left + x + k < width) total[k] += weights[i] * line[k];
                }
            }
        }
        #pragma unroll
        for (int k = 0; k < VECTOR; k++) sums[y][x + k] = total[k];
        prepare();
        __syncthreads();
        const int column = left + threadIdx.x;
        if (threadIdx.x < TILE && column < width) {
            REAL sum = 0;
            for (int i = 0; i < LINES; i++) sum += sums[i][threadIdx.x];
            take(column, sum);
        }
        __syncthreads();
    }
}

// w -= c M, where c_i is the sum of its parts. made: sums of squares of w, one a block.
extern "C" __global__ void __launch_bounds__(LINES * WARP, 1)
subtract(const REAL* __restrict__ M, int rows, int width, const REAL* __restrict__ parts, int slices, REAL* w, double* made)
{
    double square = 0;
    sum_rows(M, rows, width, parts, slices, [] {}, [&](int column, REAL sum) {
        const REAL value = w[column] - sum;
        w[column] = value;
        square += double(value) * double(value);
    });
    block_total(square, made);
}

// x = y M.
extern "C" __global__ void __launch_bounds__(LINES * WARP, 1)
combine(const REAL* __restrict__ M, int rows, int width, const REAL* __restrict__ y, REAL* x)
{
    sum_rows(M, rows, width, y, 1, [] {}, [&](int column, REAL sum) { x[column] = sum; });
}

// w = (the sum of all rows of M) / beta - beta v, where beta is the root of the sum of `squares`, and is written; v may
// be null. made: sums of squares of w, one a block.
extern "C" __global__ void __launch_bounds__(LINES * WARP, 1)
merge(const REAL* __restrict__ M, int rows, int width, const double* squares, int counted, double* beta,
      const REAL* __restrict__ v, REAL* w, double* made, const double* tiny)
{
    const double part = root_part(squares, counted);  // under way while the rows are read
    REAL factor = 0, shift = 0;
    const auto norm = [&] {
        const double size = root_from(part, tiny);
        factor = inverse(size), shift = REAL(size);
        if (blockIdx.x == 0 && threadIdx.x == 0) *beta = size;
    };
    double square = 0;
    sum_rows(M, rows, width, nullptr, 0, norm, [&](int column, REAL sum) {
        const REAL value = sum * factor - (v ? shift * v[column] : REAL(0));
        w[column] = value;
        square += double(value) * double(value);
    });
    block_total(square, made);
}
