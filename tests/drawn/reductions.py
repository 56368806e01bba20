"""Reductions as people write them, each with its value in NumPy."""

from typing import NamedTuple

from tests.drawn.arguments import COMPLEX, FLOATS, INTEGERS

REAL = INTEGERS + FLOATS
BEST = "template <class V> struct Best { V value; ptrdiff_t index; };"
WELFORD = """template <class V> struct Moments { V n, mean, m2; };
template <class V> __device__ Moments<V> merged(const Moments<V>& a, const Moments<V>& b) {
  V n = a.n + b.n;
  if (n == 0) return a;
  V delta = b.mean - a.mean;
  return {n, a.mean + delta * b.n / n, a.m2 + b.m2 + delta * delta * a.n * b.n / n};
}"""
LOGSUM = """struct Sum { float top, sum; };
__device__ Sum joined(Sum a, Sum b) {
  if (a.top < b.top) { Sum c = a; a = b; b = c; }
  return {a.top, b.sum == 0 ? a.sum : a.sum + b.sum * expf(b.top - a.top)};
}"""
SUMS = """struct Sums { double xy, xx, yy; };
__device__ Sums plus(Sums a, Sums b) { return {a.xy + b.xy, a.xx + b.xx, a.yy + b.yy}; }"""
PAIR = "template <class V> struct Pair { V low, high; };"


class Row(NamedTuple):
    """A kernel, and its outputs in NumPy: of rows of the elements of each output, ``x`` and ``y``.

    ``n`` is the length of rows, ``J`` the position in them, ``I`` the number of the row.
    """

    dtypes: list[str]
    inputs: str
    outputs: str
    map: str
    reduce: str
    post: str
    identity: str | None
    want: str
    reduce_type: str | None = None
    preamble: str = ""
    scale: float = 4


ROWS = [
    Row(REAL + COMPLEX, "T x", "T z", "x", "a + b", "z = a", "0", "x.sum(-1)"),
    Row(REAL, "T x", "T z", "x * x", "a + b", "z = a", "0", "(x * x).sum(-1)", None, "", 20),
    Row([*REAL, "bool"], "T x", "int64 z", "x != 0", "a + b", "z = a", "0", "(x != 0).sum(-1)"),
    Row(REAL, "T x, T y", "float64 z", "x * y", "a + b", "z = a", "0", "(x * y).sum(-1)"),
    Row(FLOATS, "T x, T y", "T z", "(x - y) * (x - y)", "a + b", "z = sqrt(a)", "0", "((x - y) ** 2).sum(-1) ** 0.5"),
    Row(FLOATS, "T x", "T z", "x", "a + b", "z = a / (_in_ind.size() / _out_ind.size())", "0", "x.sum(-1) / n"),
    Row(INTEGERS, "T x", "float64 z", "x", "a + b", "z = a / (_in_ind.size() / _out_ind.size())", "0", "x.sum(-1) / n"),
    Row(FLOATS, "T x, float64 eps", "T z", "x * x", "a + b", "z = rsqrt((double)a + eps)", "0", "1 / np.sqrt((x * x).sum(-1) + 0.5)"),
    Row(REAL, "T x", "T z", "x", "min(a, b)", "z = a", None, "x.min(-1)"),
    Row(REAL, "T x", "T z", "x", "max(a, b)", "z = a", None, "x.max(-1)"),
    Row(FLOATS, "T x", "T z", "fabs(x)", "max(a, b)", "z = a", "0", "np.abs(x).max(-1, initial=0)"),
    Row(FLOATS[2:], "T x", "T z", "x", "fmin(a, b)", "z = a", "CUDART_INF", "x.min(-1, initial=np.inf)"),
    Row(REAL, "T x", "T z", "x == 0 ? T(1) : x > 0 ? T(1) : T(-1)", "a * b", "z = a", "1", "np.where(x < 0, -1, 1).prod(-1)"),
    Row(REAL, "T x", "bool z", "x > 3", "a || b", "z = a", "false", "(x > 3).any(-1)"),
    Row(REAL, "T x, T y", "bool z", "x <= y", "a && b", "z = a", "true", "(x <= y).all(-1)"),
    Row(INTEGERS, "T x", "T z", "x", "a ^ b", "z = a", "0", "np.bitwise_xor.reduce(x, -1)"),
    Row(INTEGERS, "T x", "T z", "x", "a | b", "z = a", "0", "np.bitwise_or.reduce(x, -1)"),
    Row(INTEGERS, "T x", "T z", "x", "a & b", "z = a", "~T(0)", "np.bitwise_and.reduce(x, -1)"),
    Row(REAL, "T x", "int64 z", "Best<T>{x, _J}", "a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b", "z = a.index", None, "x.argmax(-1)", "Best<T>", BEST),
    Row(REAL, "T x", "int32 z, T u", "Best<T>{x, _J}", "a.value < b.value || (a.value == b.value && a.index < b.index) ? a : b", "z = (int)a.index; u = a.value", None, "x.argmin(-1), x.min(-1)", "Best<T>", BEST),
    Row(REAL, "T x", "float64 z, float64 u", "Moments<double>{1, (double)x, 0}", "merged(a, b)", "z = a.mean; u = a.m2 / a.n", "Moments<double>{0, 0, 0}", "x.sum(-1) / max(n, 1), x.var(-1)", "Moments<double>", WELFORD),
    Row(["float32"], "T x", "T z", "Sum{x, 1.f}", "joined(a, b)", "z = a.top + logf(a.sum)", "Sum{-1e30f, 0.f}", "np.log(np.exp(x).sum(-1))", "Sum", LOGSUM),
    Row(REAL, "T x", "T z, T u", "Pair<T>{x, x}", "Pair<T>{min(a.low, b.low), max(a.high, b.high)}", "z = a.low; u = a.high", None, "x.min(-1), x.max(-1)", "Pair<T>", PAIR),
    Row(REAL, "T x, raw T w", "float64 z", "x * w[_J % w.size()]", "a + b", "z = a", "0", "(x * w.ravel()[J % w.size]).sum(-1)"),
    Row(REAL, "T x", "float64 z", "(double)x * (_J % 5) + _i % 3", "a + b", "z = a", "0", "(x * (J % 5) + I % 3).sum(-1)"),
    Row(REAL, "T x, T y", "int64 z", "x > y ? 1 : 2", "a + b", "z = a + _out_ind.size() * 0", "5", "5 + np.where(x > y, 1, 2).sum(-1)"),
    Row(COMPLEX, "T x, T y", "T z", "x * conj(y)", "a + b", "z = a", "0", "(x * np.conj(y)).sum(-1)", None, "", 20),
    Row(COMPLEX, "T x", "float64 z", "norm(x)", "a + b", "z = sqrt(a)", "0", "(np.abs(x) ** 2).sum(-1) ** 0.5", None, "", 20),
    Row(COMPLEX, "T x", "T z", "x / (T(1) + abs(x))", "a * b", "z = a", "T(1)", "(x / (1 + np.abs(x))).prod(-1)"),
    Row(["float16", "bfloat16", "float32"], "T x", "float32 z", "x", "a + b", "z = a", "0", "x.sum(-1)", "double"),
    Row(REAL, "T x, S y", "float64 z", "(double)x + y", "a + b", "z = a", "0", "(x + y).sum(-1)"),
    Row(REAL, "T x", "T z", "x", "kspec::ufunc::maximum(a, b)", "z = a", None, "x.max(-1)"),
    Row(["bool"], "T x", "T z", "x", "a != b", "z = a", "false", "(x.sum(-1) % 2 == 1)"),
    Row(FLOATS, "T x, T y", "float64 z", "Sums{(double)x * y, (double)x * x, (double)y * y}", "plus(a, b)", "z = a.xy / sqrt(a.xx * a.yy + 1)", "Sums{0, 0, 0}", "(x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1) + 1)", "Sums", SUMS),
    Row(REAL, "T x", "int64 z", "x > 3 ? (long long)_J : 1000000000", "min(a, b)", "z = a == 1000000000 ? -1 : a", "1000000000", "np.where((x > 3).any(-1), np.where(x > 3, J, 10**9).min(-1, initial=10**9), -1)"),
    Row(REAL, "T x", "T z", "Pair<T>{x, x}", "Pair<T>{min(a.low, b.low), max(a.high, b.high)}", "z = a.high - a.low", None, "x.max(-1) - x.min(-1)", "Pair<T>", PAIR),
    Row(INTEGERS, "T x", "uint32 z", "(unsigned)x * 2654435761u", "a ^ b", "z = a", "0", "np.bitwise_xor.reduce((x * 2654435761) % 2**32, -1)"),
    Row(INTEGERS, "T x", "uint32 z", "(unsigned)x * 2654435761u", "a + b", "z = a", "7", "(x * 2654435761 % 2**32).sum(-1) + 7"),
    Row(FLOATS, "T x", "int32 z", "isnan(x / (x > 0 ? 1 : 0)) + isinf(x / (x > 2 ? 0 : 1))", "a + b", "z = a", "0", "(x > 2).sum(-1)"),
    Row(FLOATS[2:], "T x", "T z", "log(fabs(x) + 1)", "a + b", "T k = _in_ind.size() / _out_ind.size(); z = exp(a / k)", "0", "np.exp(np.log(np.abs(x) + 1).sum(-1) / n)"),
    Row(FLOATS, "T x, float64 eps", "T z", "x > eps ? 1 : 0", "a + b", "z = a / _in_ind.size()", "0", "(x > 0.5).sum(-1) / x.size"),
    Row(REAL, "T x", "float64 z", "(double)x * (_in_ind.get()[0] % 4)", "a + b", "z = a", "0", "(x * (J0 % 4)).sum(-1)"),
    Row(REAL, "T x", "float64 z", "helper((double)x)", "a + b", "z = helper(a)", "0", "(x * 2 + 1).sum(-1) * 2 + 1", None, "__device__ double helper(double v) { return 2 * v + 1; }", 20),
    Row(["int8", "uint8", "bool"], "T x", "T z, int32 u", "int(x)", "a + b", "z = a > 3; u = a", "0", "x.sum(-1) > 3, x.sum(-1)", "int"),
    Row(FLOATS[2:], "T x, T y", "complex128 z", "complex<double>(x, y)", "a + b", "z = a * complex<double>(0, 1)", "0", "x.sum(-1) * 1j - y.sum(-1)"),
    Row(REAL, "T x", "int32 z", "make_float2(float(x), 1)", "a.x > b.x || (a.x == b.x && a.y > b.y) ? a : b", "z = (int)a.y", None, "1 + 0 * x.max(-1)", "float2"),
    Row(FLOATS, "T x", "T z", "x < 0 ? CUDART_NAN : (double)x", "fmin(a, b)", "z = isnan(a) ? T(-1) : T(a)", None, "np.where((x >= 0).any(-1), np.where(x < 0, np.inf, x).min(-1), -1)", "double"),
]  # fmt: skip
