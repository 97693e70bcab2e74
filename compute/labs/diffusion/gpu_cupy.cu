// Diffusion in CUDA C: one step a launch, the Laplacian, and the racing in-place kernel. Compile with
// -DREAL=float|double.

#include "stencil.cuh"

// ---- one step a launch, and the Laplacian --------------------------------------------------------------------------
// A thread owns VECTOR columns and walks down RUN rows, so that of the rows above and below only two are read twice.
// Its neighbours in x come by shuffle; lanes beyond the right edge stay to hand over the ghost cells.

#ifndef RUN
#define RUN 4
#endif

__device__ __forceinline__ REAL read_cell(const REAL* src, int y, int x, int ny, int nx, int edges)
{
    int sy, sx;
    y = fold(y, ny, edges, sy);
    x = fold(x, nx, edges, sx);
    return signed_value(src[offset(y, nx) + x], sy * sx);
}

// row: the cells x - 1 ... x + VECTOR of row y, ghost cells included. `aligned`: the cells from x on can be read at
// once.
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
    row[0] = __shfl_up_sync(EVERY_LANE, row[VECTOR], 1);
    row[VECTOR + 1] = __shfl_down_sync(EVERY_LANE, row[1], 1);
    if (threadIdx.x == 0) row[0] = read_cell(src, y, x - 1, ny, nx, edges);
    if (threadIdx.x == 31) row[VECTOR + 1] = read_cell(src, y, x + VECTOR, ny, nx, edges);
}

// The threads of a warp lie in x: blockDim.x is 32.
template <bool LAPLACIAN>
__device__ __forceinline__ void sweep(const REAL* src, REAL* dst, int ny, int nx, REAL r, int edges)
{
    const int x = (blockIdx.x * 32 + threadIdx.x) * VECTOR, first = (blockIdx.y * blockDim.y + threadIdx.y) * RUN;
    if (first >= ny) return;
    const bool aligned = x < nx && nx % VECTOR == 0 && (size_t)src % 16 == 0 && (size_t)dst % 16 == 0;
    REAL rows[3][VECTOR + 2];
    read_row(src, first - 1, x, ny, nx, edges, aligned, rows[0]);
    read_row(src, first, x, ny, nx, edges, aligned, rows[1]);
    #pragma unroll
    for (int i = 0; i < RUN; i++) {
        const int y = first + i;
        if (y >= ny) return;
        const REAL (&n)[VECTOR + 2] = rows[i % 3], (&c)[VECTOR + 2] = rows[(i + 1) % 3];
        REAL (&s)[VECTOR + 2] = rows[(i + 2) % 3];
        read_row(src, y + 1, x, ny, nx, edges, aligned, s);
        Vector made;
        #pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            const REAL lap = laplace(n[k + 1], s[k + 1], c[k], c[k + 2], c[k + 1]);
            made.v[k] = LAPLACIAN ? lap : fused(r, lap, c[k + 1]);
        }
        if (aligned) {
            *(Vector*)(dst + offset(y, nx) + x) = made;
        } else {
            #pragma unroll
            for (int k = 0; k < VECTOR; k++)
                if (x + k < nx) dst[offset(y, nx) + x + k] = made.v[k];
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
