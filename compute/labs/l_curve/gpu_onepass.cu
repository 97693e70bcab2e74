// A step of the recurrence in one pass over A: each row is multiplied with v, and, still in registers, added to the sum of
// rows that makes the product with the transpose. Compile with -DREAL=float|double -DWARPS=... -DROWS=1|2|4|8 -DDEPTH=...
//
// A block has v and its sum of rows in shared memory. Of every row its warps have the columns of a range each, so that no
// two of them add to the same column, and a barrier is needed only where they add up the row's scalar product: one for
// ROWS rows. A lane has 8 entries of each of these rows in registers, DEPTH - 1 further turns are under way. gpu_onepass.py
// lays the entries out: 8 for a lane one after the other, and those that the lanes of a warp use at the same time mostly
// in different banks of shared memory; what is left over has the value 0 and column `width`, which is nobody's.
//
// Expected on an H200, n = 15 000, density 0.1, float32 (138 MB with 2 % left over):
//   memory      138 MB / 4.25 TB/s = 32.5 us
//   banks       a gather, and a gather and a scatter for the sum: 3 x 22.5 M / 23.4 lanes x 1.65 (conflicts, counted; 2.95
//               for columns in order) / 132 SM / 1.8 GHz = 20 us, and 3 us for the loads, hidden if the warps drift apart
//   fixed       launch 1, v into shared memory 1, 60 KB of sums a block written 1.5, and `merge` 4 us
// together 40 us a step without the orthogonalisation, where two products take 70.

#include "vectors.cuh"

typedef unsigned short u16;

#define PACK 8
#define THREADS (WARPS * WARP)
static_assert(DEPTH % 2 == 0, "two turns that follow each other must not share their scalars");

struct __align__(16) Values { REAL v[PACK]; };
struct __align__(16) Columns { unsigned words[PACK / 2]; };    // unpacked where they are used
struct Part { Values values; Columns columns; };                // a lane's part of a row
struct Turn { Part parts[ROWS]; REAL old; };                    // of ROWS rows; and the number in u of the lane's own row

__device__ __forceinline__ unsigned column_of(const Columns& columns, int k)
{
    return k % 2 ? columns.words[k / 2] >> 16 : columns.words[k / 2] & 0xffff;
}

// Where the packs of ROWS rows begin and end for this warp; the same ones where there is no row.
struct Spans { int begin[ROWS], end[ROWS]; };

__device__ __forceinline__ void find(const int* starts, int row, int last, Spans& spans)
{
    #pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int at = (row + r) * WARPS + threadIdx.x / WARP;
        spans.begin[r] = row + r < last ? starts[at] : 0;
        spans.end[r] = row + r < last ? starts[at + 1] : 0;
    }
}

__device__ __forceinline__ void load(const REAL* values, const u16* columns, const REAL* u, const Spans& spans, int row,
                                     int last, int width, Turn& turn)
{
    const int lane = threadIdx.x % WARP, own = row + lane / (WARP / ROWS);
    turn.old = own < last ? u[own] : REAL(0);
    #pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int at = spans.begin[r] + lane;
        Part& part = turn.parts[r];
        if (at < spans.end[r]) {
            part.values = ((const Values*)values)[at];
            part.columns = ((const Columns*)columns)[at];
        } else {
            #pragma unroll
            for (int k = 0; k < PACK; k++) part.values.v[k] = 0;
            #pragma unroll
            for (int k = 0; k < PACK / 2; k++) part.columns.words[k] = width * 0x10001u;
        }
    }
}

// sums[r] over the warp, for all r with few shuffles: half of the lanes go on with half of the sums. Returns sums[r] where
// lane * ROWS / WARP == r.
__device__ __forceinline__ REAL fold(REAL (&sums)[ROWS])
{
    int by = WARP / 2;
    #pragma unroll
    for (int half = ROWS / 2; half; half /= 2, by /= 2) {
        const bool upper = threadIdx.x & by;
        #pragma unroll
        for (int r = 0; r < half; r++) {
            const REAL given = upper ? sums[r] : sums[r + half];
            sums[r] = (upper ? sums[r + half] : sums[r]) + __shfl_xor_sync(EVERY, given, by);
        }
    }
    #pragma unroll
    for (; by; by /= 2) sums[0] += __shfl_xor_sync(EVERY, sums[0], by);
    return sums[0];
}

// u = A v - norm u and sums[block] = transpose(A) u for this block's rows, with v = source / norm and all else as in
// gpu_products.cu's `recur`. starts: (rows * WARPS + 1,) in packs, of every row for every warp; sums: (blocks, width).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
sweep(const int* __restrict__ starts, const u16* __restrict__ columns, const REAL* __restrict__ values, int rows, int width,
      const REAL* __restrict__ source, const double* squares, int counted, double* norm, REAL* stored, REAL* u,
      const double* divisor, REAL* __restrict__ sums, double* made, double tiny)
{
    __shared__ REAL scalars[2][WARPS][ROWS];
    extern __shared__ __align__(16) REAL pool[];
    const int padded = (width + VECTOR) / VECTOR * VECTOR;     // with room for column `width`
    REAL *x = pool, *sum = pool + padded;
    const int share = (rows + gridDim.x - 1) / gridDim.x;
    const int thread = threadIdx.x, warp = thread / WARP, lane = thread % WARP;
    const int first = blockIdx.x * share, last = min(rows, first + share);

    Turn ring[DEPTH];
    Spans spans;
    #pragma unroll
    for (int d = 0; d < DEPTH - 1; d++) {
        find(starts, first + d * ROWS, last, spans);
        load(values, columns, u, spans, first + d * ROWS, last, width, ring[d]);
    }
    find(starts, first + (DEPTH - 1) * ROWS, last, spans);

    copy_in(source, width, x);
    for (int j = thread; j < padded; j += THREADS) sum[j] = 0;
    if (thread < padded - width) x[width + thread] = 0;
    double size = 0;
    REAL factor = 1;
    if (counted) {
        size = root_of(squares, counted, tiny);
        factor = inverse(size);
        if (blockIdx.x == 0 && thread == 0) *norm = size;
    } else {
        size = *norm;
    }
    scale_in(factor, source, width, x);
    if (stored)
        for (int j = blockIdx.x * THREADS + thread; j < width; j += gridDim.x * THREADS) stored[j] = source[j] * factor;
    const REAL shift = REAL(size), left = divisor ? inverse(*divisor) : REAL(1);
    __syncthreads();

    double square = 0;
    for (int top = first; top < last; top += DEPTH * ROWS) {
        #pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            const int row = top + d * ROWS, ahead = row + (DEPTH - 1) * ROWS;
            if (row >= last) break;
            load(values, columns, u, spans, ahead, last, width, ring[(d + DEPTH - 1) % DEPTH]);
            find(starts, ahead + ROWS, last, spans);
            const Turn& now = ring[d];
            REAL total[ROWS];
            #pragma unroll
            for (int r = 0; r < ROWS; r++) {
                total[r] = 0;
                #pragma unroll
                for (int k = 0; k < PACK; k++) total[r] += now.parts[r].values.v[k] * x[column_of(now.parts[r].columns, k)];
            }
            REAL scalar = fold(total);
            if (warp == 0) scalar -= shift * (now.old * left);
            if (lane % (WARP / ROWS) == 0) scalars[d % 2][warp][lane / (WARP / ROWS)] = scalar;
            __syncthreads();
            #pragma unroll
            for (int r = 0; r < ROWS; r++) {
                REAL p = 0;
                #pragma unroll
                for (int i = 0; i < WARPS; i++) p += scalars[d % 2][i][r];
                if (thread == r && row + r < last) {
                    u[row + r] = p;
                    square += double(p) * double(p);
                }
                REAL before[PACK];
                #pragma unroll
                for (int k = 0; k < PACK; k++) before[k] = sum[column_of(now.parts[r].columns, k)];
                #pragma unroll
                for (int k = 0; k < PACK; k++) sum[column_of(now.parts[r].columns, k)] = before[k] + p * now.parts[r].values.v[k];
                __syncwarp();                                   // the next row may have the same columns in other lanes
            }
        }
    }
    __syncthreads();
    REAL* line = sums + (size_t)blockIdx.x * width;
    copy_in(sum, width, line);
    block_total(square, made);
}
