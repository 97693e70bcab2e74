// Diffusion in CUDA C: T steps a launch, one step, the racing in-place kernel, the Laplacian.
//
// Compile with -DREAL=float|double; for the T-step kernel alone, also with -DSTEPS=T -DCOLUMNS=4 -DBLOCKS=<blocks per SM>.
// edges: 0 periodic, 1 zero flux (mirror, u[-1-k] = u[k]), 2 zero Dirichlet (0 at -1 and n, odd reflection beyond).
// Every kernel uses the same laplace() and fused() with explicit rounding: T steps in one launch equal T single steps
// bit for bit, as long as the field is finite.

#ifndef REAL
#define REAL float
#endif

#define VECTOR (16 / (int)sizeof(REAL))         // cells in the widest load, 16 bytes

struct __align__(16) Vector { REAL v[VECTOR]; };

__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double add(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }

// (N + S) - 4 u comes first: it is exact for neighbours that are alike, so that nothing rounds at the size of 4 u.
__device__ __forceinline__ REAL laplace(REAL n, REAL s, REAL w, REAL e, REAL c)
{
    return add(fused(REAL(-4), c, add(n, s)), add(w, e));
}

// The cell that a ghost cell mirrors; sign becomes -1 for an odd image and 0 for a ghost that is held at zero.
// Reflecting again and again needs no division and covers grids that are narrower than the apron.
__device__ __forceinline__ int fold(int i, int n, int edges, int& sign)
{
    sign = 1;
    while ((unsigned)i >= (unsigned)n) {
        if (edges == 0) {
            i += i < 0 ? n : -n;
        } else if (edges == 1) {
            i = i < 0 ? -1 - i : 2 * n - 1 - i;
        } else {
            if (i == -1 || i == n) {
                sign = 0;
                return 0;
            }
            i = i < 0 ? -2 - i : 2 * n - i;
            sign = -sign;
        }
    }
    return i;
}

__device__ __forceinline__ REAL signed_value(REAL value, int sign)
{
    return sign > 0 ? value : sign < 0 ? -value : REAL(0);
}

__device__ __forceinline__ size_t offset(int y, int nx)
{
    return (size_t)(unsigned)y * (unsigned)nx;
}

#ifdef STEPS
// ---- T steps a launch ----------------------------------------------------------------------------------------------
// A warp streams down a strip of columns. For each of STEPS time levels it keeps the three newest rows in registers.
// In each turn every level makes one row of the next time; levels run from the last to the first, so that level t
// writes over the row which level t + 1 needs no more and which is read in the next turn. The levels of a turn are thus
// independent: many instructions in flight, no barrier; the neighbours in x come by shuffle.
// Row q of a level lies in slot q % 3, which the loop unrolled by three turns into plain registers.
// Rows come from memory through a ring in shared memory, AHEAD turns before they are used; a lane reads what it wrote.
// Ghost cells are filled when they are read and evolve by the same stencil: edges cost nothing per step.

#ifndef GROUP
#define GROUP 4
#endif
#define APRON ((STEPS + COLUMNS - 1) / COLUMNS * COLUMNS)  // columns lost on either side, rounded up: loads stay aligned
#define STRIP (32 * COLUMNS)                    // columns a warp reads
#define EVERY_LANE 0xffffffffu
#ifndef RING
#define RING 6            // rows, a multiple of three
#endif
#define AHEAD (RING - 1)  // the slot read in one turn is filled from the next turn on

struct Stream {
    const REAL* src;
    REAL* dst;
    int ny, nx, edges;
    int top, height;      // first row read, rows to make; row q of a level is row top + q of the grid
    int x;                // this lane's first column, maybe a ghost
    bool aligned;         // no ghost columns, rows on 16-byte boundaries
    bool whole, part;     // this lane writes all its columns at once, or some of them
    int column[COLUMNS];  // where each column is read
    unsigned signs;       // two bits a column: 1 odd image, 2 zero
    Vector* ring;         // this lane's part of row 0 of the ring
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

// Waits until at most `pending` rows are still on their way.
template <int PENDING>
__device__ __forceinline__ void wait_copies()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

__device__ __forceinline__ void load_row(const Stream& s, int q, int slot)
{
    int sign;
    Vector* to = s.ring + slot * (STRIP / VECTOR);
    const REAL* line = s.src + offset(fold(s.top + q, s.ny, s.edges, sign), s.nx);
    if (s.aligned) {
        #pragma unroll
        for (int k = 0; k < COLUMNS / VECTOR; k++) copy_async<16>(to + k * 32, line + s.x + k * VECTOR);
    } else {
        #pragma unroll
        for (int k = 0; k < COLUMNS; k++)
            copy_async<sizeof(REAL)>(&to[k / VECTOR * 32].v[k % VECTOR], line + s.column[k]);
    }
}

__device__ __forceinline__ void take_row(const Stream& s, int q, int slot, REAL (&row)[COLUMNS])
{
    const Vector* from = s.ring + slot * (STRIP / VECTOR);
    #pragma unroll
    for (int k = 0; k < COLUMNS / VECTOR; k++) {
        const Vector v = from[k * 32];
        #pragma unroll
        for (int i = 0; i < VECTOR; i++) row[k * VECTOR + i] = v.v[i];
    }
    if (s.edges != 2 || (s.aligned && (unsigned)(s.top + q) < (unsigned)s.ny)) return;
    int sign;
    fold(s.top + q, s.ny, s.edges, sign);
    #pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        const unsigned code = s.signs >> 2 * k & 3;
        row[k] = signed_value(row[k], code == 2 ? 0 : code == 1 ? -sign : sign);
    }
}

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
    } else if (s.part) {
        #pragma unroll
        for (int k = 0; k < COLUMNS; k++)
            if (s.x + k < s.nx) line[k] = row[k];
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

// One turn: level t makes row turn + 1 - 2 t of the next time; row turn + 3 lies in slot at + p of the ring. STEADY: all levels work and all rows are wanted.
template <bool STEADY>
__device__ __forceinline__ void take_turn(const Stream& s, int turn, int p, int at, REAL r,
                                          REAL (&level)[STEPS][3][COLUMNS])
{
    if (STEADY || turn + 3 + AHEAD < s.height + 2 * STEPS)
        load_row(s, turn + 3 + AHEAD, p ? at + p - 1 : (at ? at : RING) - 1);
    close_copies();
    #pragma unroll
    for (int g = (STEPS - 1) / GROUP; g >= 0; g--) {
        const int low = g * GROUP, high = min(low + GROUP, STEPS) - 1;
        if (!STEADY && (turn < 3 * low || turn > s.height + 2 * STEPS + high - 3)) continue;
        #pragma unroll
        for (int t = high; t >= low; t--) {
            REAL made[COLUMNS];
            next_row(level[t][p], level[t][(p + 1) % 3], level[t][(p + 2) % 3], r, made);
            if (t + 1 < STEPS) {
                #pragma unroll
                for (int k = 0; k < COLUMNS; k++) level[min(t + 1, STEPS - 1)][p][k] = made[k];
            } else {
                const int q = turn + 3 - 2 * STEPS;
                if (STEADY || (q >= STEPS && q < STEPS + s.height)) store_row(s, q, made);
            }
        }
    }
    wait_copies<AHEAD>();
    take_row(s, turn + 3, at + p, level[0][p]);
}

__device__ __forceinline__ Stream open_stream(const REAL* src, REAL* dst, int ny, int nx, int edges, int rows, int lane,
                                              Vector* ring)
{
    const int width = STRIP - 2 * APRON, strips = (nx + width - 1) / width;
    const int left = (int)blockIdx.x % strips * width - APRON, first = (int)blockIdx.x / strips * rows;
    Stream s;
    s.src = src;
    s.dst = dst;
    s.ny = ny;
    s.nx = nx;
    s.edges = edges;
    s.top = first - STEPS;
    s.height = min(rows, ny - first);
    s.x = left + lane * COLUMNS;
    s.ring = ring + lane;
    const bool fits = nx % VECTOR == 0, owner = lane >= APRON / COLUMNS && lane < (STRIP - APRON) / COLUMNS;
    s.aligned = left >= 0 && left + STRIP <= nx && fits && (size_t)src % 16 == 0;
    s.whole = owner && s.x + COLUMNS <= nx && fits && (size_t)dst % 16 == 0;
    s.part = owner && !s.whole;
    s.signs = 0;
    #pragma unroll
    for (int k = 0; k < COLUMNS; k++) {
        int sign;
        s.column[k] = fold(s.x + k, nx, edges, sign);
        s.signs |= (sign < 0 ? 1u : sign == 0 ? 2u : 0u) << 2 * k;
    }
    return s;
}

// dst = src after STEPS steps; (ny, nx) each, may not overlap. One warp a block; block b owns strip b % strips and the
// `rows` rows from b / strips * rows.
extern "C" __global__ void __launch_bounds__(32, BLOCKS)
many_steps(const REAL* __restrict__ src, REAL* __restrict__ dst, int ny, int nx, REAL r, int edges, int rows)
{
    __shared__ Vector ring[RING * STRIP / VECTOR];
    const Stream s = open_stream(src, dst, ny, nx, edges, rows, threadIdx.x, ring);
    REAL level[STEPS][3][COLUMNS] = {};
    #pragma unroll
    for (int q = 0; q < RING; q++) {
        load_row(s, q, q);
        close_copies();
    }
    wait_copies<RING - 3>();
    #pragma unroll
    for (int q = 0; q < 3; q++) take_row(s, q, q, level[0][q]);
    #pragma unroll
    for (int q = 0; q < 2; q++) {
        load_row(s, RING + q, q);
        close_copies();
    }
    int at = 3 % RING;
    for (int base = 0; base < s.height + 3 * STEPS - 3; base += 3) {
        const bool steady = base >= 3 * STEPS - 3 && base + 5 + AHEAD < s.height + 2 * STEPS;
        if (steady) {
            #pragma unroll
            for (int p = 0; p < 3; p++) take_turn<true>(s, base + p, p, at, r, level);
        } else {
            #pragma unroll
            for (int p = 0; p < 3; p++) take_turn<false>(s, base + p, p, at, r, level);
        }
        at = at + 3 == RING ? 0 : at + 3;
    }
}

#else
// ---- one step a launch, and the Laplacian --------------------------------------------------------------------------
// A thread owns VECTOR columns and walks down RUN rows, so that of the rows above and below only two are read twice.

#define RUN 4

__device__ __forceinline__ REAL read_cell(const REAL* src, int y, int x, int ny, int nx, int edges)
{
    int sy, sx;
    const REAL value = src[(size_t)fold(y, ny, edges, sy) * nx + fold(x, nx, edges, sx)];
    return signed_value(value, sy * sx);
}

// row: the cells x - 1 ... x + VECTOR of row y, ghost cells included.
__device__ __forceinline__ void read_row(const REAL* src, int y, int x, int ny, int nx, int edges, bool aligned,
                                         REAL (&row)[VECTOR + 2])
{
    if (aligned && (unsigned)y < (unsigned)ny) {
        const Vector v = *(const Vector*)(src + (size_t)y * nx + x);
        #pragma unroll
        for (int k = 0; k < VECTOR; k++) row[k + 1] = v.v[k];
    } else {
        #pragma unroll
        for (int k = 0; k < VECTOR; k++) row[k + 1] = read_cell(src, y, x + k, ny, nx, edges);
    }
    row[0] = read_cell(src, y, x - 1, ny, nx, edges);
    row[VECTOR + 1] = read_cell(src, y, x + VECTOR, ny, nx, edges);
}

template <bool LAPLACIAN>
__device__ __forceinline__ void sweep(const REAL* src, REAL* dst, int ny, int nx, REAL r, int edges)
{
    const int x = (blockIdx.x * blockDim.x + threadIdx.x) * VECTOR;
    const int first = (blockIdx.y * blockDim.y + threadIdx.y) * RUN, last = min(first + RUN, ny);
    if (x >= nx || first >= ny) return;
    const bool aligned = nx % VECTOR == 0 && (size_t)src % 16 == 0 && (size_t)dst % 16 == 0;
    REAL rows[3][VECTOR + 2];
    read_row(src, first - 1, x, ny, nx, edges, aligned, rows[0]);
    read_row(src, first, x, ny, nx, edges, aligned, rows[1]);
    #pragma unroll
    for (int i = 0; i < RUN; i++) {
        const int y = first + i;
        if (y >= last) return;
        const REAL (&n)[VECTOR + 2] = rows[i % 3], (&c)[VECTOR + 2] = rows[(i + 1) % 3];
        REAL (&s)[VECTOR + 2] = rows[(i + 2) % 3];
        read_row(src, y + 1, x, ny, nx, edges, aligned, s);
        Vector made;
        #pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            const REAL lap = laplace(n[k + 1], s[k + 1], c[k], c[k + 2], c[k + 1]);
            made.v[k] = LAPLACIAN ? lap : fused(r, lap, c[k + 1]);
        }
        REAL* line = dst + (size_t)y * nx + x;
        if (aligned) {
            *(Vector*)line = made;
        } else {
            #pragma unroll
            for (int k = 0; k < VECTOR; k++)
                if (x + k < nx) line[k] = made.v[k];
        }
    }
}

// src, dst: (ny, nx), may not overlap; dst = src + r * lap(src).
extern "C" __global__ void __launch_bounds__(256)
one_step(const REAL* __restrict__ src, REAL* __restrict__ dst, int ny, int nx, REAL r, int edges)
{
    sweep<false>(src, dst, ny, nx, r, edges);
}

// src, dst: (ny, nx), may not overlap; dst = +lap(src), unit spacing.
extern "C" __global__ void __launch_bounds__(256)
laplacian(const REAL* __restrict__ src, REAL* __restrict__ dst, int ny, int nx, int edges)
{
    sweep<true>(src, dst, ny, nx, REAL(0), edges);
}

// ---- the racing kernel ---------------------------------------------------------------------------------------------
// What a well-known tutorial does: each block copies its tile and a one-cell halo of u into shared memory, waits for its
// own threads and writes the new values into the same u. Other blocks may have written the halo by then, or not: the
// result depends on the order in which blocks run. Kept for lectures on races; never use its numbers.

#define TILE 16

extern "C" __global__ void __launch_bounds__(TILE * TILE)
racing_step(REAL* u, int ny, int nx, REAL r, int edges)
{
    __shared__ REAL tile[TILE + 2][TILE + 2];
    const int left = blockIdx.x * TILE - 1, top = blockIdx.y * TILE - 1;
    for (int i = threadIdx.y * TILE + threadIdx.x; i < (TILE + 2) * (TILE + 2); i += TILE * TILE)
        tile[i / (TILE + 2)][i % (TILE + 2)] = read_cell(u, top + i / (TILE + 2), left + i % (TILE + 2), ny, nx, edges);
    __syncthreads();
    const int i = threadIdx.y + 1, k = threadIdx.x + 1;
    if (top + i >= ny || left + k >= nx) return;
    const REAL c = tile[i][k];
    const REAL lap = laplace(tile[i - 1][k], tile[i + 1][k], tile[i][k - 1], tile[i][k + 1], c);
    u[(size_t)(top + i) * nx + left + k] = fused(r, lap, c);
}

#endif
