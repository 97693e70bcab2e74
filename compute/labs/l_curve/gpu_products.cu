// Sparse products by rows for the L-curve lab, with the recurrence's scaling, subtraction and norm in the same pass.
// Compile with -DREAL=float|double -DCOLUMN=u16|i32 -DLANES=1 ... 32 -DTHREADS=... -DSHARED=0|1.
//
// LANES threads share a row. Each takes 8 neighbouring entries at a time: 16 bytes of two-byte columns, 32 of float32.
// A row may start anywhere: it is read from the last multiple of 8 entries on, and what belongs to other rows is
// multiplied by 0. The next 8 entries are under way while these are summed, in the next row too.
//
// Expected on an H200, n = 15 000, density 0.1, float32 (22.5 M entries, 135 MB; copying runs at 4.25 TB/s):
//   memory      135 MB / 4.25 TB/s = 31.8 us
//   gathers     22.5 M / 32 lanes x 3.5 (conflicts of 32 random columns in 32 banks) / 132 SM / 1.8 GHz = 10.4 us, hidden
//   in flight   32 warps x 2 x 1.5 KB = 98 KB an SM; 4.25 TB/s x 0.8 us of latency / 132 = 26 KB would do
//   fixed       launch 1, x into shared memory and the norm 1.5, the last rows 1 us
// together 35 us, 3800 GB/s.

#include "vectors.cuh"

typedef unsigned short u16;
typedef int i32;

#define PACK 8
#define TURN (THREADS / LANES)              // rows that a block has under way

#define WORDS (PACK * (int)sizeof(COLUMN) / 4)
struct __align__(16) Values { REAL v[PACK]; };
struct __align__(16) Columns { unsigned words[WORDS]; };  // unpacked where they are used: doing it earlier waits for them
struct Entries { Values values; Columns columns; };

// A matrix by rows; its arrays can be read PACK entries at a time up to entry `whole`.
struct Matrix { const long long* starts; const COLUMN* columns; const REAL* values; long long whole; };

// A row from the last multiple of PACK entries before it on: entries skip ... end - 1 after `base` are its own, and can
// be read PACK at a time up to `stop`, which is less than end where the arrays end.
struct Row { long long base; int skip, end, stop; };

__device__ __forceinline__ Row row_at(const Matrix& matrix, int row, int last)
{
    Row none = {0, 0, 0, 0};
    if (row >= last) return none;
    const long long begin = matrix.starts[row], end = matrix.starts[row + 1], base = begin / PACK * PACK;
    Row found = {base, int(begin - base), int(end - base), int(min(end, matrix.whole) - base)};
    return found;
}

__device__ __forceinline__ void load(const Matrix& matrix, const Row& row, int at, Entries& entries)
{
    if (at >= row.stop) return;
    entries.values = *(const Values*)(matrix.values + (row.base + at));
    entries.columns = *(const Columns*)(matrix.columns + (row.base + at));
}

// The part of a row's product with factor x that lies in these entries.
__device__ __forceinline__ REAL dot(const Row& row, int at, const Entries& entries, const REAL* x, REAL factor)
{
    REAL sum = 0;
    #pragma unroll
    for (int k = 0; k < PACK; k++) {
        const unsigned word = entries.columns.words[k * WORDS / PACK];
        const unsigned column = sizeof(COLUMN) == 4 ? word : k % 2 ? word >> 16 : word & 0xffff;
        const REAL value = (unsigned)(at + k - row.skip) < (unsigned)(row.end - row.skip) ? entries.values.v[k] : REAL(0);
        sum += value * (x[column] * factor);
    }
    return sum;
}

// The same for the last few entries of the arrays, fewer than PACK, if they are this row's.
__device__ __forceinline__ REAL rest(const Matrix& matrix, const Row& row, const REAL* x, REAL factor)
{
    REAL sum = 0;
    #pragma unroll 1
    for (int at = max(row.skip, row.stop); at < row.end; at++)
        sum += matrix.values[row.base + at] * (x[matrix.columns[row.base + at]] * factor);
    return sum;
}

// out = matrix x - norm old, with x = source / norm. All vectors are normalised where they are read:
// counted > 0: norm is that of `source`, from its partial sums `squares`, and is written to *norm; counted == 0: source is
// normalised, and *norm is read. stored: x is written there too, or null. old: what is subtracted, or null, still to be
// divided by *divisor unless that is null. made: sums of squares of out, one a block, or null.
extern "C" __global__ void __launch_bounds__(THREADS)
recur(const long long* __restrict__ starts, const COLUMN* __restrict__ columns, const REAL* __restrict__ values, int rows,
      int width, const REAL* __restrict__ source, const double* squares, int counted, double* norm, REAL* stored,
      const REAL* old, const double* divisor, REAL* out, double* made, const double* tiny)
{
    const int lane = threadIdx.x % LANES, share = (rows + gridDim.x - 1) / gridDim.x;
    const int last = min(rows, int(blockIdx.x + 1) * share);
    const Matrix matrix = {starts, columns, values, starts[rows] / PACK * PACK};
    int i = blockIdx.x * share + threadIdx.x / LANES;
    Row row = row_at(matrix, i, last);
    int at = lane * PACK;
    Entries now, next;
    load(matrix, row, at, now);

    REAL factor = 1;
#if SHARED
    extern __shared__ __align__(16) REAL x[];
    copy_in(source, width, x);
#else
    const REAL* x = source;
#endif
    double size = 0;
    if (counted) {
        size = root_of(squares, counted, tiny);
        factor = inverse(size);
        if (blockIdx.x == 0 && threadIdx.x == 0) *norm = size;
    } else if (old) {
        size = *norm;
    }
    if (stored)
        for (int j = blockIdx.x * THREADS + threadIdx.x; j < width; j += gridDim.x * THREADS) stored[j] = source[j] * factor;
#if SHARED
    scale_in(factor, source, width, x);
    factor = 1;
    __syncthreads();
#endif
    const REAL shift = REAL(size), left = divisor ? inverse(*divisor) : REAL(1);

    double square = 0;
    for (int first = i - threadIdx.x / LANES; first < last; first += TURN) {
        const Row after = row_at(matrix, i + TURN, last);
        const REAL subtracted = old && lane == 0 && i < last ? shift * (old[i] * left) : REAL(0);
        REAL sum = 0;
        while (at < row.stop) {
            load(matrix, row, at + LANES * PACK, next);
            sum += dot(row, at, now, x, factor);
            at += LANES * PACK;
            if (at >= row.stop) break;
            load(matrix, row, at + LANES * PACK, now);
            sum += dot(row, at, next, x, factor);
            at += LANES * PACK;
        }
        if (lane == 0 && row.stop < row.end) sum += rest(matrix, row, x, factor);
        row = after;
        at = lane * PACK;
        load(matrix, row, at, now);
        sum = group_sum<LANES>(sum);
        if (lane == 0 && i < last) {
            const REAL value = sum - subtracted;
            out[i] = value;
            square += double(value) * double(value);
        }
        i += TURN;
    }
    if (made) block_total(square, made);
}
