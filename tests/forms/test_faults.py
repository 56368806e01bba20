"""Wrong scans and segments: the class and the words of each refusal."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice

Reduction = kspec.ReductionKernel
TOTAL = Reduction("T x", "T y", "x", "a + b", "y = a", "0", "total")
GREATEST = Reduction("T x", "T y", "x", "max(a, b)", "y = a", None, "greatest")
DOT = Reduction("T x, T w", "T y", "x * w", "a + b", "y = a", "0", "dot")
TWO = Reduction("T x", "T y, T z", "x", "a + b", "y = a; z = -a", "0", "two")
SCALED = Reduction("T x, T s", "T y", "x", "a + b", "y = a * s", "0", "scaled")
FIXED = Reduction("float32 x", "float64 y", "x", "a + b", "y = a", "0", "fixed")
RAW = Reduction("raw T x", "T y", "x[_J]", "a + b", "y = a", "0", "only_raw")
PLACED = Reduction("T x", "T y", "x * _in_ind.get()[0]", "a + b", "y = a", "0", "placed")
OUTPUT = Reduction("T x", "T y", "x * _out_ind.get()[0]", "a + b", "y = a", "0", "output_placed")
VIEWED = Reduction("T x", "T y", "_raw_x[_j]", "a + b", "y = a", "0", "viewed")
WRITING = Reduction("_non_const T x", "T y", "x", "a + b", "y = a", "0", "writing")

TypeFault, ShapeFault = kspec.ArgumentTypeError, kspec.ShapeError
AxisError, Unsupported = np.exceptions.AxisError, kspec.NotSupportedError
X = np.arange(6.0)
P = np.array([0, 2, 6])


def scan(kernel: Any, *args: Any, **keywords: Any) -> tuple[Any, ...]:
    return kernel.scan, args, keywords


def segments(kernel: Any, *args: Any, **keywords: Any) -> tuple[Any, ...]:
    return kernel.segments, args, keywords


def bounds_message(shape: tuple[int, ...]) -> str:
    return (
        "total: indptr must have one axis, with one element more than there are segments, not "
        f"shape {shape}; pass where each segment begins, and then where the last one ends"
    )


# A call, and the error.
SCANS: list[tuple[tuple[Any, ...], type, str]] = [
    (scan(TOTAL), TypeFault, "takes 1 or 2 positional arguments (T x, T y), not 0"),
    (scan(TOTAL, X, X, X), TypeFault, "takes 1 or 2 positional arguments (T x, T y), not 3"),
    (scan(DOT, X), TypeFault, "takes 2 or 3 positional arguments (T x, T w, T y), not 1"),
    (
        scan(TOTAL, [1.0, 2.0]),
        TypeFault,
        "total: argument x must be an array or a number, not list",
    ),
    *(
        (scan(TOTAL, X, axis=axis), TypeFault, f"total: axis must be an integer, not {axis!r}")
        for axis in (1.0, "0", None, (0,), [0], True, np.float64(0))
    ),
    *(
        (
            scan(TOTAL, X, axis=axis),
            AxisError,
            f"axis {axis} is out of bounds for array of dimension 1",
        )
        for axis in (1, -2, 2**70)
    ),
    (
        scan(TOTAL, X.reshape(2, 3), axis=2),
        AxisError,
        "axis 2 is out of bounds for array of dimension 2",
    ),
    (
        scan(TOTAL, np.array(3.0)),
        AxisError,
        "axis -1 is out of bounds for array of dimension 0",
    ),
    (
        scan(TOTAL, 3.0),
        ShapeFault,
        "total: Loop size is undecided. Pass an array that is not raw",
    ),
    (scan(RAW, X), ShapeFault, "only_raw: Loop size is undecided. Pass an array that is not raw"),
    (
        scan(GREATEST, X, exclusive=True),
        ShapeFault,
        "greatest: an exclusive scan begins with the identity, which the kernel does not have; "
        "declare an identity, or scan with exclusive=False",
    ),
    *(
        (
            scan(TOTAL, X, **{name: value}),
            TypeFault,
            f"total: {name} must be True or False, not {value!r}",
        )
        for name in ("exclusive", "reverse")
        for value in (1, 0, None, "no", 1.0)
    ),
    (
        scan(DOT, X, X[:4]),
        ShapeFault,
        "dot: operands could not be broadcast together with shapes (6,) (4,)",
    ),
    (
        scan(DOT, X, X.astype("float32")),
        TypeFault,
        "dot: T is float64 by x, but w has dtype float32",
    ),
    (
        scan(FIXED, X),
        TypeFault,
        "fixed: x is declared float32, but the array has dtype float64",
    ),
    (
        scan(SCALED, X, X),
        TypeFault,
        "scaled: s is read by the reduce or post-map expression, where there are no elements any "
        "more; pass a scalar, or combine s and the result in an elementwise kernel",
    ),
    (
        scan(PLACED, X),
        Unsupported,
        "placed has no scan: its expressions read _in_ind, which only the reduction itself has",
    ),
    (
        scan(OUTPUT, X),
        Unsupported,
        "output_placed has no scan: its expressions read _out_ind, which only the reduction "
        "itself has",
    ),
    (
        scan(VIEWED, X),
        Unsupported,
        "viewed has no scan: its expressions read _raw_x, which only the reduction itself has",
    ),
    (
        scan(WRITING, X),
        Unsupported,
        "writing has no scan: it writes to x, which is _non_const",
    ),
    (
        scan(TOTAL, X, np.empty(6), out=np.empty(6)),
        ShapeFault,
        "total: cannot specify 'out' as both positional and keyword",
    ),
    (
        scan(TOTAL, X, out=np.empty(5)),
        ShapeFault,
        "total: output y has shape (5,), the result (6,)",
    ),
    (
        scan(TOTAL, X, out=np.empty((1, 6))),
        ShapeFault,
        "total: output y has shape (1, 6), the result (6,)",
    ),
    (
        scan(TOTAL, X, out=np.empty(6, "float32")),
        TypeFault,
        "total: T is float32 by y, but x has dtype float64",
    ),
    (
        scan(FIXED, X.astype("float32"), out=np.empty(6, "float32")),
        TypeFault,
        "fixed: y is declared float64, but the array has dtype float32",
    ),
    (
        scan(TOTAL, X, out=(np.empty(6), np.empty(6))),
        ShapeFault,
        "total: out must hold 1 arrays, not 2",
    ),
    (scan(TOTAL, X, out=()), ShapeFault, "total: out must hold 1 arrays, not 0"),
    (scan(TWO, X, out=np.empty(6)), ShapeFault, "two: out must hold 2 arrays, not 1"),
    (scan(TOTAL, X, out=[1.0] * 6), TypeFault, "total: argument y must be an array, not list"),
    (scan(TOTAL, X, stream="a"), TypeFault, "stream must be a stream handle or an object"),
]
SEGMENTS: list[tuple[tuple[Any, ...], type, str]] = [
    (segments(TOTAL), TypeFault, "total.segments() takes 2"),
    (
        segments(TOTAL, X),
        TypeFault,
        "total.segments() takes 2 or 3 positional arguments (T x, indptr, T y), not 1",
    ),
    (
        segments(TWO, X),
        TypeFault,
        "two.segments() takes 2 or 4 positional arguments (T x, indptr, T y, T z), not 1",
    ),
    (
        segments(TOTAL, indptr=P),
        TypeFault,
        "total.segments() takes 1 or 2 positional arguments (T x, T y) beside indptr, not 0",
    ),
    (
        segments(TOTAL, X, X[:2], X[:2], indptr=P),
        TypeFault,
        "total.segments() takes 1 or 2 positional arguments (T x, T y) beside indptr, not 3",
    ),
    (segments(TOTAL, X, P, indptr=P), TypeFault, "total: T is int64 by y, but x has dtype float64"),
    (
        segments(TOTAL, X, indptr=[0, 2]),
        TypeFault,
        "total: argument indptr must be an array, not list; pass an array of integers on the "
        "device of the inputs",
    ),
    (segments(TOTAL, X, P, X[:2], X[:2]), TypeFault, "), not 4"),
    (segments(DOT, X, P), TypeFault, "dot.segments() takes 3"),
    (segments(TOTAL, out=(X, P)), TypeFault, "), not 0"),
    (segments(TOTAL, X, out=P), TypeFault, "), not 1"),
    *(
        (
            segments(TOTAL, X, P.astype(dtype)),
            TypeFault,
            f"total: indptr must hold integers, not {dtype}; convert it, as "
            "indptr.astype('int64') does",
        )
        for dtype in ("float64", "bool", "complex128")
    ),
    (segments(TOTAL, X, P[:, None]), ShapeFault, bounds_message((3, 1))),
    (segments(TOTAL, X, P[:0]), ShapeFault, bounds_message((0,))),
    (segments(TOTAL, X, np.array(3)), ShapeFault, bounds_message(())),
    *(
        (
            segments(TOTAL, X, value),
            TypeFault,
            f"total: argument indptr must be an array, not {type(value).__name__}",
        )
        for value in (3, np.int64(3), [0, 2, 6], (0, 6), None, "indptr", range(3))
    ),
    (
        segments(GREATEST, X, P),
        ShapeFault,
        "greatest: an empty segment is the identity, which the kernel does not have; declare an "
        "identity",
    ),
    (
        segments(TOTAL, np.array(3.0), P),
        ShapeFault,
        "total: segments are of the first axis, and the inputs have none; pass an array with an "
        "axis",
    ),
    (segments(TOTAL, 3.0, P), ShapeFault, "total: Loop size is undecided"),
    (
        segments(DOT, X, X[:4], P),
        ShapeFault,
        "dot: operands could not be broadcast together with shapes (6,) (4,)",
    ),
    (
        segments(DOT, X, X.astype("float32"), P),
        TypeFault,
        "dot: T is float64 by x, but w has dtype float32",
    ),
    (segments(SCALED, X, X, P), TypeFault, "scaled: s is read by the reduce or post-map"),
    *(
        (segments(kernel, X, P), Unsupported, f"{kernel.__name__} has no segments: {reason}")
        for kernel, reason in (
            (PLACED, "its expressions read _in_ind, which only the reduction itself has"),
            (OUTPUT, "its expressions read _out_ind, which only the reduction itself has"),
            (VIEWED, "its expressions read _raw_x, which only the reduction itself has"),
            (WRITING, "it writes to x, which is _non_const"),
        )
    ),
    (
        segments(TOTAL, X, P, out=np.empty(6)),
        ShapeFault,
        "total: output y has shape (6,), the result (2,)",
    ),
    (
        segments(TOTAL, X[:, None], P, out=np.empty(2)),
        ShapeFault,
        "total: output y has shape (2,), the result (2, 1)",
    ),
    (
        segments(TOTAL, X, P, out=np.empty(2, "float32")),
        TypeFault,
        "total: T is float32 by y, but x has dtype float64",
    ),
    (
        segments(TOTAL, X, P, out=(np.empty(2), np.empty(2))),
        ShapeFault,
        "total: out must hold 1 arrays, not 2",
    ),
    (segments(TOTAL, X, P, out=()), ShapeFault, "total: out must hold 1 arrays, not 0"),
    (
        segments(TOTAL, X, P, np.empty(2), out=np.empty(2)),
        ShapeFault,
        "total: cannot specify 'out' as both positional and keyword",
    ),
    (segments(TWO, X, P, out=np.empty(2)), ShapeFault, "two: out must hold 2 arrays, not 1"),
    (segments(TOTAL, X, P, out=[0.0, 0.0]), TypeFault, "total: argument y must be an array"),
]


@pytest.mark.parametrize("name", ["exclusive", "reverse"])
def test_flags_are_not_arrays(name: str, place: ArrayDevice) -> None:
    x, flag = place.array(X), place.array(np.array(True))
    message = re.escape(f"total: {name} must be True or False, not {flag!r}")
    with pytest.raises(TypeFault, match=message):
        TOTAL.scan(x, **{name: flag})


def on(place: ArrayDevice, value: Any) -> Any:
    """Return a value, or the values in a tuple, on a device."""
    if isinstance(value, tuple) and any(isinstance(one, np.ndarray) for one in value):
        return tuple(on(place, one) for one in value)
    return place.array(value) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize(("call", "kind", "message"), SCANS + SEGMENTS)
def test_refused(call: tuple[Any, ...], kind: type, message: str, place: ArrayDevice) -> None:
    function, args, keywords = call
    given = [on(place, one) for one in args]
    named = {name: on(place, one) for name, one in keywords.items()}
    for _ in range(3):  # a refused call leaves no plan behind
        with pytest.raises(Exception, match=re.escape(message)) as caught:
            function(*given, **named)
        assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [row for row in SCANS + SEGMENTS if "out" in row[0][2] or row[1] in (AxisError, Unsupported)],
)
def test_refused_when_correct_calls_have_plans(
    call: tuple[Any, ...], kind: type, message: str
) -> None:
    function, args, keywords = call
    correct = [scan(TOTAL, X), scan(TOTAL, X, out=np.empty(6)), segments(TOTAL, X, P)]
    correct += [segments(TOTAL, X, P, out=np.empty(2)), scan(TWO, X), segments(TWO, X, P)]
    correct += [scan(TOTAL, X.reshape(2, 3), axis=1), scan(FIXED, X.astype("float32"))]
    for _ in range(3):
        for known, given, named in correct:
            known(*given, **named)
    with pytest.raises(Exception, match=re.escape(message)) as caught:
        function(*args, **keywords)
    assert type(caught.value) is kind


@pytest.mark.parametrize(("function", "form"), [(TOTAL.scan, "scan"), (TOTAL.segments, "segments")])
def test_the_form_is_named(function: Any, form: str) -> None:
    """As a call with the same arguments is right in another form."""
    with pytest.raises(kspec.ArgumentTypeError, match=rf"^total\.{form}\(\) takes"):
        function()


def test_flags_of_numpy() -> None:
    for _ in range(3):
        assert TOTAL.scan(X, exclusive=np.True_).tolist() == [0, 0, 1, 3, 6, 10]
        assert TOTAL.scan(X, reverse=np.bool_(1)).tolist() == [15, 15, 14, 12, 9, 5]
        assert TOTAL.scan(X, exclusive=np.False_).tolist() == [0, 1, 3, 6, 10, 15]


def test_bounds_by_keyword() -> None:
    out, more = np.empty(2), np.empty(2)
    for _ in range(3):
        assert TOTAL.segments(X, indptr=P).tolist() == [1, 14]
        assert TOTAL.segments(X, indptr=P, out=out) is out
        assert TOTAL.segments(X, more, indptr=P) is more
    assert out.tolist() == more.tolist() == [1, 14]
    assert TOTAL.window(X, size=2, step=2).tolist() == [1, 5, 9]


def test_unknown_keywords() -> None:
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'keepdims'"):
        TOTAL.scan(X, keepdims=True)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'axis'"):
        TOTAL.segments(X, P, axis=0)


def test_dtypes_that_kernels_do_not_have() -> None:
    for indptr in (P.astype(">i8"), P.astype("M8[s]"), P.astype(object)):
        with pytest.raises(
            kspec.UnsupportedDTypeError, match="total: argument indptr: Unsupported dtype"
        ):
            TOTAL.segments(X, indptr)


def test_arrays_that_are_not_aligned() -> None:
    odd = np.zeros(49, "uint8")[1:]
    with pytest.raises(
        TypeFault, match="total: argument x is not aligned: the addresses of float64"
    ):
        TOTAL.scan(odd.view("float64"))
    with pytest.raises(TypeFault, match="argument indptr is not aligned: the addresses of int64"):
        TOTAL.segments(X, odd.view("int64"))
    with pytest.raises(TypeFault, match="argument indptr is not aligned: the addresses of int16"):
        TOTAL.segments(X, odd.view("int16"))


def test_read_only_outputs() -> None:
    out = np.empty(6)
    out.flags.writeable = False
    with pytest.raises(
        TypeFault, match="total: argument y is written to, but the array is read-on"
    ):
        TOTAL.scan(X, out=out)
    with pytest.raises(
        TypeFault, match="total: argument y is written to, but the array is read-on"
    ):
        TOTAL.segments(X, P, out=out[:2])


def test_read_only_inputs() -> None:
    x, indptr = X.copy(), P.copy()
    x.flags.writeable = indptr.flags.writeable = False
    for _ in range(3):
        assert TOTAL.scan(x).tolist() == [0, 1, 3, 6, 10, 15]
        assert TOTAL.segments(x, indptr).tolist() == [1, 14]


@pytest.mark.parametrize("out", [np.zeros(1), np.zeros((1, 3))[:, 0]])
def test_outputs_whose_elements_are_one(out: np.ndarray) -> None:
    shared = np.lib.stride_tricks.as_strided(out, (6,), (0,))
    with pytest.raises(kspec.OverlapError, match="several of its elements are the same memory"):
        TOTAL.scan(X, out=shared)
    with pytest.raises(kspec.OverlapError, match="several of its elements are the same memory"):
        TOTAL.segments(X, P, out=shared[:2])


@pytest.mark.gpu
def test_bounds_on_another_device() -> None:
    x, indptr = kspec.asarray(X, device="cuda:0"), kspec.asarray(P, device="cuda:0")
    with pytest.raises(kspec.DeviceMismatchError, match="x on cuda:0, indptr on host"):
        TOTAL.segments(x, P)
    with pytest.raises(kspec.DeviceMismatchError, match="x on host, indptr on cuda:0"):
        TOTAL.segments(X, indptr)


BOUNDS = {
    "decreasing": ([0, 3, 2, 6], 1, 3, 2),
    "beyond the end": ([0, 7], 0, 0, 7),
    "beyond it in the middle": ([0, 2, 9, 9], 1, 2, 9),
    "negative": ([-1, 2], 0, -1, 2),
    "backwards": ([6, 0], 0, 6, 0),
    "not from the first": ([3, 2], 0, 3, 2),
}


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("shape", [(6,), (6, 3)], ids=str)
class TestHostFaults:
    def test_wrong_bounds(self, name: str, shape: tuple[int, ...]) -> None:
        indptr, segment, begin, end = BOUNDS[name]
        x = np.ones(shape)
        for _ in range(3):  # a launch that fails leaves the plan as it was
            TOTAL.segments(x, np.arange(len(indptr)))
            with pytest.raises(kspec.HostFault) as caught:
                TOTAL.segments(x, np.array(indptr))
            wanted = f"indptr[{segment}] is {begin} and indptr[{segment + 1}] is {end}"
            assert f"segments: {wanted}: bounds must be sorted, from 0 to 6" in str(caught.value)
            assert str(caught.value).startswith("total<double")

    def test_all_blocks(self, name: str, shape: tuple[int, ...]) -> None:
        """Faults of one block among others."""
        indptr = np.linspace(0, 60_000, 1000).astype("int64")
        indptr[1 + len(name) * 30] = -5
        x = np.ones((60_000, *shape[1:]))
        with pytest.raises(
            kspec.HostFault, match=r"indptr\[\d+\] is \d+ and indptr\[\d+\] is -5: bounds must"
        ):
            TOTAL.segments(x, indptr)
