"""The names of CuPy's device library that generated kernels may use, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec import ElementwiseKernel, RawKernel, ReductionKernel, checking
from tests.devices import ArrayDevice

INTEGERS = ["int32", "int64", "uint32", "uint64"]


def corners(dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        finite = [0.0, 0.1, 0.3, 1.0, 2.5, 3.0, 7.0, 1e-30, 3e30]
        return np.array([*finite, *(-x for x in finite), np.inf, -np.inf, np.nan], dtype)
    info = np.iinfo(dtype)
    small = [0, 1, 2, 3, 7, 10, 100]
    values = [*small, *(-x for x in small), info.max, info.max - 1, info.min, info.min + 1]
    return np.array(sorted({x for x in values if info.min <= x <= info.max}), dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
def test_floor_divide(dtype: str, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("T x, T y", "T z", "z = _floor_divide(x, y)", "floor_divided")
    left, right = (side.ravel() for side in np.meshgrid(corners(dtype), corners(dtype)))
    result = place.numpy(kernel(place.array(left), place.array(right)))
    expected = np.floor_divide(left, right)
    np.testing.assert_array_equal(result, expected)
    if dtype.startswith("float"):
        there = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(result[there]), np.signbit(expected[there]))


def test_floor_divide_of_narrow_types(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("T x, T y", "T z", "z = _floor_divide(x, y)", "floor_narrow")
    for dtype in ("int8", "uint16", "float16"):
        x, y = np.array([7, 100, 9], dtype), np.array([2, 7, 0 if dtype != "float16" else 4], dtype)
        result = place.numpy(kernel(place.array(x), place.array(y)))
        np.testing.assert_array_equal(result, [3, 14, 0 if dtype != "float16" else 2])


def test_grid_stride_loop(place: ArrayDevice) -> None:
    checked = 'static_assert(sizeof(k) == 8 && decltype(k)(-1) < 0, "64 bits, signed");'
    kernel = ElementwiseKernel(
        "raw T x, int64 many",
        "raw T y",
        "// nothing else",
        "strided_copy",
        loop_prep=f"CUPY_FOR(k, many) {{ {checked} y[k] = x[k]; }}",
    )
    x, y = np.arange(1000), place.empty(1000, "int64")
    kernel(place.array(x), 1000, y, size=10)
    np.testing.assert_array_equal(place.numpy(y), x)


def test_constants(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel(
        "",
        "float32 a, float32 b, float64 c, float64 d, float64 e",
        "a = CUDART_INF_F; b = CUDART_NAN_F; c = CUDART_INF; d = CUDART_NAN; e = M_PI",
        "constants",
    )
    outputs = [place.empty(1, dtype) for dtype in ("f4", "f4", "f8", "f8", "f8")]
    kernel(*outputs)
    values = [place.numpy(output)[0] for output in outputs]
    np.testing.assert_array_equal(values, [np.inf, np.nan, np.inf, np.nan, np.pi])


def test_math_constants_may_be_included_too(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel(
        "", "float64 y", "y = -CUDART_INF", "included", preamble="#include <math_constants.h>"
    )
    if not place.is_host:
        pytest.importorskip("nvidia")
    assert place.numpy(kernel(place.empty(1)))[0] == -np.inf


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "bfloat16", "float32", "float64"])
def test_atomic_add(dtype: str, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("T x, int32 bin", "raw T y", "atomicAdd(&y[bin], x)", "added")
    x = (np.arange(120) % 3).astype(_numpy(dtype))
    y = place.zeros(4, _numpy(dtype))
    kernel(place.array(x), place.array(np.arange(120, dtype=np.int32) % 4), y)
    expected = [x.astype(np.float64)[k::4].sum() for k in range(4)]
    np.testing.assert_array_equal(place.numpy(y).astype(np.float64), expected)


def test_atomic_add_of_large_and_negative_integers(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel(
        "int64 x", "raw int64 y, int64 old", "old = atomicAdd(&y[0], x)", "added_long"
    )
    y, old = place.array([2**40]), place.empty(1, "int64")
    kernel(place.array([-(2**41) - 1]), y, old)
    assert place.numpy(y)[0] == -(2**40) - 1
    assert place.numpy(old)[0] == 2**40


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["Min", "Max"])
def test_atomic_minimum_and_maximum(name: str, dtype: str, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("T x", "raw T y", f"atomic{name}(&y[0], x)", f"extreme_{name}")
    best, fold = (np.inf, np.min) if name == "Min" else (-np.inf, np.max)
    for x in (np.linspace(-3, 5, 1001), -np.linspace(3, 5, 99), np.linspace(3, 5, 99)):
        x = np.random.default_rng(0).permutation(x).astype(dtype)
        y = place.array([best], dtype)
        kernel(place.array(x), y)
        assert place.numpy(y)[0] == fold(x)


@pytest.mark.parametrize(("name", "first", "second"), [("Max", 0, 1), ("Min", 1, 0)])
def test_atomics_compare_doubles_as_doubles(
    name: str, first: int, second: int, place: ArrayDevice
) -> None:
    # These are one number in single precision.
    near = [1.0, np.nextafter(1.0, 2.0)]
    assert np.float32(near[0]) == np.float32(near[1])
    kernel = ElementwiseKernel(
        "float64 x", "raw float64 y, float64 old", f"old = atomic{name}(&y[0], x)", f"near_{name}"
    )
    y, old = place.array([near[first]]), place.empty(1)
    kernel(place.array([near[second]]), y, old)
    assert place.numpy(y)[0] == near[second]
    assert place.numpy(old)[0] == near[first]
    kernel(place.array([near[first]]), y, old)
    assert place.numpy(y)[0] == near[second]


@pytest.mark.parametrize("name", ["Min", "Max"])
def test_atomics_prefer_numbers_to_nan(name: str, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("T x", "raw T y", f"atomic{name}(&y[0], x)", f"nan_{name}")
    for start, x in ((np.nan, 2.0), (2.0, np.nan)):
        y = place.array([start])
        kernel(place.array([x]), y)
        assert place.numpy(y)[0] == 2


def test_atomics_of_the_preamble_are_preferred(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel(
        "float64 x",
        "raw float64 y",
        "atomicMax(&y[0], x)",
        "own_atomic",
        preamble="__device__ double atomicMax(double* p, double v) { return *p = v + 1; }",
    )
    y = place.zeros(1)
    kernel(place.array([5.0]), y)
    assert place.numpy(y)[0] == 6


def test_atomics_that_do_not_exist_do_not_compile(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("complex64 x", "raw complex64 y", "atomicMax(&y[0], x)", "no_atomic")
    with pytest.raises(kspec.CompileError, match="atomicMax"):
        kernel(place.zeros(1, "complex64"), place.zeros(1, "complex64"))


@pytest.mark.parametrize(
    "name",
    [
        "exp",
        "log",
        "log10",
        "log2",
        "log1p",
        "expm1",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "asin",
        "acos",
        "atan",
        "asinh",
        "acosh",
        "atanh",
        "conj",
        "rint",
    ],
)
def test_complex_functions(name: str, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("T x", "T y", f"y = {name}(x)", f"complex_{name}")
    values = [0.3, -0.7, 1.9]
    x = np.array([complex(a, b) for a in values for b in values])
    oracle = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"} | {
        "asinh": "arcsinh",
        "acosh": "arccosh",
        "atanh": "arctanh",
    }
    expected = getattr(np, oracle.get(name, name))(x)
    for dtype, rtol in (("complex64", 5e-6), ("complex128", 1e-13)):
        result = place.numpy(kernel(place.array(x, dtype)))
        np.testing.assert_allclose(result, expected, rtol=rtol)


@pytest.mark.parametrize(
    ("name", "oracle"), [("real", np.real), ("imag", np.imag), ("abs", np.abs), ("arg", np.angle)]
)
def test_parts_of_complex_numbers(name: str, oracle: Any, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("complex128 x", "float64 y", f"y = {name}(x)", f"part_{name}")
    x = np.array([3 - 4j, -1 + 0.5j, 2j])
    np.testing.assert_allclose(place.numpy(kernel(place.array(x))), oracle(x), rtol=1e-14)


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float16", "bfloat16", "float32"])
def test_classification(name: str, dtype: str, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("T x", "bool y", f"y = {name}(x)", f"is_{name}")
    parts = [0.0, 1.0, np.inf, -np.inf, np.nan]
    x: Any = np.array(parts)
    if dtype.startswith("complex"):
        x = np.array([complex(a, b) for a in parts for b in parts])
    result = place.numpy(kernel(place.array(x.astype(_numpy(dtype)))))
    np.testing.assert_array_equal(result, getattr(np, name)(x))


@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_of_complex_numbers(name: str, place: ArrayDevice) -> None:
    kernel = ReductionKernel("T x", "T y", "x", f"{name}(a, b)", "y = a", None, f"complex_{name}")
    x = np.array([1 + 2j, 1 - 2j, complex(np.nan, 5), -1 + 9j, 1 + 1j, -1 - 1j])
    expected = -1 - 1j if name == "min" else 1 + 2j
    assert place.numpy(kernel(place.array(x))) == expected


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_functions_of_16_bit_floats(dtype: str, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel(
        "T x, T y",
        "T low, T high, T far, T next, bool zero, bool negative, uint16 bits, T back",
        "low = min(x, y); high = fmax(x, y); far = copysign(x, y); next = nextafter(x, y);"
        "zero = iszero(x); negative = signbit(y); bits = x.to_bits(); back = T::from_bits(bits)",
        "half_functions",
    )
    x = np.array([1.0, 0.0, -2.0, np.nan], _numpy(dtype))
    y = np.array([-1.0, 3.0, -0.0, 1.0], _numpy(dtype))
    low, high, far, after, zero, negative, bits, back = map(
        place.numpy, kernel(place.array(x), place.array(y))
    )
    np.testing.assert_array_equal(low.astype(float), [-1, 0, -2, 1])
    np.testing.assert_array_equal(high.astype(float), [1, 3, 0, 1])
    np.testing.assert_array_equal(far.astype(float), [-1, 0, -2, np.nan])
    np.testing.assert_array_equal(zero, [False, True, False, False])
    np.testing.assert_array_equal(negative, [True, False, True, False])
    np.testing.assert_array_equal(bits, x.view(np.uint16))
    np.testing.assert_array_equal(back.view(np.uint16), bits)
    step = np.nextafter(x, y).astype(float)
    np.testing.assert_array_equal(after.astype(float), step)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_atomic_sums_of_16_bit_floats(dtype: str, size: int, place: ArrayDevice) -> None:
    add = ElementwiseKernel("T x, int32 j", "raw T y", "atomicAdd(&y[j], x)", "histogram")
    numbers = np.random.default_rng(size)
    j = numbers.integers(0, size, 200).astype(np.int32)
    x = numbers.choice([-1, 1], 200)  # sums are exact, in any order
    y = np.full(size + 2, 9, _numpy(dtype))
    out = place.array(y)
    add(place.array(x.astype(y.dtype)), place.array(j), out[1:-1])
    np.add.at(expected := y.astype(float), j + 1, x)
    np.testing.assert_array_equal(place.numpy(out).astype(float), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_atomic_sums_of_16_bit_floats_are_rounded_once(dtype: str, place: ArrayDevice) -> None:
    add = ElementwiseKernel("T x", "raw T y, T before", "before = atomicAdd(&y[i], x)", "rounded")
    bits = np.random.default_rng(3).integers(0, 2**16, (2, 20000)).astype(np.uint16)
    x, y = bits.view(_numpy(dtype))
    out, before = place.array(y), place.array(x)
    add(place.array(x), out, before)
    with np.errstate(all="ignore"):
        expected = (x.astype("f4") + y.astype("f4")).astype(x.dtype)
    np.testing.assert_array_equal(place.numpy(out).astype("f4"), expected.astype("f4"))
    np.testing.assert_array_equal(place.numpy(before).astype("f4"), y.astype("f4"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("modes", ["memory", "race", "init"])
def test_atomic_sums_of_16_bit_floats_leave_neighbours_alone(dtype: str, modes: str) -> None:
    kernel = RawKernel(
        f"""
        #include <cupy/{dtype}.cuh>
        extern "C" __global__ void beside({dtype}* x, {dtype}* y) {{
          __shared__ {dtype} sums[3];
          if (threadIdx.x < 3) sums[threadIdx.x] = {dtype}(0.0f);
          __syncthreads();
          atomicAdd(&sums[threadIdx.x % 3], {dtype}(1.0f));
          if (threadIdx.x == 0) x[0] = {dtype}(3.0f);
          if (threadIdx.x == 40) atomicAdd(&x[1], {dtype}(2.0f));
          atomicAdd(y, {dtype}(1.0f));
          __syncthreads();
          if (threadIdx.x < 3) x[2 + threadIdx.x] = sums[threadIdx.x];
        }}""",
        "beside",
    )
    x, y = np.zeros(5, _numpy(dtype)), np.zeros(1, _numpy(dtype))
    with checking(modes):
        kernel((1,), (64,), (x, y))
    assert (x.tolist(), y.tolist()) == ([3, 2, 22, 21, 21], [64])


def _numpy(dtype: str) -> np.dtype[Any]:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
