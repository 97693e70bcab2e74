// Diffusion in CUDA C, STEPS steps a launch. Compile with -DREAL=float|double -DSTEPS=8 -DCOLUMNS=4 (cells a lane and
// row) -DBLOCKS=12 (warps an SM holds) -DINNER=0|1 (whether inner strips get a loop of their own).
//
// A warp streams down a strip of columns. For each of STEPS time levels it keeps three rows in registers. In each turn
// one row arrives and every level makes one row of the next time out of its three newest, and hands it to the next
// level: STEPS steps for one read and one write of the grid, no barrier, and the neighbours in x come by shuffle. Row q
// of level t lies in slot (q + t) % 3, which the loop unrolled by three turns into plain registers. Only the last of
// the sums waits for the level before, so that the chain through the levels hides behind the other instructions. Rows
// come from memory through a ring in shared memory, AHEAD turns before they are used; a lane reads what it wrote. Ghost
// cells are filled when they are read and evolve by the same stencil: edges cost nothing per step.
//
// What was tried on an H200, float32, zero flux, Gcell/s at 2000^2, 8192^2 and 16384^2 (copy: 4250 GB/s, so one step a
// launch cannot pass 531):
//   one step a launch, gpu_cupy.cu                                                465   512   527
//   tile in registers, rows between warps through shared memory, T = 12          1067  2081  2253
//   this, levels from last to first (3 T turns to fill), T = 12                  1273  2091  2215
//   the same with rows through cp.async instead of registers, T = 12             1372  2521  2829   loads stall no more
//   levels from first to last (2 T turns to fill), T = 8, RING = 3               1602  2710  2846
//   the same, read columns of edge strips kept in shared memory                  1309  2430  2844   edges hold up all
//   a branch-free loop for inner strips, T = 8, RING = 6                         1382  2618  3142   code fits the cache
//   the same, T = 12 and 8 warps an SM                                           1305  2464  3004
//   128 registers, 16 warps an SM, T = 8                                         1309  2473  3037
//   eight columns a lane, T = 8                                                  1003  2075  2431   too few warps
//   chosen by size, called through CuPy                                          1657  2649  3214
// Later, on another H200, at 4096^2, 8192^2 and on 4096 x 16384 (a slab of four GPUs):
//   one wave of warps, no loop of its own for inner strips                       2131  2547  2407
//   one wave of warps with that loop                                             2265  2739  2586
//   two waves of even bands, as it is now                                          -   2727  2868
//   as many warps as run at once, some strips in one band more                   2260  2720  2681   strips share less
// Bands of 98 rows in four waves give 2575 and 2677 on the last two: two rows a step are read for nothing.
// Zero Dirichlet gives 1475, 2490 and 3014; float64 1035, 1383 and, from run to run, 1311 to 1411. INNER is for large
// grids; small ones, where the time to fill counts, do better with RING = 3 and less code. Five instructions a cell and
// half a shuffle would allow 5300 in strips of 112 columns; the schedulers issue in three of four cycles.

#include "stencil.cuh"

#define RING (INNER ? 6 : 3)   // rows, a multiple of three
#define AHEAD (RING - 1)       // the slot read in one turn is filled from the next turn on
#define GROUP (INNER ? 4 : 2)  // levels between two questions whether they have something to do yet
#define APRON ((STEPS + COLUMNS - 1) / COLUMNS * COLUMNS)  // columns lost on either side, for aligned loads
#define STRIP (32 * COLUMNS)                               // columns a warp reads

struct Stream {
    const REAL* src;
    REAL* dst;
    int ny, nx, edges;
    int top, height;      // first row read, rows to make; row q of a level is row top + q of the grid
    int x;                // this lane's first column, maybe a ghost
    bool aligned;         // no ghost columns, rows on 16-byte boundaries
    bool whole, part;     // this lane writes all its columns at once, or one by one
    bool ragged;          // some lane of the warp writes one by one
    bool odd;             // there are ghosts with a sign: zero Dirichlet only
    Vector* ring;         // this lane's part of row 0 of the ring
    int column[COLUMNS];  // where each column is read
    REAL factor[COLUMNS]; // and with which sign; 0 for a ghost held at zero
};

template <int BYTES>
__device__ __forceinline__ void copy_async(void* shared, const void* global)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(BYTES) : "memory");
#else
    if (BYTES == 16)
        *(Vector*)shared = *(const Vector*)global;
    else
        *(REAL*)shared = *(const REAL*)global;
#endif
}

__device__ __forceinline__ void close_copies()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most PENDING rows are still on their way.
template <int PENDING>
__device__ __forceinline__ void wait_copies()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

// INSIDE: the row and the strip have no ghosts, which saves asking.
template <bool INSIDE>
__device__ __forceinline__ void load_row(const Stream& s, int q, int slot)
{
    int sign, y = s.top + q;
    if (!INSIDE) y = fold(y, s.ny, s.edges, sign);
    Vector* to = s.ring + slot * (STRIP / VECTOR);
    const REAL* line = s.src + offset(y, s.nx);
    if (!INSIDE && !s.aligned) {
        #pragma unroll
        for (int k = 0; k < COLUMNS; k++)
            copy_async<sizeof(REAL)>(&to[k / VECTOR * 32].v[k % VECTOR], line + s.column[k]);
        return;
    }
    #pragma unroll
    for (int k = 0; k < COLUMNS / VECTOR; k++) copy_async<16>(to + k * 32, line + s.x + k * VECTOR);
}

template <bool INSIDE>
__device__ __forceinline__ void take_row(const Stream& s, int q, int slot, REAL (&row)[COLUMNS])
{
    const Vector* from = s.ring + slot * (STRIP / VECTOR);
    #pragma unroll
    for (int k = 0; k < COLUMNS / VECTOR; k++) {
        const Vector v = from[k * 32];
        #pragma unroll
        for (int i = 0; i < VECTOR; i++) row[k * VECTOR + i] = v.v[i];
    }
    if (INSIDE || !s.odd) return;
    int sign;
    fold(s.top + q, s.ny, s.edges, sign);
    #pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        const REAL factor = s.factor[k] * sign;  // a held ghost was read from some cell: inf times 0 would be NaN
        row[k] = factor == 0 ? REAL(0) : row[k] * factor;
    }
}

template <bool INSIDE>
__device__ __forceinline__ void store_row(const Stream& s, int q, const REAL (&row)[COLUMNS])
{
    REAL* line = s.dst + offset(s.top + q, s.nx) + s.x;
    if (s.whole) {
        #pragma unroll
        for (int k = 0; k < COLUMNS; k += VECTOR) {
            Vector v;
            #pragma unroll
            for (int i = 0; i < VECTOR; i++) v.v[i] = row[k + i];
            *(Vector*)(line + k) = v;
        }
    }
    if (!INSIDE && s.ragged) {
        #pragma unroll
        for (int k = 0; k < COLUMNS; k++)
            if (s.part && s.x + k < s.nx) line[k] = row[k];
    }
}

__device__ __forceinline__ void next_row(const REAL (&n)[COLUMNS], const REAL (&c)[COLUMNS], const REAL (&s)[COLUMNS],
                                         REAL r, REAL (&out)[COLUMNS])
{
    const REAL before = __shfl_up_sync(EVERY_LANE, c[COLUMNS - 1], 1);
    const REAL after = __shfl_down_sync(EVERY_LANE, c[0], 1);
    #pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        const REAL w = k ? c[k - 1] : before, e = k + 1 < COLUMNS ? c[k + 1] : after;
        out[k] = fused(r, laplace(n[k], s[k], w, e, c[k]), c[k]);
    }
}

// In a STEADY turn all levels work and all rows are wanted; in a PLAIN one there are no ghosts either.
enum Mode { FILLING, STEADY, PLAIN };

// One turn: level t makes row turn + 1 - t of the next time; row turn + 3 lies in slot at + p of the ring.
template <Mode MODE>
__device__ __forceinline__ void take_turn(const Stream& s, int turn, int p, int at, REAL r,
                                          REAL (&level)[STEPS][3][COLUMNS])
{
    if (MODE != FILLING || turn + 3 + AHEAD < s.height + 2 * STEPS)
        load_row<MODE == PLAIN>(s, turn + 3 + AHEAD, p ? at + p - 1 : (at ? at : RING) - 1);
    close_copies();
    #pragma unroll
    for (int t = 0; t < STEPS; t++) {
        if (MODE == FILLING && t % GROUP == 0 && turn < 2 * t) break;
        REAL made[COLUMNS];
        next_row(level[t][p], level[t][(p + 1) % 3], level[t][(p + 2) % 3], r, made);
        if (t + 1 < STEPS) {
            #pragma unroll
            for (int k = 0; k < COLUMNS; k++) level[min(t + 1, STEPS - 1)][(p + 2) % 3][k] = made[k];
        } else if (MODE != FILLING || (turn >= 2 * STEPS - 2 && turn < s.height + 2 * STEPS - 2)) {
            store_row<MODE == PLAIN>(s, turn + 2 - STEPS, made);
        }
    }
    wait_copies<AHEAD>();
    take_row<MODE == PLAIN>(s, turn + 3, at + p, level[0][p]);
}

// Which rows a launch makes: from `from` on, `rows` for each block of a strip, the next block's `apart` further on, and
// none from `to` on.
struct Cut {
    int from, to, rows, apart;
};

__device__ __forceinline__ Stream open_stream(const REAL* src, REAL* dst, int ny, int nx, int edges, Cut cut, int lane,
                                              Vector* ring)
{
    const int width = STRIP - 2 * APRON, strips = (nx + width - 1) / width;
    const int left = (int)blockIdx.x % strips * width - APRON, first = cut.from + (int)blockIdx.x / strips * cut.apart;
    Stream s;
    s.src = src;
    s.dst = dst;
    s.ny = ny;
    s.nx = nx;
    s.edges = edges;
    s.top = first - STEPS;
    s.height = min(cut.rows, cut.to - first);
    s.x = left + lane * COLUMNS;
    s.ring = ring + lane;
    const bool fits = nx % VECTOR == 0, owner = lane >= APRON / COLUMNS && lane < (STRIP - APRON) / COLUMNS;
    s.aligned = left >= 0 && left + STRIP <= nx && fits && (size_t)src % 16 == 0;
    s.whole = owner && s.x + COLUMNS <= nx && fits && (size_t)dst % 16 == 0;
    s.part = owner && !s.whole;
    s.ragged = left + STRIP - APRON > nx || !fits || (size_t)dst % 16 != 0;
    s.odd = edges == 2 && !(s.aligned && s.top >= 0 && s.top + s.height + 2 * STEPS <= ny);
    #pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        int sign;
        s.column[k] = fold(s.x + k, nx, edges, sign);
        s.factor[k] = sign;
    }
    return s;
}

__device__ __forceinline__ void make_rows(const REAL* __restrict__ src, REAL* __restrict__ dst, int ny, int nx, REAL r,
                                          int edges, Cut cut, Vector* ring)
{
    const Stream s = open_stream(src, dst, ny, nx, edges, cut, threadIdx.x, ring);
    REAL level[STEPS][3][COLUMNS] = {};
    #pragma unroll
    for (int q = 0; q < RING; q++) {
        load_row<false>(s, q, q);
        close_copies();
    }
    wait_copies<RING - 3>();
    #pragma unroll
    for (int q = 0; q < 3; q++) take_row<false>(s, q, q, level[0][q]);
    #pragma unroll
    for (int q = 0; q < 2; q++) {
        load_row<false>(s, RING + q, q);
        close_copies();
    }
    int at = 3 % RING;
    // A steady turn is past all ghosts above; the rows it loads may still be ghosts below.
    const int plain_to = INNER && s.aligned && !s.ragged ? ny - s.top - 5 - AHEAD : 0;
    for (int base = 0; base < s.height + 2 * STEPS - 2; base += 3) {
        const bool steady = base >= 2 * STEPS - 2 && base + 5 + AHEAD < s.height + 2 * STEPS;
        if (INNER && steady && base < plain_to) {
            #pragma unroll
            for (int p = 0; p < 3; p++) take_turn<PLAIN>(s, base + p, p, at, r, level);
        } else if (steady) {
            #pragma unroll
            for (int p = 0; p < 3; p++) take_turn<STEADY>(s, base + p, p, at, r, level);
        } else {
            #pragma unroll
            for (int p = 0; p < 3; p++) take_turn<FILLING>(s, base + p, p, at, r, level);
        }
        at = at + 3 == RING ? 0 : at + 3;
    }
}

// dst = src after STEPS steps; (ny, nx) each, may not overlap. One warp a block; block b owns strip b % strips and the
// `rows` rows from b / strips * rows.
extern "C" __global__ void __launch_bounds__(32, BLOCKS)
many_steps(const REAL* __restrict__ src, REAL* __restrict__ dst, int ny, int nx, REAL r, int edges, int rows)
{
    __shared__ Vector ring[RING * STRIP / VECTOR];
    make_rows(src, dst, ny, nx, r, edges, {0, ny, rows, rows}, ring);
}
