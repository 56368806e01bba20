"""Raw kernels: whole sources with macros, templates, shared memory, atomics, textures and old options."""

from __future__ import annotations

import importlib
from itertools import pairwise
from typing import Any

import numpy as np

from tests.contract.foreign.declared import Foreign, Library, drawn, module, raw

_AXPY = r"""
extern "C" __global__
void axpy(const float* __restrict__ x, float* __restrict__ y, double a, long long n) {
  int tid = blockDim.x * blockIdx.x + threadIdx.x;
  if (tid >= n) return;
  y[tid] += (float)a * x[tid];
}
"""
_BLOCK_OF_C = r"""
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
_STENCIL = r"""
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
_DYNAMIC = r"""
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
_HISTOGRAM = r"""
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
_TEMPLATES = r"""
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
_NAMES = ("ops::apply<ops::Square, float, 2>", "ops::apply<ops::Negate, double, 3>")
_BODY = r"""
struct Body { float mass; double place[3]; int charge; };
extern "C" __global__ void pull(const double* points, double* out, const Body body, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double sum = 0;
  for (int k = 0; k < 3; ++k) { double d = points[3 * i + k] - body.place[k]; sum += d * d; }
  out[i] = body.mass * body.charge / sqrt(sum + 1.0);
}
"""
_BODY_TYPE = np.dtype([("mass", "f4"), ("place", "f8", 3), ("charge", "i4")], align=True)
_CONSTANT = r"""
__constant__ float taps[5];
extern "C" __global__ void fir(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = 0; k < 5; ++k) { int at = i + k - 2; if (at >= 0 && at < n) sum += taps[k] * x[at]; }
  y[i] = sum;
}
"""
_FLAGS = r"""
extern "C" __global__ void keep(const bool* flags, const short* x, signed char* y, unsigned short* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { y[i] = flags[i] ? (signed char)x[i] : -1; z[i] = (unsigned short)(x[i] * x[i]); }
}
"""
_HALVES = r"""
#include <cuda_fp16.h>
extern "C" __global__ void axpy_half(const __half* x, half* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __float2half(__half2float(x[i]) * a + __half2float(y[i]));
}
"""
_COMPLEX = r"""
#include <cupy/complex.cuh>
extern "C" __global__ void rotate(complex<float>* z, const thrust::complex<float>* w, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = z[i] * conj(w[i]) + thrust::complex<float>(0.f, abs(w[i]));
}
"""
_BALLOT = r"""
extern "C" __global__ void compact(const int* x, int* kept, unsigned int* masks) {
  const int lane = threadIdx.x & 31;
  const bool wanted = x[threadIdx.x] % 3 == 0;
  const unsigned int mask = __ballot_sync(0xffffffffu, wanted);
  const int before = __popc(mask & ((1u << lane) - 1));
  if (wanted) kept[(threadIdx.x / 32) * 32 + before] = x[threadIdx.x];
  if (lane == __ffs(0x10) - 1) masks[threadIdx.x / 32] = mask;
}
"""
_SCAN = r"""
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
_EXCHANGE = r"""
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
_BOUNDS = r"""
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
_LAPLACE = r"""
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
_MATMUL = r"""
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
_RANDOM = r"""
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
_STANDARD = r"""
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
_CONDITIONAL = r"""
#ifdef DOUBLE_RESULT
  typedef double real;
#else
  typedef float real;
#endif
#define KERNEL extern "C" __global__ void
KERNEL add_up(const real* a, const real* b, real* c) { const int t = threadIdx.x; c[t] = a[t] + b[t] * %(factor)s; }
"""
_VECTORS = r"""
extern "C" __global__ void lengths(const float4* v, float2* out, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  float4 p = v[i];
  out[i] = make_float2(sqrtf(p.x * p.x + p.y * p.y + p.z * p.z), p.w);
  reinterpret_cast<float*>(out)[2 * i + 1] *= 2.0f;
}
"""
_SORT = r"""
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
_GRID = r"""
extern "C" __global__ void mark(unsigned char* seen, int* last) {
  size_t i = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
  seen[i] = (unsigned char)(i % 251);
  if (blockIdx.x == gridDim.x - 1 && blockIdx.y == gridDim.y - 1) *last = blockIdx.x;
}
"""
_TEXTURE = r"""
extern "C" __global__ void sample(float* out, cudaTextureObject_t tex, int height, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) out[y * width + x] = tex2D<float>(tex, x + 1.0f, y + 0.5f);
}
"""
_CSR = r"""
extern "C" __global__ void spmv(const int* indptr, const int* indices, const double* data, const double* x, double* y, int rows) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % warpSize;
  if (row >= rows) return;
  double sum = 0;
  for (int k = indptr[row] + lane; k < indptr[row + 1]; k += 32) sum += data[k] * x[indices[k]];
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (!lane) y[row] = sum;
}
"""


def _texture(library: Library, kernel: Any, given: tuple[Any, ...]) -> None:
    """Call with a texture over an image, of kspec's or CuPy's classes."""
    image, out = given
    height, width = image.shape
    if library.arrays == "numpy":
        texture = constants = importlib.import_module("kspec").texture
        device = {"device": "host"}
    else:  # CuPy's own, for kernels of both
        texture = importlib.import_module("cupy.cuda.texture")
        constants, device = importlib.import_module("cupy").cuda.runtime, {}
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, constants.cudaChannelFormatKindFloat)
    array = texture.CUDAarray(channel, width, height, **device)
    array.copy_from(image)
    sampled = texture.TextureObject(
        texture.ResourceDescriptor(constants.cudaResourceTypeArray, cuArr=array),
        texture.TextureDescriptor(
            (constants.cudaAddressModeClamp,) * 2, constants.cudaFilterModeLinear
        ),
    )
    kernel((2, 2), (8, 8), (out, sampled, height, width))


def _sampled(image: Any, out: Any) -> None:
    out[...] = (image + np.concatenate([image[:, 1:], image[:, -1:]], 1)) / 2


def _constant(library: Library, kernel: Any, given: tuple[Any, ...]) -> None:
    """Call after the constant memory is written through an array over it."""
    x, y, taps = given
    variable = kernel.get_global("taps")
    if library.arrays == "numpy":
        variable = kernel.get_global("taps", device="host")
        variable.array(5, "float32")[...] = taps
    else:
        library.xp.ndarray(5, "float32", variable)[...] = taps
    kernel.get_function("fir")((2,), (32,), (x, y, 50))


def _classified(x, out):
    bits = (x * np.float32(0.5)).view("u4").astype("u8")
    out[...] = np.where(bits & np.uint64(1), bits, bits << np.uint64(32))


def _axpy(x, y, a, n):
    y[:n] += np.float32(a) * x[:n]


def _blur(image, out, height, width):
    padded = np.pad(image, 1, "edge")
    out[...] = sum(padded[r : r + height, c : c + width] for r in range(3) for c in range(3)) / 9


def _block_sums(x, sums, n):
    padded = np.zeros(-(-n // 512) * 512, "f4")
    padded[:n] = x
    sums[...] = padded.reshape(-1, 4, 128).sum((0, 2))


def _pull(points, out, body, n):
    distance = ((points - body["place"]) ** 2).sum(1)
    out[...] = body["mass"] * body["charge"] / np.sqrt(distance + 1)


def _fir(x, y, taps):
    y[...] = np.convolve(x, taps[::-1], "same")


def _keep(flags, x, y, z, n):
    y[...] = np.where(flags, x, -1)
    z[...] = x.astype("i4") ** 2


def _compact(x, kept, masks):
    for warp in range(2):
        own = x[warp * 32 :][:32]
        chosen = own[own % 3 == 0]
        kept[warp * 32 :][: chosen.size] = chosen
        masks[warp] = sum(1 << lane for lane in range(32) if own[lane] % 3 == 0)


def _extremes(x, k, top, low, n):
    top[0], low[0], low[1] = max(top[0], x.max()), k.min(), k.max()
    low[2] |= np.bitwise_or.reduce(1 << (k & 7))


def _laplace(u, v, *extents):
    inner = -6 * u[1:-1, 1:-1, 1:-1]
    for axis in range(3):
        inner += (np.roll(u, 1, axis) + np.roll(u, -1, axis))[1:-1, 1:-1, 1:-1]
    v[1:-1, 1:-1, 1:-1] = inner


def _draw(out, seed, each):
    state = np.uint32(seed) + np.arange(out.size // each, dtype="u4") * np.uint32(747796405)
    state = np.where(state == 0, 1, state).astype("u4")
    for k in range(each):
        state ^= state << np.uint32(13)
        state ^= state >> np.uint32(17)
        state ^= state << np.uint32(5)
        out[k::each] = state


def _lengths(v, out, n):
    out[:, 0], out[:, 1] = np.sqrt((v[:, :3] ** 2).sum(1)), 2 * v[:, 3]


def _mark(seen, last):
    seen[...], last[0] = np.arange(seen.size) % 251, 66_999


def _rotate(z, w, n):
    z[...] = z * np.conj(w) + 1j * np.abs(w)


def _set(at: int, function: Any) -> Any:
    """Return a reference that sets operand `at` to a function of all."""

    def reference(*operands: Any) -> None:
        operands[at][...] = function(*operands)

    return reference


_INDPTR = np.array([0, 40, 41, 41, 90], "int32")
_INDICES = (np.arange(90, dtype="int32") * 7) % 50
_DENSE = drawn(50, dtype="float64")
_DATA = drawn(90, dtype="float64")

RAW = (
    Foreign(
        "Python's numbers for a double and a long long",
        raw(_AXPY, "axpy"),
        (drawn(100), drawn(101)[:100].copy(), 0.5, 90),
        _axpy, launch=((4,), (32,)),
    ),
    Foreign(
        "a block of C functions, and a loop over the grid",
        module("activate", _BLOCK_OF_C, options=("--std=c++11",)),
        (drawn(500), np.zeros(500, "float32"), np.uint32(500)),
        _set(1, lambda x, *_: 1 / (1 + np.exp(-x))), launch=((3,), (64,)), tolerance=1e-5,
    ),
    Foreign(
        "a tile in shared memory with a border",
        raw(_STENCIL, "blur"),
        (drawn(21, 13), np.zeros((21, 13), "float32"), 21, 13),
        _blur, launch=((2, 3), (8, 8)), tolerance=1e-5,
    ),
    Foreign(
        "dynamic shared memory and shuffles",
        raw(_DYNAMIC, "block_sums"),
        (drawn(3000), np.zeros(4, "float32"), 3000),
        _block_sums, {"shared_mem": 512}, ((4,), (128,)), tolerance=1e-4,
    ),
    Foreign(
        "a histogram in shared memory whose size is an expression",
        raw(_HISTOGRAM, "histogram", options=("-std=c++11",)),
        (drawn(3000, dtype="uint8", low=0, high=256), np.zeros(16, "uint32"), 3000),
        _set(1, lambda data, *_: np.bincount(data >> 4, minlength=16)), launch=((5,), (64,)),
    ),
    Foreign(
        "templates of templates by name expressions",
        module(_NAMES[0], _TEMPLATES, options=("-std=c++14",), name_expressions=_NAMES),
        (drawn(30), 30),
        _set(0, lambda x, n: x**4), launch=((1,), (32,)), tolerance=1e-5,
    ),
    Foreign(
        "another name expression of the same module",
        module(_NAMES[1], _TEMPLATES, options=("-std=c++14",), name_expressions=_NAMES),
        (drawn(30, dtype="float64"), 30),
        _set(0, lambda x, n: -x), launch=((1,), (32,)),
    ),
    Foreign(
        "a structure by value",
        raw(_BODY, "pull"),
        (drawn(20, 3, dtype="float64"), np.zeros(20), np.array((2.5, (1, 2, 3), -2), _BODY_TYPE), 20),
        _pull, launch=((1,), (32,)),
    ),
    Foreign(
        "constant memory through get_global",
        lambda library: library.constructors.RawModule(code=_CONSTANT),
        (drawn(50), np.zeros(50, "float32"), drawn(5)),
        _fir, call=_constant, tolerance=1e-5,
    ),
    Foreign(
        "pointers to bool and to small integers",
        raw(_FLAGS, "keep"),
        (drawn(40, dtype="bool"), drawn(40, dtype="int16", low=-100, high=100), np.zeros(40, "int8"), np.zeros(40, "uint16"), 40),
        _keep, launch=((2,), (32,)),
    ),
    Foreign(
        "half precision by the toolkit's header",
        raw(_HALVES, "axpy_half"),
        (drawn(40, dtype="float16"), drawn(41, dtype="float16")[:40].copy(), np.float32(0.5), 40),
        _set(1, lambda x, y, a, n: x.astype("f4") * a + y.astype("f4")), launch=((2,), (32,)), tolerance=1e-3,
    ),
    Foreign(
        "complex numbers by both of their names",
        raw(_COMPLEX, "rotate"),
        (drawn(40, dtype="complex64"), drawn(41, dtype="complex64")[:40].copy(), 40),
        _rotate, launch=((2,), (32,)), tolerance=1e-5,
    ),
    Foreign(
        "votes of a warp",
        raw(_BALLOT, "compact"),
        (drawn(64, dtype="int32", low=0, high=99), np.full(64, -1, "int32"), np.zeros(2, "uint32")),
        _compact, launch=((1,), (64,)),
    ),
    Foreign(
        "a scan by a device template",
        raw(_SCAN, "scan_warps"),
        (drawn(96, dtype="int32", low=-9, high=9), np.zeros(96, "int64")),
        _set(1, lambda x, y: x.reshape(-1, 32).cumsum(1).ravel()), launch=((3,), (32,)),
    ),
    Foreign(
        "compare and exchange on floats by their bits",
        raw(_EXCHANGE, "extremes"),
        (drawn(500), drawn(500, dtype="int32", low=-50, high=50), np.full(1, -9, "float32"), np.array([99, -99, 0], "int32"), 500),
        _extremes, launch=((4,), (32,)),
    ),
    Foreign(
        "launch bounds, unions, enums and typedefs",
        raw(_BOUNDS, "classify"),
        (drawn(128), np.zeros(128, "uint64")),
        _classified, launch=((2,), (64,)),
    ),
    Foreign(
        "three axes and an index macro",
        raw(_LAPLACE, "laplace"),
        (drawn(7, 6, 9, dtype="float64"), np.zeros((7, 6, 9)), 7, 6, 9),
        _laplace, launch=((2, 2, 2), (4, 4, 4)), tolerance=1e-9,
    ),
    Foreign(
        "types and extents among the options",
        raw(_MATMUL, "matmul", options=("-DREAL=double", "-D", "SIDE=4", "--use_fast_math")),
        (drawn(9, 11, dtype="float64"), drawn(11, 6, dtype="float64"), np.zeros((9, 6)), 9, 6, 11),
        _set(2, lambda a, b, *_: a @ b), launch=((2, 3), (4, 4)),
    ),
    Foreign(
        "a generator of random numbers",
        raw(_RANDOM, "draw"),
        (np.zeros(64 * 5, "uint32"), 12345, 5),
        _draw, launch=((2,), (32,)),
    ),
    Foreign(
        "CuPy's headers in a raw kernel",
        raw(_STANDARD, "tops"),
        (drawn(50, 7, dtype="int32", low=-99, high=99), np.zeros(50, "int32"), 50, 7),
        _set(1, lambda x, *_: x.max(1)), launch=((2,), (16,)),
    ),
    Foreign(
        "a kernel that a macro declares, and conditional types",
        raw(_CONDITIONAL % {"factor": 1.5}, "add_up", ("-DDOUBLE_RESULT",)),
        (drawn(20, dtype="float64"), drawn(21, dtype="float64")[:20].copy(), np.zeros(20)),
        _set(2, lambda a, b, c: a + 1.5 * b), launch=((1,), (20,)),
    ),
    Foreign(
        "vector types and a cast of pointers",
        raw(_VECTORS, "lengths"),
        (drawn(40, 4), np.zeros((40, 2), "float32"), 40),
        _lengths, launch=((2,), (32,)), tolerance=1e-5,
    ),
    Foreign(
        "a sort with barriers in loops",
        raw(_SORT, "bitonic"),
        (drawn(128),),
        _set(0, lambda x: np.sort(x.reshape(2, 64)).ravel()), launch=((2,), (64,)),
    ),
    Foreign(
        "more blocks than a grid once had",
        raw(_GRID, "mark"),
        (np.zeros(134_000, "uint8"), np.zeros(1, "int32")),
        _mark, launch=((67_000, 2), (1,)),
    ),
    Foreign(
        "a texture",
        raw(_TEXTURE, "sample"),
        (drawn(9, 12), np.zeros((9, 12), "float32")),
        _sampled, call=_texture, tolerance=5e-3,
    ),
    Foreign(
        "a warp for each row of a sparse matrix",
        raw(_CSR, "spmv", options=("--std=c++11",)),
        (_INDPTR, _INDICES, _DATA, _DENSE, np.zeros(4), 4),
        _set(4, lambda p, k, d, x, y, n: np.array([d[a:b] @ x[k[a:b]] for a, b in pairwise(p)])),
        launch=((1,), (128,)),
    ),
)  # fmt: skip
