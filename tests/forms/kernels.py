"""Kernels under test, and the same expressions in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import kspec
from tests.forms import reference
from tests.forms.reference import Array, Operator, Values

PRIME = 1000003


@dataclass(frozen=True)
class Model:
    """A kernel, and what it computes.

    Attributes
    ----------
    kernel : ReductionKernel
        The kernel.
    inputs : callable
        Returns inputs of a shape, given a generator of random numbers.
    map : callable
        Returns the accumulator's members, given the inputs and the number of each element.
    reduce : Operator
        Joins two accumulators.
    post : callable
        Returns the outputs, given the members and how many elements each output has.
    identity : sequence
        The members' values for no elements.
    tolerance : float
        Relative error of the outputs.
    """

    kernel: kspec.ReductionKernel
    inputs: Callable[[np.random.Generator, tuple[int, ...]], Values]
    map: Callable[..., Values]
    reduce: Operator
    post: Callable[[Values, Array], Values]
    identity: Sequence[Any]
    tolerance: float = 0

    def draw(self, *shape: int, seed: int = 0) -> Values:
        """Return inputs."""
        return self.inputs(np.random.default_rng(seed), shape)

    def scan(
        self, inputs: Values, axis: int = -1, *, exclusive: bool = False, reverse: bool = False
    ) -> Values:
        """Return the outputs of a scan."""
        shape = np.broadcast_shapes(*(one.shape for one in inputs))
        number = np.broadcast_to(_along(np.arange(shape[axis]), axis, len(shape)), shape)
        mapped = self.map(*np.broadcast_arrays(*inputs), number)
        found = reference.scan(
            self.reduce, mapped, self.identity, axis=axis, exclusive=exclusive, reverse=reverse
        )
        before = np.flip(number, axis) if reverse else number
        return self.post(found, before + (not exclusive))

    def segments(self, inputs: Values, bounds: Array) -> Values:
        """Return the outputs of segments."""
        shape = np.broadcast_shapes(*(one.shape for one in inputs))
        extents, inside = np.diff(bounds), slice(bounds[0], bounds[-1])
        place = np.zeros(shape[0], "int64")
        place[inside] = np.arange(shape[0])[inside] - np.repeat(bounds[:-1], extents)
        number = np.broadcast_to(_along(place, 0, len(shape)), shape)
        mapped = self.map(*np.broadcast_arrays(*inputs), number)
        found = reference.segments(self.reduce, mapped, self.identity, bounds)
        count = _along(extents, 0, len(shape))
        return self.post(found, np.broadcast_to(count, found[0].shape))

    def windows(self, inputs: Values, size: int) -> Values:
        """Return the outputs of windows along the only axis: they are segments one by one."""
        parts = [sliding_window_view(one, size).reshape(-1) for one in inputs]
        return self.segments(tuple(parts), np.arange(0, len(parts[0]) + 1, size))

    def by_key(self, inputs: Values, keys: Array, n: int) -> Values:
        """Return the outputs of a reduction by key."""
        shape = np.broadcast_shapes(*(one.shape for one in inputs))
        number = np.broadcast_to(_along(np.arange(shape[0]), 0, len(shape)), shape)
        mapped = self.map(*np.broadcast_arrays(*inputs), number)
        found, counts = reference.by_key(self.reduce, mapped, self.identity, keys, n)
        return self.post(found, np.broadcast_to(_along(counts, 0, len(shape)), found[0].shape))

    def check(self, found: Any, wanted: Values, message: str = "") -> None:
        """Assert that the outputs of a call, NumPy's arrays, are as wanted."""
        outputs = found if isinstance(found, tuple) else (found,)
        for one, other in zip(outputs, wanted, strict=True):
            assert one.shape == other.shape, message
            if self.tolerance:
                np.testing.assert_allclose(
                    one, other, rtol=self.tolerance, atol=self.tolerance, err_msg=message
                )
            else:
                np.testing.assert_array_equal(one, other, err_msg=message)


def _along(values: Array, axis: int, ndim: int) -> Array:
    shape = [1] * ndim
    shape[axis] = -1
    return values.reshape(shape)


SUM = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "form_sum")
PLUS_TEN = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "10", "form_plus_ten")
NO_IDENTITY = kspec.ReductionKernel(
    "T x", "T y", "x", "max(a, b)", "y = a", None, "form_no_identity"
)
MAX = kspec.ReductionKernel(
    "int32 x", "int32 y", "x", "max(a, b)", "y = a", "-2147483647 - 1", "form_max"
)
WEIGHTED = kspec.ReductionKernel("T x, T w", "T y", "x * w", "a + b", "y = a", "0", "form_weighted")


def _large(inputs: str, mapped: str, name: str) -> kspec.ReductionKernel:
    """Return a sum whose accumulators are too large to keep one for each element."""
    return kspec.ReductionKernel(
        inputs,
        "T y",
        f"Large{{(long long)({mapped})}}",
        "Large{a.sum + b.sum}",
        "y = a.sum",
        "Large{0}",
        name,
        reduce_type="Large",
        preamble="struct Large { long long sum, rest[4]; };",
    )


LARGE_SUM = _large("T x", "x", "form_large_sum")
LARGE_WEIGHTED = _large("T x, T w", "x * w", "form_large_weighted")
MEAN = kspec.ReductionKernel(
    "T x", "T y", "x", "a + b", "y = a / (_in_ind.size() / _out_ind.size())", "0", "form_mean"
)
CSR = kspec.ReductionKernel(
    "T a_val, int32 a_col, raw T x", "T y", "a_val * x[a_col]", "a + b", "y = a", "0", "form_csr"
)
OF_SEGMENT = kspec.ReductionKernel(
    "T x, raw T w", "T y", "x * w[_segment]", "a + b", "y = a", "0", "form_of_segment"
)
PLACE = kspec.ReductionKernel("T x", "T y", "x * _J", "a + b", "y = a", "0", "form_place")
TWO = kspec.ReductionKernel(
    "T x", "T y, int64 n", "x", "a + b", "y = a; n = 2 * a + 1", "0", "form_two"
)
SCALED = kspec.ReductionKernel("T x, T s", "T y", "x", "a + b", "y = a * s", "0", "form_scaled")

MATRICES = kspec.ReductionKernel(
    "int64 p, int64 q",
    "int64 y, int64 z",
    "M{p, q, 1, 2}",
    "product(a, b)",
    "y = a.a; z = a.d",
    "M{1, 0, 0, 1}",
    "form_matrices",
    reduce_type="M",
    preamble=f"""
    struct M {{ long long a, b, c, d; }};
    static_assert(sizeof(M) == 32, "");
    __device__ inline M product(const M& x, const M& y) {{
      const long long P = {PRIME};
      return M{{(x.a * y.a + x.b * y.c) % P, (x.a * y.b + x.b * y.d) % P,
               (x.c * y.a + x.d * y.c) % P, (x.c * y.b + x.d * y.d) % P}};
    }}
    """,
)
WELFORD = kspec.ReductionKernel(
    "float64 x",
    "float64 mean, float64 variance",
    "Moments{x, 0, 1}",
    "joined(a, b)",
    "mean = a.mean; variance = a.n ? a.m2 / a.n : 0",
    "Moments{0, 0, 0}",
    "form_welford",
    reduce_type="Moments",
    preamble="""
    struct Moments { double mean, m2; long long n; };
    static_assert(sizeof(Moments) == 24, "");
    __device__ inline Moments joined(const Moments& a, const Moments& b) {
      const long long n = a.n + b.n;
      if (n == 0) return a;
      const double d = b.mean - a.mean;
      return Moments{a.mean + d * b.n / n, a.m2 + b.m2 + d * d * a.n * b.n / n, n};
    }
    """,
)
ARGMAX = kspec.ReductionKernel(
    "float32 x",
    "float32 top, int64 place",
    "Best{x, (int)_J}",
    "b.value > a.value ? b : a",
    "top = a.value; place = a.place",
    "Best{-1e30f, -1}",
    "form_argmax",
    reduce_type="Best",
    preamble="""
    struct Best { float value; int place; };
    static_assert(sizeof(Best) == 8, "");
    """,
)
# y[n] = c y[n - 1] + x[n]
FIRST_ORDER = kspec.ReductionKernel(
    "float64 x, float64 c",
    "float64 y",
    "Affine{c, x}",
    "Affine{a.factor * b.factor, b.factor * a.term + b.term}",
    "y = a.term",
    "Affine{1, 0}",
    "form_first_order",
    reduce_type="Affine",
    preamble="""
    struct Affine { double factor, term; };
    static_assert(sizeof(Affine) == 16, "");
    """,
)
# y[n] = c y[n - 1] + d y[n - 2] + x[n], as maps of the vector (y[n - 1], y[n - 2]).
SECOND_ORDER = kspec.ReductionKernel(
    "float64 x, float64 c, float64 d",
    "float64 y",
    "Plane{{c, d, 1, 0}, {x, 0}}",
    "after(a, b)",
    "y = a.v[0]",
    "Plane{{1, 0, 0, 1}, {0, 0}}",
    "form_second_order",
    reduce_type="Plane",
    preamble="""
    struct Plane { double m[4], v[2]; };
    static_assert(sizeof(Plane) == 48, "");
    __device__ inline Plane after(const Plane& a, const Plane& b) {
      return Plane{{b.m[0] * a.m[0] + b.m[1] * a.m[2], b.m[0] * a.m[1] + b.m[1] * a.m[3],
                    b.m[2] * a.m[0] + b.m[3] * a.m[2], b.m[2] * a.m[1] + b.m[3] * a.m[3]},
                   {b.m[0] * a.v[0] + b.m[1] * a.v[1] + b.v[0],
                    b.m[2] * a.v[0] + b.m[3] * a.v[1] + b.v[1]}};
    }
    """,
)
SOFTMAX = kspec.ReductionKernel(
    "float64 x",
    "float64 y",
    "Exponentials{x, 1}",
    "joined(a, b)",
    "y = a.top + log(a.sum)",
    "Exponentials{-1e300, 0}",
    "form_softmax",
    reduce_type="Exponentials",
    preamble="""
    struct Exponentials { double top, sum; };
    static_assert(sizeof(Exponentials) == 16, "");
    __device__ inline Exponentials joined(const Exponentials& a, const Exponentials& b) {
      const double top = max(a.top, b.top);
      return Exponentials{top, a.sum * exp(a.top - top) + b.sum * exp(b.top - top)};
    }
    """,
)
# Twelve compositions of affine maps side by side.
WIDE = kspec.ReductionKernel(
    "int64 x",
    "int64 y, int64 z",
    "affine(x)",
    "composed(a, b)",
    "y = a.term[0]; z = a.term[11]",
    "identity()",
    "form_wide",
    reduce_type="Wide",
    preamble=f"""
    struct Wide {{ long long factor[12], term[12]; }};
    static_assert(sizeof(Wide) == 192, "");
    __device__ inline Wide affine(long long x) {{
      Wide made;
      for (int k = 0; k < 12; ++k) made.factor[k] = x * x + k, made.term[k] = x;
      return made;
    }}
    __device__ inline Wide identity() {{
      Wide made;
      for (int k = 0; k < 12; ++k) made.factor[k] = 1, made.term[k] = 0;
      return made;
    }}
    __device__ inline Wide composed(const Wide& a, const Wide& b) {{
      Wide made;
      for (int k = 0; k < 12; ++k) {{
        made.factor[k] = a.factor[k] * b.factor[k] % {PRIME};
        made.term[k] = (b.factor[k] * a.term[k] + b.term[k]) % {PRIME};
      }}
      return made;
    }}
    """,
)
# Accumulators of 3 and 12 bytes, of which no round number fills 16 or 64.
PERMUTATIONS = kspec.ReductionKernel(
    "uint8 x",
    "uint8 y",
    "Permutation{{(unsigned char)(x % 3), (unsigned char)((x + 1 + x / 3) % 3),"
    " (unsigned char)((x + 2 - x / 3) % 3)}}",
    "composed(a, b)",
    "y = 9 * a.to[0] + 3 * a.to[1] + a.to[2]",
    "Permutation{{0, 1, 2}}",
    "form_permutations",
    reduce_type="Permutation",
    preamble="""
    struct Permutation { unsigned char to[3]; };
    static_assert(sizeof(Permutation) == 3, "");
    __device__ inline Permutation composed(const Permutation& a, const Permutation& b) {
      return Permutation{{b.to[a.to[0]], b.to[a.to[1]], b.to[a.to[2]]}};
    }
    """,
)
HASH = kspec.ReductionKernel(
    "uint8 x",
    "int32 y, int32 n",
    "Hash{10 + x, x, 1}",
    "Hash{a.factor * b.factor % 10007, (b.factor * a.term + b.term) % 10007, a.count + b.count}",
    "y = a.term; n = a.count",
    "Hash{1, 0, 0}",
    "form_hash",
    reduce_type="Hash",
    preamble="""
    struct Hash { int factor, term, count; };
    static_assert(sizeof(Hash) == 12, "");
    """,
)
# Bytes of the accumulators that are declared here, as their preambles assert.
SIZES = {
    "Large": 40,
    **{"M": 32, "Moments": 24, "Best": 8, "Affine": 16, "Plane": 48, "Exponentials": 16},
    **{"Wide": 192, "Permutation": 3, "Hash": 12},
}


def _product(x: Values, y: Values) -> Values:
    rows = (
        (x[0] * y[0] + x[1] * y[2], x[0] * y[1] + x[1] * y[3]),
        (x[2] * y[0] + x[3] * y[2], x[2] * y[1] + x[3] * y[3]),
    )
    return tuple(one % PRIME for row in rows for one in row)


def _merged(a: Values, b: Values) -> Values:
    n = a[2] + b[2]
    d = b[0] - a[0]
    safe = np.maximum(n, 1)
    return a[0] + d * b[2] / safe, a[1] + b[1] + d * d * a[2] * b[2] / safe, n


def _better(a: Values, b: Values) -> Values:
    later = b[0] > a[0]
    return np.where(later, b[0], a[0]), np.where(later, b[1], a[1])


def _followed(a: Values, b: Values) -> Values:
    return a[0] * b[0], b[0] * a[1] + b[1]


def _composed(a: Values, b: Values) -> Values:
    (f, s), (g, t) = ((one[::2], one[1::2]) for one in (a, b))
    pairs = [(f[k] * g[k] % PRIME, (g[k] * s[k] + t[k]) % PRIME) for k in range(len(f))]
    return tuple(one for pair in pairs for one in pair)


def _permuted(a: Values, b: Values) -> Values:
    images = np.stack(b)
    return tuple(np.take_along_axis(images, one[None].astype("int64"), 0)[0] for one in a)


def _hashed(a: Values, b: Values) -> Values:
    return a[0] * b[0] % 10007, (b[0] * a[1] + b[1]) % 10007, a[2] + b[2]


def _ints(count: int, low: int = -9, high: int = 10, dtype: str = "int64") -> Any:
    return lambda drawn, shape: tuple(
        drawn.integers(low, high, shape).astype(dtype) for _ in range(count)
    )


def _reals(drawn: np.random.Generator, shape: tuple[int, ...]) -> Values:
    return (drawn.normal(3, 2, shape),)


MODELS = {
    "sum": Model(
        SUM,
        _ints(1, dtype="float32"),
        lambda x, _: (x,),
        reference.plus,
        lambda a, _: a,
        (0,),
    ),
    "max": Model(
        MAX,
        _ints(1, -1000, 1000, "int32"),
        lambda x, _: (x,),
        lambda a, b: (np.maximum(a[0], b[0]),),
        lambda a, _: a,
        (-(2**31),),
    ),
    "mean": Model(
        MEAN,
        _ints(1, dtype="float64"),
        lambda x, _: (x,),
        reference.plus,
        # An empty segment divides 0 by 0.
        lambda a, n: (np.divide(a[0], n, out=np.full(a[0].shape, np.nan), where=n > 0),),
        (0,),
    ),
    "place": Model(
        PLACE,
        _ints(1),
        lambda x, j: (x * j,),
        reference.plus,
        lambda a, _: a,
        (0,),
    ),
    "two": Model(
        TWO,
        _ints(1, dtype="int32"),
        lambda x, _: (x,),
        reference.plus,
        lambda a, _: (a[0], 2 * a[0].astype("int64") + 1),
        (0,),
    ),
    "matrices": Model(
        MATRICES,
        _ints(2, 0, 99),
        lambda p, q, _: (p, q, np.ones_like(p), np.full_like(p, 2)),
        _product,
        lambda a, _: (a[0], a[3]),
        (1, 0, 0, 1),
    ),
    "welford": Model(
        WELFORD,
        _reals,
        lambda x, _: (x, np.zeros_like(x), np.ones(x.shape, "int64")),
        _merged,
        lambda a, _: (a[0], a[1] / np.maximum(a[2], 1)),
        (0, 0, 0),
        1e-11,
    ),
    "argmax": Model(
        ARGMAX,
        _ints(1, dtype="float32"),
        lambda x, j: (x, j),
        _better,
        lambda a, _: a,
        (np.float32(-1e30), -1),
    ),
    "first_order": Model(
        FIRST_ORDER,
        lambda drawn, shape: (drawn.normal(size=shape), drawn.uniform(-1, 1, shape)),
        lambda x, c, _: (c, x),
        _followed,
        lambda a, _: (a[1],),
        (1, 0),
        1e-11,
    ),
    "permutations": Model(
        PERMUTATIONS,
        _ints(1, 0, 6, "uint8"),
        lambda x, _: (x % 3, (x + 1 + x // 3) % 3, (x + 2 - x // 3) % 3),
        _permuted,
        lambda a, _: (9 * a[0] + 3 * a[1] + a[2],),
        (0, 1, 2),
    ),
    "hash": Model(
        HASH,
        _ints(1, 0, 99, "uint8"),
        lambda x, _: (10 + x.astype("int32"), x.astype("int32"), np.ones(x.shape, "int32")),
        _hashed,
        lambda a, _: (a[1], a[2]),
        (1, 0, 0),
    ),
    "wide": Model(
        WIDE,
        _ints(1, 0, 99),
        lambda x, _: (x * x, x, x * x + 11, x),
        _composed,
        lambda a, _: (a[1], a[3]),
        (1, 0, 1, 0),
    ),
}
