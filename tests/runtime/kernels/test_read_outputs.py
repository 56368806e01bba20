"""Outputs that a kernel reads before it sets them: calls give them, or say why they must."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import sharded
from kspec.model.declaration import ElementwiseDeclaration
from kspec.model.manifest import declaration_data, declaration_of
from tests.devices import ArrayDevice

ADD = kspec.ElementwiseKernel("T x", "T y, T z", "z = x; y += x", "add_to_y")
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y += a", "0", "total_to_y")
MESSAGE = (
    "{}: output y begins with its old value, which a new array does not have; pass out=, or let "
    "the kernel set it first ('y = ...')"
)


def test_declaration() -> None:
    assert ADD.declaration.updates == TOTAL.declaration.updates == ("y",)
    again = declaration_of(declaration_data(ADD.declaration))
    assert isinstance(again, ElementwiseDeclaration) and again == ADD.declaration
    plain = kspec.ElementwiseKernel("T x", "T y", "y = x", "assigns")
    assert "updates" not in declaration_data(plain.declaration)
    assert pickle.loads(pickle.dumps(TOTAL)).declaration == TOTAL.declaration


def test_raw_outputs_and_views_are_not_looked_at() -> None:
    raw = kspec.ElementwiseKernel("T x", "raw T y", "y[i] += x", "adds_to_raw")
    seen = kspec.ElementwiseKernel("T x", "T y", "_raw_y[i] = x; y += x", "adds_to_view")
    assert raw.declaration.updates == seen.declaration.updates == ()


class TestElementwise:
    def test_given_outputs(self, device: ArrayDevice) -> None:
        x, y, z = device.array([1.0, 2.0]), device.array([3.0, 4.0]), device.zeros(2)
        for _ in range(3):
            ADD(x, y, z)
            ADD(x, out=(y, z))
        np.testing.assert_array_equal(device.numpy(y), [9, 16])
        np.testing.assert_array_equal(device.numpy(z), [1, 2])

    @pytest.mark.parametrize("sanitize", [None, "init"])
    def test_new_outputs(self, device: ArrayDevice, sanitize: str | None) -> None:
        checks = {"sanitize": sanitize} if sanitize and device.place == "host" else {}
        for shape in ((2, 3), (0,), ()):
            with pytest.raises(kspec.ArgumentTypeError) as caught:
                ADD(device.zeros(shape), **checks)
            assert str(caught.value) == MESSAGE.format("add_to_y")
        with pytest.raises(kspec.ArgumentTypeError, match="add_to_y: output y begins with"):
            ADD.bind(device.zeros(3))

    def test_after_calls_that_gave_them(self, device: ArrayDevice) -> None:
        x = device.zeros(3)
        for _ in range(3):
            ADD(x, device.zeros(3), device.zeros(3))
            with pytest.raises(kspec.ArgumentTypeError, match="pass out="):
                ADD(x)

    def test_some_elements_are_set_only(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "if (x > 1) y += x; else y = 7", "some")
        got = kernel(device.array([0.0, 1.0]))
        np.testing.assert_array_equal(device.numpy(got), [7, 7])

    def test_nothing_to_do(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "  // nothing", "nothing")
        y = device.array([1.0, 2.0])
        np.testing.assert_array_equal(device.numpy(kernel(device.zeros(2), y)), [1, 2])
        with pytest.raises(kspec.ArgumentTypeError, match="nothing: output y begins with its old"):
            kernel(device.zeros(2))

    def test_fused(self) -> None:
        @kspec.fuse(device="host")
        def function(x: Any) -> Any:
            return ADD(x)[0] + 1

        with pytest.raises(kspec.KspecError, match="its output y begins with its old value"):
            function(np.ones(3))


CALLS: dict[str, Any] = {
    "reduce": lambda x, n, **out: TOTAL(x, **out),
    "scan": lambda x, n, **out: TOTAL.scan(x, **out),
    "segments": lambda x, n, **out: TOTAL.segments(x, n([0, 1, 4], "int64"), **out),
    "by_key": lambda x, n, **out: TOTAL.by_key(x, n([0, 1, 1, 1], "int64"), 2, **out),
    "window": lambda x, n, **out: TOTAL.window(x, 2, **out),
}
RESULTS: dict[str, list[float] | float] = {
    "reduce": 20.0,
    "scan": [11, 13, 16, 20],
    "segments": [11, 19],
    "by_key": [11, 19],
    "window": [13, 15, 17],
}


@pytest.mark.parametrize("form", CALLS)
def test_forms(device: ArrayDevice, form: str) -> None:
    x, expected = device.array([1.0, 2.0, 3.0, 4.0]), np.array(RESULTS[form])
    for _ in range(3):
        with pytest.raises(kspec.ArgumentTypeError) as caught:
            CALLS[form](x, device.array)
        assert str(caught.value) == MESSAGE.format("total_to_y")
        y = device.array(np.full(expected.shape, 10.0))
        CALLS[form](x, device.array, out=y)
        np.testing.assert_array_equal(device.numpy(y), expected)


SOME = kspec.ReductionKernel(
    "T x", "T y", "x", "a + b", "if (y < 0) y -= a; else y = a", "0", "some_scanned"
)
WIDE = kspec.ReductionKernel(
    "T x",
    "T y",
    "Wide(x)",
    "Wide(a.sum + b.sum)",
    "y = y < 0 ? y - a.sum : a.sum",
    "Wide(0)",
    "wide_scanned",
    reduce_type="Wide",
    preamble="""
    struct Wide {
      long long sum, rest[5];
      __device__ Wide(long long x = 0) : sum(x), rest{} {}
    };
    """,
)


@pytest.mark.parametrize("kernel", [SOME, WIDE], ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5,), 0), ((4099,), 0), ((1 << 20,), 0), ((7, 1000), 1), ((300, 64), 0), ((40, 9000), 0)],
)
@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_scans_that_may_read(
    device: ArrayDevice, kernel: Any, shape: tuple[int, ...], axis: int, dtype: str
) -> None:
    rng = np.random.default_rng(7)
    x = rng.integers(0, 3, shape).astype(dtype)
    old = rng.integers(-9, 9, shape).astype(dtype)
    total = np.cumsum(x, axis, dtype=dtype)
    for reverse in (False, True):
        if reverse:
            total = np.flip(np.cumsum(np.flip(x, axis), axis, dtype=dtype), axis)
        y = device.array(old)
        kernel.scan(device.array(x), y, axis=axis, reverse=reverse)
        wanted = np.where(old < 0, old - total, total).astype(dtype)
        np.testing.assert_array_equal(device.numpy(y), wanted)


class TestOtherLibraries:
    def test_dask(self) -> None:
        da = pytest.importorskip("dask.array")
        apply = importlib.import_module("kspec.dask").apply
        x = da.ones(4, chunks=2)
        for kernel, options in ((ADD, {}), (TOTAL, {"axis": 0}), (TOTAL.scan, {})):
            with pytest.raises(kspec.ArgumentTypeError, match="y begins with its old value"):
                apply(kernel, x, **options)

    def test_sharded(self) -> None:
        for kernel in (ADD, TOTAL):
            with pytest.raises(kspec.ArgumentTypeError, match="y begins with its old value"):
                sharded.apply(kernel, [np.ones(3), np.ones(3)])

    def test_jax(self) -> None:
        jax = pytest.importorskip("jax")
        function = importlib.import_module("kspec.jax").function
        for kernel in (ADD, TOTAL):
            with pytest.raises(kspec.ArgumentTypeError, match="y begins with its old value"):
                function(kernel)(jax.numpy.ones(3))
