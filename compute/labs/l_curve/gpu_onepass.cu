// A step of the recurrence in one pass over A: each row is multiplied with v, and, still in registers, added to the sum of
// rows that makes the product with the transpose. Compile with -DREAL=float|double -DGROUPS=1|2 -DWARPS=... -DROWS=1|2|4|8
// -DDEPTH=...
//
// A block has v and its sum of rows in shared memory. Of every row its warps have the columns of a range each, so that no
// two of them add to the same column, and a barrier is needed only where they add up the row's scalar product: one for
// ROWS rows. A lane has 8 entries of each of these rows in registers, DEPTH - 1 further turns are under way. A warp waits
// for its own last instruction most of the time, and 8 of them leave two thirds of the issue slots empty; so where there
// is shared memory for it a block has two GROUPS of them, with the same v, rows and a sum of their own. gpu_onepass.py
// lays the entries out: 8 for a lane one after the other, and those that the lanes of a warp use at the same time mostly
// in different banks of shared memory; what is left over of a lane has the value 0 and a column beyond `width` that is
// that lane's alone, so that no two threads touch the same number.
//
// Expected on an H200, n = 15 000, density 0.1, float32 (138 MB with 2 % left over):
//   memory      138 MB / 4.25 TB/s = 32.5 us
//   banks       a gather, and a gather and a scatter for the sum: 3 x 22.5 M / 23.4 lanes x 1.40 (conflicts, counted; 2.95
//               for columns in order) / 132 SM / 1.8 GHz = 20 us, and 3 us for the loads, hidden if the warps drift apart
//   fixed       launch 1, v into shared memory 1, 60 KB of sums a block written 1.5, and `merge` 4 us
// together 40 us a step without the orthogonalisation, where two products take 70.
//
// Seen, the pass alone, in us:
//   8 warps, entries dealt out bank by bank (1.65 conflicts), idle lanes at one column   61
//   1.40 conflicts, no idle lanes, values read in whole lines                            57   L1 from 73 % busy to 53
//   the next turn gathered for before this one's sum is added to                         59   254 registers
//   two groups, 2 rows a turn                                                            48   2.9 TB/s
//   two groups, 4 rows a turn, or 4 turns in registers                                87 79   spilled

#include "vectors.cuh"

typedef unsigned short u16;

#define PACK 8
#define THREADS (GROUPS * WARPS * WARP)
static_assert(DEPTH % 2 == 0, "two turns that follow each other must not share their scalars");

#define VECTORS (PACK / VECTOR)                                 // loads of a lane for its values of a row

struct __align__(16) Columns { unsigned words[PACK / 2]; };    // unpacked where they are used
struct Part { Vector values[VECTORS]; Columns columns; bool any; };  // a lane's part of a row; whether it has one
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
        const int at = (row + r) * WARPS + threadIdx.x / WARP % WARPS;
        spans.begin[r] = row + r < last ? starts[at] : 0;
        spans.end[r] = row + r < last ? starts[at + 1] : 0;
    }
}

__device__ __forceinline__ void load(const REAL* values, const u16* columns, const REAL* u, const Spans& spans, int row,
                                     int last, Turn& turn)
{
    const int lane = threadIdx.x % WARP, own = row + lane / (WARP / ROWS);
    turn.old = own < last ? u[own] : REAL(0);
    #pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int begin = spans.begin[r], lanes = spans.end[r] - begin;
        Part& part = turn.parts[r];
        part.any = lane < lanes;
        if (part.any) {
            #pragma unroll
            for (int i = 0; i < VECTORS; i++)
                part.values[i] = ((const Vector*)values)[(size_t)begin * VECTORS + i * lanes + lane];
            part.columns = ((const Columns*)columns)[begin + lane];
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

// A barrier for the threads of a group. All groups pass it as often.
__device__ __forceinline__ void group_barrier(int group)
{
#ifdef __CUDA_ARCH__
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(WARPS * WARP) : "memory");
#else
    __syncthreads();
#endif
}

// u = A v - norm u and sums[block] = transpose(A) u for this block's rows, with v = source / norm and all else as in
// gpu_products.cu's `recur`. starts: (rows * WARPS + 1,) in packs, of every row for every warp; sums: (blocks, width).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
sweep(const int* __restrict__ starts, const u16* __restrict__ columns, const REAL* __restrict__ values, int rows, int width,
      const REAL* __restrict__ source, const double* squares, int counted, double* norm, REAL* stored, REAL* u,
      const double* divisor, REAL* __restrict__ sums, double* made, const double* tiny)
{
    __shared__ Vector scalars[GROUPS][2][ROWS][(WARPS + VECTOR - 1) / VECTOR];
    extern __shared__ __align__(16) REAL pool[];
    const int padded = (width + WARPS * WARP + VECTOR - 1) / VECTOR * VECTOR;  // with a column for each lane
    const int thread = threadIdx.x, lane = thread % WARP, group = thread / (WARPS * WARP), warp = thread / WARP % WARPS;
    REAL *x = pool, *all = pool + padded, *sum = all + group * padded;
    const int share = (rows + GROUPS * gridDim.x - 1) / (GROUPS * gridDim.x);
    const int first = (blockIdx.x * GROUPS + group) * share, last = min(rows, first + share);

    Turn ring[DEPTH];
    Spans spans;
    #pragma unroll
    for (int d = 0; d < DEPTH - 1; d++) {
        find(starts, first + d * ROWS, last, spans);
        load(values, columns, u, spans, first + d * ROWS, last, ring[d]);
    }
    find(starts, first + (DEPTH - 1) * ROWS, last, spans);

    copy_in(source, width, x);
    for (int j = thread; j < GROUPS * padded; j += THREADS) all[j] = 0;
    for (int j = width + thread; j < padded; j += THREADS) x[j] = 0;
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
    for (int top = first; top < first + share; top += DEPTH * ROWS) {
        #pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            const int row = top + d * ROWS, ahead = row + (DEPTH - 1) * ROWS;
            if (row >= first + share) break;
            load(values, columns, u, spans, ahead, last, ring[(d + DEPTH - 1) % DEPTH]);
            find(starts, ahead + ROWS, last, spans);
            const Turn& now = ring[d];
            REAL total[ROWS];
            #pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const Part& part = now.parts[r];
                total[r] = 0;
                if (part.any) {
                    #pragma unroll
                    for (int k = 0; k < PACK; k++)
                        total[r] += part.values[k / VECTOR].v[k % VECTOR] * x[column_of(part.columns, k)];
                }
            }
            REAL scalar = fold(total);
            if (warp == 0) scalar -= shift * (now.old * left);
            if (lane % (WARP / ROWS) == 0) ((REAL*)scalars[group][d % 2][lane / (WARP / ROWS)])[warp] = scalar;
            group_barrier(group);
            #pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const Part& part = now.parts[r];
                REAL p = 0;
                #pragma unroll
                for (int i = 0; i < WARPS; i += VECTOR) {
                    const Vector some = scalars[group][d % 2][r][i / VECTOR];
                    #pragma unroll
                    for (int k = 0; k < VECTOR; k++)
                        if (i + k < WARPS) p += some.v[k];
                }
                if (thread % (WARPS * WARP) == r && row + r < last) {
                    u[row + r] = p;
                    square += double(p) * double(p);
                }
                if (part.any) {
                    REAL before[PACK];
                    #pragma unroll
                    for (int k = 0; k < PACK; k++) before[k] = sum[column_of(part.columns, k)];
                    #pragma unroll
                    for (int k = 0; k < PACK; k++)
                        sum[column_of(part.columns, k)] = before[k] + p * part.values[k / VECTOR].v[k % VECTOR];
                }
                __syncwarp();                                   // the next row may have the same columns in other lanes
            }
        }
    }
    __syncthreads();
    REAL* line = sums + (size_t)blockIdx.x * width;
#if GROUPS > 1
    for (int j = thread; j < width; j += THREADS) line[j] = all[j] + all[j + padded];
#else
    copy_in(sum, width, line);
#endif
    block_total(square, made);
}
