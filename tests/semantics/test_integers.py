"""Integer intrinsics, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.devices import ArrayDevice
from tests.semantics.harness import run

INTEGERS_SOURCE = r"""
extern "C" __global__ void unary(const unsigned* x, unsigned* out) {
  int t = threadIdx.x;
  unsigned v = x[t], *o = out + 6 * t;
  o[0] = __clz(v); o[1] = __ffs(v); o[2] = __popc(v); o[3] = __brev(v);
  o[4] = __clz(~v & 0xffff); o[5] = abs((int)(v | 1));
}
extern "C" __global__ void unary64(const unsigned long long* x, unsigned long long* out) {
  int t = threadIdx.x;
  unsigned long long v = x[t], *o = out + 4 * t;
  o[0] = __clzll(v); o[1] = __ffsll(v); o[2] = __popcll(v); o[3] = __brevll(v);
}
extern "C" __global__ void binary(const unsigned* x, const unsigned* y, unsigned* out) {
  int t = threadIdx.x;
  unsigned a = x[t], b = y[t], *o = out + 24 * t;
  o[0] = __umulhi(a, b); o[1] = __mulhi((int)a, (int)b);
  o[2] = __umul24(a, b); o[3] = __mul24((int)a, (int)b);
  o[4] = __usad(a, b, 7u); o[5] = __sad((int)a, (int)b, 7u);
  o[6] = __uhadd(a, b); o[7] = __hadd((int)a, (int)b);
  o[8] = __urhadd(a, b); o[9] = __rhadd((int)a, (int)b);
  o[10] = __byte_perm(a, b, 0x3715); o[11] = __byte_perm(a, b, 0x8fc0);
  o[12] = __funnelshift_l(a, b, b); o[13] = __funnelshift_r(a, b, b);
  o[14] = __funnelshift_lc(a, b, b & 63); o[15] = __funnelshift_rc(a, b, b & 63);
  o[16] = __dp4a((int)a, (int)b, -3); o[17] = __dp4a(a, b, 3u);
  o[18] = __dp2a_lo((int)a, (int)b, -3); o[19] = __dp2a_hi((int)a, (int)b, -3);
  o[20] = __dp2a_lo(a, b, 3u); o[21] = __dp2a_hi(a, b, 3u);
  o[22] = min((int)a, (int)b); o[23] = max(a, b);
}
extern "C" __global__ void sums(const unsigned* x, const unsigned* y, unsigned* out) {
  int t = threadIdx.x;
  unsigned a = x[t], b = y[t], *o = out + 8 * t;
  o[0] = __vsads2(a, b); o[1] = __vsadu2(a, b); o[2] = __vsads4(a, b); o[3] = __vsadu4(a, b);
  o[4] = __vavgs2(a, b); o[5] = __vavgu2(a, b); o[6] = __vavgs4(a, b); o[7] = __vavgu4(a, b);
}
extern "C" __global__ void nth(const unsigned* x, const unsigned* base, const int* n, unsigned* out) {
  out[threadIdx.x] = __fns(x[threadIdx.x], base[threadIdx.x], n[threadIdx.x]);
}
extern "C" __global__ void where(int* x) {
  __shared__ int one, many[40];
  extern __shared__ int more[];
  int here = 0, t = threadIdx.x;
  one = many[t] = more[t] = t;
  __barrier_sync(0);
  x[t] = __isShared(&one) + __isShared(&many[39]) + __isShared(&more[31]);
  if (__isShared(x) || __isShared(&here)) x[t] = -1;
  x[t] += many[31 - t] + more[31 - t];
}
extern "C" __global__ void binary64(const unsigned long long* x, const unsigned long long* y,
                                    unsigned long long* out) {
  int t = threadIdx.x;
  out[2 * t] = __umul64hi(x[t], y[t]);
  out[2 * t + 1] = __mul64hi((long long)x[t], (long long)y[t]);
}
extern "C" __global__ void bits(float f, double d, long long* out) {
  out[0] = __float_as_int(f); out[1] = __float_as_uint(f); out[2] = __double_as_longlong(d);
  out[3] = __double2hiint(d); out[4] = __double2loint(d);
  out[5] = __hiloint2double(__double2hiint(d), __double2loint(d)) == d;
  out[6] = __int_as_float(__float_as_int(f)) == f;
  out[7] = __longlong_as_double(__double_as_longlong(d)) == d;
}
extern "C" __global__ void conversions(const float* x, int* out) {
  int t = threadIdx.x, *o = out + 6 * t;
  o[0] = __float2int_rn(x[t]); o[1] = __float2int_rz(x[t]); o[2] = __float2int_ru(x[t]);
  o[3] = __float2int_rd(x[t]); o[4] = (int)__float2uint_rn(x[t]);
  o[5] = __double2int_rn((double)x[t]);
}
// Plain arithmetic: what C leaves undefined and CUDA's tools compute all the same is not here.
extern "C" __global__ void wraps(int a, unsigned b, int* out) {
  out[0] = a + 1; out[1] = a * 3; out[2] = (int)(b << 31); out[3] = -7 / 2; out[4] = -7 % 2;
  out[5] = (signed char)200; out[6] = (short)40000; out[7] = -8 >> 1; out[8] = sizeof(long);
  out[9] = (char)-1 < 0;
}
extern "C" __global__ void loads(const int* x, const float4* v, int* out, float4* o) {
  int t = threadIdx.x;
  out[t] = __ldg(x + t) + __ldcg(x + t) + __ldca(x + t) + __ldcs(x + t) + __ldcv(x + t) +
           __ldlu(x + t);
  float4 four = __ldg(v + t);
  __stcg(o + t, make_float4(four.w, four.z, four.y, four.x));
  __stwt(out + t + blockDim.x, 1); __stcs(out + t + 2 * blockDim.x, 2);
  __stwb(out + t + 3 * blockDim.x, 3);
}
"""
RNG = np.random.default_rng(7)
EDGES = [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x00FF00FF, 0x80808080]
A = np.array([a for a in EDGES for _ in EDGES] + list(RNG.integers(0, 2**32, 64)), np.uint32)
B = np.array(EDGES * len(EDGES) + list(RNG.integers(0, 2**32, 64)), np.uint32)


def signed(value: int, bits: int) -> int:
    return (value & (2**bits - 1)) - (2**bits if value >> (bits - 1) & 1 else 0)


def parts(value: int, bits: int, is_signed: bool) -> list[int]:
    found = [value >> shift & (2**bits - 1) for shift in range(0, 32, bits)]
    return [signed(part, bits) for part in found] if is_signed else found


def permuted(a: int, b: int, selector: int) -> int:
    data, result = b << 32 | a, 0
    for i in range(4):
        result |= (data >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i
    return result


def dot(a: int, b: int, pairs: str, is_signed: bool) -> int:
    """Return __dp4a ("4"), __dp2a_lo ("lo") or __dp2a_hi ("hi") without the addend."""
    bytes_of_b = parts(b, 8, is_signed)
    if pairs == "4":
        return sum(x * y for x, y in zip(parts(a, 8, is_signed), bytes_of_b, strict=True))
    chosen = bytes_of_b[:2] if pairs == "lo" else bytes_of_b[2:]
    return sum(x * y for x, y in zip(parts(a, 16, is_signed), chosen, strict=True))


def expected_binary(a: int, b: int) -> list[int]:
    s, t, both = signed(a, 32), signed(b, 32), b << 32 | a
    shift, clamped = b & 31, min(b & 63, 32)
    return [
        a * b >> 32, s * t >> 32,
        (a & 0xFFFFFF) * (b & 0xFFFFFF), signed(a, 24) * signed(b, 24),
        abs(a - b) + 7, abs(s - t) + 7, (a + b) >> 1, (s + t) >> 1,
        (a + b + 1) >> 1, (s + t + 1) >> 1,
        permuted(a, b, 0x3715), permuted(a, b, 0x8FC0),
        both << shift >> 32, both >> shift, both << clamped >> 32, both >> clamped,
        dot(a, b, "4", True) - 3, dot(a, b, "4", False) + 3,
        dot(a, b, "lo", True) - 3, dot(a, b, "hi", True) - 3,
        dot(a, b, "lo", False) + 3, dot(a, b, "hi", False) + 3,
        min(s, t), max(a, b),
    ]  # fmt: skip


def test_unary(place: ArrayDevice) -> None:
    _, out = run(
        place, INTEGERS_SOURCE, "unary", (1,), (A.size,), A, np.zeros((A.size, 6), np.uint32)
    )
    for value, row in zip(A.tolist(), out.tolist(), strict=True):
        low = ~value & 0xFFFF
        assert row == [
            32 - value.bit_length(), (value & -value).bit_length(), value.bit_count(),
            int(f"{value:032b}"[::-1], 2), 32 - low.bit_length(), abs(signed(value | 1, 32)),
        ]  # fmt: skip


def test_unary_of_64_bits(place: ArrayDevice) -> None:
    x = (A.astype(np.uint64) << np.uint64(32)) | B
    x[0] = 0
    _, out = run(
        place, INTEGERS_SOURCE, "unary64", (1,), (x.size,), x, np.zeros((x.size, 4), np.uint64)
    )
    for value, row in zip(x.tolist(), out.tolist(), strict=True):
        reverse = int(f"{value:064b}"[::-1], 2)
        lowest = (value & -value).bit_length()
        assert row == [64 - value.bit_length(), lowest, value.bit_count(), reverse]


def test_binary(place: ArrayDevice) -> None:
    _, _, out = run(
        place, INTEGERS_SOURCE, "binary", (1,), (A.size,), A, B, np.zeros((A.size, 24), np.uint32)
    )
    for a, b, row in zip(A.tolist(), B.tolist(), out.tolist(), strict=True):
        assert row == [value & 0xFFFFFFFF for value in expected_binary(a, b)], (hex(a), hex(b))


def test_binary_of_64_bits(place: ArrayDevice) -> None:
    x = (A.astype(np.uint64) << np.uint64(32)) | B
    y = (B.astype(np.uint64) << np.uint64(32)) | A[::-1]
    out = np.zeros((x.size, 2), np.uint64)
    _, _, out = run(place, INTEGERS_SOURCE, "binary64", (1,), (x.size,), x, y, out)
    for a, b, row in zip(x.tolist(), y.tolist(), out.tolist(), strict=True):
        assert row == [a * b >> 64, (signed(a, 64) * signed(b, 64) >> 64) & (2**64 - 1)]


def test_reinterpreted_bits(place: ArrayDevice) -> None:
    f, d = np.float32(-1.5), np.float64(-1234.5678)
    (out,) = run(place, INTEGERS_SOURCE, "bits", (1,), (1,), f, d, np.zeros(8, np.int64))
    high, low = d.view(np.uint64) >> np.uint64(32), d.view(np.uint64) & np.uint64(0xFFFFFFFF)
    assert out.tolist() == [
        int(f.view(np.int32)), int(f.view(np.uint32)), int(d.view(np.int64)),
        signed(int(high), 32), signed(int(low), 32), 1, 1, 1,
    ]  # fmt: skip


def test_conversions_saturate(place: ArrayDevice) -> None:
    x = np.array([0.5, 1.5, -2.5, 2.7, -2.7, 3e9, -3e9, np.nan, np.inf, -np.inf], np.float32)
    _, out = run(
        place, INTEGERS_SOURCE, "conversions", (1,), (x.size,), x, np.zeros((x.size, 6), np.int32)
    )
    clean = np.nan_to_num(x.astype(np.float64), nan=0, posinf=1e30, neginf=-1e30)
    for column, function in enumerate((np.rint, np.trunc, np.ceil, np.floor)):
        expected = np.clip(function(clean), -(2**31), 2**31 - 1)
        np.testing.assert_array_equal(out[:, column], expected)
    expected = np.clip(np.rint(clean), 0, 2**32 - 1)
    np.testing.assert_array_equal(out[:, 4].view(np.uint32), expected)
    # Only from double does NaN become the least integer.
    np.testing.assert_array_equal(out[:, 5], np.where(np.isnan(x), -(2**31), out[:, 0]))


def test_arithmetic_wraps(place: ArrayDevice) -> None:
    (out,) = run(
        place, INTEGERS_SOURCE, "wraps", (1,), (1,),
        np.int32(2**31 - 1), np.uint32(3), np.zeros(10, np.int32),
    )  # fmt: skip
    assert out.tolist() == [-(2**31), 2**31 - 3, -(2**31), -3, -1, -56, -25536, -4, 8, 1]


def test_loads_and_stores_with_cache_hints(place: ArrayDevice) -> None:
    x = np.arange(32, dtype=np.int32)
    v = np.arange(128, dtype=np.float32).reshape(32, 4)
    _, _, out, o = run(
        place, INTEGERS_SOURCE, "loads", (1,), (32,), x, v, np.zeros((4, 32), np.int32), 0 * v
    )
    np.testing.assert_array_equal(out[0], 6 * x)
    assert (out[1:] == [[1], [2], [3]]).all()
    np.testing.assert_array_equal(o, v[:, ::-1])


VIDEO_SOURCE = r"""
extern "C" __global__ void video(const unsigned* x, const unsigned* y, unsigned* out) {
  int t = threadIdx.x;
  unsigned a = x[t], b = y[t], *o = out + 28 * t;
  o[0] = __vadd4(a, b); o[1] = __vsub4(a, b); o[2] = __vaddss4(a, b); o[3] = __vaddus4(a, b);
  o[4] = __vsubss4(a, b); o[5] = __vsubus4(a, b); o[6] = __vmaxs4(a, b); o[7] = __vmaxu4(a, b);
  o[8] = __vmins4(a, b); o[9] = __vminu4(a, b); o[10] = __vabsdiffu4(a, b); o[11] = __vcmpeq4(a, b);
  o[12] = __vcmpgts4(a, b); o[13] = __vsetltu4(a, b);
  o[14] = __vadd2(a, b); o[15] = __vsub2(a, b); o[16] = __vaddss2(a, b); o[17] = __vaddus2(a, b);
  o[18] = __vsubss2(a, b); o[19] = __vsubus2(a, b); o[20] = __vmaxs2(a, b); o[21] = __vmaxu2(a, b);
  o[22] = __vmins2(a, b); o[23] = __vminu2(a, b); o[24] = __vabsdiffu2(a, b);
  o[25] = __vcmpeq2(a, b); o[26] = __vcmpgts2(a, b); o[27] = __vsetltu2(a, b);
}
"""


@pytest.mark.parametrize(("column", "bits"), [(0, 8), (14, 16)])
def test_arithmetic_on_parts_of_a_word(column: int, bits: int, place: ArrayDevice) -> None:
    a, b = A.copy(), B.copy()
    a[:8] = b[:8]
    _, _, out = run(
        place, VIDEO_SOURCE, "video", (1,), (a.size,), a, b, np.zeros((a.size, 28), np.uint32)
    )
    unsigned = np.dtype(f"u{bits // 8}")
    x, y, found = (np.ascontiguousarray(v).view(unsigned) for v in (a, b, out[:, column:][:, :14]))
    x, y = x.reshape(a.size, -1).astype(np.int64), y.reshape(a.size, -1).astype(np.int64)
    found = found.reshape(a.size, 14, -1)
    top, full = 2 ** (bits - 1), 2**bits
    s, t = (x ^ top) - top, (y ^ top) - top
    expected = [
        x + y, x - y, np.clip(s + t, -top, top - 1), np.clip(x + y, 0, full - 1),
        np.clip(s - t, -top, top - 1), np.clip(x - y, 0, full - 1), np.maximum(s, t),
        np.maximum(x, y), np.minimum(s, t), np.minimum(x, y), np.abs(x - y),
        (x == y) * -1, (s > t) * -1, x < y,
    ]  # fmt: skip
    for number, values in enumerate(expected):
        np.testing.assert_array_equal(found[:, number], values % full, err_msg=str(number))


def test_sums_and_averages_of_parts(place: ArrayDevice) -> None:
    x, y = (np.random.default_rng(k).integers(0, 2**32, 512, np.uint32) for k in range(2))
    x[:8], y[:8] = [0, 1, 2**32 - 1, 0x80808080, 0x7F7F7F7F, 1, 5, 7], [0, 0, 0, *[2**32 - 1] * 5]
    *_, out = run(place, INTEGERS_SOURCE, "sums", (1,), (512,), x, y, np.zeros((512, 8), np.uint32))
    for column, kind in enumerate(["i2", "u2", "i1", "u1"]):
        a, b = (one.view(kind).reshape(512, -1).astype(int) for one in (x, y))
        np.testing.assert_array_equal(out[:, column], abs(a - b).sum(1))
        average = (a + b + (a + b >= 0)) >> 1
        found = out[:, 4 + column].copy().view(kind).reshape(512, -1)
        np.testing.assert_array_equal(found, average)


def test_the_nth_set_bit(place: ArrayDevice) -> None:
    rng = np.random.default_rng(0)
    x, base = rng.integers(0, 2**32, 512, np.uint32), rng.integers(0, 32, 512, np.uint32)
    n = rng.integers(-6, 7, 512).astype(np.int32)
    x[:4], base[:4], n[:4] = [0, 2**32 - 1, 1, 2**31], [0, 31, 0, 31], [1, -32, 0, 0]
    *_, out = run(place, INTEGERS_SOURCE, "nth", (1,), (512,), x, base, n, np.zeros(512, np.uint32))

    def found(mask: int, base: int, n: int) -> int:
        way = range(base, -1, -1) if n < 0 else range(base, 32 if n else base + 1)
        bits = [k for k in way if mask >> k & 1]
        return bits[max(abs(n), 1) - 1] if len(bits) >= max(abs(n), 1) else 2**32 - 1

    rows = zip(x.tolist(), base.tolist(), n.tolist(), strict=True)
    np.testing.assert_array_equal(out, [found(*row) for row in rows])


def test_addresses_in_shared_memory(place: ArrayDevice) -> None:
    (x,) = run(place, INTEGERS_SOURCE, "where", (2,), (32,), np.zeros(32, np.int32), shared_mem=128)
    np.testing.assert_array_equal(x, 3 + 2 * (31 - np.arange(32)))
