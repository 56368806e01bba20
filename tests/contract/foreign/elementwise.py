"""Elementwise kernels: what preambles, operations and parameter lists of others have in them."""

from __future__ import annotations

import numpy as np

from tests.contract.foreign.declared import Foreign, View, drawn, elementwise

_TRAITS = r"""
#include <cupy/cuda_workaround.h>
template <> struct std::is_floating_point<float16> : std::true_type {};
template <typename T> struct cast_rule {
  __device__ static T of(double v) { return std::is_floating_point<T>::value ? T(v) : T(rint(v)); }
};
template <> struct cast_rule<unsigned char> {
  __device__ static unsigned char of(double v) { return v < 0 ? 0 : v > 255 ? 255 : (unsigned char)rint(v); }
};
"""
_TUPLES = r"""
template <bool wide> struct accumulator { typedef typename cupy::type_traits::conditional<wide, double, float>::type type; };
template <typename A, typename B> __device__ int same_width() { return cupy::type_traits::is_same<A, B>::value; }
"""
_PEEK = r"""
template <typename T, int ndim, bool c, bool i32>
__device__ T around(const CArray<T, ndim, c, i32>& a, ptrdiff_t at) {
  ptrdiff_t last = a.size() - 1;
  return a[max(at - 1, (ptrdiff_t)0)] + a[at] + a[min(at + 1, last)];
}
"""
_RGB = r"""
    // weights of the channels, in fixed point
    const int red = pixels[3 * i], green = pixels[3 * i + 1], blue = pixels[3 * i + 2];
    int sum = 77 * red;  sum += 150 * green;  \
    sum += 29 * blue;
    grey = sum >> 8;  // 77 + 150 + 29 == 256"""
_MEDIAN = r"""
    T window[5]; int held = 0;
    #pragma unroll
    for (int k = -2; k <= 2; ++k) {
      const int at = (int)min((long long)(x.size() - 1), max(0LL, (long long)i + k));
      const T v = x[at];
      int p = held++;
      while (p > 0 && window[p - 1] > v) { window[p] = window[p - 1]; --p; }
      window[p] = v;
    }
    auto middle = [&](int k) { return window[k]; };
    y = middle(2);
"""
_DUAL = r"""
struct dual {
  double v, d;
  __device__ dual(double v_, double d_ = 0) : v(v_), d(d_) {}
};
__device__ inline dual operator*(dual a, dual b) { return dual(a.v * b.v, a.d * b.v + a.v * b.d); }
__device__ inline dual operator+(dual a, dual b) { return dual(a.v + b.v, a.d + b.d); }
template <class F> __device__ double slope(F f, double at) { return f(dual(at, 1)).d; }
struct cubic { __device__ dual operator()(dual x) const { return x * x * x + dual(2) * x; } };
"""
_POOL = r"""
    int col = i % out_w;
    int row = (i / out_w) % out_h;
    int page = i / out_w / out_h;
    T best = -1e30;  int where_best = -1;
    for (int a = row * stride; a < min(row * stride + stride, height); ++a) {
      for (int b = col * stride; b < min(col * stride + stride, width); ++b) {
        int at = (page * height + a) * width + b;
        if (images[at] > best) { best = images[at]; where_best = at; }
      }
    }
    pooled = best;
    argmax = where_best;
"""


def _pool(images, height, width, out_h, out_w, stride):
    blocks = images.reshape(2, out_h, stride, out_w, stride).swapaxes(2, 3)
    flat = blocks.reshape(2, out_h, out_w, -1)
    places = np.arange(images.size).reshape(images.shape)
    places = places.reshape(2, out_h, stride, out_w, stride).swapaxes(2, 3).reshape(flat.shape)
    at = flat.argmax(-1)[..., None]
    take = np.take_along_axis
    return take(flat, at, -1)[..., 0], take(places, at, -1)[..., 0].astype("int32")


def _around(x):
    padded = np.concatenate([x[:1], x, x[-1:]])
    return padded[:-2] + x + padded[2:]


def _median(x):
    at = np.clip(np.arange(x.size)[:, None] + np.arange(-2, 3), 0, x.size - 1)
    return np.median(x[at], 1)


def _hash(key):
    key = (key ^ np.uint32(61)) ^ (key >> np.uint32(16))
    key = key + (key << np.uint32(3))
    key = key ^ (key >> np.uint32(4))
    key = key * np.uint32(0x27D4EB2D)
    return key ^ (key >> np.uint32(15))


def _spread(count):
    k = np.arange(count)
    return np.where(k == 0, 1.0, np.where(k < (count + 1) // 2, 2.0, 0.0))


def _accumulate(delta, chosen, into):
    into += np.where(chosen, delta, 0)
    return into


def _total(x, total):
    total += x.sum()


def _bins(x, counts):
    counts += np.bincount(np.clip((x * 4 + 8).astype(int), 0, 15), minlength=16).astype("int32")


ELEMENTWISE = (
    Foreign(
        "a preamble that specialises std's traits and templates of its own",
        elementwise("X x", "Y y", "y = cast_rule<Y>::of(x * 40.0)", "cast_by_rule", preamble=_TRAITS),
        (np.array([-1.0, 0.26, 2.0, 9.0]), np.zeros(4, "uint8")),
        lambda x, y: np.copyto(y, np.clip(np.rint(x * 40), 0, 255), casting="unsafe") or y,
    ),
    Foreign(
        "the same preamble for float16",
        elementwise("X x", "Y y", "y = cast_rule<Y>::of(x * 40.0)", "cast_by_rule", preamble=_TRAITS),
        (np.array([-1.0, 0.26, 2.0, 9.0]), np.zeros(4, "float16")),
        lambda x, y: np.copyto(y, x * 40, casting="unsafe") or y,
        tolerance=1e-3,
    ),
    Foreign(
        "the traits of CuPy's headers",
        elementwise(
            "T x, float64 w", "float64 y, int32 flag",
            "accumulator<(sizeof(T) < 8)>::type sum = x; sum += w; y = sum; flag = same_width<T, float>() ? 1 : same_width<T, double>() ? 2 : 3",
            "widened", preamble=_TUPLES,
        ),
        (drawn(9), 0.1),
        lambda x, w: (x + np.float64(w), np.ones(9, "int32")),
    ),
    Foreign(
        "CArray as the parameter of a function template",
        elementwise("raw T x", "T y", "y = around(x, i)", "around_each", preamble=_PEEK),
        (drawn(50),),
        _around,
        {"size": 50},
    ),
    Foreign(
        "CArray of a strided view",
        elementwise("raw T x", "T y", "y = around(x, i)", "around_each", preamble=_PEEK),
        (View(drawn(60, dtype="float64"), lambda a: a[::3]),),
        _around,
        {"size": 20},
    ),
    Foreign(
        "floor division of negative integers by CuPy's helper",
        elementwise("T x, T y", "T q, T r", "q = _floor_divide(x, y); r = x - q * y", "divmod_floor"),
        (drawn(40, dtype="int32", low=-20, high=20), np.int32(7)),
        lambda x, y: (x // y, x % y),
    ),
    Foreign(
        "min and max of mixed widths",
        elementwise("int32 x, int64 low, float32 high", "float64 y", "y = min((float)max((long long)x, low), high)", "clamped"),
        (drawn(40, dtype="int32", low=-20, high=20), -5, 6.5),
        lambda x, low, high: np.clip(x, low, high).astype("float64"),
    ),
    Foreign(
        "the methods of float16",
        elementwise(
            "float16 x", "float16 y, int32 kind",
            "y = x.isfinite() ? copysign(nextafter(x, float16(100.0f)), x) : float16(0.0f); kind = x.isinf() * 4 + x.signbit() * 2 + x.iszero()",
            "next_half",
        ),
        (np.array([1, -2, 0.5, np.nan, 0, np.inf], "float16"),),
        lambda x: (
            np.where(np.isfinite(x), np.copysign(np.nextafter(x, np.float16(100)), x), np.float16(0)),
            (np.isinf(x) * 4 + np.signbit(x) * 2 + (x == 0)).astype("int32"),
        ),
    ),
    Foreign(
        "helpers of complex numbers",
        elementwise(
            "C z, R turn", "C y, R size",
            "y = conj(z) * C(cos(turn), sin(turn)) + C(0, 1) * z.real(); size = abs(z) + norm(z) + arg(z)",
            "turned",
        ),
        (drawn(30, dtype="complex64"), drawn(30)),
        lambda z, turn: (
            (np.conj(z) * np.exp(1j * turn) + 1j * z.real).astype("complex64"),
            (np.abs(z) + np.abs(z) ** 2 + np.angle(z)).astype("float32"),
        ),
        tolerance=1e-5,
    ),
    Foreign(
        "an empty operation leaves its output alone",
        elementwise("T x", "T y", "", "nothing_to_do"),
        (drawn(7), drawn(8)[:7].copy()),
        lambda x, y: y,
    ),
    Foreign(
        "a parameter that is called n",
        elementwise("raw T table, int64 n", "T y", "y = table[i % n]", "repeated"),
        (drawn(5, dtype="float64"), 5),
        lambda table, n: np.resize(table, 13),
        {"size": 13},
    ),
    Foreign(
        "parameters that are called size and begin with an underscore",
        elementwise("T x, int32 size, T _m", "T _out", "_out = x * size + _m", "scaled_by_size"),
        (drawn(11), 3, np.float32(0.5)),
        lambda x, size, m: x * np.float32(size) + m,
    ),
    Foreign(
        "a number for a raw parameter",
        elementwise("T x, raw float32 cutoff", "T y", "y = x > cutoff ? (T)cutoff : x", "cut"),
        (drawn(11), np.float32(0.75)),
        np.minimum,
    ),
    Foreign(
        "the index of each axis",
        elementwise("T x", "T y", "const ptrdiff_t* at = _ind.get(); y = x + 10 * at[0] + at[1]", "by_place", reduce_dims=False),
        (drawn(4, 6),),
        lambda x: x + (10 * np.arange(4)[:, None] + np.arange(6)).astype("float32"),
    ),
    Foreign(
        "no inputs, and a loop_prep that asks for the size",
        elementwise(
            "", "T h", "if (i == 0) { h = 1.0; } else { h = i < bend ? 2.0 : 0.0; }", "one_sided",
            options=("-std=c++17",),
            loop_prep="const bool odd { (_ind.size() & 1) != 0 }; \\\n const int bend = odd ? (int)((_ind.size() + 1) / 2) : (int)(_ind.size() / 2);",
        ),
        (np.zeros(17),),
        lambda h: np.copyto(h, _spread(17)) or h,
    ),
    Foreign(
        "a sum that starts before the loop and ends behind it",
        elementwise("float64 x", "raw float64 total", "sum += x", "sum_up", no_return=True, loop_prep="double sum = 0", after_loop="atomicAdd(&total[0], sum)"),
        (drawn(5000, dtype="float64"), np.zeros(1)),
        _total,
        tolerance=1e-9,
    ),
    Foreign(
        "an operation that changes what loop_prep declared",
        elementwise("T x", "T y", "step += 0.5; y = x + step", "stepped", loop_prep="double step = 1"),
        (drawn(999, dtype="float64"),),
        lambda x: x + 1.5,
    ),
    Foreign(
        "an output that is read through a macro",
        elementwise("T x", "T y", "T held = OLD; y = held * 2 + x", "through_macro", preamble="#define OLD y"),
        (drawn(3000), drawn(3000)[::-1].copy()),
        lambda x, y: np.copyto(y, y * 2 + x) or y,
    ),
    Foreign(
        "outputs of several dtypes, one of them bool",
        elementwise("T x", "T root, int8 sign, bool odd", "root = sqrt(abs(x)); sign = x > 0 ? 1 : x < 0 ? -1 : 0; odd = (int)floor(x) & 1", "dissected"),
        (drawn(33, dtype="float64"),),
        lambda x: (np.sqrt(abs(x)), np.sign(x).astype("int8"), (np.floor(x).astype(int) & 1) == 1),
    ),
    Foreign(
        "macros among the options, and no fused multiplication",
        elementwise("float64 x, float64 y", "float64 z", "z = x * y - KEPT_SHARE * x", "with_macro", options=("-DKEPT_SHARE=3", "--fmad=false")),
        (drawn(64, dtype="float64"), drawn(65, dtype="float64")[:64].copy()),
        lambda x, y: x * y - 3 * x,
        tolerance=1e-15,
    ),
    Foreign(
        "a condition that is broadcast, over a given output",
        elementwise("float32 delta, bool chosen", "float32 into", "if (chosen) into += delta", "add_chosen"),
        (drawn(3, 4), View(drawn(3, dtype="bool"), lambda a: a[:, None]), np.ones((3, 4), "float32")),
        _accumulate,
    ),
    Foreign(
        "transposed inputs and a strided output",
        elementwise("T x, T y", "T z", "z = x - 2 * y", "less_twice"),
        (View(drawn(6, 5), lambda a: a.T), drawn(5, 6), View(np.zeros((5, 12), "float32"), lambda a: a[:, ::2])),
        lambda x, y, z: np.copyto(z, x - 2 * y) or z,
    ),
    Foreign(
        "a hash of unsigned integers",
        elementwise(
            "uint32 key", "uint32 out",
            "unsigned int k = (key ^ 61u) ^ (key >> 16); k += k << 3; \\\n k ^= k >> 4; k *= 0x27d4eb2du; out = k ^ (k >> 15);",
            "hash32",
        ),
        (np.arange(1000, dtype="uint32") * np.uint32(2654435761),),
        _hash,
    ),
    Foreign(
        "colours from a raw array, with continued lines and a last comment",
        elementwise("raw uint8 pixels", "uint8 grey", _RGB, "rgb_to_grey"),
        (drawn(300, dtype="uint8", low=0, high=256),),
        lambda p: ((p.reshape(-1, 3).astype(int) @ [77, 150, 29]) >> 8).astype("uint8"),
        {"size": 100, "block_size": 64},
    ),
    Foreign(
        "local arrays, unrolled loops and a lambda",
        elementwise("raw T x", "T y", _MEDIAN, "median_of_five"),
        (drawn(77, dtype="float64"),),
        _median,
        {"size": 77},
    ),
    Foreign(
        "a structure with operators and a function of functors",
        elementwise("float64 x", "float64 y", "y = slope(cubic(), x)", "slope_of_cubic", preamble=_DUAL),
        (drawn(40, dtype="float64"),),
        lambda x: 3 * x * x + 2,
    ),
    Foreign(
        "many parameters on several lines",
        elementwise(
            """
            raw T images, int32 height, int32 width,
            int32 out_h, int32 out_w, int32 stride
            """,
            "T pooled, int32 argmax", _POOL, "pool_forward",
        ),
        (drawn(2, 6, 8), 6, 8, 3, 4, 2),
        lambda images, *extents: _pool(images, *extents),
        call=lambda library, kernel, given: kernel(
            *given, library.xp.empty((2, 3, 4), "float32"), library.xp.empty((2, 3, 4), "int32")
        ),
    ),
    Foreign(
        "atomics on a raw output",
        elementwise("T x", "raw int32 counts", "atomicAdd(&counts[max(0, min(15, (int)(x * 4 + 8)))], 1)", "count_bins", no_return=True),
        (drawn(2000, dtype="float64", low=-1.9, high=1.9), np.zeros(16, "int32")),
        _bins,
    ),
    Foreign(
        "braces that come from macros",
        elementwise("T x", "T y", "WHEN(x > 0) y = x; OTHERWISE y = -x / 2; DONE", "by_macros", preamble="#define WHEN(c) if (c) {\n#define OTHERWISE } else {\n#define DONE }\n"),
        (drawn(21),),
        lambda x: np.where(x > 0, x, -x / 2),
    ),
    Foreign(
        "loads through the read-only cache of raw arrays with an offset",
        elementwise("raw T x, raw int32 order, T add", "T y", "y = __ldg(&x[order[i]]) + add", "gathered"),
        (drawn(30), np.arange(29, -1, -1, dtype="int32"), np.float32(2)),
        lambda x, order, add: x[order] + add,
        {"size": 30},
    ),
    Foreign(
        "arrays of half precision",
        elementwise("T x, T y", "T z", "z = x * y + T(1)", "fused_half"),
        (drawn(25, dtype="float16"), drawn(26, dtype="float16")[:25].copy()),
        lambda x, y: (x.astype("f4") * y.astype("f4") + 1).astype("float16"),
        tolerance=3e-3,
    ),
)  # fmt: skip
