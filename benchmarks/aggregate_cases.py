"""Scans, segments, sums by key and windows, as fractions of a copy and beside CUB, CuPy and torch.

Each input is counted once, the bounds of segments and keys too. In the products of sparse matrices
the vector is small enough for the cache.  CUB has no scan along the first axis.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.kernels import Text
from benchmarks.operands import Operand, Operands, Shape, array, line, rows_in, rows_of, square
from benchmarks.references import Ops

SECTION = "aggregate"
F16, F32, F64, I64 = "float16", "float32", "float64", "int64"
_VECTOR = 2**20  # elements that a sparse matrix is multiplied by
_MANY = 10**6  # keys
_WINDOW = 15  # elements
_SUM = ("x", "a + b", "y = a", "0")


def _cupy_scan(module: Any, x: Any, outputs: Any, axis: Any) -> Any:
    return module.cumsum(x, axis=axis[0], out=outputs[0])


def _torch_scan(module: Any, x: Any, outputs: Any, axis: Any) -> Any:
    return module.cumsum(x, dim=axis[0], out=outputs[0])


SCAN = Text(
    "reduction",
    ("T x", "T y", *_SUM, "scan_sum"),
    lambda ops, x, axis: ops.cumsum(ops.wide(x), axis),
    form="scan",
    torch=_torch_scan,
    torch_name="cumsum",
    cupy=_cupy_scan,
    tolerance=1e-4,
)


SCAN_16 = replace(SCAN, tolerance=4e-3)


def _torch_segments(module: Any, x: Any, bounds: Any, outputs: Any, axis: Any) -> Any:
    return module.segment_reduce(x, "sum", offsets=bounds, axis=0)


SEGMENTS = Text(
    "reduction",
    ("T x", "T y", *_SUM, "segment_sum"),
    lambda ops, x, bounds, axis: ops.segment_sums(ops.wide(x), bounds),
    form="segments",
    torch=_torch_segments,
    torch_name="segment_reduce",
    tolerance=1e-4,
)


def _product(ops: Ops, value: Any, column: Any, x: Any, bounds: Any, axis: Any) -> Any:
    return ops.segment_sums(ops.wide(value) * ops.take(ops.wide(x), column), bounds)


def _cupy_matrix(module: Any, value: Any, column: Any, x: Any, bounds: Any) -> Sequence[Any]:
    from cupyx.scipy.sparse import csr_matrix

    shape = len(bounds) - 1, len(x)
    return csr_matrix((value, column, bounds), shape=shape), x


def _cupy_product(module: Any, matrix: Any, x: Any, outputs: Any, axis: Any) -> Any:
    return matrix @ x  # by cuSPARSE


CSR = Text(
    "reduction",
    ("T value, int32 column, raw T x", "T y", "value * x[column]", *_SUM[1:], "csr_product"),
    _product,
    form="segments",
    flops=2,
    cupy=_cupy_product,
    cupy_inputs=_cupy_matrix,
    tolerance=1e-4,
)


def _even(mean: int, count: int, shape: Shape) -> Any:
    """Return the bounds of segments whose lengths are spread evenly around a mean."""
    inner = np.random.default_rng(mean).integers(0, count + 1, shape[0] - 2)
    return np.concatenate([[0], np.sort(inner), [count]])


def _power(count: int, shape: Shape) -> Any:
    """Return the bounds of segments the longest of which has half of all elements.

    Each of the others is half as long as the one before, down to 1, and then all are.
    """
    segments = shape[0] - 1
    lengths = np.ones(segments, I64)
    rest = count - segments
    for k in range(segments):
        more = rest // 2
        lengths[k] += more
        rest -= more
        if not more:
            break
    lengths[0] += rest
    np.random.default_rng(0).shuffle(lengths)
    return np.concatenate([[0], np.cumsum(lengths)])


def _columns(shape: Shape) -> Any:
    return np.random.default_rng(1).integers(0, _VECTOR, shape, dtype="int32")


def _bounds(n: int, mean: int, dtype: str = I64) -> Operand:
    """Return the bounds of segments of n elements with a mean length; 0: by a power law."""
    segments = max(2, n // (mean or 32))
    values = functools.partial(_even, mean, n) if mean else functools.partial(_power, n)
    return Operand(dtype, (segments + 1,), values=lambda shape: values(shape).astype(dtype))


def _segmented(mean: int, dtype: str = F32) -> tuple[Operands, Operands]:
    return (
        lambda n: [array(dtype, line(n)), _bounds(n, mean)],
        lambda n: [array(dtype, (_bounds(n, mean).shape[0] - 1,))],
    )


def _sparse(mean: int) -> tuple[Operands, Operands]:
    return (
        lambda n: [
            array(F32, line(n)),
            Operand("int32", line(n), values=_columns),
            array(F32, (_VECTOR,)),
            _bounds(n, mean, "int32"),  # as cuSPARSE has them
        ],
        lambda n: [array(F32, (_bounds(n, mean).shape[0] - 1,))],
    )


def _cupy_keys(module: Any, x: Any, keys: Any, outputs: Any, axis: Any) -> Any:
    outputs[0].fill(0)
    module.add.at(outputs[0], keys, x)
    return outputs[0]


def _torch_keys(module: Any, x: Any, keys: Any, outputs: Any, axis: Any) -> Any:
    return outputs[0].zero_().scatter_add_(0, keys.long(), x)


def _by_key(name: str, n: int, dtype: str, used: int, ordered: bool = False, **more: Any) -> Case:
    """Return a case with n outputs, and keys spread evenly over the first `used` of them."""
    text = Text(
        "reduction",
        ("T x", "T y", *_SUM, "key_sum"),
        lambda ops, x, keys, axis: ops.key_sums(ops.wide(x), keys, n),
        form="by_key",
        keywords={"deterministic": ordered},
        torch=_torch_keys if dtype == I64 else None,
        torch_name="scatter_add_",
        cupy=_cupy_keys,
        tolerance=1e-3,
    )
    return Case(
        name,
        text,
        lambda size: [
            array(F32, line(size)),
            Operand(dtype, line(size), values=functools.partial(_keys, used)),
        ],
        lambda size: [array(F32, (n,))],
        section=SECTION,
        **more,
    )


def _keys(used: int, shape: Shape) -> Any:
    return np.random.default_rng(used).integers(0, used, shape, dtype="int32")


def _joined(join: Callable[[Any, Any], Any], x: Any) -> Any:
    """Return the windows of neighbours, joined one after the other."""
    count = x.shape[-1] - _WINDOW + 1
    return functools.reduce(join, (x[..., k : k + count] for k in range(_WINDOW)))


def _torch_windows(module: Any, x: Any, outputs: Any, axis: Any) -> Any:
    return module.nn.functional.max_pool1d(x[None], _WINDOW, stride=1)[0]


_WINDOWS = Text(
    "reduction",
    ("T x", "T y", *_SUM, "window_sum"),
    lambda ops, x, axis: _joined(operator.add, ops.wide(x)),
    form="window",
    keywords={"size": _WINDOW},
    tolerance=1e-4,
)
_LARGEST = replace(
    _WINDOWS,
    arguments=("T x", "T y", "x", "max(a, b)", "y = a", "-1e30f", "window_max"),
    reference=lambda ops, x, axis: _joined(ops.maximum, ops.wide(x)),
    torch=_torch_windows,
    torch_name="max_pool1d",
)


def _windows(name: str, text: Text, length: int = 0) -> Case:
    """Return a case of windows along the last axis, of one row or of rows of a length."""

    def inputs(n: int) -> list[Operand]:
        return [array(F32, rows_of(n, length) if length else line(n))]

    def outputs(n: int) -> list[Operand]:
        *outer, inner = inputs(n)[0].shape
        return [array(F32, (*outer, inner - _WINDOW + 1))]

    axis = (1,) if length else (0,)
    return Case(name, text, inputs, outputs, axis, target=0.80, section=SECTION)


def _scan(
    name: str, inputs: Operands, target: float, axis: int = 0, text: Text = SCAN, **more: Any
) -> Case:
    if more.get("cub"):
        more["times"] = {"CUB": 0.95}
    return Case(name, text, inputs, axis=(axis,), target=target, section=SECTION, **more)


def _segments(name: str, mean: int, target: float, dtype: str = F32, **more: Any) -> Case:
    inputs, outputs = _segmented(mean, dtype)
    more |= {"times": {"CUB": 3.0 if 0 < mean <= 32 else 0.95}, "cub": f"segments_{dtype}"}
    return Case(name, SEGMENTS, inputs, outputs, target=target, section=SECTION, **more)


def _csr(name: str, mean: int, **more: Any) -> Case:
    inputs, outputs = _sparse(mean)
    more |= {"times": {"CuPy": 1.0, "CUB": 0.95}, "cub": f"csr_{F32}"}
    return Case(name, CSR, inputs, outputs, section=SECTION, scale=0.25, **more)


_ROWS = {"axis": 1, "cub": f"scan_rows_{F32}"}
CASES = (
    _scan("scan", lambda n: [array(F32, line(n))], 0.92, cub=f"scan_{F32}"),
    _scan("scan of rows of 1000", lambda n: [array(F32, rows_of(n, 1000))], 0.90, **_ROWS),
    _scan("scan of rows of 1001", lambda n: [array(F32, rows_of(n, 1001))], 0.90, **_ROWS),
    _scan("scan of rows of 10^6", lambda n: [array(F32, rows_in(n, 268))], 0.90, **_ROWS),
    _scan("scan of axis 0", lambda n: [array(F32, square(n))], 0.85),
    _scan("scan of axis 0, 64 columns", lambda n: [array(F32, rows_in(n, 64)[::-1])], 0.85),
    _scan(
        "f16 scan of rows",
        lambda n: [array(F16, rows_of(n, 1024))],
        0.85,
        1,
        SCAN_16,
        cub=f"scan_rows_{F16}",
    ),
    _scan("f64 scan", lambda n: [array(F64, line(n))], 0.92, scale=0.5, cub=f"scan_{F64}"),
    _segments("segments of about 8", 8, 0.70),
    _segments("segments of about 32", 32, 0.85),
    _segments("segments of about 1000", 1000, 0.90),
    _segments("segments by a power law", 0, 0.75),
    _csr("CSR product, rows of about 32", 32),
    _by_key("256 keys", 256, "int32", 256, target=0.80),
    _by_key("256 keys, all one", 256, "int32", 1, target=0.67, of="256 keys"),
    _by_key("256 keys, in order", 256, "int32", 256, True, target=0.40, of="256 keys"),
    _by_key("30000 keys", 30_000, "int32", 30_000, times={"CuPy": 1.0}),
    _by_key("10^6 keys", _MANY, I64, _MANY, times={"CuPy": 1.0, "torch": 1.0}),
    _by_key("10^6 keys, all one", _MANY, I64, 1, target=0.67, of="10^6 keys"),
    _by_key("10^6 keys, in order", _MANY, I64, _MANY, True, target=0.40, of="10^6 keys"),
    _windows("windows of 15", _WINDOWS),
    _windows("windows of 15, rows of 16384", _WINDOWS, 16384),
    _windows("largest of 15", _LARGEST),
)
