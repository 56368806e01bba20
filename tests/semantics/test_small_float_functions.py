"""Functions of half, bfloat16 and their pairs: comparisons, rounding, saturation, NaN and zeros."""

from __future__ import annotations

import bisect
import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tests.devices import ArrayDevice
from tests.semantics.harness import run

COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
OPERATORS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
FUNCTIONS = ["sqrt", "rcp", "exp2", "log", "floor", "ceil", "trunc", "rint"]
INTEGERS = {
    "short": "short", "ushort": "unsigned short", "int": "int", "uint": "unsigned",
    "ll": "long long", "ull": "unsigned long long",
}  # fmt: skip
MODES = ("rn", "rz", "rd", "ru")


def _compared(name: str) -> str:
    return f"""
  p = __h{name}2(x, y);
  *o++ = __h{name}(x.x, y.x); *o++ = __hb{name}2(x, y); *o++ = __h{name}2_mask(x, y);
  *o++ = ((float)p.x == 1) + 2 * ((float)p.y == 1) + 4 * ((float)p.x == 0) + 8 * ((float)p.y == 0);
"""


def _source(header: str, small: str, pair: str, word: str) -> str:
    functions = "".join(
        f"  p = h2{f}(x); o[{k}] = near(p.x, h{f}(x.x)) && near(p.y, h{f}(x.y));\n"
        for k, f in enumerate(FUNCTIONS)
    )
    names = [f"{name}{u}" for name in COMPARISONS for u in ("", "u")]
    operators = "".join(f"  *o++ = x.x {op} y.x; *o++ = x {op} y;\n" for op in OPERATORS.values())
    into = "".join(
        f"  o[{k}] = (long long)__{word}2{name}_{mode}(x);\n"
        for k, (name, mode) in enumerate(itertools.product(INTEGERS, MODES))
    )
    out_of = "".join(
        f"  o[{k}] = bits(__{name}2{word}_{mode}(({ctype})v));\n"
        for k, ((name, ctype), mode) in enumerate(itertools.product(INTEGERS.items(), MODES))
    )
    rounded = "".join(f"  o[{k}] = bits(__float2{word}_{m}(x));\n" for k, m in enumerate(MODES))
    return f"""
#include <{header}>
typedef {small} T;
typedef {pair} T2;
__device__ int bits(T x) {{ return __{word}_as_ushort(x); }}
__device__ bool near(T x, T y) {{ return abs(bits(x) - bits(y)) < 2; }}
extern "C" __global__ void compare(const T2* a, const T2* b, unsigned* o) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  T2 x = a[i], y = b[i], p;
  o += {4 * len(names) + 2 * len(OPERATORS)} * i;
{"".join(map(_compared, names))}{operators}}}
extern "C" __global__ void extremes(const T* a, const T* b, const T* c, T* o) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  T x = a[i], y = b[i], z = c[i];
  T2 p = T2(x, y), q = T2(y, z), r = T2(z, x), v = __hmax2(p, q), w = __hcmadd(p, q, r);
  T values[] = {{
      __hmax(x, y), __hmin(x, y), __hmax_nan(x, y), __hmin_nan(x, y), v.x, v.y,
      __hadd_sat(x, y), __hsub_sat(x, y), __hmul_sat(x, y), __hfma_sat(x, y, z),
      __hfma_relu(x, y, z), __hadd2_sat(p, q).y, __hfma2_relu(p, q, r).y, w.x, w.y,
      (-p).y, __lowhigh2highlow(p).x, __highs2{word}2(p, q).y}};
  for (int k = 0; k < 18; k++) o[18 * i + k] = values[k];
}}
extern "C" __global__ void pairs(const T2* a, bool* o) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  T2 x = a[i], p;
  o += {len(FUNCTIONS)} * i;
{functions}}}
extern "C" __global__ void to_integers(const T* a, long long* o) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  T x = a[i];
  o += {len(INTEGERS) * len(MODES) + 2} * i;
{into}
  o[{len(INTEGERS) * len(MODES)}] = __{word}2char_rz(x);
  o[{len(INTEGERS) * len(MODES) + 1}] = __{word}2uchar_rz(x);
}}
extern "C" __global__ void from_numbers(const long long* a, const float* b, int* ints, int* o) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {{ long long v = a[i]; int* p = o; o = ints + {len(INTEGERS) * len(MODES)} * i;
{out_of}  o = p; }}
  float x = b[i];
  o += 4 * i;
{rounded}}}
"""


HALF_SOURCE = _source("cuda_fp16.h", "__half", "__half2", "half")
BRAIN_SOURCE = _source("cuda_bf16.h", "__nv_bfloat16", "__nv_bfloat162", "bfloat16")
TYPES = {
    "half": (HALF_SOURCE, np.dtype("float16"), 0x7C00),
    "bfloat16": (BRAIN_SOURCE, np.dtype(ml_dtypes.bfloat16), 0x7F80),
}
pytestmark = pytest.mark.parametrize("word", TYPES)

Bits = npt.NDArray[np.uint16]


def numbers(word: str, count: int, seed: int = 0) -> Bits:
    """Return numbers of all kinds as bits."""
    infinity = TYPES[word][2]
    rng = np.random.default_rng(seed)
    special = [0, 1, infinity - 1, infinity, 0x7FFF, 0x3C00, 0x3F80, 0x4248]
    some = rng.choice(np.array([*special, *(0x8000 | one for one in special)], np.uint16), count)
    return np.where(rng.random(count) < 0.3, some, rng.integers(0, 2**16, count).astype(np.uint16))


def same(found: Bits, expected: Bits, word: str) -> None:
    """Compare bits; all NaN are equal."""
    limit = TYPES[word][2]
    found, expected = (np.where((x & 0x7FFF) > limit, 0x7FFF, x) for x in (found, expected))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_comparisons(word: str, place: ArrayDevice) -> None:
    source, dtype, _ = TYPES[word]
    a, b = numbers(word, 1024), numbers(word, 1024, 1)
    b[:256] = a[:256]
    columns = 4 * 2 * len(COMPARISONS) + 2 * len(OPERATORS)
    *_, out = run(place, source, "compare", (4,), (128,), a, b, np.zeros((512, columns), np.uint32))
    x, y = (one.view(dtype).astype("f4").reshape(512, 2) for one in (a, b))
    unordered = np.isnan(x) | np.isnan(y)
    expected = []
    for compare in COMPARISONS.values():
        for holds in (compare(x, y) & ~unordered, compare(x, y) | unordered):
            mask = holds[:, 0] * 0xFFFF + holds[:, 1] * 0xFFFF0000
            ones = holds[:, 0] + 2 * holds[:, 1] + 4 * ~holds[:, 0] + 8 * ~holds[:, 1]
            expected += [holds[:, 0], holds.all(1), mask, ones]
    for compare in COMPARISONS.values():
        expected += [compare(x, y)[:, 0], compare(x, y).all(1)]
    np.testing.assert_array_equal(out, np.stack(expected, 1))


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
def test_extremes_and_saturation(word: str, place: ArrayDevice) -> None:
    source, dtype, _ = TYPES[word]
    a, b, c = (numbers(word, 512, seed) for seed in range(3))
    *_, out = run(
        place, source, "extremes", (4,), (128,),
        *(one.view(dtype) for one in (a, b, c)), np.zeros((512, 18), dtype),
    )  # fmt: skip
    out = out.view(np.uint16)
    x, y, z = (one.view(dtype).astype("f8") for one in (a, b, c))
    nan = np.isnan(x) | np.isnan(y)

    def chosen(p: Bits, q: Bits, larger: bool) -> Bits:
        u, v = (one.view(dtype).astype("f8") for one in (p, q))
        first = (u > v) | ((u == v) & (p >> 15 <= q >> 15))
        first = np.where(np.isnan(v), True, np.where(np.isnan(u), False, first == larger))
        first |= (u == v) & (p == q)
        return np.where(first, p, q)

    same(out[:, 0], chosen(a, b, True), word)
    same(out[:, 1], chosen(a, b, False), word)
    same(out[:, 2], np.where(nan, 0x7FFF, chosen(a, b, True)), word)
    same(out[:, 3], np.where(nan, 0x7FFF, chosen(a, b, False)), word)
    same(out[:, 4], out[:, 0], word)
    same(out[:, 5], chosen(b, c, True), word)
    with np.errstate(all="ignore"):
        sums = [x + y, x - y, x * y, x * y + z]
        near = [np.where(np.isnan(s), 0, np.clip(s, 0, 1)) for s in sums]
        found = out[:, 6:10].view(dtype).astype("f8")
        for k, expected in enumerate(near):
            np.testing.assert_allclose(found[:, k], expected, rtol=2.0**-8, atol=1e-7)
        relu = np.where(np.isnan(sums[3]), np.nan, np.maximum(sums[3], 0))
        same(out[:, 10], relu.astype(dtype).view(np.uint16) & 0x7FFF, word)
    same(out[:, 15], b ^ 0x8000, word)
    same(out[:, 16], b, word)
    same(out[:, 17], c, word)


def test_pairs_are_two_numbers(word: str, place: ArrayDevice) -> None:
    source, dtype, _ = TYPES[word]
    a = numbers(word, 1024)
    _, out = run(
        place, source, "pairs", (4,), (128,), a.view(dtype), np.zeros((512, len(FUNCTIONS)), bool)
    )
    equal = np.isnan(a.view(dtype).astype("f4")).reshape(512, 2).any(1)[:, None]
    assert (out | equal).all()


@pytest.mark.filterwarnings("ignore:invalid value")
def test_into_integers(word: str, place: ArrayDevice) -> None:
    source, dtype, _ = TYPES[word]
    a = numbers(word, 512)
    columns = len(INTEGERS) * len(MODES)
    _, out = run(
        place, source, "to_integers", (4,), (128,),
        a.view(dtype), np.zeros((512, columns + 2), np.int64),
    )  # fmt: skip
    x = a.view(dtype).astype("f4")
    rounds = dict(zip(MODES, (np.rint, np.trunc, np.floor, np.ceil), strict=True))
    kinds = dict(zip(INTEGERS, ("i2", "u2", "i4", "u4", "i8", "u8"), strict=True))
    wanted = [(kinds[name], mode) for name in INTEGERS for mode in MODES]
    for k, (kind, mode) in enumerate([*wanted, ("i1", "rz"), ("u1", "rz")]):
        limits = np.iinfo(kind)
        lost = -(2**63) if kind[1] == "8" else 0
        expected = [
            lost if math.isnan(v) else int(min(max(v, int(limits.min)), int(limits.max)))
            for v in rounds[mode](x).tolist()
        ]
        signed = [v - 2**64 if v >= 2**63 else v for v in expected]
        np.testing.assert_array_equal(out[:, k], signed, f"{kind} {mode}")


def test_out_of_numbers(word: str, place: ArrayDevice) -> None:
    source, dtype, infinity = TYPES[word]
    rng = np.random.default_rng(0)
    values = rng.integers(-(2**63), 2**63 - 1, 512) >> rng.integers(0, 63, 512)
    floats = (rng.standard_normal(512) * 10.0 ** rng.integers(-9, 9, 512)).astype("f4")
    floats[:4] = [0, -0.0, np.inf, -np.inf]
    columns = len(INTEGERS) * len(MODES)
    *_, ints, out = run(
        place, source, "from_numbers", (4,), (128,), values, floats,
        np.zeros((512, columns), np.int32), np.zeros((512, 4), np.int32),
    )  # fmt: skip
    steps = np.arange(infinity + 1, dtype=np.uint16).view(dtype).astype("f8").tolist()

    def rounded(exact: float, mode: str) -> int:
        """Return the bits of a number; Python compares integers and floats exactly."""
        negative = math.copysign(1, exact) < 0
        low = bisect.bisect_right(steps, abs(exact)) - 1
        away = False
        if steps[low] != abs(exact):
            last = low + 1 == infinity
            above = 2 * steps[low] - steps[low - 1] if last else steps[low + 1]
            beyond = 2 * Fraction(abs(exact)) - Fraction(steps[low]) - Fraction(above)
            nearest = beyond > 0 or (beyond == 0 and low % 2 == 1)
            away = {"rn": nearest, "rz": False, "rd": negative, "ru": not negative}[mode]
        return 0x8000 * negative | low + away

    for k, (name, mode) in enumerate(itertools.product(INTEGERS, MODES)):
        kind = dict(zip(INTEGERS, ("i2", "u2", "i4", "u4", "i8", "u8"), strict=True))[name]
        expected = [rounded(int(v), mode) for v in values.astype(kind)]
        np.testing.assert_array_equal(ints[:, k], expected, f"{name} {mode}")
    for k, mode in enumerate(MODES):
        np.testing.assert_array_equal(out[:, k], [rounded(v, mode) for v in floats.tolist()], mode)
