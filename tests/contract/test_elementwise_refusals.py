"""Elementwise calls that are refused: the argument kinds, and the call protocol in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kspec
from tests.contract.refusals import Refusal, check, rows
from tests.devices import ArrayDevice

ADD = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add")
BOTH = kspec.ElementwiseKernel("T x, T y", "T s, T d", "s = x + y; d = x - y", "both")
FIXED = kspec.ElementwiseKernel("float32 x, int32 k", "float64 y", "y = x + k", "fixed")
CONVERT = kspec.ElementwiseKernel("S x", "T y", "y = x", "convert")
PAIR = kspec.ElementwiseKernel("S x", "T y, T z", "y = x; z = x", "pair")
ALL_RAW = kspec.ElementwiseKernel("raw T x", "raw T y", "y[i] = x[i]", "all_raw")
RAW_OUTPUT = kspec.ElementwiseKernel("T x", "raw T y", "y[i] = x", "raw_output")
RAW_INPUT = kspec.ElementwiseKernel("T x, raw T w", "T y", "y = x + w[0]", "raw_input")
IN_PLACE = kspec.ElementwiseKernel("T x, _non_const T y", "", "y += x", "in_place")
SCALARS = kspec.ElementwiseKernel("int32 x", "float32 y", "y = x", "of_scalars")

TYPE = (kspec.ArgumentTypeError, TypeError)
SHAPE = (kspec.ShapeError, ValueError)
UNBOUND = (kspec.UnboundPlaceholderError, KeyError, TypeError)
Make = Callable[[ArrayDevice], tuple[Any, ...]]


def arrays(*layouts: Any) -> Make:
    """Return a maker of arguments: shapes and (shape, dtype) become arrays, others stay."""

    def one(place: ArrayDevice, layout: Any) -> Any:
        if isinstance(layout, int):
            return place.empty(layout)
        if isinstance(layout, tuple) and layout and isinstance(layout[-1], str):
            return place.empty(layout[0], layout[1])
        return place.empty(layout) if isinstance(layout, tuple) else layout

    return lambda place: tuple(one(place, layout) for layout in layouts)


def keywords(**values: Any) -> Callable[[ArrayDevice], dict[str, Any]]:
    return lambda place: values


PROTOCOL = [
    # 1. keywords and counts
    Refusal("output-keyword", ADD, arrays(3, 3, 3), (TypeError,), "'output'", keywords(output=0)),
    Refusal(
        "out-and-position",
        ADD,
        arrays(3, 3, 3),
        SHAPE,
        "'out' as both positional and keyword",
        lambda p: {"out": p.empty(3)},
    ),
    Refusal(
        "out-for-an-input",
        ADD,
        arrays(3),
        TYPE,
        "takes 2 or 3 positional arguments (T x, T y, T z), not 1",
        lambda p: {"out": p.empty(3)},
    ),
    Refusal("axis-keyword", ADD, arrays(3, 3, 3), (TypeError,), "'axis'", keywords(axis=0)),
    Refusal("dtype-keyword", ADD, arrays(3, 3, 3), (TypeError,), "'dtype'", keywords(dtype="f4")),
    Refusal(
        "block-size-zero", ADD, arrays(3, 3, 3), SHAPE, "block_size must", keywords(block_size=0)
    ),
    Refusal(
        "block-size-negative", ADD, arrays(3, 3, 3), SHAPE, "block_size", keywords(block_size=-128)
    ),
    Refusal(
        "block-size-text", ADD, arrays(3, 3, 3), TYPE, "block_size", keywords(block_size="128")
    ),
    Refusal("block-size-half", ADD, arrays(3, 3, 3), TYPE, "block_size", keywords(block_size=0.5)),
    Refusal(
        "block-size-beyond-the-device",
        ADD,
        arrays(2048, 2048, 2048),
        (kspec.LaunchError, RuntimeError),
        "block_size",
        keywords(block_size=2048),
    ),
    Refusal("no-arguments", ADD, arrays(), TYPE, "takes 2 or 3 positional arguments"),
    Refusal("too-few", ADD, arrays(3), TYPE, "takes 2 or 3 positional arguments"),
    Refusal("too-many", ADD, arrays(3, 3, 3, 3), TYPE, "takes 2 or 3 positional arguments"),
    Refusal("some-outputs", BOTH, arrays(3, 3, 3), TYPE, "takes 2 or 4 positional arguments"),
    # 4. broadcasting
    Refusal("inputs-do-not-fit", ADD, arrays(3, 4), SHAPE, "could not be broadcast"),
    Refusal("inputs-do-not-fit-2d", ADD, arrays((2, 3), (3, 2)), SHAPE, "could not be broadcast"),
    Refusal("output-does-not-fit", ADD, arrays(3, 3, 4), SHAPE, "could not be broadcast"),
    Refusal(
        "second-output-does-not-fit", BOTH, arrays(3, 3, 3, 2), SHAPE, "could not be broadcast"
    ),
    Refusal("nothing-with-empty", ADD, arrays(0, 3), SHAPE, "could not be broadcast"),
    Refusal(
        "size-beside-arrays", ADD, arrays(3, 3, 3), SHAPE, "Specified 'size' can", keywords(size=3)
    ),
    Refusal(
        "size-beside-one-array",
        RAW_INPUT,
        arrays(3, 3, 3),
        SHAPE,
        "Specified 'size' can",
        keywords(size=3),
    ),
    Refusal(
        "size-beside-an-output",
        SCALARS,
        lambda p: (1, p.empty(3, "float32")),
        SHAPE,
        "Specified 'size' can",
        keywords(size=3),
    ),
    Refusal("size-undecided", ALL_RAW, arrays(3), SHAPE, "Loop size is undecided."),
    Refusal("size-undecided-with-output", ALL_RAW, arrays(3, 3), SHAPE, "Loop size is undecided."),
    Refusal("size-undecided-scalar", SCALARS, lambda p: (1,), SHAPE, "Loop size is undecided."),
    Refusal(
        "size-minus-one", ALL_RAW, arrays(3, 3), SHAPE, "Loop size is undecided.", keywords(size=-1)
    ),
    Refusal("size-negative", ALL_RAW, arrays(3, 3), SHAPE, "size must not", keywords(size=-2)),
    Refusal("size-float", ALL_RAW, arrays(3, 3), TYPE, "size must be an int", keywords(size=3.0)),
    Refusal("size-text", ALL_RAW, arrays(3, 3), TYPE, "size must be an int", keywords(size="3")),
    Refusal("size-bool", ALL_RAW, arrays(3, 3), TYPE, "size must be an int", keywords(size=True)),
    # 5. types
    Refusal("fixed-input", FIXED, arrays(3, (3, "int32")), TYPE, "Type is mismatched"),
    Refusal("fixed-input-signedness", FIXED, arrays((3, "float32"), (3, "int64")), TYPE, "int32"),
    Refusal(
        "fixed-output",
        FIXED,
        arrays((3, "float32"), (3, "int32"), (3, "float32")),
        TYPE,
        "Type is mismatched",
    ),
    Refusal("inputs-disagree", ADD, arrays(3, (3, "float32")), TYPE, "Type is mismatched"),
    Refusal("output-disagrees", ADD, arrays(3, 3, (3, "int64")), TYPE, "Type is mismatched"),
    Refusal("outputs-disagree", PAIR, arrays(3, 3, (3, "f4")), TYPE, "T is float64 by y, but z"),
    Refusal(
        "outputs-decide-first", ADD, arrays(3, 3, (3, "f4")), TYPE, "T is float32 by z, but x has"
    ),
    Refusal("raw-disagrees", RAW_INPUT, arrays(3, (1, "float32")), TYPE, "Type is mismatched"),
    Refusal("output-only-letter", CONVERT, arrays(3), UNBOUND, "decides the type T"),
    Refusal("scalar-only-letter", CONVERT, lambda p: (1, p.empty(3)), UNBOUND, "the type S"),
    Refusal(
        "numpy-scalars-do-not-bind",
        CONVERT,
        lambda p: (np.float32(1), p.empty(3)),
        UNBOUND,
        "decides the type S",
    ),
    # 6. outputs
    Refusal(
        "raw-output-without-size", RAW_OUTPUT, arrays(3), SHAPE, "Output array size is Undecided"
    ),
    Refusal("output-none", ADD, arrays(3, 3, None), TYPE, "argument z must be an array"),
    Refusal("one-output-none", BOTH, arrays(3, 3, 3, None), TYPE, "argument d must be an array"),
    Refusal("output-scalar", ADD, arrays(3, 3, 1.0), TYPE, "argument z must be an array"),
    Refusal(
        "output-numpy-scalar", ADD, arrays(3, 3, np.float64(1)), TYPE, "argument z must be an array"
    ),
    Refusal("output-list", ADD, arrays(3, 3, [1.0] * 3), TYPE, "argument z must be an array"),
    Refusal("output-smaller", ADD, arrays(3, 3, 1), SHAPE, "Out shape is mismatched"),
    Refusal("output-0d", ADD, arrays(3, 3, ()), SHAPE, "Out shape is mismatched"),
    Refusal("output-too-few-axes", ADD, arrays((2, 3), 3, 3), SHAPE, "Out shape is mismatched"),
    Refusal(
        "one-output-smaller", BOTH, arrays((2, 3), 3, (2, 3), 3), SHAPE, "Out shape is mismatched"
    ),
    # 3. parameters that need arrays
    Refusal("raw-scalar", RAW_INPUT, arrays(3, 2.0, 3), TYPE, "argument w must be an array"),
    Refusal("non-const-scalar", IN_PLACE, arrays(3, 2.0), TYPE, "argument y must be an array"),
]


@rows(PROTOCOL)
def test_the_call_protocol(row: Refusal, place: ArrayDevice, launches: list[str]) -> None:
    check(row, place, launches)


# Each breaks two rules: the one that the protocol checks first is reported.
PRECEDENCE = [
    Refusal("block-size-then-count", ADD, arrays(3), SHAPE, "block_size", keywords(block_size=0)),
    Refusal("count-then-kind", ADD, arrays(None), TYPE, "positional arguments"),
    Refusal("kind-then-shape", BOTH, arrays(3, None, 4, 4), TYPE, "argument y must be"),
    Refusal("output-kind-then-shape", ADD, arrays(3, 4, None), TYPE, "argument z must be"),
    Refusal("shape-then-type", ADD, arrays(3, (4, "float32")), SHAPE, "could not be broadcast"),
    Refusal("size-then-type", ADD, arrays(3, (3, "f4")), SHAPE, "Specified", keywords(size=3)),
    Refusal("size-then-unbound", CONVERT, lambda p: (1,), SHAPE, "Loop size is undecided."),
    Refusal("type-then-output-shape", ADD, arrays(3, 3, (1, "f4")), TYPE, "Type is mismatched"),
    Refusal("type-then-raw-output", RAW_OUTPUT, arrays(3, (3, "f4")), TYPE, "Type is mismatched"),
    Refusal(
        "output-shape-then-scalar",
        ADD,
        lambda p: (p.zeros(3, "int8"), 1000, p.zeros(1, "int8")),
        SHAPE,
        "Out shape is mismatched",
    ),
]


@rows(PRECEDENCE)
def test_the_first_rule_broken_is_reported(
    row: Refusal, place: ArrayDevice, launches: list[str]
) -> None:
    check(row, place, launches)
