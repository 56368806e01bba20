"""CUDA text of the raw kernels in `raw`."""

from __future__ import annotations

import numpy as np

AXPY = r"""
extern "C" __global__
void axpy(const float* __restrict__ x, float* __restrict__ y, double a, long long n) {
  int tid = blockDim.x * blockIdx.x + threadIdx.x;
  if (tid >= n) return;
  y[tid] += (float)a * x[tid];
}
"""
BLOCK_OF_C = r"""
extern "C" {

__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + __expf(-v)); }

__global__ void activate(const float* in, float* out, \
                         unsigned int count)
{
    for (unsigned int k = blockIdx.x * blockDim.x + threadIdx.x; k < count; k += gridDim.x * blockDim.x)
        out[k] = sigmoid(in[k]);
}

__global__ void unused(float* out) { out[0] = 0; }

}  // extern "C"
"""
STENCIL = r"""
#define TILE 8
#define AT(r, c) ((r) * width + (c))
extern "C" __global__ void blur(const float* image, float* out, int height, int width) {
  __shared__ float tile[TILE + 2][TILE + 2];
  const int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  for (int r = threadIdx.y; r < TILE + 2; r += TILE)
    for (int c = threadIdx.x; c < TILE + 2; c += TILE) {
      const int y = min(max((int)(blockIdx.y * TILE) + r - 1, 0), height - 1);
      const int x = min(max((int)(blockIdx.x * TILE) + c - 1, 0), width - 1);
      tile[r][c] = image[AT(y, x)];
    }
  __syncthreads();
  if (row >= height || col >= width) return;
  float sum = 0.f;
  #pragma unroll
  for (int r = 0; r < 3; ++r) for (int c = 0; c < 3; ++c) sum += tile[threadIdx.y + r][threadIdx.x + c];
  out[AT(row, col)] = sum / 9.f;
}
"""
DYNAMIC = r"""
extern "C" __global__ void block_sums(const float* x, float* sums, int n) {
  extern __shared__ float part[];
  const unsigned int t = threadIdx.x;
  float own = 0;
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += blockDim.x * gridDim.x) own += x[i];
  part[t] = own;
  __syncthreads();
  for (unsigned int half = blockDim.x / 2; half >= 32; half >>= 1) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t < 32) {
    float v = part[t];
    for (int lane = 16; lane > 0; lane /= 2) v += __shfl_down_sync(0xffffffff, v, lane);
    if (t == 0) sums[blockIdx.x] = v;
  }
}
"""
HISTOGRAM = r"""
extern "C" __global__ void histogram(const unsigned char* data, unsigned int* bins, size_t n) {
  __shared__ unsigned int local[1 << 4];
  if (threadIdx.x < (1 << 4)) local[threadIdx.x] = 0;
  __syncthreads();
  for (size_t i = threadIdx.x + (size_t)blockIdx.x * blockDim.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    atomicAdd(&local[data[i] >> 4], 1u);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(bins + threadIdx.x, local[threadIdx.x]);
}
"""
TEMPLATES = r"""
namespace ops {
  template <typename T> struct Square { __device__ T operator()(T v) const { return v * v; } };
  template <typename T> struct Negate { __device__ T operator()(T v) const { return -v; } };
  template <template <typename> class Op, typename T, int times>
  __global__ void apply(T* data, int n) {
    Op<T> op;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { T v = data[i]; for (int k = 0; k < times; ++k) v = op(v); data[i] = v; }
  }
}
"""
NAMES = ("ops::apply<ops::Square, float, 2>", "ops::apply<ops::Negate, double, 3>")
BODY = r"""
struct Body { float mass; double place[3]; int charge; };
extern "C" __global__ void pull(const double* points, double* out, const Body body, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double sum = 0;
  for (int k = 0; k < 3; ++k) { double d = points[3 * i + k] - body.place[k]; sum += d * d; }
  out[i] = body.mass * body.charge / sqrt(sum + 1.0);
}
"""
BODY_TYPE = np.dtype([("mass", "f4"), ("place", "f8", 3), ("charge", "i4")], align=True)
CONSTANT = r"""
__constant__ float taps[5];
extern "C" __global__ void fir(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = 0; k < 5; ++k) { int at = i + k - 2; if (at >= 0 && at < n) sum += taps[k] * x[at]; }
  y[i] = sum;
}
"""
FLAGS = r"""
extern "C" __global__ void keep(const bool* flags, const short* x, signed char* y, unsigned short* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { y[i] = flags[i] ? (signed char)x[i] : -1; z[i] = (unsigned short)(x[i] * x[i]); }
}
"""
HALVES = r"""
#include <cuda_fp16.h>
extern "C" __global__ void axpy_half(const __half* x, half* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __float2half(__half2float(x[i]) * a + __half2float(y[i]));
}
"""
COMPLEX = r"""
#include <cupy/complex.cuh>
extern "C" __global__ void rotate(complex<float>* z, const thrust::complex<float>* w, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = z[i] * conj(w[i]) + thrust::complex<float>(0.f, abs(w[i]));
}
"""
PAIRS = r"""
#include <cupy/complex.cuh>
template <typename T> __global__ void sort_pairs(T* x, int n) {
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  T first = x[2 * i], second = x[2 * i + 1];
  if (first > second) { x[2 * i] = second; x[2 * i + 1] = first; }
}
"""
BALLOT = r"""
extern "C" __global__ void compact(const int* x, int* kept, unsigned int* masks) {
  const int lane = threadIdx.x & 31;
  const bool wanted = x[threadIdx.x] % 3 == 0;
  const unsigned int mask = __ballot_sync(0xffffffffu, wanted);
  const int before = __popc(mask & ((1u << lane) - 1));
  if (wanted) kept[(threadIdx.x / 32) * 32 + before] = x[threadIdx.x];
  if (lane == __ffs(0x10) - 1) masks[threadIdx.x / 32] = mask;
}
"""
SCAN = r"""
template <typename T> __device__ inline T scanned(T v) {
  for (int step = 1; step < 32; step <<= 1) {
    T other = __shfl_up_sync(0xffffffff, v, step);
    if ((threadIdx.x & 31) >= step) v += other;
  }
  return v;
}
extern "C" __global__ void scan_warps(const int* x, long long* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = scanned((long long)x[i]);
}
"""
EXCHANGE = r"""
__device__ static float atomic_max_float(float* address, float value) {
  int* as_int = (int*)address;
  int old = *as_int, assumed;
  do {
    assumed = old;
    old = atomicCAS(as_int, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
  } while (assumed != old);
  return __int_as_float(old);
}
extern "C" __global__ void extremes(const float* x, const int* k, float* top, int* low, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    atomic_max_float(top, x[i]);
    atomicMin(&low[0], k[i]); atomicMax(&low[1], k[i]); atomicOr(low + 2, 1 << (k[i] & 7));
  }
}
"""
BOUNDS = r"""
static const int WIDTH_OF_BLOCK = 64;
constexpr float HALF = 0.5f;
enum Kind { EVEN, ODD };
typedef unsigned long long u64;
union bits { float f; unsigned int u; };
extern "C" __global__ void __launch_bounds__(WIDTH_OF_BLOCK) classify(const float* __restrict__ x, u64* out) {
  const int i = blockIdx.x * WIDTH_OF_BLOCK + threadIdx.x;
  bits b; b.f = x[i] * HALF;
  const Kind kind = (b.u & 1u) ? ODD : EVEN;
  switch (kind) { case ODD: out[i] = b.u; break; default: out[i] = (u64)b.u << 32; }
}
"""
LAPLACE = r"""
#define IDX(i, j, k) (((i) * ny + (j)) * nz + (k))
extern "C" __global__ void laplace(const double* u, double* v, const int nx, const int ny, const int nz) {
  const int i = 1 + blockIdx.x * blockDim.x + threadIdx.x;
  const int j = 1 + blockIdx.y * blockDim.y + threadIdx.y;
  const int k = 1 + blockIdx.z * blockDim.z + threadIdx.z;
  if (i > nx - 2 || j > ny - 2 || k > nz - 2) return;
  v[IDX(i, j, k)] = u[IDX(i-1, j, k)] + u[IDX(i+1, j, k)] + u[IDX(i, j-1, k)] + u[IDX(i, j+1, k)]
                  + u[IDX(i, j, k-1)] + u[IDX(i, j, k+1)] - 6 * u[IDX(i, j, k)];
}
"""
MATMUL = r"""
extern "C" __global__ void matmul(const REAL* a, const REAL* b, REAL* c, int m, int n, int k) {
  __shared__ REAL left[SIDE][SIDE];
  __shared__ REAL right[SIDE][SIDE + 1];
  int row = blockIdx.y * SIDE + threadIdx.y, col = blockIdx.x * SIDE + threadIdx.x;
  REAL sum = 0;
  for (int tile = 0; tile < (k + SIDE - 1) / SIDE; ++tile) {
    int ka = tile * SIDE + threadIdx.x, kb = tile * SIDE + threadIdx.y;
    left[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0;
    right[threadIdx.y][threadIdx.x] = kb < k && col < n ? b[kb * n + col] : 0;
    __syncthreads();
    for (int t = 0; t < SIDE; ++t) sum += left[threadIdx.y][t] * right[t][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}
"""
RANDOM = r"""
struct xorshift {
  unsigned int state;
  __device__ explicit xorshift(unsigned int seed) : state(seed ? seed : 1u) {}
  __device__ unsigned int next() { state ^= state << 13; state ^= state >> 17; state ^= state << 5; return state; }
};
extern "C" __global__ void draw(unsigned int* out, unsigned long long seed, int each) {
  const unsigned int tid = blockIdx.x * blockDim.x + threadIdx.x;
  xorshift rng((unsigned int)seed + tid * 747796405u);
  for (int k = 0; k < each; k++) out[tid * each + k] = rng.next();
}
"""
STANDARD = r"""
#include <cupy/carray.cuh>
#include <cupy/cuda_workaround.h>
template <typename T> __device__ T lowest() { return std::numeric_limits<T>::lowest(); }
extern "C" __global__ void tops(const int* x, int* y, int n, int m) {
  CUPY_FOR(row, n) {
    int best = lowest<int>();
    for (ptrdiff_t k = 0; k < m; ++k) best = max(best, x[row * m + k]);
    y[row] = best;
  }
}
"""
CONDITIONAL = r"""
#ifdef DOUBLE_RESULT
  typedef double real;
#else
  typedef float real;
#endif
#define KERNEL extern "C" __global__ void
KERNEL add_up(const real* a, const real* b, real* c) { const int t = threadIdx.x; c[t] = a[t] + b[t] * %(factor)s; }
"""
VECTORS = r"""
extern "C" __global__ void lengths(const float4* v, float2* out, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  float4 p = v[i];
  out[i] = make_float2(sqrtf(p.x * p.x + p.y * p.y + p.z * p.z), p.w);
  reinterpret_cast<float*>(out)[2 * i + 1] *= 2.0f;
}
"""
SORT = r"""
#define N 64
__device__ void swap_if(float& a, float& b, bool up) { if ((a > b) == up) { float t = a; a = b; b = t; } }
extern "C" __global__ void bitonic(float* data) {
  __shared__ float s[N < 9 ? 9 : N];
  int t = threadIdx.x;
  s[t] = data[blockIdx.x * N + t];
  __syncthreads();
  for (int size = 2; size <= N; size *= 2)
    for (int gap = size / 2; gap > 0; gap /= 2) {
      int other = t ^ gap;
      if (other > t) swap_if(s[t], s[other], (t & size) == 0);
      __syncthreads();
    }
  data[blockIdx.x * N + t] = s[t];
}
"""
GRID = r"""
extern "C" __global__ void mark(unsigned char* seen, int* last) {
  size_t i = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
  seen[i] = (unsigned char)(i % 251);
  if (blockIdx.x == gridDim.x - 1 && blockIdx.y == gridDim.y - 1) *last = blockIdx.x;
}
"""
TEXTURE = r"""
extern "C" __global__ void sample(float* out, cudaTextureObject_t tex, int height, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) out[y * width + x] = tex2D<float>(tex, x + 1.0f, y + 0.5f);
}
"""
CSR = r"""
extern "C" __global__ void spmv(const int* indptr, const int* indices, const double* data, const double* x, double* y, int rows) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % warpSize;
  if (row >= rows) return;
  double sum = 0;
  for (int k = indptr[row] + lane; k < indptr[row + 1]; k += 32) sum += data[k] * x[indices[k]];
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (!lane) y[row] = sum;
}
"""
