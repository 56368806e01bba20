"""Reduction cases: full, over any axes, of short and huge rows, with wide accumulators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import kernels
from benchmarks.cases import Case
from benchmarks.kernels import Text
from benchmarks.operands import (
    Operands,
    array,
    bits,
    like,
    line,
    rows_in,
    rows_of,
    square,
    transposed,
)

F16, F32, F64, I8 = "float16", "float32", "float64", "int8"
C64 = "complex64"
_s = np.s_
_HALF = kernels.L2NORM_HALF


def _case(
    name: str,
    inputs: Operands,
    axis: int | tuple[int, ...] | None = None,
    text: Text = kernels.L2NORM,
    **more: Any,
) -> Case:
    axes = (axis,) if isinstance(axis, int) else axis
    return Case(name, text, inputs, axis=axes, **more)


def _flat(*dtypes: str) -> Operands:
    return lambda n: [array(dtype, line(n)) for dtype in dtypes]


def _square(*dtypes: str, short_of: int = 0) -> Operands:
    return lambda n: [array(dtype, square(n, short_of)) for dtype in dtypes]


def _rows(length: int, *dtypes: str) -> Operands:
    return lambda n: [array(dtype, rows_of(n, length)) for dtype in dtypes or (F32,)]


def _long_rows(count: int, dtype: str = F32) -> Operands:
    return lambda n: [array(dtype, rows_in(n, count))]


def _cube(*weights: int) -> Operands:
    return lambda n: [array(F32, bits(n, *weights))]


def _odd_cube(n: int) -> list[Any]:
    return [array(F32, like(n, 501, 713, 747))]


TUNED = (
    _case("full", _flat(F32), target=0.95),
    _case("axis 1 of a square", _square(F32), 1, target=0.95),
    _case("axis 0 of a square", _square(F32), 0, target=0.95),
    _case("axis 1 of (8M,32)", _rows(32), 1, target=0.90),
    _case("axis 1 of (64,4M)", _long_rows(64), 1, target=0.95),
    _case("axis 0 of (64,4M)", _long_rows(64), 0, target=0.95),
    _case("axis 0 of (4M,64)", _rows(64), 0, target=0.90),
    _case("axis 1 of (256,1024,1024)", _cube(8, 10, 10), 1, target=0.95),
    _case("axes 0, 2 of (256,1024,1024)", _cube(8, 10, 10), (0, 2), target=0.90),
    _case("f16 full", _flat(F16), text=_HALF, target=0.95),
    _case("full, 16M", _flat(F32), scale=1 / 16, latency=True),
    _case(
        "dot, 16M",
        _flat(F32, F32),
        text=kernels.DOT,
        scale=1 / 16,
        latency=True,
        target=1 / 1.2,
        of="full, 16M",
    ),
    _case(
        "full, 1000003 elements",
        lambda n: [array(F32, (min(1_000_003, n - 1),))],
        latency=True,
    ),
    _case("full, x[1:] of odd size", lambda n: [array(F32, line(n), _s[1:-6])]),
    _case("full, x[::2]", lambda n: [array(F32, line(n), _s[::2])]),
    _case("axes 1, 3 of 4-D", _cube(7, 7, 7, 7), (1, 3)),
    _case("axes 0, 2 of 4-D", _cube(7, 7, 7, 7), (0, 2)),
    _case("axis 0 of (3,n)", _long_rows(3), 0),
    _case("axis 1 of (3,n)", _long_rows(3), 1),
    _case("axis 0 of (n,3)", _rows(3), 0),
    _case("axis 1 of (n,3)", _rows(3), 1, target=0.90),
    _case("axis 0 of (n,100)", _rows(100), 0, target=0.95),
    *(
        _case(f"axis 1 of (n,{length})", _rows(length), 1, target={17: 0.80, 100: 0.95}.get(length))
        for length in (5, 10, 17, 24, 33, 64, 65, 100, 101, 128, 256, 257, 512, 1000, 1001, 2048)
    ),
    _case("axis 1 of (4096,n)", _rows(65536), 1),
    _case("axis 1 of an odd square", _square(F32, short_of=1), 1),
    _case("axis 0 of an odd square", _square(F32, short_of=1), 0),
    *(_case(f"axis 0 of (n,{length})", _rows(length), 0) for length in (1, 5, 12, 1001)),
    _case("axis 1 of x.T", lambda n: [transposed(F32, square(n))], 1),
    _case("dot", _flat(F32, F32), text=kernels.DOT),
    _case("dot, axis 0", _square(F32, F32), 0, kernels.DOT),
    _case("f16 axis 0", _square(F16), 0, _HALF),
    _case("f16 axis 1", _square(F16), 1, _HALF),
    _case("f64 full", _flat(F64), scale=0.5),
    _case("int8 to int32 full", _flat(I8), text=kernels.SUM_INT8, scale=4),
    _case("int8 to int32 axis 0", _square(I8), 0, kernels.SUM_INT8, scale=4),
    _case("int8 to int32 axis 1", _square(I8), 1, kernels.SUM_INT8, scale=4),
    _case("argmax full", _flat(F32), text=kernels.ARGMAX),
    _case("argmax axis 1", _square(F32), 1, kernels.ARGMAX),
    _case("argmax axis 0", _square(F32), 0, kernels.ARGMAX),
    _case("variance full", _flat(F32), text=kernels.VARIANCE),
    _case("variance axis 1", _square(F32), 1, kernels.VARIANCE),
)

HELD_OUT = (
    *(
        _case(f"axis 1 of (n,{length})", _rows(length), 1)
        for length in (2, 7, 13, 31, 48, 96, 200, 333, 777, 3000, 20011)
    ),
    *(
        _case(f"axis 0 of (n,{length})", _rows(length), 0)
        for length in (2, 7, 16, 33, 250, 777, 2000, 4099)
    ),
    _case("axis 0 of (16,n)", _long_rows(16), 0),
    _case("axis 0 of (1000,n)", _long_rows(1000), 0),
    _case("axis 1 of (7,n)", _long_rows(7), 1),
    _case("axis 1 of (1000,n)", _long_rows(1000), 1),
    _case("full, 1M", _flat(F32), scale=1 / 256, latency=True),
    _case("dot, 1M", _flat(F32, F32), text=kernels.DOT, scale=1 / 256, latency=True),
    _case("axis 1 of (1024,1024)", _square(F32), 1, scale=1 / 256, latency=True),
    _case("axis 0 of (1024,1024)", _square(F32), 0, scale=1 / 256, latency=True),
    _case("3-D odd, axis 0", _odd_cube, 0),
    _case("3-D odd, axis 1", _odd_cube, 1),
    _case("3-D odd, axis 2", _odd_cube, 2),
    _case("3-D odd, axes 0, 2", _odd_cube, (0, 2)),
    _case("3-D odd, axes 1, 2", _odd_cube, (1, 2)),
    _case("NCHW, all but channels", _cube(7, 7, 7, 7), (0, 2, 3)),
    _case("NCHW, channels", _cube(6, 6, 8, 8), 1),
    _case("4-D axes 0, 3", _cube(6, 8, 6, 8), (0, 3)),
    _case("5-D axes 0, 2, 4", _cube(5, 6, 5, 6, 6), (0, 2, 4)),
    _case("Fortran full", lambda n: [transposed(F32, square(n))]),
    _case("axis 1 of x[:, 1:-2]", lambda n: [array(F32, square(n), _s[:, 1:-2])], 1),
    _case("axis 0 of x[:, 1:-2]", lambda n: [array(F32, square(n), _s[:, 1:-2])], 0),
    _case("axis 1 of x[:, ::2]", lambda n: [array(F32, square(n), _s[:, ::2])], 1),
    _case("axis 1 of x[::2]", lambda n: [array(F32, square(n), _s[::2])], 1),
    _case("full, x[::-1]", lambda n: [array(F32, line(n), _s[::-1])]),
    _case("axis 0 of (100,n).T", lambda n: [transposed(F32, rows_of(n, 100))], 0),
    _case(
        "matrix times vector",
        lambda n: [array(F32, square(n)), array(F32, square(n)[1:])],
        1,
        kernels.DOT,
    ),
    _case(
        "vector times matrix",
        lambda n: [array(F32, square(n)), array(F32, (square(n)[0], 1))],
        0,
        kernels.DOT,
    ),
    _case("dot, axis 1", _square(F32, F32), 1, kernels.DOT),
    _case(
        "dot of x.T and y",
        lambda n: [transposed(F32, square(n)), array(F32, square(n))],
        1,
        kernels.DOT,
    ),
    _case("f64 dot", _flat(F64, F64), text=kernels.DOT, scale=0.5),
    _case("f64 axis 1", _square(F64), 1, scale=0.5),
    _case("f64 axis 0", _square(F64), 0, scale=0.5),
    _case("f64 axis 1 of (n,33)", _rows(33, F64), 1, scale=0.5),
    _case("complex64 full", _flat(C64), text=kernels.SUM, scale=0.5),
    _case("complex64 axis 0 of (n,40)", _rows(40, C64), 0, kernels.SUM, scale=0.5),
    _case("f16 axis 1 of (n,64)", _rows(64, F16), 1, _HALF),
    _case("f16 axis 1 of (n,33)", _rows(33, F16), 1, _HALF),
    _case("f16 axis 0 of (n,24)", _rows(24, F16), 0, _HALF),
    _case("int8 to int32 axis 1 of (n,100)", _rows(100, I8), 1, kernels.SUM_INT8),
    _case("int8 to int32 axis 0 of (n,30)", _rows(30, I8), 0, kernels.SUM_INT8),
    _case("int32 largest", _flat("int32"), text=kernels.LARGEST),
    _case("largest axis 1 of (n,500)", _rows(500), 1, kernels.LARGEST),
    _case("argmax axis 1 of (n,32)", _rows(32), 1, kernels.ARGMAX),
    _case("argmax axis 1 of (n,1000)", _rows(1000), 1, kernels.ARGMAX),
    _case("f64 argmax full", _flat(F64), text=kernels.ARGMAX, scale=0.5),
    _case("mean and variance full", _flat(F32), text=kernels.CENTER_AND_SPREAD),
    _case("mean and variance axis 1", _rows(1024), 1, kernels.CENTER_AND_SPREAD),
    _case("mean and variance axis 0", _rows(256), 0, kernels.CENTER_AND_SPREAD),
)

CASES = (*TUNED, *(replace(case, held_out=True) for case in HELD_OUT))
