"""sanitize="undefined": operations that C++ leaves undefined are faults with their line."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

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
"""
)
INTS = np.zeros(64, np.int32)


@pytest.fixture(params=COMPILERS)
def program(request: pytest.FixtureRequest) -> Checked:
    return Checked(TEXT, "undefined", request.param)


@pytest.mark.parametrize(
    ("name", "arguments", "words", "snippet"),
    [
        ("shift", (INTS, 40), "shift of a value of type 'int' by 40 bits", "1 << i"),
        ("shift", (INTS, -1), "shift of a value of type 'int' by -1 bits", "1 << i"),
        ("divide", (INTS, 0), "integer division by zero", "1 / i"),
        ("local", (INTS, 4), "index 4 is out of bounds of an array of type 'int", "a[i]"),
        ("local", (INTS, -1), "index -1 is out of bounds of an array of type 'int", "a[i]"),
        ("shared", (INTS, 8), "index 8 is out of bounds of an array of type 'int", "s[i] = 1"),
        (
            "convert",
            (INTS, ctypes.c_float(3e10)),
            "a value of type 'float' is out of range of type 'int'",
            "(int)f",
        ),
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
    [("shift", 31), ("divide", 3), ("local", 3), ("overflow", 5), ("misaligned", 8)],
)
def test_no_alarm(program: Checked, name: str, value: int) -> None:
    program(name, 1, 1, INTS.copy(), value)
