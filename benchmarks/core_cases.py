"""Core dimensions: small matrices and vectors of each item, and reductions of pairs.

Matrices are random with a multiple of the identity added, by the operation and by the reference,
so that they are far from singular.  Pairs are limited by arithmetic: their fractions of a copy mean
nothing, and torch has to make the matrix of all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.cases import Case
from benchmarks.kernels import Text
from benchmarks.operands import Operand, array
from benchmarks.references import Ops

SECTION = "core"
F32, F64 = "float32", "float64"
_TOLERANCES = {F32: 2e-5, F64: 1e-11}
# Elements for each item of the small kernels: 10^7 items at full size.
_EACH = 27
# Pairs, in units of the run's elements: those of 65,536 points and as many others at full size.
_PAIRS = 16.0

_SOLVE = """
T a[n][n + 1];
#pragma unroll
for (int r = 0; r < n; ++r) {
#pragma unroll
  for (int c = 0; c < n; ++c) a[r][c] = A(r, c) + (r == c ? T(n + 1) : T(0));
  a[r][n] = b(r);
}
#pragma unroll
for (int k = 0; k < n; ++k) {
#pragma unroll
  for (int r = k + 1; r < n; ++r)
    if (abs(a[r][k]) > abs(a[k][k]))
#pragma unroll
      for (int c = 0; c <= n; ++c) {
        const T kept = a[k][c];
        a[k][c] = a[r][c];
        a[r][c] = kept;
      }
  const T scale = 1 / a[k][k];
#pragma unroll
  for (int c = k + 1; c <= n; ++c) a[k][c] *= scale;
#pragma unroll
  for (int r = 0; r < n; ++r)
    if (r != k)
#pragma unroll
      for (int c = k + 1; c <= n; ++c) a[r][c] -= a[r][k] * a[k][c];
}
#pragma unroll
for (int r = 0; r < n; ++r) x(r) = a[r][n];
"""

# Each lane has a row; the pivot is the largest of its column, to 18 bits.
_SOLVE_BY_WARP = """
const unsigned _all = 0xffffffffu;
const int own = _thread < n ? _thread : n - 1;
T row[n + 1];
#pragma unroll
for (int c = 0; c < n; ++c) row[c] = A(own, c) + (own == c ? T(n + 1) : T(0));
row[n] = b(own);
int equation = _thread < n ? -1 : n;
#pragma unroll
for (int k = 0; k < n; ++k) {
  const unsigned size = __float_as_uint((float)abs(row[k])) & ~31u;
  const unsigned best = __reduce_max_sync(_all, equation < 0 ? size | (31 - _thread) : 0u);
  const int lane = 31 - (best & 31);
  const T scale = 1 / __shfl_sync(_all, row[k], lane);
  if (_thread == lane) equation = k;
  const T f = _thread == lane ? T(0) : row[k];
#pragma unroll
  for (int c = k + 1; c <= n; ++c) {
    const T pivot = __shfl_sync(_all, row[c], lane) * scale;
    row[c] = _thread == lane ? pivot : row[c] - f * pivot;
  }
}
if (_thread < n) x(equation) = row[n];
"""

_PRODUCT = """
#pragma unroll
for (int r = 0; r < n; ++r)
#pragma unroll
  for (int c = 0; c < m; ++c) {
    T sum = 0;
#pragma unroll
    for (int l = 0; l < k; ++l) sum += A(r, l) * B(l, c);
    C(r, c) = sum;
  }
"""

_CHOLESKY = """
T l[n][n];
#pragma unroll
for (int c = 0; c < n; ++c) {
  T d = A(c, c) + T(2 * n);
#pragma unroll
  for (int k = 0; k < c; ++k) d -= l[c][k] * l[c][k];
  const T scale = rsqrt(d);
  l[c][c] = d * scale;
#pragma unroll
  for (int r = c + 1; r < n; ++r) {
    T s = A(r, c);
#pragma unroll
    for (int k = 0; k < c; ++k) s -= l[r][k] * l[c][k];
    l[r][c] = s * scale;
  }
}
#pragma unroll
for (int r = 0; r < n; ++r)
#pragma unroll
  for (int c = 0; c <= r; ++c) L(r, c) = l[r][c];
"""

_QUATERNION = """
r(0) = p(0) * q(0) - p(1) * q(1) - p(2) * q(2) - p(3) * q(3);
r(1) = p(0) * q(1) + p(1) * q(0) + p(2) * q(3) - p(3) * q(2);
r(2) = p(0) * q(2) - p(1) * q(3) + p(2) * q(0) + p(3) * q(1);
r(3) = p(0) * q(3) + p(1) * q(2) - p(2) * q(1) + p(3) * q(0);
"""

_ROTATION = """
const T tx = 2 * (q(2) * v(2) - q(3) * v(1));
const T ty = 2 * (q(3) * v(0) - q(1) * v(2));
const T tz = 2 * (q(1) * v(1) - q(2) * v(0));
w(0) = v(0) + q(0) * tx + q(2) * tz - q(3) * ty;
w(1) = v(1) + q(0) * ty + q(3) * tx - q(1) * tz;
w(2) = v(2) + q(0) * tz + q(1) * ty - q(2) * tx;
"""


def _shifted(ops: Ops, A: Any) -> Any:
    n = A.shape[-1]
    return ops.wide(A) + (n + 1) * ops.identity(A, n)


def _solution(ops: Ops, A: Any, b: Any) -> Any:
    return ops.solve(_shifted(ops, A), ops.wide(b))


def _factor(ops: Ops, A: Any) -> Any:
    lower, n = ops.lower(ops.wide(A)), A.shape[-1]
    diagonal = lower * ops.identity(A, n)
    symmetric = lower + ops.transposed(lower) - diagonal + 2 * n * ops.identity(A, n)
    return ops.cholesky(symmetric)


def _quaternions(ops: Ops, p: Any, q: Any) -> Any:
    a, b = ([ops.wide(one)[..., k] for k in range(4)] for one in (p, q))
    return ops.stack(
        [
            a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
            a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
            a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
            a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
        ]
    )


def _rotated(ops: Ops, q: Any, v: Any) -> Any:
    w, x, y, z = (ops.wide(q)[..., k] for k in range(4))
    a, b, c = (ops.wide(v)[..., k] for k in range(3))
    t = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
    return ops.stack(
        [
            a + w * t[0] + y * t[2] - z * t[1],
            b + w * t[1] + z * t[0] - x * t[2],
            c + w * t[2] + x * t[1] - y * t[0],
        ]
    )


def _cupy_solve(module: Any, A: Any, b: Any, outputs: Any) -> Any:
    return module.linalg.solve(A, b[..., None])


def _torch_solve(module: Any, A: Any, b: Any, outputs: Any) -> Any:
    return module.linalg.solve(A, b)


def _cupy_product(module: Any, A: Any, B: Any, outputs: Any) -> Any:
    return module.matmul(A, B, out=outputs[0])


def _torch_product(module: Any, A: Any, B: Any, outputs: Any) -> Any:
    return module.matmul(A, B, out=outputs[0])


def _cupy_factor(module: Any, A: Any, outputs: Any) -> Any:
    return module.linalg.cholesky(A)


def _cupy_matrices(module: Any, A: Any) -> Sequence[Any]:
    n = A.shape[-1]
    return (A + A.swapaxes(1, 2) + 4 * n * module.eye(n, dtype=A.dtype),)


def _case(
    name: str,
    text: tuple[str, str, str, str],
    reference: Callable[..., Any],
    dtype: str,
    shapes: tuple[tuple[int, ...], ...],
    target: float | None,
    each: int = _EACH,
    *,
    options: Any = None,
    times: Any = None,
    **peers: Any,
) -> Case:
    """Return a case of an elementwise kernel: core `shapes` of the inputs, then of the output."""

    def operands(n: int, which: slice) -> list[Operand]:
        return [array(dtype, (max(1, n // each), *shape)) for shape in shapes[which]]

    inputs, outputs, operation, kernel = text
    return Case(
        f"{name}, {'f32' if dtype == F32 else 'f64'}",
        Text(
            "elementwise",
            (inputs, outputs, operation, kernel),
            reference,
            options=options or {},
            tolerance=_TOLERANCES[dtype],
            core=tuple(map(len, shapes[:-1])),
            **peers,
        ),
        lambda n: operands(n, slice(None, -1)),
        lambda n: operands(n, slice(-1, None)),
        target=target,
        section=SECTION,
        times=times or {},
    )


def _solve(n: int, dtype: str, target: float | None, times: float, by_warp: bool = False) -> Case:
    operation = _SOLVE_BY_WARP if by_warp else _SOLVE
    return _case(
        f"solve {n}×{n}",
        ("T A[n, n], T b[n]", "T x[n]", operation, f"solve_{'warp' if by_warp else 'item'}"),
        _solution,
        dtype,
        ((n, n), (n,), (n,)),
        target,
        each=5 * n * n if by_warp else _EACH * (1 if n == 3 else 10),
        options={"threads": "warp"} if by_warp else {},
        times={"CuPy": times, "torch": times},
        cupy=_cupy_solve,
        torch=_torch_solve,
        torch_name="linalg.solve",
    )


def _product(dtype: str) -> Case:
    return _case(
        "product 4×4",
        ("T A[n, k], T B[k, m]", "T C[n, m]", _PRODUCT, "product"),
        lambda ops, A, B: ops.wide(A) @ ops.wide(B),
        dtype,
        ((4, 4), (4, 4), (4, 4)),
        0.85,
        cupy=_cupy_product,
        torch=_torch_product,
        torch_name="matmul",
    )


def _cholesky(dtype: str) -> Case:
    return _case(
        "Cholesky 8×8",
        ("T A[n, n]", "T L[n, n]", _CHOLESKY, "cholesky"),
        _factor,
        dtype,
        ((8, 8), (8, 8)),
        0.60,
        each=5 * _EACH,
        cupy=_cupy_factor,
        cupy_inputs=_cupy_matrices,
    )


def _quaternion(dtype: str) -> tuple[Case, Case]:
    product = ("T p[4], T q[4]", "T r[4]", _QUATERNION, "quaternion_product")
    rotation = ("T q[4], T v[3]", "T w[3]", _ROTATION, "rotation")
    return (
        _case("quaternion product", product, _quaternions, dtype, ((4,), (4,), (4,)), 0.90),
        _case("rotation", rotation, _rotated, dtype, ((4,), (3,), (3,)), 0.90),
    )


_DISTANCE = "T s = 0; for (int k = 0; k < d; ++k) s += (x(k) - y(k)) * (x(k) - y(k));"


def _pairs(n: int, *more: int) -> list[Operand]:
    """Return points to hold and points to sweep, as many of each, that make n pairs."""
    side = max(2, math.isqrt(n))
    weights = [array(F32, (1, side))] * len(more)
    return [array(F32, (side, 1, 3)), array(F32, (1, side, 3)), *weights]


def _points(n: int) -> list[Operand]:
    return [array(F32, (_pairs(n)[0].shape[0],))]


def _in_blocks(ops: Ops, x: Any, one: Callable[[Any], Any]) -> Any:
    """Return a function of points, which makes as many pairs at a time as memory has room for."""
    block = max(1, 2**26 // max(1, x.shape[0]))
    return ops.joined([one(x[k : k + block]) for k in range(0, x.shape[0], block)])


def _squares(ops: Ops, x: Any, y: Any) -> Any:
    return sum((ops.wide(x)[..., k] - ops.wide(y)[..., k]) ** 2 for k in range(3))


def _gauss_sum(ops: Ops, x: Any, y: Any, w: Any, axis: Any) -> Any:
    return _in_blocks(
        ops, x, lambda some: ops.sum(ops.exp(-_squares(ops, some, y)) * ops.wide(w), (1,))
    )


def _least(ops: Ops, x: Any, y: Any, axis: Any) -> Any:
    return _in_blocks(ops, x, lambda some: -ops.amax(-_squares(ops, some, y), (1,)))


def _torch_gauss(module: Any, x: Any, y: Any, w: Any, outputs: Any, axis: Any) -> Any:
    return module.exp(-(module.cdist(x[:, 0], y[0]) ** 2)) @ w[0]


def _torch_least(module: Any, x: Any, y: Any, outputs: Any, axis: Any) -> Any:
    return module.cdist(x[:, 0], y[0]).min(1)


_GAUSS = Text(
    "reduction",
    (
        "T x[d], T y[d], T w",
        "T r",
        f"[&] {{ {_DISTANCE} return exp(-s) * w; }}()",
        "a + b",
        "r = a",
        "0",
        "gauss_sum",
    ),
    _gauss_sum,
    flops=11,
    torch=_torch_gauss,
    torch_name="cdist",
    tolerance=1e-4,
    core=(1, 1, 0),
)
# The index comes along, but only the distance is compared: in float32 two points may be as near.
_NEAREST = Text(
    "reduction",
    (
        "T x[d], T y[d]",
        "T distance",
        f"[&] {{ {_DISTANCE} return Nearest{{s, (int)_J}}; }}()",
        "b.s < a.s || (b.s == a.s && b.j < a.j) ? b : a",
        "distance = a.j < 0 ? -1 : a.s",
        None,
        "nearest",
    ),
    _least,
    options={"reduce_type": "Nearest", "preamble": "struct Nearest { float s; int j; };"},
    flops=9,
    torch=_torch_least,
    torch_name="cdist",
    tolerance=1e-4,
    core=(1, 1),
)

CASES = (
    _solve(3, F32, 0.85, 10.0),
    _solve(3, F64, 0.85, 10.0),
    _solve(4, F32, None, 10.0),
    _solve(4, F64, None, 10.0),
    _product(F32),
    _product(F64),
    *_quaternion(F32),
    *_quaternion(F64),
    _cholesky(F32),
    _cholesky(F64),
    _solve(16, F32, None, 2.0, by_warp=True),
    _solve(16, F64, None, 2.0, by_warp=True),
    _solve(32, F32, None, 2.0, by_warp=True),
    _solve(32, F64, None, 2.0, by_warp=True),
    Case(
        "Gaussian sum of pairs",
        _GAUSS,
        lambda n: _pairs(n, 1),
        _points,
        (1,),
        scale=_PAIRS,
        section=SECTION,
        times={"torch": 5.0},
    ),
    Case(
        "nearest of pairs",
        _NEAREST,
        _pairs,
        _points,
        (1,),
        scale=_PAIRS,
        section=SECTION,
        times={"torch": 5.0},
    ),
)
