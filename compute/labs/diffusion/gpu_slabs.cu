// Some rows of a slab, STEPS steps a launch, by the code of one grid: compile it as gpu_steps.cu is. A slab is a grid of
// its own here, (ny, nx) with its ghost rows. At an end that is no edge of the whole grid the kernel takes an edge for
// granted all the same; what that makes wrong reaches STEPS rows, and none of those is asked for.

#include "gpu_steps.cu"

// dst = src after STEPS steps, in rows from ... to - 1 only; (ny, nx) each, may not overlap. One warp a block; block b
// owns strip b % strips and the `rows` rows from from + b / strips * apart: with apart > rows, bands that lie apart.
extern "C" __global__ void __launch_bounds__(32, BLOCKS)
slab_steps(const REAL* __restrict__ src, REAL* __restrict__ dst, int ny, int nx, REAL r, int edges, int rows, int from,
           int to, int apart)
{
    __shared__ Vector ring[RING * STRIP / VECTOR];
    make_rows(src, dst, ny, nx, r, edges, {from, to, rows, apart}, ring);
}
