"""Reduction calls that are refused: the table of the contract, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from tests.contract.refusals import Refusal, check, rows
from tests.devices import ArrayDevice

SUM = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum_of")
MINIMUM = kspec.ReductionKernel("T x", "T y", "x", "min(a, b)", "y = a", None, "minimum")
DOT = kspec.ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "dot")
TWO = kspec.ReductionKernel("T x", "T s, T m", "x", "a + b", "s = a; m = -a", "0", "two_outputs")
CONVERT = kspec.ReductionKernel("S x", "T y", "x", "a + b", "y = a", "0", "converted_sum")
FIXED = kspec.ReductionKernel("float32 x", "float64 y", "x", "a + b", "y = a", "0", "fixed_sum")
RAW = kspec.ReductionKernel("raw T x", "T y", "x[_J]", "a + b", "y = a", "0", "raw_only")
WEIGHTED = kspec.ReductionKernel(
    "T x, raw T w", "T y", "x * w[_J]", "a + b", "y = a", "0", "weighted"
)

TYPE = (kspec.ArgumentTypeError, TypeError)
SHAPE = (kspec.ShapeError, ValueError)
UNBOUND = (kspec.UnboundPlaceholderError, KeyError, TypeError)
AXIS = (np.exceptions.AxisError, ValueError, IndexError)


def given(**values: Any) -> Any:
    return lambda place: values


def axis(value: Any) -> Any:
    return given(axis=value)


TABLE = [
    # keywords and counts
    Refusal("dtype", SUM, lambda p: (p.empty(3),), (TypeError,), "'dtype'", given(dtype="f4")),
    Refusal("size", SUM, lambda p: (p.empty(3),), (TypeError,), "'size'", given(size=3)),
    Refusal(
        "block-size",
        SUM,
        lambda p: (p.empty(3),),
        (TypeError,),
        "'block_size'",
        given(block_size=8),
    ),
    Refusal("no-arguments", SUM, lambda p: (), TYPE, "takes 1 or 2 positional arguments"),
    Refusal("too-few", DOT, lambda p: (p.empty(3),), TYPE, "takes 2 or 3 positional arguments"),
    Refusal(
        "too-many", SUM, lambda p: (p.empty(3), p.empty(()), p.empty(())), TYPE, "takes 1 or 2"
    ),
    Refusal("some-outputs", TWO, lambda p: (p.empty(3), p.empty(())), TYPE, "takes 1 or 3"),
    # out=
    Refusal(
        "one-out-for-two",
        TWO,
        lambda p: (p.empty(3),),
        SHAPE,
        "out must hold 2 arrays",
        lambda p: {"out": p.empty(())},
    ),
    Refusal(
        "three-outs-for-two",
        TWO,
        lambda p: (p.empty(3),),
        SHAPE,
        "out must hold 2 arrays",
        lambda p: {"out": (p.empty(()), p.empty(()), p.empty(()))},
    ),
    Refusal(
        "none-in-out",
        TWO,
        lambda p: (p.empty(3),),
        TYPE,
        "argument m must be an array",
        lambda p: {"out": (p.empty(()), None)},
    ),
    Refusal(
        "out-and-position",
        SUM,
        lambda p: (p.empty(3), p.empty(())),
        SHAPE,
        "'out' as both positional and keyword",
        lambda p: {"out": p.empty(())},
    ),
    # the loop
    Refusal("scalar-only", SUM, lambda p: (1.0,), SHAPE, "Loop size is undecided."),
    Refusal("numpy-scalar", SUM, lambda p: (np.float64(1),), SHAPE, "Loop size is undecided."),
    Refusal(
        "scalar-with-output", SUM, lambda p: (1.0, p.empty(())), SHAPE, "Loop size is undecided."
    ),
    Refusal("raw-only", RAW, lambda p: (p.empty(3),), SHAPE, "Loop size is undecided."),
    Refusal("raw-and-scalar", WEIGHTED, lambda p: (1.0, p.empty(3)), SHAPE, "Loop size is undec"),
    Refusal("shapes", DOT, lambda p: (p.empty(3), p.empty(4)), SHAPE, "could not be broadcast"),
    Refusal(
        "raw-that-is-none",
        WEIGHTED,
        lambda p: (p.empty(3), 2.0),
        TYPE,
        "argument w must be an array",
    ),
    # outputs that are no arrays
    Refusal("output-none", SUM, lambda p: (p.empty(3), None), TYPE, "argument y must be an array"),
    Refusal("output-scalar", SUM, lambda p: (p.empty(3), 0.0), TYPE, "argument y must be an array"),
    Refusal("output-list", SUM, lambda p: (p.empty(3), [0.0]), TYPE, "argument y must be an array"),
    Refusal(
        "output-numpy-scalar", SUM, lambda p: (p.empty(3), np.float64()), TYPE, "must be an array"
    ),
    Refusal("out-scalar", SUM, lambda p: (p.empty(3),), TYPE, "must be an array", given(out=0.0)),
    Refusal("out-list", SUM, lambda p: (p.empty(3),), TYPE, "must be an array", given(out=[0.0])),
    # types
    Refusal(
        "inputs-disagree", DOT, lambda p: (p.empty(3), p.empty(3, "f4")), TYPE, "Type is mismatched"
    ),
    Refusal(
        "raw-disagrees",
        WEIGHTED,
        lambda p: (p.empty(3), p.empty(3, "f4")),
        TYPE,
        "Type is mismatched",
    ),
    Refusal(
        "outputs-decide-first",
        SUM,
        lambda p: (p.empty(3), p.empty((), "f4")),
        TYPE,
        "T is float32 by y, but x has dtype float64",
    ),
    Refusal(
        "second-output-disagrees",
        TWO,
        lambda p: (p.empty(3), p.empty(()), p.empty((), "int64")),
        TYPE,
        "Type is mismatched",
    ),
    Refusal("fixed-input", FIXED, lambda p: (p.empty(3),), TYPE, "Type is mismatched"),
    Refusal(
        "fixed-output",
        FIXED,
        lambda p: (p.empty(3, "f4"), p.empty((), "f4")),
        TYPE,
        "Type is mismatched",
    ),
    Refusal("unbound", CONVERT, lambda p: (p.empty(3),), UNBOUND, "no array decides the type T"),
    # axes
    Refusal("axis-high", SUM, lambda p: (p.empty((2, 3)),), AXIS, "sum_of: axis 2 is out", axis(2)),
    Refusal(
        "axis-low", SUM, lambda p: (p.empty((2, 3)),), AXIS, "sum_of: axis -3 is out", axis(-3)
    ),
    Refusal("axes-high", SUM, lambda p: (p.empty((2, 3)),), AXIS, "axis 5 is out", axis((0, 5))),
    Refusal("axis-of-0d", SUM, lambda p: (p.empty(()),), AXIS, "dimension 0", axis(0)),
    Refusal("last-of-0d", SUM, lambda p: (p.empty(()),), AXIS, "dimension 0", axis(-1)),
    Refusal("axis-repeated", SUM, lambda p: (p.empty((2, 3)),), SHAPE, "duplicate", axis((1, 1))),
    Refusal("axis-by-sign", SUM, lambda p: (p.empty((2, 3)),), SHAPE, "duplicate", axis((0, -2))),
    Refusal("axis-float", SUM, lambda p: (p.empty((2, 3)),), TYPE, "axis must be", axis(1.0)),
    Refusal("axis-bool", SUM, lambda p: (p.empty((2, 3)),), TYPE, "axis must be", axis(True)),
    Refusal("axis-text", SUM, lambda p: (p.empty((2, 3)),), TYPE, "not 'row'", axis("row")),
    Refusal("axes-float", SUM, lambda p: (p.empty((2, 3)),), TYPE, "axis must", axis((0, 1.0))),
    Refusal("axes-none", SUM, lambda p: (p.empty((2, 3)),), TYPE, "axis must be", axis((None,))),
    Refusal("axes-set", SUM, lambda p: (p.empty((2, 3)),), TYPE, "axis must be", axis({0})),
    Refusal("axes-nested", SUM, lambda p: (p.empty((2, 3)),), TYPE, "axis must be", axis(((0,),))),
    Refusal(
        "axes-array", SUM, lambda p: (p.empty((2, 3)),), TYPE, "axis must", axis(np.array([0, 1]))
    ),
    # output shapes
    Refusal(
        "output-shape",
        SUM,
        lambda p: (p.empty((2, 3)), p.empty(2)),
        SHAPE,
        "Out shape is mismatched",
        axis(0),
    ),
    Refusal(
        "output-not-0d", SUM, lambda p: (p.empty(3), p.empty(1)), SHAPE, "Out shape is mismatched"
    ),
    Refusal(
        "output-broadcastable",
        SUM,
        lambda p: (p.empty((2, 3)), p.empty((4, 3))),
        SHAPE,
        "Out shape is mismatched",
        axis(0),
    ),
    Refusal(
        "output-without-kept-axis",
        SUM,
        lambda p: (p.empty((2, 3)), p.empty(3)),
        SHAPE,
        "Out shape is mismatched",
        given(axis=0, keepdims=True),
    ),
    Refusal(
        "output-with-dropped-axis",
        SUM,
        lambda p: (p.empty((2, 3)),),
        SHAPE,
        "Out shape is mismatched",
        lambda p: {"axis": 0, "out": p.empty((1, 3))},
    ),
    Refusal(
        "second-output-shape",
        TWO,
        lambda p: (p.empty((2, 3)), p.empty(3), p.empty(2)),
        SHAPE,
        "Out shape is mismatched",
        axis(0),
    ),
    # nothing to reduce, and no value for that
    Refusal("nothing", MINIMUM, lambda p: (p.empty(0),), SHAPE, "minimum which has no identity"),
    Refusal(
        "nothing-by-axis",
        MINIMUM,
        lambda p: (p.empty((2, 0)), p.empty(2)),
        SHAPE,
        "minimum which has no identity",
        axis(1),
    ),
]


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0)])
def test_nothing_is_missing_where_there_are_no_outputs(
    shape: tuple[int, ...], place: ArrayDevice
) -> None:
    """CuPy returns before it looks at the identity, where NumPy's `max` raises."""
    assert MINIMUM(place.empty(shape), axis=-2).shape == (*shape[:-2], 0)


@rows(TABLE)
def test_the_table(row: Refusal, place: ArrayDevice, launches: list[str]) -> None:
    check(row, place, launches)


PRECEDENCE = [
    Refusal("count-then-kind", DOT, lambda p: (None,), TYPE, "positional arguments"),
    Refusal("kind-then-shape", DOT, lambda p: (p.empty(3), None, p.empty(4)), TYPE, "argument y"),
    Refusal(
        "shape-then-axis",
        DOT,
        lambda p: (p.empty(3), p.empty(4)),
        SHAPE,
        "could not be broadcast",
        axis(7),
    ),
    Refusal(
        "type-then-output-shape",
        SUM,
        lambda p: (p.empty(3), p.empty(3, "f4")),
        TYPE,
        "Type is mismatched",
    ),
    Refusal(
        "output-shape-then-scalar",
        DOT,
        lambda p: (p.zeros(3, "int8"), 1000, p.zeros(3, "int8")),
        SHAPE,
        "Out shape is mismatched",
    ),
]


@rows(PRECEDENCE)
def test_the_first_rule_broken_is_reported(
    row: Refusal, place: ArrayDevice, launches: list[str]
) -> None:
    check(row, place, launches)


class TestWhatCuPyRefuses:
    """Rows of CuPy's table that are no errors here."""

    def test_out_for_several_outputs(self, place: ArrayDevice) -> None:
        out = place.empty(()), place.empty(())
        result = TWO(place.array([1.0, 2.0]), out=out)
        assert result[0] is out[0] and result[1] is out[1]
        np.testing.assert_array_equal([place.numpy(one) for one in out], [3, -3])

    @pytest.mark.parametrize("last", [0, 1, 2, (0, 2), (2, 1)])
    def test_raw_inputs_with_axes_in_any_place(self, last: Any, place: ArrayDevice) -> None:
        x = np.arange(24.0).reshape(2, 3, 4)
        axes = (last,) if isinstance(last, int) else tuple(sorted(last))
        length = int(np.prod([x.shape[axis] for axis in axes]))
        w = 1.0 + np.arange(length)
        y = place.numpy(WEIGHTED(place.array(x), place.array(w), axis=last))
        moved = np.moveaxis(x, axes, range(-len(axes), 0))
        expected = moved.reshape(*moved.shape[: 3 - len(axes)], length) @ w
        np.testing.assert_array_equal(y, expected)

    def test_raw_outputs_are_refused_when_the_kernel_is_made(self) -> None:
        with pytest.raises(ValueError, match="'y' of a reduction cannot be raw"):
            kspec.ReductionKernel("T x", "raw T y", "x", "a + b", "y[_i] = a", "0", "raw_output")
