"""``kspec::ufunc`` of 8-bit floats: all values, and all pairs, against ml_dtypes' own loops."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice

KINDS = ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz")
UNARY = (
    *("absolute", "negative", "square", "reciprocal", "sign", "floor", "ceil", "trunc"),
    *("isnan", "isinf", "isfinite", "spacing"),
)
BINARY = (
    *("add", "subtract", "multiply", "remainder", "fmod", "floor_divide", "power", "logaddexp"),
    *("maximum", "minimum", "fmax", "fmin", "equal", "less", "less_equal", "greater"),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [UNARY, BINARY], ids=["unary", "binary"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_value(place: ArrayDevice, names: tuple[str, ...], kind: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, f"float8_{kind}"))
    every = np.arange(256, dtype=np.uint8).view(dtype)
    operands = (every,) if names == UNARY else (np.repeat(every, 256), np.tile(every, 256))
    wanted = [getattr(np, name)(*operands) for name in names]
    inputs = ["x", "y"][: len(operands)]
    outputs = [
        f"{'bool' if one.dtype == bool else 'T'} z_{name}"
        for name, one in zip(names, wanted, strict=True)
    ]
    kernel = kspec.ElementwiseKernel(
        ", ".join(f"T {one}" for one in inputs),
        ", ".join(outputs),
        "; ".join(f"z_{one} = kspec::ufunc::{one}({', '.join(inputs)})" for one in names),
        "float8_ufuncs",
    )
    for name, got, one in zip(names, kernel(*map(place.array, operands)), wanted, strict=True):
        found = place.numpy(got)
        assert found.dtype == one.dtype
        np.testing.assert_array_equal(found.astype("f4"), one.astype("f4"), name)
