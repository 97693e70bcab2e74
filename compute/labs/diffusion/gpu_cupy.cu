// Diffusion in CUDA C: one step a launch, the Laplacian, and the racing in-place kernel. Compile with
// -DREAL=float|double.

#include "stencil.cuh"

// ---- one step a launch, and the Laplacian --------------------------------------------------------------------------
// A thread owns VECTOR columns of RUN rows. It starts the loads of all its rows at once; what lies left and right of
// its cells comes by a second load, which the first-level cache answers. Shuffles, which have to wait for the row, gave
// 442 Gcell/s where this gives 527 (float32, 16384^2, H200; copying allows 531).

#ifndef RUN
#define RUN 2
#endif

__device__ __forceinline__ REAL read_cell(const REAL* src, int y, int x, int ny, int nx, int edges)
{
    int sy, sx;
    y = fold(y, ny, edges, sy);
    x = fold(x, nx, edges, sx);
    return signed_value(src[offset(y, nx) + x], sy * sx);
}

// row: the cells x - 1 ... x + VECTOR of row y, ghost cells included. `aligned`: those from x on can be read at once.
__device__ __forceinline__ void read_row(const REAL* src, int y, int x, int ny, int nx, int edges, bool aligned,
                                         REAL (&row)[VECTOR + 2])
{
    if (aligned && (unsigned)y < (unsigned)ny) {
        const Vector v = *(const Vector*)(src + offset(y, nx) + x);
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
    const int first = (blockIdx.y * blockDim.y + threadIdx.y) * RUN;
    if (x >= nx || first >= ny) return;
    const bool aligned = nx % VECTOR == 0 && (size_t)src % 16 == 0 && (size_t)dst % 16 == 0;
    const bool inner = aligned && x > 0 && x + VECTOR < nx && first > 0 && first + RUN < ny;
    REAL rows[RUN + 2][VECTOR + 2];
    if (inner) {
        #pragma unroll
        for (int i = 0; i < RUN + 2; i++) {
            const REAL* line = src + offset(first + i - 1, nx) + x;
            const Vector v = *(const Vector*)line;
            #pragma unroll
            for (int k = 0; k < VECTOR; k++) rows[i][k + 1] = v.v[k];
            rows[i][0] = line[-1];
            rows[i][VECTOR + 1] = line[VECTOR];
        }
    } else {
        #pragma unroll
        for (int i = 0; i < RUN + 2; i++) read_row(src, first + i - 1, x, ny, nx, edges, aligned, rows[i]);
    }
    #pragma unroll
    for (int i = 0; i < RUN; i++) {
        if (first + i >= ny) return;
        REAL* line = dst + offset(first + i, nx) + x;
        Vector made;
        #pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            const REAL c = rows[i + 1][k + 1];
            const REAL lap = laplace(rows[i][k + 1], rows[i + 2][k + 1], rows[i + 1][k], rows[i + 1][k + 2], c);
            made.v[k] = LAPLACIAN ? lap : fused(r, lap, c);
        }
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
// What a well-known tutorial does: each block copies its tile and a one-cell halo of u into shared memory, waits for
// its own threads and writes the new values into the same u. Other blocks may have written the halo by then, or not:
// the result depends on the order in which blocks run. Kept for lectures on races; never use its numbers.

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
    u[offset(top + i, nx) + left + k] = fused(r, lap, c);
}
