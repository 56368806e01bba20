"""Elementwise cases: layouts, alignments and dtypes of ``(x - y) * (x - y)``, and other texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import kernels
from benchmarks.cases import Case
from benchmarks.kernels import Text
from benchmarks.operands import (
    Operand,
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
C64, C128 = "complex64", "complex128"
_s = np.s_


def _case(name: str, inputs: Operands, text: Text = kernels.SQUARED_DIFF, **more: Any) -> Case:
    return Case(name, text, inputs, **more)


def _flat(*dtypes: str) -> Operands:
    return lambda n: [array(dtype, line(n)) for dtype in dtypes]


def _row(dtype: str, short_of: int = 0) -> Operands:
    """Return a square and a row that is added to each of its rows."""
    return lambda n: [
        array(dtype, square(n, short_of)),
        array(dtype, square(n, short_of)[1:]),
    ]


def _column(dtype: str, short_of: int = 0) -> Operands:
    return lambda n: [
        array(dtype, square(n, short_of)),
        array(dtype, (square(n, short_of)[0], 1)),
    ]


def _transposed(dtype: str, short_of: int = 0) -> Operands:
    return lambda n: [
        transposed(dtype, square(n, short_of)),
        array(dtype, square(n, short_of)),
    ]


def _narrow(length: int, row: bool = True) -> Operands:
    """Return rows of a few elements and one row, or a column, that is combined with each."""

    def operands(n: int) -> list[Operand]:
        shape = rows_of(n, length)
        return [array(F32, shape), array(F32, (length,) if row else (shape[0], 1))]

    return operands


def _shifted(dtype: str, x: int, y: int, z: int) -> tuple[Operands, Operands]:
    """Return operands that start so many elements behind an aligned address, and end with it."""

    def at(n: int, start: int) -> Operand:
        return array(dtype, line(n), _s[start : n - 7 + start])

    return (lambda n: [at(n, x), at(n, y)]), (lambda n: [at(n, z)])


def _cropped(left: int, right: int, *starts: int) -> Operands:
    """Return squares without their first columns and last ones, `starts` apart."""

    def operands(n: int) -> list[Operand]:
        side = square(n)[0]
        width = side - left - right
        return [array(F32, (side, side), _s[:, at : at + width]) for at in starts]

    return operands


_MIXED = kernels.SQUARED_DIFF_MIXED


def _misaligned(name: str, dtype: str, x: int, y: int, z: int, **more: Any) -> Case:
    inputs, outputs = _shifted(dtype, x, y, z)
    return _case(name, inputs, outputs=outputs, **more)


# Rows of the tables that schedules were chosen with.
TUNED = (
    _case("f32 contiguous", _flat(F32, F32), target=0.95),
    _case("f16 contiguous", _flat(F16, F16), target=0.95),
    _case("int8 contiguous", _flat(I8, I8), target=0.90),
    _case("row broadcast", _row(F32), target=0.95),
    _case("column broadcast", _column(F32), target=0.95),
    _case("x.T + y", _transposed(F32), target=0.80),
    _case(
        "all Fortran",
        lambda n: [transposed(F32, square(n))] * 2,
        outputs=lambda n: [transposed(F32, square(n))],
        target=0.95,
    ),
    _case(
        "stride 2",
        lambda n: [array(F32, line(n), _s[::2])] * 2,
        target=0.95,
        of="CuPy",
    ),
    _case("f32 one-element y", lambda n: [array(F32, line(n)), array(F32, (1,))]),
    _misaligned("int8 x[1:], y[3:], z", I8, 1, 3, 0),
    _case("f64 contiguous", _flat(F64, F64), scale=0.5),
    _case("complex64 contiguous", _flat(C64, C64), scale=0.5),
    _case("f16 and f32 to f32", _flat(F16, F32), _MIXED),
    _misaligned("f32 x[1:], y[1:], z", F32, 1, 1, 0),
    _misaligned("f32 x[1:], y[3:], z[2:]", F32, 1, 3, 2),
    _misaligned("f16 x[1:], y[3:], z", F16, 1, 3, 0),
    _case("f16 row broadcast", _row(F16)),
    _case("f16 column broadcast", _column(F16)),
    _case("f16 x.T + y", _transposed(F16)),
    _case("int8 row broadcast", _row(I8)),
    _case("int8 column broadcast", _column(I8)),
    _case("row broadcast, odd", _row(F32, 1)),
    _case("cropped rows, odd", _cropped(1, 2, 1, 2)),
    _case("cropped rows, aligned", _cropped(4, 4, 4, 8)),
    _case("(n,3) with (3,)", _narrow(3), target=0.90),
    _case("(n,3) with (n,1)", _narrow(3, row=False)),
    _case(
        "4-D x.transpose(0,2,1,3)",
        lambda n: [
            array(F32, bits(n, 6, 7, 8, 7), axes=(0, 2, 1, 3)),
            array(F32, bits(n, 6, 8, 7, 7)),
        ],
    ),
    _case(
        "3-D x.transpose(1,0,2)",
        lambda n: [array(F32, bits(n, 9, 10, 9), axes=(1, 0, 2)), array(F32, bits(n, 10, 9, 9))],
    ),
    _case(
        "(a,1,c) with (1,b,c)",
        lambda n: [
            array(F32, (bits(n, 10, 10, 8)[0], 1, bits(n, 10, 10, 8)[2])),
            array(F32, (1, *bits(n, 10, 10, 8)[1:])),
        ],
    ),
    _case("x.T + y, odd", _transposed(F32, 3), target=0.80),
    _case(
        "3-D x.transpose(2,1,0)",
        lambda n: [array(F32, bits(n, 8, 10, 10), axes=(2, 1, 0)), array(F32, bits(n, 10, 10, 8))],
    ),
    _case(
        "NCHW to NHWC",
        lambda n: [
            array(F32, bits(n, 6, 6, 8, 8), axes=(0, 2, 3, 1)),
            array(F32, bits(n, 6, 8, 8, 6)),
        ],
    ),
    _case("(n,8) with (8,)", _narrow(8)),
    _case("(n,12) with (12,)", _narrow(12)),
    _case("(n,20) with (20,)", _narrow(20)),
)

# Rows that nothing was tuned on.
HELD_OUT = (
    _case("f32 of odd length", lambda n: [array(F32, line(n - 5))] * 2),
    _misaligned("f32 x, y, z[1:]", F32, 0, 0, 1),
    _misaligned("f64 x[1:], y, z", F64, 1, 0, 0, scale=0.5),
    _misaligned("int8 x[5:], y[5:], z[5:]", I8, 5, 5, 5),
    _case("complex128 contiguous", _flat(C128, C128), scale=0.25),
    _case("int32 contiguous", _flat("int32", "int32")),
    _case("uint8 maximum", _flat("uint8", "uint8"), kernels.MAXIMUM),
    _case("int64 contiguous", _flat("int64", "int64"), scale=0.5),
    _case("complex64 multiply", _flat(C64, C64), kernels.MULTIPLY, scale=0.5),
    _case("x < y to bool", _flat(F32, F32), kernels.LESS),
    _case("f32 to f16", _flat(F32), kernels.TO_FLOAT16),
    _case("f16 to f32", _flat(F16), kernels.TO_FLOAT32),
    _case("f64 and f16 to f32", _flat(F64, F16), _MIXED, scale=0.5),
    _case("axpy with a Python float", _flat(F32, F32), kernels.AXPY),
    _case("exp(-x x)", _flat(F32), kernels.GAUSSIAN),
    _case("f16 exp(-x x)", _flat(F16), kernels.GAUSSIAN),
    _case("four inputs", _flat(F32, F32, F32, F32), kernels.FOUR),
    _case("two outputs", _flat(F32, F32), kernels.SUM_AND_DIFFERENCE),
    _case("f16 two outputs", _flat(F16, F16), kernels.SUM_AND_DIFFERENCE),
    _case("two outputs, row broadcast", _row(F32), kernels.SUM_AND_DIFFERENCE),
    _case("polar to cartesian", _flat(F32, F32), kernels.POLAR),
    _case("the index i, contiguous", _flat(F32), kernels.POSITION),
    _case("the index i, x.T", lambda n: [transposed(F32, square(n))], kernels.POSITION),
    _case("raw y, reversed", _flat(F32, F32), kernels.ADD_REVERSE),
    _case(
        "int8 times a row of scales",
        lambda n: [array(I8, square(n)), array(F32, square(n)[1:])],
        kernels.DEQUANTIZE,
    ),
    _case("column broadcast, odd", _column(F32, 1)),
    _case("f64 row broadcast", _row(F64), scale=0.5),
    _case("f64 x.T + y", _transposed(F64), scale=0.5),
    _case("complex64 x.T + y", _transposed(C64), scale=0.5),
    _case("int8 x.T + y", _transposed(I8)),
    _case("f16 x.T + y, odd", _transposed(F16, 5)),
    _case("x.T + y.T to z", lambda n: [transposed(F32, square(n))] * 2),
    _case("(n,2) with (2,)", _narrow(2)),
    _case("(n,5) with (5,)", _narrow(5)),
    _case("(n,7) with (n,1)", _narrow(7, row=False)),
    _case("(n,33) with (33,)", _narrow(33)),
    _case("(n,1000) with (1000,)", _narrow(1000)),
    _case("(n,129) with (n,1)", _narrow(129, row=False)),
    _case(
        "(3,n) with (3,1)",
        lambda n: [array(F32, rows_in(n, 3)), array(F32, (3, 1))],
    ),
    _case(
        "(4,n) with (n,)",
        lambda n: [array(F32, rows_in(n, 4)), array(F32, rows_in(n, 4)[1:])],
    ),
    _case(
        "(4,n).T with (n,4)",
        lambda n: [array(F32, rows_in(n, 4), axes=(1, 0)), array(F32, rows_in(n, 4)[::-1])],
    ),
    _case("x[::-1] with y", lambda n: [array(F32, line(n), _s[::-1]), array(F32, line(n))]),
    _case(
        "x[::3] with y",
        lambda n: [array(F32, line(3 * n), _s[::3]), array(F32, line(n))],
        scale=0.25,
    ),
    _case(
        "x[:, None] with y[None, :]",
        lambda n: [array(F32, (square(n)[0], 1)), array(F32, (1, square(n)[1]))],
    ),
    _case(
        "3-D inside of a border",
        lambda n: [array(F32, like(n, 512, 1024, 512), _s[1:-1, 1:-1, 1:-1])] * 2,
    ),
    _case(
        "3-D odd, middle broadcast",
        lambda n: [
            array(F32, like(n, 501, 713, 747)),
            array(F32, (like(n, 501, 713, 747)[0], 1, like(n, 501, 713, 747)[2])),
        ],
    ),
    _case(
        "NCHW with a bias per channel",
        lambda n: [
            array(F32, bits(n, 7, 7, 7, 7)),
            array(F32, (bits(n, 7, 7, 7, 7)[1], 1, 1)),
        ],
    ),
    _case(
        "NHWC to NCHW, 3 channels",
        lambda n: [
            array(F32, (*like(n, 21, 2048, 2048), 3), axes=(0, 3, 1, 2)),
            array(F32, (like(n, 21, 2048, 2048)[0], 3, *like(n, 21, 2048, 2048)[1:])),
        ],
    ),
    _case(
        "4-D x.transpose(3,1,2,0)",
        lambda n: [
            array(F32, bits(n, 7, 7, 7, 7), axes=(3, 1, 2, 0)),
            array(F32, bits(n, 7, 7, 7, 7)),
        ],
    ),
    _case(
        "5-D, every other axis broadcast",
        lambda n: [
            array(F32, bits(n, 6, 5, 6, 5, 6)),
            array(F32, _every_other(bits(n, 6, 5, 6, 5, 6))),
        ],
    ),
)


def _every_other(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(extent if axis % 2 else 1 for axis, extent in enumerate(shape))


CASES = (*TUNED, *(replace(case, held_out=True) for case in HELD_OUT))
