"""Every row of the tables of syntax, types and built-ins, computed."""

from __future__ import annotations

import cmath
import linecache
import math
import re
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import jit
from tests.devices import ArrayDevice

FULL = 0xFFFFFFFF


@jit.rawkernel()
def assignments(x, n):
    a, b = x[0], x[1]
    a, b = b, a
    x[0], x[1] = a, b
    c = d = n
    c += 1
    e: np.float64 = 0.1
    f: int
    f = n
    t = (c, d)
    t = (t[1], t[0])
    x[2] = t[0] * 10 + t[1]
    x[3] = e
    x[4] = f
    x[-1] = 9
    if n > 2:
        late = n
        x[6] += 0
    else:
        late = -n
    x[5] = late
    row = x
    row[6] += 2.5


def test_assignments(place: ArrayDevice) -> None:
    x = place.array([1, 2, 0, 0, 0, 0, 1, 0], np.float64)
    assignments[1, 1](x, 3)
    assert place.numpy(x).tolist() == [2, 1, 34, 0.1, 3, 3, 3.5, 9]


@jit.rawkernel()
def loops(x, n, step):
    k = 0
    for i in range(n):
        if i == 1:
            continue
        x[k] = i
        k += 1
    for j in range(n, 0, step):
        x[k] = j
        k += 1
        j = 0
    x[k] = j
    for a, b in ((1, 2), (3, 4.5)):
        k += 1
        x[k] = a * b
    for i in jit.range(2, unroll=True):
        k += 1
        x[k] = i
    while k < 20:
        k += 1
        if k > 15:
            break
        x[k] = -1


def test_loops(place: ArrayDevice) -> None:
    x = place.zeros(16, np.float64)
    loops[1, 1](x, 4, -2)
    expected = [0, 2, 3, 4, 2, 0, 2, 13.5, 0, 1, -1, -1, -1, -1, -1, -1]
    assert place.numpy(x).tolist() == expected


@jit.rawkernel()
def conditions(x, y):
    i = jit.threadIdx.x
    v = x[i]
    y[0, i] = 0 <= v < 2
    y[1, i] = v == 1 or (v == 3 and not v > 2)
    y[2, i] = 7 if v else 8
    y[3, i] = v in (1, 2)
    y[4, i] = -v if v > 1 else +v


def test_conditions(place: ArrayDevice) -> None:
    x, y = place.array(np.arange(4), np.int32), place.zeros((5, 4), np.int32)
    conditions[1, 4](x, y)
    v = range(4)
    assert place.numpy(y).tolist() == [
        [0 <= a < 2 for a in v],
        [a == 1 or (a == 3 and not a > 2) for a in v],
        [7 if a else 8 for a in v],
        [a in (1, 2) for a in v],
        [-a if a > 1 else +a for a in v],
    ]


WIDTH = 3


@jit.rawkernel()
def known_members(y):
    y[0] = WIDTH in (1, 2)
    y[1] = WIDTH in (1, 3)
    y[2] = WIDTH not in (1, 2)


def test_members_of_what_is_known(place: ArrayDevice) -> None:
    y = place.zeros(3, np.int32)
    known_members[1, 1](y)
    assert place.numpy(y).tolist() == [0, 1, 1]


@jit.rawkernel(mode="numpy")
def arithmetic(x, i, f, y):
    y[0] = i + 1
    y[1] = i - 2.5
    y[2] = i * f
    y[3] = i / 3
    y[4] = i // 3
    y[5] = i % 3
    y[6] = f**2
    y[7] = i**3
    y[8] = i << 2
    y[9] = i >> 1
    y[10] = i & 6 | 1 ^ 3
    y[11] = ~i
    y[12] = f // 0.7
    y[13] = f % -0.7
    y[14] = divmod(i, 4)[1]
    y[15] = abs(i) + min(i, 3, 2) + max(f, 1)
    y[16] = round(f) + round(f, 1)
    y[17] = len(y) + y.shape[0] + y.size + y.ndim
    y[18] = int(f) + float(i) + bool(i) + np.int8(i)


@pytest.mark.parametrize(("i", "f"), [(7, 2.75), (-7, -2.25)])
def test_arithmetic(place: ArrayDevice, i: int, f: float) -> None:
    y = place.zeros(19)
    arithmetic[1, 1](place.zeros(1), i, f, y)
    expected = np.zeros(19)
    arithmetic.function(None, i, f, expected)
    expected[17] = 19 * 3 + 1
    assert np.array_equal(place.numpy(y), expected)


@jit.rawkernel()
def mathematics(x, y):
    y[0] = math.sqrt(x[0]) + math.exp(x[1]) + math.log(x[0], 2) + math.atan2(x[0], x[1])
    y[1] = math.floor(x[2]) + math.ceil(x[2]) + math.trunc(x[2]) + math.pi
    y[2] = (
        np.hypot(x[0], x[1]) + np.cbrt(x[0]) + np.maximum(x[0], x[1]) + np.where(x[0] > 1, 2, x[1])
    )
    y[3] = math.isnan(x[3]) + math.isinf(x[3]) * 10 + math.isfinite(x[0]) * 100
    y[4] = math.inf
    y[5] = np.float64(0.1) + math.erf(x[1]) + math.gamma(x[0]) + math.fmod(x[0], 1.5)
    fraction, exponent = np.frexp(x[0])
    y[6] = np.ldexp(fraction, exponent) + np.sign(x[2]) + math.copysign(2.0, x[2])


def test_mathematics(place: ArrayDevice) -> None:
    values = [4.0, 0.5, -2.5, math.nan]
    x, y = place.array(values), place.zeros(7)
    mathematics[1, 1](x, y)
    expected = np.zeros(7)
    mathematics.function(np.array(values), expected)
    np.testing.assert_allclose(place.numpy(y), expected, rtol=1e-6)


@jit.rawkernel()
def memory(x, y):
    tile = jit.shared_memory(np.float32, (4, 5))
    mine = jit.local_array(np.int64, (2, 2))
    rest = jit.shared_memory(np.float64, None)
    i = jit.threadIdx.x
    for j in range(5):
        tile[i, j] = x[i, j]
    rest[i] = i
    mine[0, 0] = i
    mine[1, 1] = 10
    jit.syncthreads()
    row = tile[3 - i]
    y[i] = row[-1] + mine[0, 0] + mine[-1, -1] + rest[(i + 1) % 4] * 1000


def test_memory(place: ArrayDevice) -> None:
    x, y = place.array(np.arange(20).reshape(4, 5), np.float32), place.zeros(4)
    memory[1, 4](x, y, shared_mem=32)
    expected = [(3 - i) * 5 + 4 + i + 10 + (i + 1) % 4 * 1000 for i in range(4)]
    assert place.numpy(y).tolist() == expected


@jit.rawkernel()
def views(x, y):
    part = x[1:-1, ::2]
    y[0] = part.shape[0] * 10 + part.shape[1]
    y[1] = part[1, 1]
    y[2] = x[::-1][0, 0]
    y[3] = x[2][1]
    y[4] = x[-1, -2]
    y[5] = x[:, 1:3][3, -1]
    y[6] = x[100:].shape[0]
    z = x[1:]
    z[0, 0] = 99
    y[7] = len(z) + z.size
    y[8:][0] = 5


@pytest.mark.parametrize("order", ["C", "F"])
def test_views(place: ArrayDevice, order: str) -> None:
    values = np.arange(24.0).reshape(4, 6)
    base, y = place.array(values if order == "C" else values.T.copy()), place.zeros(9)
    x = base if order == "C" else base.T
    views[1, 1](x, y)
    assert place.numpy(y).tolist() == [23, 14, 18, 13, 22, 20, 0, 3 + 18, 5]
    assert place.numpy(base).ravel()[6 if order == "C" else 1] == 99


@jit.rawkernel()
def complex_numbers(z, y):
    a = z[0] * z[1] + z[0].conjugate()
    z[0] = a / 2
    y[0] = a.real
    y[1] = a.imag
    y[2] = abs(z[1])
    z[1] = np.exp(z[1]) + 2j


def test_complex_numbers(place: ArrayDevice) -> None:
    p, q = 1 + 2j, 0.5 - 1j
    z, y = place.array([p, q]), place.zeros(3)
    complex_numbers[1, 1](z, y)
    a = p * q + p.conjugate()
    np.testing.assert_allclose(place.numpy(y), [a.real, a.imag, abs(q)], rtol=1e-12)
    np.testing.assert_allclose(place.numpy(z), [a / 2, cmath.exp(q) + 2j], rtol=1e-12)


@jit.rawkernel()
def complex_of_parts(x, y, z):
    y[0] = np.complex64(x[0], x[0] + 1)
    y[1] = complex(2, 3)
    y[2] = np.complex64(x[0], 0.5)
    y[3] = np.complex64(jit.atomic_add(x, 0, 1), x[1])
    z[0] = np.complex128(x[1], 1) + complex(x[2], 2)


def test_complex_numbers_of_two_parts(place: ArrayDevice) -> None:
    x, y, z = (
        place.array([1, 7, 5], "i4"),
        place.zeros(4, "complex64"),
        place.zeros(1, "complex128"),
    )
    complex_of_parts[1, 1](x, y, z)
    assert place.numpy(y).tolist() == [1 + 2j, 2 + 3j, 1 + 0.5j, 1 + 7j]
    assert place.numpy(z).tolist() == [12 + 3j]


@jit.rawkernel()
def complex_of_complex(x, y):
    y[0] = np.complex64(y[0], 1)


def test_parts_of_complex_numbers_are_real() -> None:
    with pytest.raises(
        TypeError, match=r"complex64\(re, im\) takes two real numbers, not complex64"
    ):
        complex_of_complex[1, 1](np.zeros(1), np.zeros(1, "complex64"))


@jit.rawkernel()
def complex_extremes(x, y):
    i = jit.grid(1)
    if i < x.shape[1]:
        y[0, i] = min(x[0, i], x[1, i])
        y[1, i] = max(x[0, i], x[1, i])
        y[2, i] = min(x[0, i], x[1, i].real, 1 + 1j)
        y[3, i] = max((x[0, i], 2, x[1, i]))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_have_numpys_order(place: ArrayDevice, dtype: str) -> None:
    parts = [1, 2, math.nan, 0.0, -0.0, math.inf]
    values = [complex(a, b) for a in parts for b in parts]
    a, b = np.array([(a, b) for a in values for b in values], dtype).T
    x, y = place.array([a, b]), place.zeros((4, a.size), dtype)
    complex_extremes[6, 256](x, y)
    expected = [
        np.minimum(a, b),
        np.maximum(a, b),
        np.minimum(np.minimum(a, b.real), dtype_of(dtype, 1 + 1j)),
        np.maximum(np.maximum(a, dtype_of(dtype, 2)), b),
    ]
    for found, wanted in zip(place.numpy(y), expected, strict=True):
        # Signs of zero too: of equal numbers the first is taken.
        assert list(map(repr, found)) == list(map(repr, wanted))


def dtype_of(dtype: str, value: complex) -> Any:
    return np.dtype(dtype).type(value)


@jit.rawkernel()
def extremes_of_constants(y):
    y[0] = min(1j, 1 + 2j, 3)
    y[1] = max(1j, 3, (3 + 0.5j))
    y[2] = max(2 + 1j, math.nan)
    y[3] = min(math.nan, 1)
    y[4] = max((1, 3, 2))
    y[5] = min(SIZES) + 2 + max("ab", "c", key=len).count("a")
    y[6] = max(COMPLEX)


SIZES, COMPLEX = [3, 1, 2], (1j, 2 - 1j, 2)


def test_constants_have_the_same_order(place: ArrayDevice) -> None:
    y = place.zeros(7, "complex128")
    extremes_of_constants[1, 1](y)
    assert list(map(repr, place.numpy(y))) == list(
        map(repr, np.array([1j, 3 + 0.5j, math.nan, math.nan, 3, 4, 2], "complex128"))
    )


def test_extremes_of_what_is_no_number() -> None:
    @jit.rawkernel()
    def wrong(y):
        y[0] = min()
        y[0] = max(y[0])
        y[0] = min(1, np, y[0])
        y[0] = max("a", y[0])

    with pytest.raises(kspec.JitError) as caught:
        wrong[1, 1](np.zeros(1))
    text = str(caught.value)
    assert text.count("error:") == 4
    assert "module numpy is not a number" in text and "str is not a number" in text


@jit.rawkernel()
def masked_barriers(y, n, mask):
    i = jit.threadIdx.x
    memory = jit.shared_memory(np.int32, 32)
    memory[i] = i
    jit.syncwarp(mask=0xFFFF << (i // 16 * 16))
    y[i] = memory[i ^ 1]
    if i < n:
        jit.syncwarp(mask=(1 << n) - 1)
        memory[i] = 2 * i
        jit.syncwarp(mask)
        y[i] += memory[n - 1 - i]


@pytest.mark.parametrize("mask", [np.uint32(15), np.int64(15), 15])
def test_barriers_of_a_computed_mask(place: ArrayDevice, mask: Any) -> None:
    y = place.zeros(32, "int32")
    masked_barriers[1, 32](y, np.uint32(4), mask)
    expected = np.arange(32) ^ 1
    expected[:4] += [6, 4, 2, 0]
    assert place.numpy(y).tolist() == expected.tolist()


@pytest.mark.parametrize("mask", [0.5, 1 + 1j, True])
def test_other_masks_are_refused(mask: Any) -> None:
    @jit.rawkernel()
    def wrong(y, m):
        jit.syncwarp(mask=m)
        jit.syncwarp(mask=2.5)
        jit.syncwarp(mask=2**32)

    with pytest.raises(kspec.JitError) as caught:
        wrong[1, 32](np.zeros(32), mask)
    text = str(caught.value)
    assert "the mask must be an integer, not 2.5" in text
    assert "the mask must lie in 0..2**32-1" in text
    assert re.search(r"the mask must be an integer, not (float32|complex64|bool)", text)


POINT = np.dtype([("x", "f4"), ("n", "i4"), ("v", "f8", 3)], align=True)


@jit.rawkernel()
def records(p, one):
    i = jit.threadIdx.x
    p[i].x += p[i].n
    p[i]["v"][1] = i
    p[i].v[-1] = one.v[0]
    if i == 1:
        p[2] = p[1]


def test_records(place: ArrayDevice) -> None:
    values = np.zeros(3, POINT)
    values["x"], values["n"], values["v"] = [1, 2, 3], [10, 20, 30], 7
    p = place.array(values)
    for _ in range(2):
        records[1, 2](p, values[0])
    found = place.numpy(p)
    assert found["x"].tolist() == [21, 42, 42]
    assert found["v"].tolist() == [[7, 0, 7], [7, 1, 7], [7, 1, 7]]


@jit.rawkernel()
def atomics(x):
    i = jit.threadIdx.x + 1
    jit.atomic_add(x, 0, i)
    jit.atomic_sub(x, 1, i)
    jit.atomic_max(x, 2, i)
    jit.atomic_min(x, (3,), i)
    jit.atomic_exch(x, 4, 5)


@pytest.mark.parametrize("dtype", ["uint32", "int64", "uint64", "float32", "float64"])
def test_atomics(place: ArrayDevice, dtype: str) -> None:
    x = place.array([0, 100, 3, 3, 0], dtype)
    atomics[1, 8](x)
    assert place.numpy(x).tolist() == [36, 64, 8, 1, 5]


@jit.rawkernel()
def bit_atomics(x, u):
    jit.atomic_and(x, 0, 6)
    jit.atomic_or(x, 1, 6)
    jit.atomic_xor(x, 2, 6)
    x[4] = jit.atomic_cas(x, 3, 3, 8)
    jit.atomic_inc(u, 0, 3)
    jit.atomic_dec(u, 1, 3)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_atomics_of_bits(place: ArrayDevice, dtype: str) -> None:
    x, u = place.array([3, 3, 3, 3, 0], dtype), place.array([3, 2], np.uint32)
    bit_atomics[1, 1](x, u)
    assert place.numpy(x).tolist() == [2, 7, 5, 8, 3]
    assert place.numpy(u).tolist() == [0, 1]


@jit.rawkernel()
def shuffles(x, y):
    i = jit.laneid()
    y[0, i] = jit.shfl_sync(FULL, x[i], 3)
    y[1, i] = jit.shfl_up_sync(FULL, x[i], 1)
    y[2, i] = jit.shfl_down_sync(FULL, x[i], 1, width=8)
    y[3, i] = jit.shfl_xor_sync(FULL, x[i], 1)
    jit.syncwarp()


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float16", "float64"])
def test_shuffles(place: ArrayDevice, dtype: str) -> None:
    x, y = place.array(np.arange(32), dtype), place.zeros((4, 32), dtype)
    shuffles[1, 32](x, y)
    lanes = np.arange(32)
    expected = [
        np.full(32, 3),
        np.maximum(lanes - 1, 0),
        np.where(lanes % 8 == 7, lanes, lanes + 1),
        lanes ^ 1,
    ]
    assert np.array_equal(place.numpy(y), np.array(expected, dtype))


@jit.rawkernel(device=True)
def power_of(x, n=2):
    result = x
    for _ in range(n - 1):
        result *= x
    return result


@jit.rawkernel(device=True)
def put(x, i: np.int32, value):
    x[i] = value


@jit.rawkernel()
def calls(x, n, scale=10):
    put(x, 0, power_of(n) + power_of(2.5, n=3))
    put(x[1:], 0, scale)
    x[int(power_of(n))] += 1


def test_functions_keywords_and_defaults(place: ArrayDevice) -> None:
    x = place.zeros(8)
    calls[1, 1](x, 2)
    assert place.numpy(x).tolist() == [4 + 2.5**3, 10, 0, 0, 1, 0, 0, 0]
    calls((1,), (1,), (x, 2))
    calls[1, 1](n=2, x=x, scale=3)
    assert place.numpy(x).tolist()[1:5] == [3, 0, 0, 3]


@jit.rawkernel()
def print_all(x, n):
    print("x", x[0], n > 1, sep=": ")
    jit.printf("%d %4.1f\n", n, x[0])


@pytest.mark.parametrize("host", [True])
def test_printing(host: bool, capfd: pytest.CaptureFixture[str]) -> None:
    print_all[1, 1](np.array([1.5]), 3)
    assert capfd.readouterr().out == "x: 1.5: True\n3  1.5\n"


@jit.rawkernel()
def careful(x):
    assert x[0] > 0, "positive"
    x[0] = 1


def test_assertions_are_faults_with_the_line_of_the_file() -> None:
    careful[1, 1](np.ones(1))
    with pytest.raises(kspec.HostFault, match="x\\[0\\] > 0: positive") as caught:
        careful[1, 1](np.zeros(1))
    assert caught.value.path == __file__
    assert caught.value.source_line.strip() == 'assert x[0] > 0, "positive"'


def test_illegal_accesses_have_the_line_of_the_file() -> None:
    with pytest.raises(kspec.HostFault) as caught:
        saturate((1,), (1,), (np.zeros(4), 7), sanitize="memory")
    assert caught.value.source_line.strip() == "x[n] = 1"


@jit.rawkernel()
def saturate(x, n):
    x[n] = 1


@jit.rawkernel()
def named(int, float_, NULL, größe, x):
    x[0] = int + float_ + NULL + größe


def test_any_name_is_a_parameter(place: ArrayDevice) -> None:
    x: Any = place.zeros(1)
    named[1, 1](1, 2.0, 3, 4, x)
    assert place.numpy(x)[0] == 10


@jit.rawkernel()
def typed(x, n: np.int64, f: np.float64):
    x[0] = n * f


def test_annotations_of_parameters(place: ArrayDevice) -> None:
    x = place.zeros(1)
    typed[1, 1](x, 2**40, 0.1)
    assert place.numpy(x)[0] == 2**40 * 0.1
    assert next(iter(typed.cached_codes))[1:] == ("int64", "float64")


@jit.rawkernel()
def constants(x):
    x[0] = 0.1


def test_literals_are_float32_in_mode_cuda_but_not_in_the_other(place: ArrayDevice) -> None:
    x, y = place.zeros(1), place.zeros(1)
    constants[1, 1](x)
    jit.rawkernel(mode="numpy")(constants.function)[1, 1](y)
    assert place.numpy(x)[0] == np.float32(0.1) and place.numpy(y)[0] == 0.1


@jit.rawkernel(device=True)
def take(counter, x):
    old = jit.atomic_add(counter, 0, 1)
    return x * 10 + old


@jit.rawkernel()
def ordered(counter, y):
    y[0] = take(counter, 1) * 100 + take(counter, 2)
    if 0 < take(counter, 0) < 5:
        y[1] = 1
    if y[0] < 0 and take(counter, 0) > 0:
        y[1] = 9
    y[2] = counter[0]


def test_effects_have_pythons_order(place: ArrayDevice) -> None:
    counter, y = place.zeros(1, np.int32), place.zeros(3, np.int64)
    ordered[1, 1](counter, y)
    assert place.numpy(y).tolist() == [10 * 100 + 21, 1, 3]


def test_what_may_not_be_computed_is_not() -> None:
    @jit.rawkernel()
    def hasty(counter, y):
        y[0] = y[1] > 0 and 0 < take(counter, 0) < 5

    with pytest.raises(kspec.JitError, match="may not be computed at all: use an if statement"):
        hasty[1, 1](np.zeros(1, np.int32), np.zeros(3, np.int64))


def test_notebooks_have_lines_that_only_python_knows() -> None:

    text = "@jit.rawkernel()\ndef cell(x):\n    x[0] = 7\n"
    name = "/tmp/ipykernel_1/2.py"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space: dict[str, Any] = {"jit": jit}
    exec(compile(text, name, "exec"), space)
    x = np.zeros(1)
    space["cell"][1, 1](x)
    assert x[0] == 7
