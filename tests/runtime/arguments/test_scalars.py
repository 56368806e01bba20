"""Scalars become parameters by the rules of NumPy's assignment: every row, for every type."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kspec
from kspec.errors import ArgumentTypeError
from kspec.model import dtypes
from kspec.runtime.memory import numpy_dtype
from kspec.runtime.schedules import marshal
from tests.devices import ArrayDevice

STRUCT = "{x: float32, n: int16}"
BY_KIND = {
    kind: [row.name for row in dtypes.TABLE if row.kind in kind] for kind in ("iu", "f", "c", "b")
}
INTEGERS, FLOATS, COMPLEX = BY_KIND["iu"], BY_KIND["f"], BY_KIND["c"]
ALL = [row.name for row in dtypes.TABLE]


def converted(value: Any, dtype: str) -> Any:
    return np.frombuffer(marshal.convert_scalar(value, dtype), numpy_dtype(dtype))[0]


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize(
    "kind",
    [
        *(bool, int, float, np.bool_, np.int8, np.uint64, np.float16, np.float32, np.float64),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn),
    ],
)
def test_one_is_one_in_every_type(kind: Any, dtype: str) -> None:
    value = kind(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert converted(value, dtype) == 1


@pytest.mark.parametrize("dtype", INTEGERS)
class TestIntegers:
    def test_the_range(self, dtype: str) -> None:
        limits = np.iinfo(dtype)
        for value in (int(limits.min), int(limits.max)):
            assert converted(value, dtype) == value
        for value in (int(limits.min) - 1, int(limits.max) + 1):
            with pytest.raises(OverflowError):
                converted(value, dtype)
            for scalar in (np.int64, np.uint64):
                if np.iinfo(scalar).min <= value <= np.iinfo(scalar).max:
                    with pytest.raises(OverflowError):
                        converted(scalar(value), dtype)

    @pytest.mark.parametrize("kind", [float, np.float32, np.float64, ml_dtypes.bfloat16])
    def test_fractions_are_cut_off(self, dtype: str, kind: Any) -> None:
        assert converted(kind(2.75), dtype) == 2
        assert converted(kind(-0.75), dtype) == 0
        if dtype.startswith("int"):
            assert converted(kind(-2.75), dtype) == -2

    @pytest.mark.parametrize("kind", [float, np.float16, np.float64, ml_dtypes.float8_e5m2])
    def test_what_no_integer_holds(self, dtype: str, kind: Any) -> None:
        with pytest.raises(ValueError, match="NaN"):
            converted(kind("nan"), dtype)
        with pytest.raises(OverflowError):
            converted(kind("inf"), dtype)
        if kind is float:
            with pytest.raises(OverflowError):
                converted(1e30, dtype)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_complex_to_real(dtype: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"cannot pass 2j as {dtype}"):
        converted(2j, dtype)
    with pytest.raises(TypeError):
        converted(1 + 0j, dtype)
    for kind in (np.complex64, np.complex128):
        with pytest.warns(np.exceptions.ComplexWarning):
            assert converted(kind(2 + 3j), dtype) == 2


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_to_complex(dtype: str) -> None:
    assert converted(1.5 - 2j, dtype) == 1.5 - 2j
    assert converted(np.complex128(1 + 2j), dtype) == 1 + 2j
    assert np.isnan(converted(float("nan"), dtype))


@pytest.mark.parametrize("dtype", ALL)
def test_integers_of_more_than_64_bits(dtype: str) -> None:
    for value in (2**64, -(2**63) - 1, 10**30):
        with pytest.raises(OverflowError, match="too large for a kernel parameter"):
            converted(value, dtype)


def test_messages_name_the_argument(place: ArrayDevice) -> None:
    scaled = kspec.ElementwiseKernel("T x, T factor", "T y", "y = x * factor", "scaled")
    total = kspec.ReductionKernel(
        "T x, int32 power", "T y", "x * power", "a + b", "y = a", "0", "total"
    )
    code = 'extern "C" __global__ void fill(double* x, int n) { x[threadIdx.x] = n; }'
    declared = kspec.RawKernel(code, "fill", params="double* x, int n")
    x = place.zeros(4)
    calls = {
        "scaled: argument factor:": lambda number: scaled(x, number),
        "total: argument power:": lambda number: total(x, number),
        "fill: argument n": lambda number: declared((1,), (4,), (x, number)),
    }
    for where, call in calls.items():
        with pytest.raises(TypeError, match=f"^{where}.* cannot pass 2j as"):
            call(2j)
        for _ in range(3):  # the later ones have a plan
            call(1)
            with pytest.raises(OverflowError, match=f"^{where}.* too large for a kernel parameter"):
                call(2**64)
    with pytest.raises(TypeError, match=r"fill: argument x: .* not in native byte order"):
        declared((1,), (4,), (np.ones(4, ">f8"), 4))


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_rounded_silently(dtype: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (0.1, np.float64(0.1), np.float32(0.1)):
            assert converted(value, dtype) == np.asarray(value).astype(numpy_dtype(dtype))
        assert np.isnan(float(converted(float("nan"), dtype)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_integers_of_64_bits_to_floats(dtype: str) -> None:
    expected = np.float32(2**63).astype(numpy_dtype(dtype)).tobytes()
    for value in (2**63, np.uint64(2**63)):
        assert converted(value, dtype).tobytes() == expected


def test_infinity_in_8_bits() -> None:
    assert np.isnan(float(converted(float("inf"), "float8_e4m3fn")))
    assert np.isposinf(float(converted(float("inf"), "float8_e5m2")))


@pytest.mark.parametrize("value", [0, 2, 0.5, float("nan"), 1j, np.float32(0), np.complex64(0)])
def test_truth(value: Any) -> None:
    assert converted(value, "bool") == bool(value)


class TestStructs:
    def test_a_number_sets_every_field(self) -> None:
        for value in (3, 3.0, np.float64(3), np.int8(3), ml_dtypes.bfloat16(3)):
            assert converted(value, STRUCT).tolist() == (3, 3)
        assert converted(2.5, STRUCT).tolist() == (2.5, 2)

    def test_each_field_is_checked(self) -> None:
        for value in (70000, np.int64(70000), np.float64(70000)):
            with pytest.raises(OverflowError):
                converted(value, STRUCT)
        with pytest.raises(ValueError, match="NaN"):
            converted(np.float32("nan"), STRUCT)
        with pytest.raises(TypeError):
            converted(1j, STRUCT)
        with pytest.warns(np.exceptions.ComplexWarning):
            assert converted(np.complex64(2 + 1j), STRUCT).tolist() == (2, 2)

    def test_structs_field_by_field(self) -> None:
        packed = np.array((1.5, 7), "f8, i1")[()]
        assert converted(packed, STRUCT).tolist() == (1.5, 7)
        same = np.array((1.5, 7), numpy_dtype(STRUCT))[()]
        assert converted(same, STRUCT) == same
        with pytest.raises(TypeError, match="cannot pass"):
            converted(np.array((1, 2, 3), "i4, i4, i4")[()], STRUCT)
        with pytest.raises(TypeError, match="cannot pass raw bytes"):
            converted(np.void(b"abc"), STRUCT)
        for dtype in ("float32", "int8", "complex64", "bfloat16"):
            with pytest.raises(TypeError, match="cannot pass struct"):
                converted(packed, dtype)

    def test_padding_is_zero(self) -> None:
        assert marshal.convert_scalar(1, STRUCT)[6:] == b"\0\0"


class TestRawBytes:
    @pytest.mark.parametrize(
        "value",
        [np.void(b"ab"), np.void(b"abcdefgh"), 7, 2.5, np.int16(3), np.array((1, 2), "i1,i1")[()]],
        ids=repr,
    )
    def test_bytes_are_cut_or_filled_up(self, value: Any) -> None:
        data = np.asarray(value).tobytes()
        assert marshal.convert_scalar(value, "V4") == data[:4].ljust(4, b"\0")


@pytest.mark.parametrize("dtype", [name for name in ALL if name != "bool"])
def test_kernels_see_the_converted_value(dtype: str, place: ArrayDevice) -> None:
    kernel = kspec.ElementwiseKernel("T x, T y", "T z", "z = y", "second_of_two")
    x = place.array(np.zeros(2, numpy_dtype(dtype)))
    z = place.numpy(kernel(x, np.float64(2.0)))
    assert z.dtype == numpy_dtype(dtype)
    np.testing.assert_array_equal(z, np.full(2, 2).astype(z.dtype))
