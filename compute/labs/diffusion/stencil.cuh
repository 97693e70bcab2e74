// The five-point stencil of the CUDA C kernels, with explicit rounding: whatever kernel a step is made in, its bits are
// the same, as long as the field is finite. Compile with -DREAL=float|double. edges: 0 periodic, 1 zero flux (mirror,
// u[-1-k] = u[k]), 2 zero Dirichlet (0 at -1 and n, odd reflection beyond).

#ifndef REAL
#define REAL float
#endif

#define VECTOR (16 / (int)sizeof(REAL))  // cells in the widest load, 16 bytes
#define EVERY_LANE 0xffffffffu

struct __align__(16) Vector { REAL v[VECTOR]; };

__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double add(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }

// (W + E) - 4 u comes first: exact for neighbours that are alike, so that nothing rounds at the size of 4 u. It does
// not wait for the row below either.
__device__ __forceinline__ REAL laplace(REAL n, REAL s, REAL w, REAL e, REAL c)
{
    return add(fused(REAL(-4), c, add(w, e)), add(n, s));
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
