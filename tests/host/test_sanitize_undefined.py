"""sanitize="undefined": operations that C++ leaves undefined are faults with their line."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import jit
from tests.host.checked import COMPILERS, FINE, Checked, place_of

TEXT = (
    FINE
    + r"""
extern "C" __global__ void shift(int* x, int i) { x[0] = 1 << i; }
extern "C" __global__ void divide(int* x, int i) { x[0] = 1 / i; }
extern "C" __global__ void local(int* x, int i) { int a[4] = {1, 2, 3, 4}; x[0] = a[i]; }
extern "C" __global__ void shared(int* x, int i) {
  __shared__ int s[8];
  s[i] = 1;
  x[0] = s[0];
}
extern "C" __global__ void convert(int* x, float f) { x[0] = (int)f; }
extern "C" __global__ void misaligned(char* x, int i) { *(int*)(x + i) = 1; }
extern "C" __global__ void null(int* x) { *x = 1; }
extern "C" __global__ void boolean(bool* b, int* x) { x[0] = b[0] ? 1 : 2; }
extern "C" __global__ void overflow(int* x, int i) { x[0] = i + 2147483647; }
extern "C" __global__ void difference(int* x, int i) { x[0] = -2147483647 - i; }
extern "C" __global__ void product(int* x, int i) { x[0] = x[i * 100000]; }
extern "C" __global__ void wide(long long* x, int i) { x[0] = 3000000000000000000ll * (long long)i; }
extern "C" __global__ void negation(int* x, int i) { x[0] = -i; }
extern "C" __global__ void convert_double(int* x, double d) { x[0] = (long long)d; }
extern "C" __global__ void wraps(int* x, int i) { x[0] = 4000000000u * (unsigned)i + 4000000000u; }
extern "C" __global__ void short_sum(int* x, int i) { short s = 30000; s += i; x[0] = s; }
"""
)
INTS = np.zeros(64, np.int32)


@pytest.fixture(params=COMPILERS)
def program(request: pytest.FixtureRequest) -> Checked:
    return Checked(TEXT, "undefined", request.param)


@pytest.mark.parametrize(
    ("name", "arguments", "words", "snippet"),
    [
        ("shift", (INTS, 40), "shift of 1 of type 'int' by 40 bits", "1 << i"),
        ("shift", (INTS, -1), "shift of 1 of type 'int' by -1 bits", "1 << i"),
        ("divide", (INTS, 0), "integer division by zero: 1 / 0", "1 / i"),
        ("local", (INTS, 4), "index 4 is out of bounds of an array of type 'int", "a[i]"),
        ("local", (INTS, -1), "index -1 is out of bounds of an array of type 'int", "a[i]"),
        ("shared", (INTS, 8), "index 8 is out of bounds of an array of type 'int", "s[i] = 1"),
        (
            "convert",
            (INTS, ctypes.c_float(3e10)),
            "e+10 of type 'float' is out of range of type 'int'",
            "(int)f",
        ),
        (
            "convert_double",
            (INTS, ctypes.c_double(-1e300)),
            "e+300 of type 'double' is out of range of type 'long",
            "(long long)d",
        ),
        ("overflow", (INTS, 5), "is out of range of type 'int'", "2147483647;"),
        ("difference", (INTS, 5), "-2147483647 - 5 is out of range", "-2147483647 - i;"),
        ("product", (INTS, 50000), "50000 * 100000 is out of range of type 'int'", "i * 100000]"),
        ("wide", (INTS, 5), "is out of range of type 'long", "* (long"),
        ("negation", (INTS, -(2**31)), "-(-2147483648) is out of range of type 'int'", "= -i;"),
        ("misaligned", (INTS, 2), "for type 'int', which needs 4 bytes", "(x + i)"),
        ("null", (ctypes.c_void_p(0),), "store to a null pointer of type 'int'", "*x = 1"),
        ("boolean", (np.full(1, 7, np.uint8), INTS), "7 is no value of type 'bool'", "b[0] ?"),
    ],
)
def test_operation(
    program: Checked, name: str, arguments: tuple[object, ...], words: str, snippet: str
) -> None:
    fault = program.fault(name, 1, 1, *arguments)
    assert fault.kind == "undefined-behaviour"
    assert words in fault.message
    assert fault.message.endswith(f"at {place_of(TEXT, snippet)} [block (0,0,0) thread (0,0,0)]")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shift", 31),
        ("divide", 3),
        ("local", 3),
        ("overflow", 0),
        ("misaligned", 8),
        ("wraps", 7),
        ("short_sum", 30000),
    ],
)
def test_no_alarm(program: Checked, name: str, value: int) -> None:
    program(name, 1, 1, INTS.copy(), value)


BIG = np.full(3, 2**31 - 1, np.int32)


def test_generated_and_jitted_kernels() -> None:
    doubled = kspec.ElementwiseKernel("T x", "T y", "y = x + x", "doubled")
    total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "wide_total")

    @jit.rawkernel()
    def pick(x, n):  # type: ignore[no-untyped-def]
        x[0] = x[n * n * n]

    jitted: Any = pick
    for call in (
        lambda: doubled(BIG),
        lambda: total(BIG),
        lambda: jitted((1,), (1,), (BIG.copy(), np.int32(2000))),
    ):
        with kspec.checking("undefined"), pytest.raises(kspec.HostFault) as caught:
            call()
        assert caught.value.kind == "undefined-behaviour"
        assert "is out of range of type 'int'" in str(caught.value)
    # By default integers wrap around, as on a GPU and in NumPy; in fused functions they always do.
    assert doubled(BIG).tolist() == [-2] * 3
    with kspec.checking("undefined"):
        fused: Any = kspec.fuse()(lambda x: x + x * x)
        assert fused(BIG).tolist() == [-(2**31)] * 3
