"""What an argument may be: every kind of value, in every position, and how scalars convert."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kspec
from tests.contract.refusals import Refusal, check, rows
from tests.devices import ArrayDevice

ADD = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add")
DOT = kspec.ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "dot")
RAW = kspec.RawKernel(
    'extern "C" __global__ void take(double* x, double* y) { if (x && y) x[0] = y[0]; }', "take"
)

# No kernel takes these, wherever they stand.
NEVER = {
    "str": "1",
    "bytes": b"1",
    "list": [1.0, 2.0, 3.0],
    "tuple": (1.0, 2.0, 3.0),
    "range": range(3),
    "set": {1.0},
    "dict": {"x": 1.0},
    "object": object(),
    "class": float,
    "function": len,
    "ellipsis": ...,
    "slice": slice(3),
    "decimal": Decimal(1),
    "fraction": Fraction(1),
    "memoryview": memoryview(b"12345678"),
    "numpy-str": np.str_("1"),
    "numpy-bytes": np.bytes_(b"1"),
    "datetime64": np.datetime64("2020-01-01"),
    "timedelta64": np.timedelta64(1, "s"),
}
TYPE = (kspec.ArgumentTypeError, TypeError)


def _raw(*arguments: Any) -> None:
    RAW((1,), (1,), arguments)


def _kinds(values: dict[str, Any]) -> list[Refusal]:
    """Return every value as an input and as an output of both kernels."""
    positions: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
        "elementwise-input": (ADD, lambda p, v: (p.empty(3), v), "add: argument y must be an"),
        "elementwise-output": (
            ADD,
            lambda p, v: (p.empty(3), p.empty(3), v),
            "add: argument z must be an array",
        ),
        "reduction-input": (DOT, lambda p, v: (p.empty(3), v), "dot: argument y must be an array"),
        "reduction-output": (
            DOT,
            lambda p, v: (p.empty(3), p.empty(3), v),
            "dot: argument z must be an array",
        ),
    }
    return [
        Refusal(f"{name}-{where}", kernel, lambda p, v=value, m=make: m(p, v), TYPE, message)
        for where, (kernel, make, message) in positions.items()
        for name, value in values.items()
    ]


@rows(_kinds({**NEVER, "none": None}))
def test_values_that_no_kernel_takes(row: Refusal, place: ArrayDevice, launches: list[str]) -> None:
    check(row, place, launches)


_UNPACKABLE = set(NEVER) - {"numpy-str", "numpy-bytes", "datetime64", "timedelta64"}


@rows(
    [
        Refusal(name, _raw, lambda p, v=NEVER[name]: (p.empty(1), v), TYPE, "take: argument 1")
        for name in sorted(_UNPACKABLE)
    ]
)
def test_values_that_no_raw_kernel_takes(
    row: Refusal, place: ArrayDevice, launches: list[str]
) -> None:
    check(row, place, launches)


NUMBERS = [True, 2, 2.5, np.bool_(True), np.int8(2), np.uint64(2), np.float16(2.5), np.float64(2.5)]
NUMBERS += [ml_dtypes.bfloat16(2.5)]


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: f"{type(value).__name__}")
def test_numbers_are_inputs_of_both_kernels(value: Any, place: ArrayDevice) -> None:
    x = np.arange(4.0)
    np.testing.assert_array_equal(place.numpy(ADD(place.array(x), value)), x + float(value))
    np.testing.assert_array_equal(place.numpy(ADD(value, place.array(x))), x + float(value))
    np.testing.assert_array_equal(place.numpy(DOT(place.array(x), value)), 6 * float(value))


def test_subclasses_are_arrays_and_give_plain_ones() -> None:
    class Mine(np.ndarray):
        pass

    given = np.zeros(3).view(Mine)
    assert type(ADD(np.ones(3).view(Mine), 1)) is np.ndarray
    assert type(DOT(np.ones(3).view(Mine), 1)) is np.ndarray
    assert ADD(np.ones(3), 1, given) is given
    np.testing.assert_array_equal(given, [2, 2, 2])


class TestScalarConversion:
    """By NumPy's assignment rules, which are not those of casting."""

    @pytest.mark.parametrize(
        ("dtype", "value", "error"),
        [
            ("int8", 128, OverflowError),
            ("int8", -129, OverflowError),
            ("int32", 2**31, OverflowError),
            ("int8", np.int64(128), OverflowError),
            ("uint8", np.uint16(256), OverflowError),
            ("int64", np.uint64(2**63), OverflowError),
            ("uint8", -1, OverflowError),
            ("uint64", -1, OverflowError),
            ("uint32", np.int8(-1), OverflowError),
            ("int64", 2**63, OverflowError),
            ("uint64", 2**64, OverflowError),
            ("int64", -(2**63) - 1, OverflowError),
            ("float64", 2**64, OverflowError),
            ("float32", 2**64, OverflowError),
            ("float64", -(2**63) - 1, OverflowError),
            ("complex128", 2**64, OverflowError),
            ("bool", 2**64, OverflowError),
            ("int32", float("inf"), OverflowError),
            ("int32", 1e20, OverflowError),
            ("int32", float("nan"), ValueError),
            ("uint8", np.float32("nan"), ValueError),
            ("int64", np.float64("nan"), ValueError),
            ("float32", 1j, TypeError),
            ("float64", 1 + 0j, TypeError),
            ("int32", 1j, TypeError),
        ],
    )
    @pytest.mark.parametrize("kernel", [ADD, DOT], ids=["elementwise", "reduction"])
    def test_values_that_do_not_fit(
        self,
        kernel: Any,
        dtype: str,
        value: Any,
        error: type[Exception],
        place: ArrayDevice,
        launches: list[str],
    ) -> None:
        out = place.zeros(2 if kernel is ADD else (), dtype)
        with pytest.raises(error):
            kernel(place.zeros(2, dtype), value, out)
        assert launches == []
        np.testing.assert_array_equal(place.numpy(out), np.zeros(out.shape, dtype))

    @pytest.mark.parametrize(
        ("dtype", "value", "expected"),
        [
            ("int32", 2.7, 2),
            ("int32", -2.7, -2),
            ("int32", np.float32(2.7), 2),
            ("uint8", 255, 255),
            ("int8", np.uint64(127), 127),
            ("uint64", 2**64 - 1, 2**64 - 1),
            ("int64", -(2**63), -(2**63)),
            ("bool", 2, True),
            ("bool", 0.5, True),
            ("bool", 0, False),
            ("int32", True, 1),
            ("float32", np.float64(0.1), np.float32(0.1)),
            ("float32", 0.1, np.float32(0.1)),
            ("float16", 0.1, np.float16(0.1)),
            ("float64", 2**53 + 1, 2.0**53),
            ("complex64", 3, 3 + 0j),
            ("complex64", 1.5 - 2j, 1.5 - 2j),
            ("float64", float("inf"), float("inf")),
        ],
    )
    def test_values_that_do(
        self, dtype: str, value: Any, expected: Any, place: ArrayDevice
    ) -> None:
        second = kspec.ElementwiseKernel("T x, T y", "T z", "z = y", "second")
        z = place.numpy(second(place.zeros(2, dtype), value))
        np.testing.assert_array_equal(z, np.array([expected] * 2, dtype))

    @pytest.mark.parametrize("kernel", [ADD, DOT], ids=["elementwise", "reduction"])
    def test_numpy_complex_numbers_lose_their_imaginary_part(
        self, kernel: Any, place: ArrayDevice
    ) -> None:
        with pytest.warns(np.exceptions.ComplexWarning, match="imaginary part"):
            z = kernel(place.array([1.0]), np.complex128(3 + 4j))
        np.testing.assert_array_equal(place.numpy(z).ravel(), [4 if kernel is ADD else 3])

    def test_no_check_of_the_type_of_scalars(self, place: ArrayDevice) -> None:
        fixed = kspec.ElementwiseKernel("float32 x, int8 k", "float32 y", "y = x + k", "fixed")
        y = place.numpy(fixed(place.zeros(2, "float32"), np.float64(3.9)))
        np.testing.assert_array_equal(y, [3, 3])

    def test_nothing_is_converted_for_an_empty_loop(
        self, place: ArrayDevice, launches: list[str]
    ) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for value in (1000, float("nan"), 1j, 2**64, np.complex64(1j)):
                assert ADD(place.zeros(0, "int8"), value).shape == (0,)
                assert DOT(place.zeros((0, 3), "int8"), value, axis=1).shape == (0,)
        assert launches == []


class TestUnsupportedElements:
    """dtypes that no kernel knows: both a ValueError, as in CuPy, and a TypeError."""

    @pytest.mark.parametrize("kernel", [ADD, DOT], ids=["elementwise", "reduction"])
    @pytest.mark.parametrize(
        "dtype", ["longdouble", "clongdouble", "U3", "S3", "O", "datetime64[s]", "timedelta64[s]"]
    )
    def test_numpy_dtypes(self, dtype: str, kernel: Any, launches: list[str]) -> None:
        with pytest.raises(ValueError, match="Unsupported dtype") as caught:
            kernel(np.zeros(2, dtype), 1)
        assert isinstance(caught.value, kspec.ArgumentTypeError)
        assert launches == []

    @pytest.mark.parametrize("kernel", [ADD, DOT], ids=["elementwise", "reduction"])
    @pytest.mark.parametrize(
        "dtype",
        [
            np.dtype([("small", "i1"), ("large", "f8")]),
            np.dtype({"names": ["x"], "formats": ["f8"], "offsets": [4], "itemsize": 16}),
            np.dtype([("x", "f4"), ("y", "O")], align=True),
        ],
        ids=["packed", "misaligned", "object"],
    )
    def test_structures_that_no_device_could_read(
        self, dtype: Any, kernel: Any, launches: list[str]
    ) -> None:
        with pytest.raises(ValueError) as caught:
            kernel(np.zeros(2, dtype), 1)
        assert isinstance(caught.value, kspec.ArgumentTypeError)
        assert launches == []

    @pytest.mark.parametrize("kernel", [ADD, DOT], ids=["elementwise", "reduction"])
    def test_big_endian_arrays(self, kernel: Any, launches: list[str]) -> None:
        with pytest.raises(ValueError, match="not in native byte order"):
            kernel(np.zeros(2, ">f8"), 1)
        assert launches == []


class _Foreign:
    """An object with nothing but the protocol."""

    def __init__(self, **interface: Any) -> None:
        self._interface = interface

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        plain = {"shape": (3,), "typestr": "<f8", "data": (0, False), "version": 3}
        return plain | self._interface


class TestCudaArrayInterface:
    @pytest.mark.parametrize("kernel", [ADD, DOT], ids=["elementwise", "reduction"])
    @pytest.mark.parametrize(
        ("interface", "message"),
        [
            ({"mask": object()}, "masked arrays are not supported"),
            ({"typestr": ">f8"}, "not in native byte order"),
            ({"typestr": "|O8"}, "Unsupported dtype"),
        ],
    )
    def test_what_it_may_not_say(
        self, interface: dict[str, Any], message: str, kernel: Any, launches: list[str]
    ) -> None:
        with pytest.raises(ValueError, match=message) as caught:
            kernel(_Foreign(**interface), 1)
        assert isinstance(caught.value, kspec.ArgumentTypeError)
        assert launches == []

    @pytest.mark.gpu
    def test_in_and_out(self, place: ArrayDevice) -> None:
        if place.is_host:
            pytest.skip("needs a CUDA device")
        x, y = place.array(np.arange(3.0)), place.empty(3)
        foreign = [_Foreign(data=(array.ptr, False)) for array in (x, y)]
        assert ADD(foreign[0], 1, foreign[1]) is foreign[1]
        np.testing.assert_array_equal(place.numpy(y), [1, 2, 3])
        read_only = _Foreign(data=(y.ptr, True))
        with pytest.raises(TypeError, match="read-only"):
            ADD(x, 1, read_only)
        np.testing.assert_array_equal(place.numpy(y), [1, 2, 3])


class TestOtherMemory:
    def test_arrays_of_two_gpus_do_not_mix(self, launches: list[str]) -> None:
        # Nobody looks at the memory before the devices are compared.
        plain = kspec.zeros(3, device="host")
        first, second, total = (
            kspec.DeviceArray(plain._memory, plain.ptr, shape, (8,) * len(shape), plain.dtype, gpu)
            for shape, gpu in (
                ((3,), kspec.Device("cuda", 0)),
                ((3,), kspec.Device("cuda", 1)),
                ((), kspec.Device("cuda", 1)),
            )
        )
        for call in (
            lambda: ADD(first, second),
            lambda: ADD(first, 1, second),
            lambda: DOT(first, second),
            lambda: DOT(first, 1, out=total),
            lambda: _raw(first, second),
        ):
            with pytest.raises(ValueError, match=r"different devices.*cuda:0.*cuda:1") as caught:
                call()
            assert isinstance(caught.value, kspec.DeviceMismatchError)
            assert isinstance(caught.value, TypeError)
        assert launches == []

    @pytest.mark.parametrize("kernel", [ADD, DOT], ids=["elementwise", "reduction"])
    def test_textures_and_surfaces_are_no_numbers(self, kernel: Any, launches: list[str]) -> None:
        channel = kspec.texture.ChannelFormatDescriptor(32, 0, 0, 0, 2)
        array = kspec.texture.CUDAarray(channel, 4, flags=2, device="host")
        resource = kspec.texture.ResourceDescriptor(0, cuArr=array)
        surface = kspec.texture.SurfaceObject(resource)
        texture = kspec.texture.TextureObject(resource, kspec.texture.TextureDescriptor())
        for handle in (surface, texture):
            with pytest.raises(TypeError):
                kernel(np.zeros(3), handle)
            with pytest.raises(TypeError, match="argument z must be an array"):
                kernel(np.zeros(3), 1.0, handle)
        assert launches == []

    @pytest.mark.gpu
    @pytest.mark.parametrize("host", [np.zeros(3), np.zeros(1), np.zeros(())], ids=["3", "1", "0d"])
    def test_numpy_arrays_do_not_mix_with_cuda_arrays(
        self, host: Any, place: ArrayDevice, launches: list[str]
    ) -> None:
        if place.is_host:
            pytest.skip("needs a CUDA device")
        x, out, total = place.zeros(3), place.zeros(3), place.zeros(())
        for call in (
            lambda: ADD(x, host),
            lambda: ADD(host, x),
            lambda: ADD(host, 1, out),
            lambda: ADD(x, 1, host),
            lambda: DOT(x, host),
            lambda: DOT(host, 1, total),
            lambda: DOT(x, 1, out=host),
        ):
            with pytest.raises(TypeError, match="different devices"):
                call()
        assert launches == []
        np.testing.assert_array_equal(place.numpy(out), np.zeros(3))

    @pytest.mark.gpu
    def test_memory_pointers_are_for_raw_kernels(self, launches: list[str]) -> None:
        cupy = pytest.importorskip("cupy")
        x = cupy.arange(3.0)
        with pytest.raises(TypeError, match="argument y must be an array"):
            ADD(x, x.data)
        with pytest.raises(TypeError, match="argument y must be an array"):
            DOT(x, x.data)
        assert launches == []
        _raw(x, x.data + 8)
        assert float(x[0]) == 1


class TestDimensions:
    """Arrays have at most 64 axes, and so have loops."""

    FIRST = kspec.ElementwiseKernel("raw T x", "raw T y", "y[i] = x[0]", "first")

    def test_no_more_than_64(self, launches: list[str]) -> None:
        # NumPy has no such arrays, kspec's own class does not count.
        x, y = (kspec.zeros((1,) * ndim, device="host") for ndim in (65, 64))
        for call in (lambda: ADD(x, 1), lambda: ADD(y, 1, x), lambda: DOT(x, 1), lambda: DOT(1, x)):
            with pytest.raises(ValueError, match="has 65 dimensions; kernels take 64"):
                call()
        for raw in ((x, y), (y, x)):
            with pytest.raises(ValueError, match="has 65 dimensions"):
                self.FIRST(*raw, size=1)
        assert launches == []
        assert ADD(y, 1).shape == (1,) * 64
