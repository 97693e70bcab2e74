// As many fused multiply-adds as the GPU can issue: each thread runs CHAINS independent chains, so that none waits for
// its own latency. REAL: float or double. What is added up is stored, so that nothing may be left out.

#define CHAINS 8
#define UNROLLED 16

extern "C" __global__ void fma_chains(REAL *out, REAL b, REAL c, int rounds) {
    REAL x[CHAINS];
#pragma unroll
    for (int k = 0; k < CHAINS; k++) x[k] = (REAL)(threadIdx.x + k);
    for (int round = 0; round < rounds; round++) {
#pragma unroll
        for (int step = 0; step < UNROLLED; step++) {
#pragma unroll
            for (int k = 0; k < CHAINS; k++) x[k] = fma(x[k], b, c);
        }
    }
    REAL sum = 0;
#pragma unroll
    for (int k = 0; k < CHAINS; k++) sum += x[k];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
