// One thread for each element of c; tiles of a and b pass through shared memory.
template <typename T, int TILE>
__global__ void matmul(const T* a, const T* b, T* c, int m, int n, int k) {
    __shared__ T a_tile[TILE][TILE];
    __shared__ T b_tile[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int column = blockIdx.x * TILE + threadIdx.x;
    T sum = 0;
    for (int start = 0; start < k; start += TILE) {
        int inner_a = start + threadIdx.x;
        int inner_b = start + threadIdx.y;
        a_tile[threadIdx.y][threadIdx.x] =
            row < m && inner_a < k ? a[(long long)row * k + inner_a] : T(0);
        b_tile[threadIdx.y][threadIdx.x] =
            inner_b < k && column < n ? b[(long long)inner_b * n + column] : T(0);
        __syncthreads();
        for (int i = 0; i < TILE; ++i) {
            sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
        }
        __syncthreads();
    }
    if (row < m && column < n) {
        c[(long long)row * n + column] = sum;
    }
}
