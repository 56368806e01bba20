"""CUDA features on the CPU: ids, barriers, shared memory, warps, atomics, templates, printf."""

import ctypes

import numpy as np
import pytest

from kspec.errors import LoadError
from kspec.model.stages import Header

from .conftest import Program

TEXT = r"""
extern "C" __global__ void multiply_add(const float* a, const float* b, float* c, int n) {
  for (ptrdiff_t i = (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += (ptrdiff_t)blockDim.x * gridDim.x)
    c[i] = a[i] * b[i] + 1.0f;
}
__device__ __forceinline__ float warp_sum(float v) {
  for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
  return v;
}
template <int B>
__global__ void __launch_bounds__(B) reduce(const float* __restrict__ x, float* out, long long n) {
  __shared__ float s[32];
  float v = 0;
  for (long long i = blockIdx.x * (long long)B + threadIdx.x; i < n; i += (long long)B * gridDim.x)
    v += x[i];
  v = warp_sum(v);
  int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
  if (lane == 0) s[w] = v;
  __syncthreads();
  if (w == 0) {
    v = lane < B / 32 ? s[lane] : 0.f;
    v = warp_sum(v);
    if (lane == 0) atomicAdd(out, v);
  }
}
extern "C" __global__ void tree(const float* x, float* out, int n) {
  extern __shared__ float s[];
  unsigned t = threadIdx.x;
  int i = blockIdx.x * blockDim.x + t;
  s[t] = i < n ? x[i] : 0.f;
  __syncthreads();
  for (unsigned k = blockDim.x / 2; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}
template <typename T> __global__ void fx3(T* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 3;
}
extern "C" __global__ void histogram(const unsigned char* x, unsigned* h, int n) {
  __shared__ unsigned mine[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) mine[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    atomicAdd(&mine[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&h[i], mine[i]);
}
namespace outer { namespace inner {
__constant__ float coefficients[4];
__device__ double counter = 1.5;
extern "C" __global__ void polynomial(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float* c = coefficients;
  if (i < n) y[i] = c[0] + x[i] * (c[1] + x[i] * (c[2] + x[i] * c[3]));
}
} }
extern "C" __global__ void ids(int* o) {
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int before = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16;
  __syncthreads();
  int after = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16;
  int size = blockDim.x * blockDim.y * blockDim.z;
  o[block * size + thread] = before == after ? after + (block << 24) : -1;
}
extern "C" __global__ void votes(unsigned* o) {
  unsigned t = threadIdx.x, m = 0xffffffffu, active = 0;
  int all_equal;
  o += t * 16;
  o[0] = __ballot_sync(m, t & 1);
  o[1] = __any_sync(m, t == 5) * 2 + __all_sync(m, t < 32);
  o[2] = __shfl_xor_sync(m, t, 1);
  o[3] = __shfl_up_sync(m, t, 1);
  o[4] = __shfl_sync(m, t, 3, 8);
  o[5] = __shfl_down_sync(m, t, 2, 8);
  if (t % 3 == 0) active = __activemask();
  o[6] = active;
  o[7] = __reduce_add_sync(m, t);
  o[8] = __match_any_sync(m, t / 8);
  o[9] = __match_all_sync(m, 7, &all_equal) & all_equal;
  o[10] = __reduce_max_sync(m, (int)t - 40);
  o[11] = t < 16 ? __ballot_sync(0xffffu, t & 2) : __ballot_sync(0xffff0000u, t & 4);
  o[12] = (unsigned)__shfl_sync(m, t * 3.0, 9);
}
extern "C" __global__ void counts(int* o) {
  int t = threadIdx.x;
  o[3 * t] = __syncthreads_count(t % 3 == 0);
  o[3 * t + 1] = __syncthreads_and(t >= 0) * 2 + __syncthreads_and(t > 0);
  o[3 * t + 2] = __syncthreads_or(t == 17) * 2 + __syncthreads_or(t < 0);
}
extern "C" __global__ void greet(int n) {
  if (threadIdx.x < n) printf("hello %d of %s, %.2f\n", threadIdx.x, "host", 1.5);
}
template <class T> __global__ void several(T* out) {
  __shared__ __align__(32) T a[4], *p;
  __shared__ volatile int n; __shared__ alignas(64) char c[3][5];
  static __shared__ double2 pairs[2];
  if (threadIdx.x == 0) { n = 5; p = a; a[1] = 2; c[2][4] = 1; pairs[1].y = sizeof(a); }
  __syncthreads();
  out[threadIdx.x] = p[1] + n + c[2][4] + pairs[1].y;
}
// Reads shared memory nobody wrote: every block must see the poison, not what the last one left.
extern "C" __global__ void stale(float* out) {
  __shared__ float s[2];
  extern __shared__ float d[];
  out[2 * blockIdx.x] = s[0];
  out[2 * blockIdx.x + 1] = d[0];
  s[0] = d[0] = 1;
}
extern __shared__ double file_scope[];
extern "C" __global__ void reverse(float* o) {
  file_scope[threadIdx.x] = threadIdx.x;
  __syncthreads();
  o[threadIdx.x] = (float)file_scope[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void spin_lock(int* lock, int* count) {
  for (;;) {
    if (atomicCAS(lock, 0, 1) == 0) {
      ++*count;
      atomicExch(lock, 0);
      break;
    }
  }
}
extern "C" __global__ void hand_over(int* flag, int* out) {
  if (threadIdx.x == 0) {
    while (atomicAdd(flag, 0) == 0) __nanosleep(10);
    out[0] = 42;
  }
  if (threadIdx.x == 31) atomicExch(flag, 1);
}
extern "C" __global__ void atomics(int* i, unsigned* u, float* f, double* d,
                                   unsigned long long* l) {
  int t = threadIdx.x;
  atomicAdd(&i[0], t); atomicSub(&i[1], t); atomicMin(&i[2], -t); atomicMax(&i[3], t);
  atomicInc(&u[0], 9u); atomicDec(&u[1], 9u); atomicAnd(&u[2], ~(1u << (t % 4)));
  atomicOr(&u[3], 1u << t % 32); atomicXor(&u[4], 1u << t % 7);
  atomicAdd(f, 0.5f); atomicAdd(d, 0.25); atomicAdd(l, 1ull);
  atomicMax(l + 1, (unsigned long long)t);
  atomicAdd_block(&i[4], 1);
}
struct Wide { double values[3]; char tail; };
extern "C" __global__ void by_value(Wide w, char c, short s, double* out) {
  out[0] = w.values[0] + w.values[2] + w.tail + c + s;
}
extern "C" __global__ void clocks(long long* o) {
  o[0] = clock64(); __threadfence(); o[1] = clock64(); o[2] = warpSize;
}
"""


@pytest.fixture(scope="module")
def program() -> Program:
    names = ["reduce<256>", "fx3<float>", "fx3<int>", "several<int>", "several<double>"]
    return Program(TEXT, names)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def test_grid_stride_loop(program, random):
    a, b = random.random((2, 100_003), dtype=np.float32)
    c = np.zeros_like(a)
    program("multiply_add", 64, 256, a, b, c, a.size)
    np.testing.assert_array_equal(c, a * b + np.float32(1))


def test_block_reduction_with_shuffles_and_static_shared_memory(program, random):
    x, out = random.random(100_003, dtype=np.float32), np.zeros(1, np.float32)
    program("reduce<256>", 40, 256, x, out, ctypes.c_longlong(x.size))
    np.testing.assert_allclose(out[0], x.sum(dtype=np.float64), rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 32, 128, 1024])
def test_tree_in_dynamic_shared_memory(program, random, threads):
    x = random.random(5_003, dtype=np.float32)
    out = np.zeros(-(-x.size // threads), np.float32)
    program("tree", out.size, threads, x, out, x.size, shared_mem=4 * threads)
    np.testing.assert_allclose(out.sum(dtype=np.float64), x.sum(dtype=np.float64), rtol=1e-5)


def test_templates_by_name_expression(program):
    for name, dtype in (("fx3<float>", np.float32), ("fx3<int>", np.int32)):
        x = np.arange(1000).astype(dtype)
        program(name, 4, 256, x, 1000)
        np.testing.assert_array_equal(x, np.arange(1000) * 3)


def test_histogram(program, random):
    x, h = random.integers(0, 256, 100_003, dtype=np.uint8), np.zeros(256, np.uint32)
    program("histogram", 13, 192, x, h, x.size)
    np.testing.assert_array_equal(h, np.bincount(x, minlength=256))


def test_constant_memory_and_globals(program, random):
    address, size = program.module.get_global("outer::inner::coefficients")
    assert size == 16
    (ctypes.c_float * 4).from_address(address)[:] = [1, 2, 3, 4]
    x, y = random.random(100, dtype=np.float32), np.zeros(100, np.float32)
    program("polynomial", 1, 128, x, y, 100)
    np.testing.assert_allclose(y, 1 + x * (2 + x * (3 + x * 4)), rtol=1e-5)
    address, size = program.module.get_global("outer::inner::counter")
    assert size == 8 and ctypes.c_double.from_address(address).value == 1.5
    with pytest.raises(LoadError, match=r"named symbol not found: none; .*outer::inner::counter"):
        program.module.get_global("none")


def test_three_dimensional_ids(program):
    out = np.zeros(12 * 60, np.int32)
    program("ids", (2, 3, 2), (4, 3, 5), out)
    x, y, z = np.meshgrid(range(4), range(3), range(5), indexing="ij")
    threads = (x | y << 8 | z << 16).transpose(2, 1, 0).ravel()
    expected = np.concatenate([threads + (block << 24) for block in range(12)])
    np.testing.assert_array_equal(out, expected)


def test_warp_operations(program):
    out = np.zeros((32, 16), np.uint32)
    program("votes", 1, 32, out)
    t = np.arange(32)
    assert (out[:, 0] == 0xAAAAAAAA).all() and (out[:, 1] == 3).all()
    assert (out[:, 2] == (t ^ 1)).all()
    assert (out[:, 3] == np.maximum(t - 1, 0)).all()
    assert (out[:, 4] == t // 8 * 8 + 3).all()
    assert (out[:, 5] == np.where(t % 8 < 6, t + 2, t)).all()
    assert (out[:, 6] == np.where(t % 3 == 0, 0x49249249, 0)).all()
    assert (out[:, 7] == 496).all()
    assert (out[:, 8] == 0xFF << (t // 8 * 8)).all()
    assert (out[:, 9] == 1).all()  # 0xffffffff & 1
    assert (out[:, 10].view(np.int32) == -9).all()
    assert (out[:16, 11] == 0xCCCC).all() and (out[16:, 11] == 0xF0F00000).all()
    assert (out[:, 12] == 27).all()


def test_barriers_that_count(program):
    out = np.zeros((100, 3), np.int32)
    program("counts", 1, 100, out)
    assert (out == [34, 2, 2]).all()


def test_printf_goes_to_stdout(program, capsys):
    program("greet", 1, 64, 2)
    assert capsys.readouterr().out == "hello 0 of host, 1.50\nhello 1 of host, 1.50\n"


def test_shared_declarations_of_all_shapes(program):
    for name, dtype in (("several<int>", np.int32), ("several<double>", np.float64)):
        out = np.zeros(64, dtype)
        program(name, 3, 64, out)
        assert (out == 2 + 5 + 1 + 4 * out.itemsize).all()


def test_shared_memory_is_poisoned_in_every_block(program):
    out = np.zeros(40, np.float32)
    program("stale", 20, 1, out, shared_mem=4)
    assert np.isnan(out).all()


def test_dynamic_shared_memory_at_file_scope(program):
    out = np.zeros(64, np.float32)
    program("reverse", 2, 64, out, shared_mem=512)
    np.testing.assert_array_equal(out, np.arange(63, -1, -1))


def test_locks_and_hand_over_make_progress(program):
    memory = np.zeros(2, np.int32)
    count = ctypes.c_void_p(memory.ctypes.data + 4)
    program("spin_lock", 8, 64, memory, count)
    assert memory[1] == 8 * 64
    memory[:] = 0
    program("hand_over", 1, 32, memory, count)
    assert memory[1] == 42


def test_atomics(program):
    i, u = np.zeros(5, np.int32), np.zeros(5, np.uint32)
    u[2] = 0xFF
    f, d, long = np.zeros(1, np.float32), np.zeros(1), np.zeros(2, np.uint64)
    program("atomics", 2, 100, i, u, f, d, long)
    total = 2 * sum(range(100))
    assert i.tolist() == [total, -total, -99, 99, 200]
    assert u[:4].tolist() == [0, 0, 0xF0, 0xFFFFFFFF]
    assert (f[0], d[0], long.tolist()) == (100, 50, [200, 99])


def test_parameters_need_no_alignment(program):
    kernel = program.module.get_kernel("by_value")
    assert kernel.parameter_sizes == (32, 1, 2, 8)
    out = np.zeros(1)
    raw = ctypes.create_string_buffer(b"?" + np.array([1.0, 2.0, 3.0, 0]).tobytes())
    base = ctypes.addressof(raw)
    ctypes.c_char.from_address(base + 25).value = b"\x04"
    char, short, pointer = (
        ctypes.c_char(b"\x05"),
        ctypes.c_short(-1),
        ctypes.c_void_p(out.ctypes.data),
    )
    pointers = (ctypes.c_void_p * 4)(base + 1, *map(ctypes.addressof, (char, short, pointer)))
    kernel.launch((1, 1, 1), (1, 1, 1), ctypes.addressof(pointers))
    assert out[0] == 1 + 3 + 4 + 5 - 1


def test_clock_and_warp_size(program):
    out = np.zeros(3, np.int64)
    program("clocks", 1, 1, out)
    assert out[1] >= out[0] > 0 and out[2] == 32


def test_get_kernel(program):
    kernel = program.module.get_kernel("fx3<int>")
    assert kernel.name == "fx3<int>" and kernel.parameter_sizes == (8, 4)
    symbol = program.image.symbols["fx3<int>"]
    assert program.module.get_kernel(symbol).name == "fx3<int>"
    with pytest.raises(LoadError, match="named symbol not found: fx4"):
        program.module.get_kernel("fx4")


def test_headers_and_options():
    header = Header("deep/scale.cuh", "#pragma once\n__device__ int scale(int x) { return 2 * x; }")
    user = Header(
        "user.cuh",
        '#include "deep/scale.cuh"\nextern "C" __global__ void twice(int* x) {'
        " __shared__ int s; s = scale(*x) + N; *x = s; }",
    )
    text = '#include "user.cuh"\n#ifdef KSPEC_HOST\nextern "C" __global__ void host_only(int* x) { *x = 1; }\n'
    text += '#else\nextern "C" __global__ void gpu_only(int* x) {}\n#endif'
    program = Program(text, headers=(header, user), options=("-DN=5", "--use_fast_math"))
    x = np.array([4], np.int32)
    program("twice", 1, 1, x)
    assert x[0] == 13
    assert set(program.image.symbols) == {"twice", "host_only"}


def test_standard_headers_can_be_included():
    text = "#include <type_traits>\n#include <cmath>\n#include <cuda_fp16.h>\n"
    text += "__noinline__ __device__ float f(float x) { "
    text += "return std::sqrt(x) + __expf(0.f) + rsqrtf(x); }"
    text += 'extern "C" __global__ void k(float* x) { __shared__ std::remove_cv<const float>::type s[1];'
    text += "s[0] = f(x[0]); assert(isnan(x[0]) == false); x[0] = max(s[0], 1.f); }"
    x = np.array([4], np.float32)
    Program(text)("k", 1, 1, x)
    assert x[0] == 3.5


def test_modules_do_not_share_template_statics():
    text = (
        "template <class T> struct S { static T table[N]; }; template <class T> T S<T>::table[N];"
    )
    text += "template <class T> __global__ void k(long long* out) "
    text += "{ out[0] = (long long)&S<T>::table; S<T>::table[N - 1] = 1; }"
    small = Program(text, ["k<int>"], options=("-DN=4",))
    large = Program(text, ["k<int>"], options=("-DN=400",))
    a, b = np.zeros(1, np.int64), np.zeros(1, np.int64)
    small("k<int>", 1, 1, a)
    large("k<int>", 1, 1, b)
    assert a[0] != b[0]
