"""Functions of kernels that nothing decorates: helpers, lambdas, functions inside of a kernel."""

from __future__ import annotations

import statistics  # noqa: F401 - read by a kernel
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kspec import jit
from kspec.errors import JitError
from tests.devices import ArrayDevice
from tests.profiles import examples

X = np.array([3.0, 1.0, 4.0, 1.5])


def scaled(a, by=2):
    return a * by


def polynomial(a):
    total = a * 0
    for k in range(3):
        total = scaled(total + k, a)
    if total > 100:
        return total / 2
    return total


def put(array, i, value):
    array[i] = value


def position():
    return jit.grid(1)


def stretched(x, i):
    return scaled(x[i], x.shape[0])


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return even(n + 1)


exec("def sourceless(a): return a")


def many(*numbers):
    return numbers[0]


thrice = lambda a: scaled(a, 3)  # noqa: E731


@jit.rawkernel(device=True)
def applied(function, a):
    return function(a) + 1


@jit.rawkernel(device=True)
def twice_applied(function, a):
    return applied(function, applied(function, a))


def folded(function, array, begin):
    for i in range(array.size):
        begin = function(begin, array[i])
    return begin


def run(kernel: Any, place: ArrayDevice, *args: Any, threads: int = 1) -> Any:
    """Return the first argument after a launch of a kernel."""
    given = [place.array(one) if isinstance(one, np.ndarray) else one for one in args]
    kernel((1,), (threads,), tuple(given))
    return place.numpy(given[0])


def test_helpers(place: ArrayDevice) -> None:
    @jit.rawkernel()
    def kernel(x):
        i = position()
        value = polynomial(x[i]) + thrice(x[i]) + scaled(by=x[i], a=0.5) + stretched(x, i)
        put(x, i, value)

    wanted = [polynomial(a) + thrice(a) + scaled(by=a, a=0.5) + 4 * a for a in X]
    np.testing.assert_allclose(run(kernel, place, X, threads=4), wanted)


def test_helpers_are_typed_by_their_arguments(place: ArrayDevice) -> None:
    @jit.rawkernel()
    def kernel(y, a, n):
        y[0] = scaled(a)
        y[1] = scaled(n)
        y[2] = scaled(n, a)

    a, n = np.float32(0.1), np.int64(2**40)
    found = run(kernel, place, np.zeros(3), a, n)
    np.testing.assert_array_equal(found, [float(a * 2), 2.0**41, float(np.float64(n * a))])
    text = kernel.cached_code
    assert text.count("scaled_") >= 3 and "float scaled_" in text


def test_helpers_of_constants_are_still_called_by_python(place: ArrayDevice) -> None:
    seen: list[Any] = []

    def noted(a, b):
        seen.append((a, b))
        return {"sum": a + b}["sum"]

    @jit.rawkernel()
    def kernel(x):
        x[0] = noted(1, 2.5)

    assert run(kernel, place, X)[0] == 3.5 and seen == [(1, 2.5)]


def test_changed_helpers(place: ArrayDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    @jit.rawkernel()
    def kernel(x):
        x[0] = thrice(x[0])

    assert run(kernel, place, X)[0] == 9
    monkeypatch.setitem(globals(), "scaled", lambda a, by: a - by)
    assert run(kernel, place, X)[0] == 0


def test_lambdas(place: ArrayDevice) -> None:
    @jit.rawkernel()
    def kernel(x, n):
        square = lambda a: a * a  # noqa: E731
        shift = lambda a, by=2: square(a) + by + n  # noqa: E731
        pair = (square, lambda a: -a)
        x[0] = shift(x[1]) + shift(x[2], by=1.5)
        n = n + 1
        x[1] = shift(x[1])
        x[2] = pair[0](x[2]) + pair[1](x[3])
        x[3] = (lambda: x[0])()

    b, c, d = X[1:]
    first = b * b + 2 + 3 + c * c + 1.5 + 3
    wanted = [first, b * b + 2 + 4, c * c - d, first]
    np.testing.assert_array_equal(run(kernel, place, X, 3), wanted)


def test_lambda_kernels(place: ArrayDevice) -> None:
    kernel = jit.rawkernel()(lambda x: put(x, position(), scaled(x[position()])))
    np.testing.assert_array_equal(run(kernel, place, X, threads=4), X * 2)


def test_parameters_hide_variables(place: ArrayDevice) -> None:
    @jit.rawkernel()
    def kernel(x):
        def f(a):
            return (lambda late, by=1: late + by + a)(a)

        x[0] = f(x[1])
        late = 2
        x[1] = f(x[2]) + late

    np.testing.assert_array_equal(run(kernel, place, X)[:2], [2 * X[1] + 1, 2 * X[2] + 3])


def test_functions_inside(place: ArrayDevice) -> None:
    @jit.rawkernel()
    def kernel(x):
        box = jit.shared_memory(np.float64, 4)

        def store(i, value):
            box[i] = value
            jit.syncthreads()

        def load(i) -> float:
            total = 0.0
            for k in range(i + 1):
                total += box[k]
            return total

        i = jit.threadIdx.x
        store(i, x[i])
        x[i] = load(i)

    np.testing.assert_array_equal(run(kernel, place, X, threads=4), np.cumsum(X))


def test_functions_are_passed(place: ArrayDevice) -> None:
    @jit.rawkernel()
    def kernel(x, y, n):
        largest = lambda a, b: max(a, b + n)  # noqa: E731
        y[0] = applied(lambda a: a * n, x[0]) + twice_applied(lambda a: a + x[1], x[2])
        y[1] = applied(thrice, x[0]) + applied(np.sqrt, x[2]) + applied(scaled, x[0])
        y[2] = folded(largest, x, x[0])
        y[3] = folded(lambda a, b: largest(a, b) + 1, x, x[0])
        y[4] = applied(np.float32, x[0] / 3) + applied(abs, -x[0])

    a, b, c, _ = X
    wanted = [a * 3 + 1 + c + b + 1 + b + 1, 3 * a + 1 + 3 + 2 * a + 1, 7, 0, 0]
    begin = a
    for one in X:
        begin = max(begin, one + 3) + 1
    wanted[3:] = begin, float(np.float32(a / 3) + np.float32(1)) + a + 1

    given = place.array(X), place.array(np.zeros(5))
    kernel((1,), (1,), (*given, 3))
    np.testing.assert_allclose(place.numpy(given[1]), wanted, rtol=1e-7)


def dot(p, q):
    return p[0] * q[0] + p[1] * q[1]


def shifted(a, by=None):
    return a if by is None else a + by


def test_tuples_types_and_none_are_passed(place: ArrayDevice) -> None:
    @jit.rawkernel()
    def kernel(x, n):
        module, pair = np, (x[1], 2)
        inside = lambda a: module.sqrt(a) + pair[0] * pair[1]  # noqa: E731
        x[0] = inside(x[2]) + dot(pair, (n, x[3]))
        x[1] = shifted(x[1]) + shifted(x[1], n)
        x[2] = sum_of(np.float32, x[2] / 3)
        for one in (lambda a: a + 1, thrice):
            x[3] = one(x[3])

    _, b, c, d = X
    wanted = [2 + b * 2 + b * 3 + 2 * d, b + b + 3, np.float32(c / 3), (d + 1) * 3]
    np.testing.assert_allclose(run(kernel, place, X, 3), wanted)


def sum_of(dtype, a):
    return dtype(a)


def test_operators_of_cub(place: ArrayDevice) -> None:
    Reduce = jit.cub.BlockReduce[np.float64, 4]

    def smaller(a, b):
        return min(a, b)

    @jit.rawkernel()
    def kernel(x):
        box = jit.shared_memory(Reduce.TempStorage, 2)
        i = jit.threadIdx.x
        low = Reduce(box[0]).Reduce(x[i], smaller)
        total = Reduce(box[1]).Reduce(x[i], lambda a, b: a + b)
        if i == 0:
            x[0] = low
            x[1] = total

    np.testing.assert_array_equal(run(kernel, place, X, threads=4)[:2], [X.min(), X.sum()])

    @jit.rawkernel()
    def reads(x, n):
        box = jit.shared_memory(Reduce.TempStorage, 1)
        x[0] = Reduce(box[0]).Reduce(x[0], lambda a, b: a + b * n)

    with pytest.raises(JitError, match="an operator reads its two arguments alone"):
        run(reads, place, X, 2.0)


REFUSED: dict[str, tuple[str, type[Exception], str]] = {
    "recursion": ("x[0] = factorial(n)", ValueError, "factorial calls itself: kernels do not"),
    "mutual": ("x[0] = even(n)", ValueError, "calls itself: kernels do not recurse"),
    "inside": (
        "def f(a): return f(a - 1)\n    x[0] = f(n)",
        ValueError,
        "f calls itself: kernels do not recurse",
    ),
    "*": ("x[0] = many(n)", NotImplementedError, "a kernel has no *numbers"),
    "lambda *": ("x[0] = (lambda *a: a[0])(n)", NotImplementedError, "has no *a: list its"),
    "branch": (
        "if n > 0:\n        f = lambda a: a\n    x[0] = f(n)",
        TypeError,
        "is given a name at the top level only",
    ),
    "default": ("x[0] = (lambda a=n: a)()", TypeError, "must be a constant, not int32"),
    "default of def": (
        "def f(a=n):\n        k = a\n        return k\n    x[0] = f()",
        TypeError,
        "must be a constant, not int32",
    ),
    "library's": ("x[0] = statistics.fmean((n, n))", TypeError, "write a Python function of it"),
    "too many": ("x[0] = (lambda a: a)(n, n)", TypeError, "<lambda>: too many positional"),
    "too early": ("x[0] = (lambda: k)()\n    k = 1", NameError, "Unbound name: k"),
    "returned": ("x[0] = lambda a: a", TypeError, "is not a number"),
    "decorated": (
        "@staticmethod\n    def f(a): return a\n    x[0] = f(n)",
        NotImplementedError,
        "functions inside a kernel are plain ones",
    ),
    "sourceless": ("x[0] = sourceless(n)", RuntimeError, "the source of sourceless cannot be"),
    "numpy's": ("x[0] = np.linalg.norm(n)", TypeError, "write a Python function of it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Any, place: ArrayDevice) -> None:
    body, kind, message = REFUSED[name]
    path = tmp_path / "kernels.py"
    path.write_text(f"def kernel(x, n):\n    {body}\n")
    space = {**globals()}
    exec(compile(path.read_text(), str(path), "exec"), space)
    with pytest.raises(kind) as caught:
        run(jit.rawkernel()(space["kernel"]), place, X, 3)
    assert isinstance(caught.value, JitError) and message in str(caught.value)
    assert len(caught.value.diagnostics) == 1


OPERATIONS: list[Callable[..., Any]] = [
    lambda a, b: a + b,
    lambda a, b: np.maximum(a, b) - b,
    lambda a, b: np.where(a > b, a, b * a),
    lambda a, b: a * a - b * b,
]
DTYPES = ("int32", "int64", "float32", "float64", "uint8", "complex64")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_drawn_types(operation: Callable[..., Any], place: ArrayDevice) -> None:
    """In the mode of NumPy's types an undecorated function is the function of arrays."""

    @jit.rawkernel(mode="numpy")
    def kernel(y, a, b):
        mine = lambda p, q: operation(q, p)  # noqa: E731
        y[0] = operation(a[0], b[0])
        y[1] = mine(b[0], a[0])
        y[2] = folded_twice(operation, a, b)

    @given(st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.integers(0, 9), st.integers(0, 9))
    @settings(max_examples=examples(20))
    def draw(first: str, second: str, p: int, q: int) -> None:
        a, b = np.full(1, p, first), np.full(1, q, second)
        wanted = operation(a, b)
        y = np.zeros(3, wanted.dtype)
        with np.errstate(all="ignore"):
            expected = [wanted[0], wanted[0], operation(wanted, b)[0]]
        assume(operation(wanted, b).dtype == wanted.dtype)  # what is returned has one type
        np.testing.assert_allclose(run(kernel, place, y, a, b), expected, rtol=1e-6)

    draw()


def folded_twice(function, a, b):
    return function(function(a[0], b[0]), b[0])
