// One thread a pixel; the picture's edge is repeated.
extern "C" __global__ void blur(const REAL* __restrict__ image, REAL* __restrict__ out, int n)
{
    const REAL weights[5] = {1.0f / 16, 4.0f / 16, 6.0f / 16, 4.0f / 16, 1.0f / 16};
    __shared__ REAL tile[20][20];
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    for (int y = threadIdx.y; y < 20; y += 16)
        for (int x = threadIdx.x; x < 20; x += 16) {
            const int row = min(max(int(blockIdx.y) * 16 + y - 2, 0), n - 1);
            const int column = min(max(int(blockIdx.x) * 16 + x - 2, 0), n - 1);
            tile[y][x] = image[row * n + column];
        }
    __syncthreads();
    if (i >= n || j >= n) return;
    REAL total = 0;
    for (int y = 0; y < 5; y++)
        for (int x = 0; x < 5; x++) total += weights[y] * weights[x] * tile[threadIdx.y + y][threadIdx.x + x];
    out[i * n + j] = total;
}
