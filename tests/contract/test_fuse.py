"""`fuse`: the contract's section 7, row by row, and what goes past it; NumPy is the oracle."""

from __future__ import annotations

import copy
import functools
import importlib
import itertools
import math
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import kspec
from kspec import fuse
from kspec.errors import FusionError, ShapeError, SpecError
from kspec.fusion import functions, refusals
from kspec.spec.models import ElementwiseSpec
from tests.devices import ArrayDevice

RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(5, 7)).astype("f4")
Y = RANDOM.normal(size=(5, 7)).astype("f4")
V = RANDOM.normal(size=7).astype("f4")
P = np.abs(X) + np.float32(0.1)
HOLES = np.where(X > 1, np.float32("nan"), X)
I1 = RANDOM.integers(-50, 50, (5, 7)).astype("i1")
U1 = RANDOM.integers(0, 200, (5, 7)).astype("u1")
I8 = I1.astype("i8")
BIG = np.array([0, 5, 2**63], "u8")
T = I1 > 0
H = X.astype("f2")
D = X.astype("f8")
C = (X + 1j * Y).astype("c8")

Function = Callable[..., Any]
_TOGETHER = 24


def fused(function: Function) -> Any:
    """Fuse for every device."""
    return fuse(device="host")(function)


def agree(got: Any, wanted: Any, device: ArrayDevice) -> None:
    """Compare shapes, dtypes and elements; results of a tuple one by one."""
    if wanted is None:
        assert got is None
        return
    if isinstance(wanted, tuple):
        assert isinstance(got, tuple)
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            agree(one, other, device)
        return
    wanted = np.asarray(wanted)
    found = device.numpy(got)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype.kind in "fc":
        bound = 4e-3 if wanted.dtype == "f2" else 3e-5
        np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound / 10)
    else:
        np.testing.assert_array_equal(found, wanted)


def check(function: Function, args: tuple[Any, ...], device: ArrayDevice) -> None:
    """Compare a fused function with itself on NumPy arrays, and the arguments afterwards."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        plain = [one.copy() if isinstance(one, np.ndarray) else one for one in args]
        wanted = function(*plain)
    given = [device.array(one) if isinstance(one, np.ndarray) else one for one in args]
    agree(fused(function)(*given), wanted, device)
    for one, other in zip(given, plain, strict=True):
        if isinstance(other, np.ndarray):
            agree(one, other, device)


def table(rows: dict[str, tuple[Any, ...]]) -> Any:
    """Run a test for each arguments and a few expressions of them: what is fused is compiled once."""
    grouped: dict[tuple[int, ...], list[tuple[str, tuple[Any, ...]]]] = {}
    for text, several in rows.items():
        for args in several if isinstance(several[0], tuple) else (several,):
            grouped.setdefault(tuple(map(id, args)), []).append((text, args))
    listed = [
        pytest.param(
            [text for text, _ in few],
            few[0][1],
            id=f"{' | '.join(text for text, _ in few)}-{'-'.join(map(_kind, few[0][1]))}",
        )
        for group in grouped.values()
        for few in _batches(group)
    ]
    return pytest.mark.parametrize(("texts", "args"), listed)


def _batches(rows: list[Any]) -> Iterator[list[Any]]:
    return (rows[start : start + _TOGETHER] for start in range(0, len(rows), _TOGETHER))


def together(functions: Sequence[Function]) -> Function:
    """Return a function that returns the results of several."""

    def function(*args: Any) -> tuple[Any, ...]:
        found = [one(*args) for one in functions]
        return tuple(
            itertools.chain.from_iterable(x if isinstance(x, tuple) else (x,) for x in found)
        )

    return function


def _kind(one: Any) -> str:
    return one.dtype.name if isinstance(one, np.ndarray) else type(one).__name__


def of(text: str, count: int = 2) -> Function:
    """Return a function of x, y."""
    names = ("x", "y", "z")[:count]
    found: Function = eval(f"lambda {', '.join(names)}: ({text})", {"np": np})
    return found


# 7.1 Surface


def twice(x: Any) -> Any:
    """Twice as much."""
    return x * 2


def test_the_four_ways_to_decorate() -> None:
    for made in (fuse(twice), fuse()(twice), fuse(kernel_name="n")(twice), fuse("n")(twice)):
        assert made.func is twice
        assert made.__name__ == "twice"
        assert made.__doc__ == "Twice as much."
    assert fuse(twice).name == "twice"
    assert fuse(kernel_name="n")(twice).name == "n"
    assert fuse("n")(twice).name == "n"


def test_bad_decorations() -> None:
    with pytest.raises(TypeError):
        fuse(name="n")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="takes a function"):
        fuse(3)  # type: ignore[call-overload]
    with pytest.raises(SpecError, match="Invalid kernel name"):
        fuse(kernel_name="2 words")
    with pytest.raises(ValueError, match="device must be"):
        fuse(device="moon")


@fuse(device="host")
def thrice(x: Any) -> Any:
    return x * 3


twice_at_most = fuse("at_most", device="host", options=("--use_fast_math",))(twice)


def test_copies_and_pickles() -> None:
    """A decorated function is pickled by its name, another one as what it was made of."""
    for made, wanted in ((thrice, X * 3), (twice_at_most, X * 2)):
        holder = {"f": made}
        for other in (
            copy.copy(made),
            copy.deepcopy(holder)["f"],
            pickle.loads(pickle.dumps(made)),
        ):
            np.testing.assert_array_equal(other(X), wanted)
            assert other.name == made.name
            assert other.to_spec(X) == made.to_spec(X)
    assert copy.deepcopy(thrice) is thrice
    assert pickle.loads(pickle.dumps(thrice)) is thrice
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(fuse(lambda x: x))


def test_a_lambda_is_fused(device: ArrayDevice) -> None:
    made = fused(lambda x: x + 1)
    assert made.name == "fused"
    agree(made(device.array(X)), X + 1, device)


def test_without_device_arrays_the_function_is_called() -> None:
    seen: list[Any] = []

    @fuse
    def f(x: Any, y: Any = 2) -> Any:
        seen.append(x)
        return x + y

    assert f(1) == 3
    assert f(np.float32(1), y=1) == 2
    array = np.arange(3)
    assert seen[-1] == 1
    np.testing.assert_array_equal(f(array), array + 2)
    assert seen[-1] is array


def test_keywords_and_defaults(device: ArrayDevice) -> None:
    made = fused(lambda x, y=2.0, *, z=None: x + y if z is None else x + y + z)
    x = device.array(X)
    agree(made(x), X + 2, device)
    agree(made(x, y=3.0), X + 3, device)
    agree(made(x, 1, z=x), X + 1 + X, device)
    agree(made(y=x, x=1.5), X + np.float32(1.5), device)
    with pytest.raises(TypeError, match="fused: got an unexpected keyword argument 'w'"):
        made(x, w=1)
    with pytest.raises(TypeError, match="fused: missing a required argument: 'x'"):
        made()


def test_any_number_of_arguments(device: ArrayDevice) -> None:
    made = fused(lambda *all: sum(all[1:], all[0]))
    x, y = device.array(X), device.array(Y)
    agree(made(x), X, device)
    agree(made(x, y, y), X + Y + Y, device)


@pytest.mark.parametrize(
    "words",
    [("total", "r0", "t0", "part0", "out0"), ("total0", "total1", "NULL", "M_PI", "INT_MAX")],
)
def test_names_of_arguments(place: ArrayDevice, words: tuple[str, ...]) -> None:
    """They may be what the text of a kernel calls something itself, or a macro of its headers."""
    names: dict[str, Any] = {"np": np}
    listed, first, *_, last = ", ".join(words), *words
    together = " + ".join(f"{number} * {word}" for number, word in enumerate(words, 1))
    exec(
        f"def f(x, {listed}): return x * ({together}), x.max() / {first} - x.sum() * {last}\n"
        f"def g(x, {listed}): return x.sum() / ({together})\n"
        f"def h(x, {listed}): return (x * ({together})).sum() / 2",
        names,
    )
    for function in map(names.get, "fgh"):
        assert function is not None
        check(function, (D, 2.5, 3.5, 4.5, 5.5, 6.5), place)
    check(names["h"], (D, *(D + number for number in range(5))), place)
    check(names["f"], (D, *map(np.float64, range(3, 8))), place)


def test_methods_of_classes(device: ArrayDevice) -> None:
    class Scale:
        by = 3

        @fuse(device="host")
        def __call__(self, x: Any) -> Any:
            return x * 2

    # `self` is no array: it is refused by its name.
    with pytest.raises(FusionError, match="self must be an array"):
        Scale()(device.array(X))


@pytest.mark.parametrize("bad", ["text", [1, 2], {}, object()])
def test_arguments_that_are_none(device: ArrayDevice, bad: Any) -> None:
    with pytest.raises(TypeError, match="y must be an array, a number or None"):
        fused(of("x"))(device.array(X), bad)


@pytest.mark.gpu
def test_numpy_next_to_a_gpu() -> None:
    cupy = pytest.importorskip("cupy")
    with pytest.raises(TypeError, match="y is on the host next to arrays on a GPU"):
        fuse(of("x + y"))(cupy.asarray(X), Y)


def test_structs_are_refused(place: ArrayDevice) -> None:
    with pytest.raises(TypeError):
        fused(of("x", 1))(np.zeros(3, [("a", "f4"), ("b", "i4")]))


def test_defaults_decide_about_kernels(device: ArrayDevice) -> None:
    def summed(x: Any, axis: Any = 0, power: int = 2, kind: str = "plain") -> Any:
        return (x**power).sum(axis) * (2 if kind == "plain" else 3)

    def around(axis: Any) -> Function:
        return lambda x: summed(x, axis)

    x, partial = device.array(X), functools.partial
    for _ in range(2):
        agree(fused(summed)(x), summed(X), device)
        for axis in (0, 1, (0, 1)):
            agree(fused(around(axis))(x), summed(X, axis), device)
            agree(fused(partial(summed, axis=axis))(x), summed(X, axis), device)
        agree(fused(partial(summed, kind="other"))(x), summed(X, kind="other"), device)
    assert fused(summed).explain(x).splitlines()[0].endswith("1 kernel")
    made = fused(summed)
    agree(made(x, power=3), summed(X, power=3), device)  # a number of the call
    agree(made(x), summed(X), device)
    np.testing.assert_array_equal(fuse(summed)(X, axis=1), summed(X, axis=1))  # not fused
    np.testing.assert_array_equal(fuse(summed)(X), summed(X))
    with pytest.raises(FusionError, match=r"axis= must be known .* a default that calls leave"):
        made(x, 1)
    with pytest.raises(
        FusionError, match=r"axis must be .* not a tuple; what is none of these is a"
    ):
        made(x, (0, 1))


ONE = np.float32(1)


def test_defaults_are_constants_of_specs() -> None:
    def scaled(x: Any, s: float = 2.0, *, shift: Any = ONE, y: Any = Y) -> Any:
        return x * s + shift + y

    (spec,) = fused(scaled).to_spec(X)
    assert isinstance(spec, ElementwiseSpec)
    assert str(spec.inputs) == "float32 x, float32 y"
    (spec,) = fused(scaled).to_spec(X, 3.0)
    assert isinstance(spec, ElementwiseSpec)
    assert str(spec.inputs) == "float32 x, float32 y, float64 s"


def test_nested(device: ArrayDevice) -> None:
    inner = fused(lambda a, b=2: a * a + b)
    launched = fused(lambda x, y: inner(x) - inner(y, b=1))
    agree(launched(device.array(X), device.array(Y)), X * X + 2 - (Y * Y + 1), device)
    program = launched.explain(device.array(X), device.array(Y))
    assert program.startswith("1 kernel\n")


# 7.2 Tracing and caching


def test_traced_once_for_types_and_equal_extents(device: ArrayDevice) -> None:
    traced: list[int] = []

    @fuse(device="host")
    def f(x: Any, y: Any, s: Any) -> Any:
        traced.append(1)
        return x + y * s

    def call(shape: Any, other: Any, dtype: str, s: Any) -> None:
        x, y = np.ones(shape, dtype), np.ones(other, dtype)
        agree(f(device.array(x), device.array(y), s), x + y * s, device)

    for shape in ((3, 4), (5, 6), (7, 2), (3, 4)):
        call(shape, shape, "f4", 2.0)
    assert len(traced) == 1
    call((3, 4), (3, 4), "f4", 3.0)
    assert len(traced) == 1
    call((3, 4), (3, 4), "f8", 2.0)
    assert len(traced) == 2
    call((12,), (12,), "f8", 2.0)
    assert len(traced) == 3
    call((12,), (12,), "f8", 2)
    assert len(traced) == 4
    call((12,), (1,), "f8", 2)
    assert len(traced) == 5
    call((15,), (1,), "f8", 2)
    assert len(traced) == 5
    f.clear_cache()
    call((12,), (12,), "f8", 2)
    assert len(traced) == 6


def test_shapes_that_are_asked_for(device: ArrayDevice) -> None:
    made = fused(lambda x: x * x.shape[0] if len(x) > 3 else x - 1)
    for rows in (2, 5, 3, 6):
        x = np.ones((rows, 3), "f4")
        agree(made(device.array(x)), x * rows if rows > 3 else x - 1, device)


@pytest.mark.parametrize("text", ["x[:4]", "x[0:4] + 1", "x[1:]", "x[-2:].sum(0)", "x[::2] * 2"])
def test_slices_of_other_extents(device: ArrayDevice, text: str) -> None:
    made, plain = fused(of(text, 1)), of(text, 1)
    for rows in (4, 5, 9, 4):
        x = np.arange(rows * 3, dtype="f4").reshape(rows, 3)
        agree(made(device.array(x)), plain(x), device)


def test_reshapes_of_other_extents(device: ArrayDevice) -> None:
    """What does not change the extents that are traced may change those of the next call."""
    made = fused(lambda x: x.reshape(2, -1) * 1)
    for rows in (2, 3, 4):
        agree(made(device.array(D[:rows, :6])), D[:rows, :6].reshape(2, -1), device)
    made = fused(lambda x: x.reshape(5) + 1)
    agree(made(device.array(V[:5])), V[:5] + 1, device)
    with pytest.raises(ValueError, match="cannot reshape array of size 7"):
        made(device.array(V))


def test_one_axis_stays_as_it_is(device: ArrayDevice) -> None:
    traced: list[int] = []

    def f(x: Any) -> Any:
        traced.append(1)
        return x.ravel() * 2, x.reshape(-1) + 1

    made = fused(f)
    for count in (3, 5, 7):
        agree(made(device.array(V[:count])), (V[:count] * 2, V[:count] + 1), device)
    assert len(traced) == 1


NUMBERS: list[Function] = [
    lambda x, s: np.broadcast_to(s, (3,)).sum() + x,
    lambda x, s: (np.broadcast_to(s + 0, (4,)), np.broadcast_to(s, (2, 5, 7))),
    lambda x, s: np.broadcast_to(s, x.shape) + x,
    lambda x, s: (np.reshape(s, (1, 1)), np.expand_dims(s + 1, 0).sum(0) * x, np.ravel(s)),
    lambda x, s: x.sum() + s[None] + (s * 2)[None, ...].sum(-1),
]


@pytest.mark.parametrize("place_of", range(len(NUMBERS)))
def test_numbers_that_become_arrays(device: ArrayDevice, place_of: int) -> None:
    for x in (X, V[:1]):
        check(NUMBERS[place_of], (x, np.float32(2)), device)
    if place_of < 4:
        check(NUMBERS[place_of], (D, 2.5), device)


def test_numbers_in_place_as_arrays(device: ArrayDevice) -> None:
    def f(x: Any, s: Any) -> Any:
        x += np.broadcast_to(s, (7,))
        x -= np.broadcast_to(s, (2, 3)).sum()
        return np.broadcast_to(s, (2, 3))

    check(f, (X, 3), device)


def test_numbers_without_elements_next_to_them(device: ArrayDevice) -> None:
    empty = np.ones((2, 0), "f4")
    check(lambda x, s: np.broadcast_to(s, (2, 0)) + x, (empty, 2.0), device)
    with pytest.raises(FusionError, match=r"a number cannot get the shape \(3,\)"):
        fused(lambda x, s: np.broadcast_to(s, (3,)).sum() + x)(device.array(empty), 2.0)


def test_none_chooses_code(device: ArrayDevice) -> None:
    made = fused(lambda x, y: x if y is None else x + y)
    x = device.array(X)
    agree(made(x, None), X, device)
    agree(made(x, 2), X + 2, device)


def test_the_same_array_twice_is_no_rule_for_the_next(device: ArrayDevice) -> None:
    made = fused(of("x * y"))
    x, y = device.array(X), device.array(Y)
    agree(made(x, x), X * X, device)
    agree(made(x, y), X * Y, device)


def test_a_refused_function_can_be_called_again(device: ArrayDevice) -> None:
    made = fused(lambda x, s: x if s is not None else bool(x))
    x = device.array(X)
    for _ in range(2):
        with pytest.raises(TypeError, match="Python number"):
            made(x, None)
        agree(made(x, 1), X, device)


@pytest.mark.threads
def test_several_threads(place: ArrayDevice) -> None:
    made = fused(of("(x - x.mean(1, keepdims=True)) * y"))
    wanted = (X - X.mean(1, keepdims=True)) * Y
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(3):
                agree(made(place.array(X), place.array(Y)), wanted, place)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed


# 7.3 Semantics

NEP_50: dict[str, tuple[Any, ...]] = {
    "x + 1": ((I1, I1), (U1, U1), (H, H), (X, X), (C, C), (T, T)),
    "x * 1.5": ((I1, I1), (H, H), (X, X), (T, T)),
    "x + 2j": ((I1, I1), (H, H), (X, X), (C, C)),
    "x + True": ((I1, I1), (T, T)),
    "x + y": ((I1, U1), (I1, H), (H, X), (I8, X), (T, I1), (C, D), (I1, 3), (I1, 2.5), (H, 2j)),
    "x - y": ((X, np.float64(2)), (I1, np.int16(2)), (H, np.float32(1)), (I1, True)),
    "x / y": ((I1, I1), (U1, 3), (H, H), (I8, X), (T, T)),
    "x < 300": (U1, U1),
    "x == -1": (U1, U1),
    "1000 > x": (I1, I1),
    "x * (y + 1), x * -y, x * (1 / y) + abs(y), x * (y * 2 - True)": ((X, 2), (I1, 2), (X, 2.5)),
    "x * ((y < 3) + 1), np.clip(x, y, y + 1)": ((X, 2), (I1, 2)),
    "x * round(y), x * round(y, 1), x * y.conjugate()": ((X, 2.77), (I1, 2)),
    "x * (y + np.float64(1)), x * np.add(y, 1)": ((X, 2.5), (I1, 2)),
    "x < y, x >= y, x == y, y > x, np.not_equal(y, x), x <= y + 1": (
        *((one, number) for one in (I1, U1, I8, BIG) for number in (300, -1, -129, 5)),
    ),
}


@table(NEP_50)
def test_types_are_numpys(device: ArrayDevice, texts: list[str], args: Any) -> None:
    check(together([*map(of, texts)]), args, device)


def test_numbers_are_not_checked(device: ArrayDevice) -> None:
    agree(fused(of("x + 300", 1))(device.array(I1)), I1 + np.int8(44), device)
    agree(fused(of("x + y"))(device.array(I1), 300), I1 + np.int8(44), device)


@pytest.mark.parametrize("text", ["x + y", "x < y"])
def test_numbers_that_no_kernel_takes(device: ArrayDevice, text: str) -> None:
    x, made = device.array(BIG), fused(of(text))
    made(x, 1)
    for number in (2**63, -(2**63) - 1, 2**70):
        with pytest.raises(FusionError, match="y is beyond int64; pass np"):
            made(x, number)
    agree(made(x, np.uint64(2**63)), of(text)(BIG, np.uint64(2**63)), device)


def test_broadcasting(device: ArrayDevice) -> None:
    for first, second in (((5, 7), (7,)), ((5, 1), (1, 7)), ((), (3,)), ((2, 1, 4), (3, 1))):
        x, y = np.ones(first, "f4"), np.full(second, 2, "f4")
        check(of("x + y"), (x, y), device)


def test_shapes_that_do_not_fit(device: ArrayDevice) -> None:
    with pytest.raises(ValueError, match="could not be broadcast"):
        fused(of("x + y"))(device.array(X), device.array(np.ones(3)))


def _statements(*lines: str) -> Function:
    space: dict[str, Any] = {"np": np}
    body = "".join(f"    {line}\n" for line in lines)
    exec(f"def f(x, y):\n{body}", space)
    function: Function = space["f"]
    return function


IN_PLACE = {
    "add": ("x += y",),
    "with a number": ("x *= 2",),
    "returned": ("x += 1", "return x"),
    "returned with another": ("x -= y", "return x, x * 2, y"),
    "assigned": ("x[...] = y * 2",),
    "assigned a number": ("x[:] = 3",),
    "assigned a row": ("x[...] = y[0]",),
    "filled": ("x.fill(2)",),
    "of a mean": ("x -= x.mean(1, keepdims=True)",),
    "of a sum": ("x[...] = x.sum()",),
    "both": ("x += y", "y *= x"),
    "exchanged": ("t = x.copy()", "x[...] = y", "y[...] = t"),
    "turned around": ("x += x[::-1]",),
    "turned around in y": ("x += 1", "y += x[::-1, ::-1]"),
    "through its transpose": ("x.T[...] = y.T * 2",),
    "through a reversed view": ("x[::-1] += y",),
    "a reversed view is assigned": ("x[:, ::-1] = y",),
    "through another shape": ("x.reshape(-1)[...] = y.reshape(-1) + 1",),
    "through a row of one": ("x.reshape(5, 1, 7)[:, 0] *= y",),
    "through what is all of it": ("x[0:5, 6::-1] += y",),
    "with axes in front": ("x[...] = y[None, None]", "np.copyto(y, x[2][None, None])"),
    "another shape of a transpose is a copy": ("t = x.T.reshape(-1)", "t += 1", "return t"),
    "but one that splits axes": ("t = x.T.reshape(7, 5, 1)", "t += 1", "return t"),
    "rows turned around": (
        "t = x[::-1].ravel()",
        "u = x[::-1, :1].ravel()",
        "x += 1",
        "return t, u",
    ),
    "columns": ("t = x[:, 0].reshape(5, 1)", "u = x[:, 0].ravel()", "x += 1", "return t + u"),
    "flattened": ("t = x.flatten()", "t += 1", "return t"),
    "raveled": ("t = x.ravel()", "t += 1", "return t"),
    "reshaped to a copy": ("t = np.reshape(x, (7, 5), copy=True)", "t += 1", "return t"),
    "its own type": ("t = x.astype(x.dtype, copy=False)", "t += 1", "return t"),
    "broadcast": ("t = np.broadcast_to(x, (2, 5, 7))", "x += 1", "return t * 1"),
    "without NaN": ("x[...] = np.sqrt(x)", "np.nan_to_num(x, copy=False, nan=3.0)"),
    "its real part": ("x.real += 1", "y.real = 5"),
    "a view sees it": ("t = x.T", "x += 1", "return t * 2"),
    "a copy does not": ("t = x.copy()", "x += 1", "return t * 2"),
    "after a reduction": ("s = x.sum(0)", "x *= 2", "return s"),
    "before a reduction": ("x *= 2", "return x.sum(0)"),
    "out": ("np.add(x, y, out=x)",),
    "out of a row": ("np.multiply(y[0], 2, out=x)",),
    "out of a mean": ("x *= 2", "np.mean(x, axis=(), out=y)"),
    "out with where": ("np.add(x, y, out=x, where=y > 0)",),
    "two outs": ("np.modf(x * 3, out=(x, y))",),
    "copyto": ("np.copyto(x, y)",),
    "copyto a number": ("np.copyto(x, 2)",),
    "copyto where": ("np.copyto(x, y, where=y > 0)",),
    "clip": ("np.clip(x, -1, 1, out=x)",),
    "a temporary": ("t = x * 2", "t += y", "return t"),
    "a total": ("t = u = x.sum()", "t += 1", "return t * u"),
    "a total with an array": ("t = x.max()", "t -= y", "return t"),
    "a temporary is assigned": ("t = x * 2", "t[...] = 1", "return t + y"),
}


@pytest.mark.parametrize("lines", IN_PLACE.values(), ids=IN_PLACE)
def test_in_place(device: ArrayDevice, lines: tuple[str, ...]) -> None:
    check(_statements(*lines), (X, Y), device)


@pytest.mark.parametrize("text", ["x[...] = y.T", "x.squeeze()[...] = 2 * y", "x.T[0] = y[..., None]",
    "x[0] += 1", "x[-1, ..., 0] = y[0][::-1]"])  # fmt: skip
def test_all_of_axes_of_one(device: ArrayDevice, text: str) -> None:
    check(_statements(text), (V.reshape(1, 7, 1), Y[:1]), device)


@pytest.mark.parametrize("text", ["x.imag[...] = 0", "x.real[:] += 1", "x.real += 1", "x.imag = y",
    "np.broadcast_to(x, (2, 5, 7))[...] = 1", "y.imag[...] = 1"])  # fmt: skip
def test_parts_that_are_not_written(device: ArrayDevice, text: str) -> None:
    with pytest.raises(
        FusionError, match="assignment to a part of an array is not fused"
    ) as caught:
        fused(_statements(text))(device.array(C), device.array(X))
    assert isinstance(caught.value, ValueError)


def test_real_and_imaginary_parts_are_views(device: ArrayDevice) -> None:
    check(_statements("t, u = x.real, x.imag", "x *= 2", "return t + u"), (C, 0), device)


@pytest.mark.parametrize("lines", [
    ("t = y", "y += 1", "return x * t, x * y"), ("y /= 2", "return x * y"), ("y -= x", "return y"),
])  # fmt: skip
def test_numbers_in_place(device: ArrayDevice, lines: tuple[str, ...]) -> None:
    check(_statements(*lines), (X, 3), device)


def test_in_place_without_axes(device: ArrayDevice) -> None:
    check(_statements("x += y", "return x * 2"), (np.array(2.5), np.array(3.0)), device)


def test_arrays_of_two_shapes_that_read_each_other(device: ArrayDevice) -> None:
    check(_statements("t = x * 1", "x += y[0]", "y += t.sum()"), (V, X), device)
    check(_statements("t = x.copy()", "x += y[0]", "y *= t"), (V, X), device)
    check(_statements("t = y[0] * 2", "y += x", "x += t"), (V, X), device)


def test_in_place_through_two_names(device: ArrayDevice) -> None:
    function = _statements("x += 1", "return y * 2")
    made = fused(function)
    x = device.array(X)
    agree(made(x, x), (X + 1) * 2, device)
    agree(x, X + 1, device)
    y = device.array(Y)
    agree(made(x, y), Y * 2, device)
    agree(made(x, x[...]), (X + 3) * 2, device)  # other objects, the same elements


def test_in_place_next_to_what_overlaps(device: ArrayDevice) -> None:
    buffer = np.arange(10.0)
    array = device.array(buffer)
    fused(_statements("x += y"))(array[1:], array[:-1])
    buffer[1:] += buffer[:-1].copy()
    agree(array, buffer, device)


def test_two_written_arrays_between_each_other(device: ArrayDevice) -> None:
    """They share no memory, although each lies in the bounds of the other."""
    buffer = np.arange(10.0)
    array = device.array(buffer)
    function = _statements("t = x.copy()", "x += y", "y -= t", "return x * y")
    made, wanted = fused(function), function(buffer[::2], buffer[1::2])
    agree(made(array[::2], array[1::2]), wanted, device)
    agree(array, buffer, device)
    summed = _statements("x += y[:2].sum()", "y *= 2")
    fused(summed)(array[::2], array[1:8:2])
    summed(buffer[::2], buffer[1:8:2])
    agree(array, buffer, device)


def test_what_is_not_written() -> None:
    x, i, v = np.ones((5, 7), "f4"), np.ones((5, 7), "i4"), np.ones(7, "f4")
    with pytest.raises(TypeError, match="float64 cannot be written into an array of int32"):
        fused(_statements("x += y"))(i, x)
    with pytest.raises(ValueError, match="does not fit"):
        fused(_statements("x += y"))(v, x)
    with pytest.raises(ValueError, match="does not fit"):
        fused(_statements("np.add(x, y, out=x)"))(v, x)
    with pytest.raises(ShapeError):
        fused(_statements("x[:1] += x"))(x, v)
    assert i.sum() == 35


def test_returned_arguments_are_copies(device: ArrayDevice) -> None:
    x = device.array(X)
    got = fused(of("x", 1))(x)
    assert got is not x
    fused(_statements("x += 1"))(x, 0)
    agree(got, X, device)

    def f(x: Any) -> Any:
        x += 1
        return x

    x = device.array(X)
    got = fused(f)(x)
    fused(f)(x)
    agree(got, X + 1, device)


def test_what_is_returned(device: ArrayDevice) -> None:
    x = device.array(X)
    for text in ("None", "()", "(x,)", "(x, None, x + 1)", "(x + 1, x + 1)", "x.sum()"):
        agree(fused(of(text, 1))(x), of(text, 1)(X), device)
    for text in ("3", "x.shape", "x.ndim"):
        assert fused(of(text, 1))(x) == of(text, 1)(X)
    for text in ("[x]", "{'x': x}", "(x, x.shape)", "'text'"):
        with pytest.raises(ValueError, match="a fused function returns"):
            fused(of(text, 1))(x)


class Moments(NamedTuple):
    mean: Any
    most: Any


def test_named_tuples(device: ArrayDevice) -> None:
    def moments(x: Any) -> Moments:
        return Moments(x.mean(0), x.max(0))

    def state(x: Any, y: Any) -> Moments:
        x += y
        return Moments(mean=x * 2, most=None)

    made = fused(moments)
    for _ in range(3):
        got = made(device.array(X))
        assert isinstance(got, Moments)
        agree(got.most, X.max(0), device)
        agree(got.mean, X.mean(0), device)
    got = fused(state)(device.array(X), device.array(Y))
    assert isinstance(got, Moments)
    assert got.most is None
    agree(got.mean, (X + Y) * 2, device)
    agree(fused(lambda x: made(x).most * 2)(device.array(X)), X.max(0) * 2, device)


def test_two_returned_arrays_share_nothing(device: ArrayDevice) -> None:
    first, second = fused(of("(x + 1, x + 1)", 1))(device.array(X))
    fused(_statements("x *= 0"))(first, 0)
    agree(second, X + 1, device)


def _element(x: Any) -> Any:
    y = x[0]
    x += 1
    return y + x


def _elements(x: Any) -> Any:
    a, b, c = x
    x[...] = x[::-1]
    return a * x, b * x, c * x


def _element_of_a_result(x: Any) -> Any:
    t = x * 2
    y = t[-1]
    t += 1
    return t + y


def _element_in_place(x: Any) -> Any:
    y = x[0]
    y += 5
    return y + x


def _element_of_the_array_in_place(x: Any) -> Any:
    x[:1][0] += 5
    return x * 2


def _copied(x: Any) -> Any:
    y, z = copy.copy(x), copy.deepcopy(x)
    y += 1
    z *= 2
    return x * 2, y, z


@pytest.mark.parametrize(
    "function", [_element, _elements, _element_of_a_result, _element_in_place, _copied]
)
def test_elements_and_copies_stay_what_they_are(device: ArrayDevice, function: Function) -> None:
    check(function, (np.arange(3.0),), device)


def test_copies_of_pythons_numbers(device: ArrayDevice) -> None:
    function: Function = lambda x, n: (x + copy.copy(n), x * copy.deepcopy(n))  # noqa: E731
    check(function, (np.arange(3, dtype="i1"), 2), device)


@pytest.mark.parametrize("index", ["()", "...", "0", "0, ..."])
def test_elements_of_arrays_without_axes(device: ArrayDevice, index: str) -> None:
    x = np.array([7.0]) if "0" in index else np.array(7.0)
    check(_statements(f"z = x[{index}]; z += 5; x *= 2; x += z; return x + z"), (x, 0), device)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_views_without_axes(device: ArrayDevice, shape: tuple[int, ...]) -> None:
    for look in ("np.squeeze(x)", "x.squeeze()", "x.reshape(())", "x[None].squeeze()"):
        check(
            _statements(f"t = {look}; t *= 2; x += y; return t + x"),
            (np.full(shape, 2.5), 7),
            device,
        )
    if shape:
        lines = "s = x.sum(0, keepdims=True) * 1", "t = s.squeeze()", "t += 5", "return s, t * y"
        check(_statements(*lines), (np.full(shape, 2.5), 7), device)


@pytest.mark.parametrize(
    "line", ["x[...] = 5", "x[...] = y", "x.fill(3)", "x[()] = y; x += 1", "x *= 0; x[...] = 2"]
)
def test_numbers_into_arrays_without_axes(device: ArrayDevice, line: str) -> None:
    check(_statements(line, "return x, x * 2, x.sum()"), (np.array(2.0), 7), device)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_arrays(device: ArrayDevice, shape: tuple[int, ...]) -> None:
    x = np.ones(shape, "f4")
    for text in ("x * 2", "x.sum()", "x.sum(0)", "x - x.sum(-1, keepdims=True)", "x.any()", "x.T"):
        check(of(text, 1), (x,), device)


@pytest.mark.parametrize("text", ["x.max()", "x.argmin()", "x.min(-1)", "x.T[:0].max(0)"])
def test_the_best_of_nothing(device: ArrayDevice, text: str) -> None:
    with pytest.raises(ValueError):
        fused(of(text, 1))(device.array(np.ones((3, 0), "f4")))


# 7.4 What may be used inside

OPERATORS: dict[str, tuple[Any, ...]] = {
    **{
        f"x {sign} y": ((X, Y), (I8, I1), (P, P))
        for sign in ("+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=")
    },
    **{f"x {sign} y": ((I1, I8), (T, T)) for sign in ("&", "|", "^")},
    "x << (y & 3)": ((I1, I1), (I8, I1)),
    "x >> 2": ((I1, I1), (U1, U1)),
    "2 << (x & 3)": (I1, I1),
    "x ** 2": ((X, X), (I1, I1), (C, C), (T, T)),
    "x ** 3, np.power(x, 2), x ** x": (T, T),
    "x ** -1": (P, P),
    "x ** y": ((P, Y), (P, P)),
    "2 ** x": (X, X),
    "-x": ((X, X), (I1, I1)),
    "+x": (X, X),
    "~x": ((I1, I1), (T, T)),
    "abs(x)": ((X, X), (I1, I1), (C, C)),
    "divmod(x, y)": (P, P),
    "divmod(x, 2)": (I1, I1),
    "1 - x, 3 / x, 7 // x, 7 % x": (P, P),
}
UFUNCS: dict[str, tuple[Any, ...]] = {
    "np.sqrt(x), np.exp(x), np.log(x), np.tanh(x)": ((P, P), (H * H, H), (U1, U1)),
    "np.maximum(x, y), np.fmin(x, y)": ((HOLES, Y), (I1, I8)),
    "np.modf(x)": (X, X),
    "np.frexp(x)": (X, X),
    "np.sqrt(x, dtype='f8'), np.add(x, y, dtype='f8')": (P, P),
    "np.arctan2(x, y), np.hypot(x, y), np.copysign(x, y)": (X, Y),
    "np.isnan(x), np.isfinite(x), np.signbit(x)": (HOLES, HOLES),
    "np.logical_and(x, y), np.logical_not(x)": ((X, Y), (I1, I1)),
    "np.gcd(x, y), np.left_shift(x, 1), np.bitwise_count(x)": (U1, U1),
    "np.exp(x), np.sqrt(x), np.conj(x), np.square(x)": (C, C),
    "np.add.reduce(x), np.maximum.reduce(x, axis=1), np.multiply.reduce(x, axis=None)": (X, X),
    "np.logical_or.reduce(x, axis=1), np.logical_and.reduce(x)": (T, T),
}
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "np.where(x > 0, x, y)": ((X, Y), (I1, X), (X, 2), (X, np.float64(2)), (H, 1)),
    "np.where(x, 1, 2.5), np.where(x > 0, 1, 0), np.where(True, x, y)": (X, Y),
    "np.clip(x, -0.5, 0.5), x.clip(0), np.clip(x, None, 1)": ((X, X), (C, C)),
    "np.clip(x, 1, 3)": (I1, I1),
    "np.clip(x, -1000, 1000), x.clip(-1000, 3), np.clip(x, 1, 1000), np.clip(x, 0.5, 1000)": (
        *((I1, I1), (U1, U1), (H, H)),
    ),
    "x.conj() * 1, x.conjugate()[0]": ((T, T), (I1, I1), (X, X), (C, C)),
    "np.copy(x), x.copy(), np.real(x), x.real, np.imag(x), x.imag": ((X, X), (C, C), (I1, I1)),
    "np.angle(x)": ((X, X), (C, C), (I1, I1)),
    "np.angle(x, deg=True)": (C, C),
    "np.around(x), np.around(x, 1), x.round(2), np.round(x, -1)": ((D, D), (I8, I8)),
    "np.around(x)": ((T, T), (H, H), (C, C)),
    "np.nan_to_num(x), np.nan_to_num(x, nan=3.0, posinf=1)": (HOLES, HOLES),
    "np.nan_to_num(x / 0), np.nan_to_num(x / 0, True, 2, 9, y)": ((X, Y), (H, H), (D, D)),
    "np.nan_to_num(x), np.nan_to_num(x, nan=3.0, posinf=1, neginf=-2)": (
        *((C * [np.nan, np.inf, 1j * np.inf, 1, 1, -np.inf, 1], X), (I1, X), (T, X)),
    ),
    "np.isclose(x, y), np.isclose(x, x + 1e-9, equal_nan=True)": (
        *((HOLES, Y), (T, T), (X, T), (C, C), (X, 1), (H, np.float64(0.5))),
    ),
    "np.isclose(x, y, atol=1), np.isclose(y, x, 0, 30), np.isclose(3, x)": ((U1, U1), (I1, I8)),
    "np.isclose(x, 0.1, rtol=0, atol=0), np.isclose(x, 1, y, y)": (np.full(3, 0.1, "f4"), V[:3]),
    "np.zeros_like(x), np.ones_like(x), np.full_like(x, 3), np.full_like(x, 1, dtype='i2')": (X, X),
    "np.empty_like(x).shape == x.shape and np.empty_like(x, 'i2') * 0, np.full_like(x, y[0])": (
        *((X, Y), (I1, X)),
    ),
    "np.full_like(x, y[None, None]), np.full_like(x, y[:, :1], 'f8'), np.full_like(x[0], y[:1])": (
        *((X, Y), (I1, X)),
    ),
    "x.astype('f8'), x.astype(int), x.astype(bool), x.astype(np.float16)": ((X, X), (I1, I1)),
    "x.astype('f4')": (U1, U1),
    "np.iscomplexobj(x) * x, np.ndim(x) * x, np.shape(x)[0] * x, np.size(x) * x": (X, X),
    "x * np.size(x, 0), x * np.size(x, (0, 1)), x.astype(np.result_type(x, 1.0))": (X, I1),
    "x.astype(np.result_type(x, y, 'i2'))": ((I1, 2.5), (I1, U1), (X, D)),
}
REDUCTIONS: dict[str, tuple[Any, ...]] = {
    **{
        f"np.{name}(x), np.{name}(x, axis=1), np.{name}(x, axis=-2, keepdims=True), "
        f"np.{name}(x, axis=(0, 1), keepdims=True)": ((X, X), (I1, I1))
        for name in ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "ptp")
    },
    **{
        f"np.{name}(x), np.{name}(x, axis=0), np.{name}(x, axis=1, keepdims=True)": (HOLES, X)
        for name in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd")
    },
    "np.argmax(x), np.argmin(x, axis=1), x.argmax(0), x.argmin(1, keepdims=True)": (
        *((HOLES, X), (I1, X), (C, C), (T, T)),
    ),
    "np.nanargmax(x), np.nanargmin(x), np.nanargmax(x, 0), np.nanargmin(x, 1, keepdims=True)": (
        *((HOLES, X), (-HOLES, X), (I1, X), (C + HOLES, C), (T, T)),
    ),
    "np.count_nonzero(x, axis=1), np.amax(x), np.amin(x, 0)": (I1, I1),
    "x.sum(), x.mean(1), x.var(0), x.std()": ((H, H), (C, C), (U1, U1), (D, D)),
    "x.sum(dtype='f8'), np.mean(x, dtype='f8'), np.prod(x, 0, dtype='f8')": (X, X),
    "np.mean(x, dtype='i4'), np.mean(x, 0, dtype='i2'), np.mean(x, dtype=bool)": (
        (P * 3, X),
        (T, T),
    ),
    "np.nanmean(x, dtype='i4')": ((I1, I1), (T, T)),
    "x.var(ddof=1), np.std(x, axis=1, correction=1)": (X, X),
    "x.max(), x.min(1), x.sum(0)": ((T, T), (C, C)),
    "x.sum(0), x.sum(1), x.max(1), x.sum()": (X, X),
    "np.sqrt((x * x).sum(1)) + 1, (x * y).sum()": (X, Y),
    "(x - np.sum(x)) * 2": (X, X),
    "np.sum(x.sum(), axis=0) + np.max(x.max(), axis=-1), np.argmax(x.max(), 0)": (X, X),
    "x - x.mean(1, keepdims=True)": ((X, X), (H, H)),
    "(x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True) * y[0]": (X, Y),
    "np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True))"
    ".sum(1, keepdims=True)": (X, X),
    "(x - x.sum(0)).sum(1)": (X, X),
    "(x - x.sum(0)).sum(1).max()": (X, X),
    "x.sum(1)[:, None] * y, x.sum(1)[::2], x.sum(1).reshape(1, 5), x.mean().reshape(1, 1)": (X, Y),
    "np.broadcast_to(x.sum(), (3,)), x.sum(0)[-1], x.max(0)[::-1]": (X, Y),
}
VIEWS: dict[str, tuple[Any, ...]] = {
    "x.T, x.T + 1, x.T.sum(0), x.T.reshape(5, 7)": (X, X),
    "x.reshape(7, 5), x.reshape(7, -1) * 2, (x + 1).reshape(7, 5).sum(1), x.ravel()": (X, X),
    "(x * 2).reshape(-1), (x * 2).reshape(-1)[3:], (x + y).flatten()": (X, Y),
    "x[0], x[1:3], x[:, ::2], x[::-1], x[..., None], x[None], x[-1, 2], x[1:3, 4]": (X, X),
    "x[1:, 1:] - x[:-1, :-1], (x * y)[1:3], (x * y)[:, ::-1] + x, (x * y[0])[2]": (X, Y),
    "x.sum(1)[:, None][:, 0], x.sum(1)[:, None, None][::2, :, 0], x[:, None, None][:, ::-1, 0]": (
        *((X, X), (I1, X)),
    ),
    "x[:, None][:, :0], x[None][0, :, None][1:, 0], x.mean(1, keepdims=True).squeeze() * 2": (X, X),
    "x[:, :1].reshape(1, 5), np.exp(x[:1]).reshape(7, 1, 1), (x.max(0) - 1).reshape(1, -1)": (X, X),
    "x[:0].reshape(1, 0, 7, 1), x.sum().reshape(1, 1) + y, x[:1, :1].reshape(())": (X, Y),
    "x[5:2], x[::-2], x[-1:0:-1], x[-6::-1], x[-9::-2], x[-5::-2], x[:0][::-2]": (X, X),
    "x.swapaxes(0, 1), np.moveaxis(x, 0, 1), np.transpose(x), x.transpose(1, 0)": (X, X),
    "np.expand_dims(x, 1), np.squeeze(x[:1]), np.flip(x, 0), np.flip(x)": (X, X),
    "np.broadcast_to(x[0], (5, 7)), np.broadcast_to(x[0], (2, 5, 7)) + y": (X, Y),
    "[one for one in x][1], sum(x), x[0] + x[1]": (X, X),
}


@table({**OPERATORS, **UFUNCS})
def test_operators_and_ufuncs(place: ArrayDevice, texts: list[str], args: Any) -> None:
    check(together([*map(of, texts)]), args, place)


@table({**FUNCTIONS, **REDUCTIONS})
def test_functions_and_reductions(place: ArrayDevice, texts: list[str], args: Any) -> None:
    check(together([*map(of, texts)]), args, place)


@table(VIEWS)
def test_views(device: ArrayDevice, texts: list[str], args: Any) -> None:
    check(together([*map(of, texts)]), args, device)


def deep(steps: int, step: Function, look: Function) -> Function:
    """Return a function of many steps, and a view of what they give."""

    def function(x: Any) -> Any:
        for _ in range(steps):
            x = step(x)
        return look(x)

    return function


LOOKS: dict[str, Function] = {
    "as it is": lambda y: y,
    "T": lambda y: y.T,
    "an index": lambda y: y[0],
    "reversed": lambda y: y[::-1],
    "broadcast": lambda y: np.broadcast_to(y, (2, 5, 7)) * 1,
    "a sum": lambda y: y.sum(0) * 2,
}


@pytest.mark.parametrize("look", LOOKS)
def test_many_steps(place: ArrayDevice, look: str) -> None:
    check(deep(600, lambda y: y * 0.5 + 1, LOOKS[look]), (D,), place)
    check(deep(20, lambda y: y * y - y, LOOKS[look]), (D / 9,), place)  # 2**20 ways through it


def test_many_steps_of_a_sum_and_of_a_number(device: ArrayDevice) -> None:
    def after(x: Any, s: Any) -> Any:
        total = x.sum(0)
        for _ in range(600):
            total, s = total * 0.5 + 1, s * s - s
        return total * s

    check(after, (D, np.float64(0.5)), device)
    text = fuse(device="host")(deep(40, lambda y: y * y + y, LOOKS["a sum"])).explain(D)
    assert "writes multiply(sum(add(multiply(a" in text


def test_means_of_infinities(device: ArrayDevice) -> None:
    """A mean is that of the sum, not one that deviations are measured from."""
    x = np.array([[np.inf, 1, 2], [-np.inf, np.inf, 0], [1, 2, 3]], "f4")
    check(lambda x: (x.mean(axis=1), x.var(axis=1)), (x,), device)
    check(lambda x: (x - x.mean(axis=1, keepdims=True), x.std(axis=1)), (x,), device)


SPREADS = ("var", "std", "nanvar", "nanstd")


@pytest.mark.parametrize("rows", ["never", "always"])
def test_spreads_of_infinities(
    device: ArrayDevice, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is none, in whatever order they come; what is skipped is NaN of the argument alone."""
    monkeypatch.setenv("KSPEC_FUSE_ROWS", rows)
    x = np.array([[2, 4, np.inf], [np.inf, 1, 2], [1, -np.inf, np.nan], [1, np.nan, 3]], "f4")
    for text in ("np.{0}(x), np.{0}(x, axis=1)", "np.{0}(x[:, 2:], axis=1)"):
        check(of(", ".join(map(text.format, SPREADS)), 1), (x,), device)
    check(of(", ".join(map("np.{}(x, axis=1)".format, SPREADS)), 1), (x.astype("c8"),), device)


def test_spreads_of_fewer_elements_than_are_subtracted(device: ArrayDevice) -> None:
    x = np.array([[1, 2, 3], [np.nan, 1, 2], [np.nan, np.nan, 1]], "f8")
    for less in (1, 2, 3):
        text = ", ".join(f"np.{name}(x, axis=1, ddof={less})" for name in SPREADS)
        check(of(text, 1), (x,), device)
    check(of(text, 1), (I1[:, :3],), device)


@pytest.mark.parametrize(
    ("x", "out"),
    [
        (np.full(4, 300, "f2"), "f4"),
        (np.full(4, 2e38, "f4"), "f8"),
        (np.full(3, 100, "i1"), "f4"),
        (np.full(3, 100, "u1"), "f2"),
        (V, "f2"),
        (V, "c8"),
    ],
)
def test_outputs_that_sums_are_computed_in(device: ArrayDevice, x: Any, out: str) -> None:
    def function(x: Any, *outputs: Any) -> None:
        several = (np.sum, np.prod, np.nansum, np.mean, np.nanmean)
        for one, output in zip(several, outputs, strict=True):
            one(x, out=output)

    check(function, (x, *(np.zeros((), out) for _ in range(5))), device)


def test_outputs_of_the_same_small_integers(device: ArrayDevice) -> None:
    check(_statements("np.sum(x, out=y)"), (np.full(3, 100, "i1"), np.zeros((), "i1")), device)
    check(_statements("np.prod(x, 0, out=y)"), (U1, np.zeros(7, "u1")), device)


@pytest.mark.parametrize("text", ["np.sum(x, 0", "np.mean(x, 1", "np.max(x, 0, keepdims=True"])
def test_outputs_of_another_shape(place: ArrayDevice, text: str) -> None:
    with pytest.raises(ValueError, match=r"out= has shape \(5, 7\), the result"):
        fused(of(f"{text}, out=y)"))(place.array(X), place.array(Y))


def test_copyto_by_another_rule(device: ArrayDevice) -> None:
    check(_statements("np.copyto(x, y, casting='unsafe')"), (I1, X), device)
    check(_statements("np.copyto(x, 2.5, casting='unsafe', where=y > 0)"), (I1, X), device)
    check(_statements("np.copyto(x, 5, where=1)"), (U1, X), device)


def test_nan_to_num_in_place(device: ArrayDevice) -> None:
    check(_statements("return np.nan_to_num(x, copy=False) + 1"), (HOLES, Y), device)
    check(_statements("return np.nan_to_num(x, copy=False) + 1"), (I1, Y), device)


def test_numbers_that_are_close(device: ArrayDevice) -> None:
    tenths = np.full(3, 0.1, "f4")
    for number in (0.1, np.float64(0.1), np.float32(0.1), 0, 1):
        check(of("np.isclose(x, y, rtol=0, atol=0)"), (tenths, number), device)


def test_attributes(device: ArrayDevice) -> None:
    seen: list[Any] = []

    def f(x: Any, y: Any) -> Any:
        seen.append((x.dtype, x.ndim, x.shape, x.size, y.shape, len(x)))
        return x

    fused(f)(device.array(X), device.array(V))
    assert seen == [(np.dtype("f4"), 2, (5, 7), 35, (7,), 5)]


# What is refused, with its class and a part of the message

REFUSED: dict[str, tuple[type[Exception], str]] = {
    "bool(x)": (TypeError, "Python number"),
    "x if x > 0 else y": (TypeError, "np.where"),
    "x and y": (TypeError, "Python number"),
    "int(x)": (TypeError, "Python number"),
    "float(x)": (TypeError, "Python number"),
    "math.sqrt(x.sum()) * y": (TypeError, "np.sqrt for math.sqrt"),
    "f'{x.sum():.3f}'": (TypeError, "return it, and print the result"),
    "np.zeros(x.shape)": (ValueError, "or None, not a concrete ndarray (np.zeros_like"),
    "(x, np.zeros(7))": (ValueError, "a concrete ndarray (np.zeros_like and its kin make one"),
    "np.float32(s) * x": (TypeError, "use it as it is, or convert it with astype"),
    "np.array([x[0], x[1]])": (TypeError, "join several with np.stack"),
    "complex(x)": (TypeError, "Python number"),
    "range(x)": (TypeError, "an index or extent must be known"),
    "x.item()": (TypeError, "Python number"),
    "x.tolist()": (TypeError, "Python number"),
    "x + np.zeros(7)": (TypeError, "assign it to one, or pass it as an argument"),
    "np.add(x, np.zeros(7))": (TypeError, "assign it to one, or pass it as an argument"),
    "x + [1, 2]": (TypeError, "a list is not fused; pass the function an array of it"),
    "np.where(x > 0, np.zeros(7), x)": (TypeError, "assign it to one, or pass it as an argument"),
    "np.matmul(x, y)": (TypeError, "call it outside"),
    "x @ y": (TypeError, "the operator @ is not fused; write (x * y).sum(-1)"),
    "np.zeros((7, 5)) @ x": (TypeError, "matmul is not fused; write (x * y).sum(-1)"),
    "x.__imatmul__(y)": (TypeError, "the operator @ is not fused; write (x * y).sum(-1)"),
    "x.cumsum(axis=s)": (TypeError, "cumsum: axis= must be known before kernels run"),
    "x.sort()": (AttributeError, "sort is not fused; call it outside"),
    "x.dot(y)": (TypeError, "dot is not fused; write (x * y).sum(-1)"),
    "x.view('i4')": (TypeError, "view is not fused; call it outside"),
    "x.sum(foo=1)": (TypeError, "sum: got an unexpected keyword argument 'foo'"),
    "x.mean(0, None, None, False, 1)": (TypeError, "mean: too many positional arguments"),
    "x.sum(s)": (TypeError, "sum: axis= must be known before kernels run"),
    "x.sum((0, s))": (TypeError, "sum: axis= must be known"),
    "np.round(x, s)": (TypeError, "round: decimals= must be known"),
    "x.reshape(s, -1)": (TypeError, "reshape: shape= must be known"),
    "np.flip(x, s)": (TypeError, "flip: axis= must be known"),
    "x.var(ddof=s)": (TypeError, "var: ddof= must be known"),
    "x[s]": (IndexError, "an index must be known before kernels run"),
    "x[:s]": (TypeError, "an index or extent must be known before kernels run"),
    "x[:x.argmax()]": (TypeError, "an index or extent must be known before kernels run"),
    "np.sort(x)": (TypeError, "call it outside"),
    "np.dot(x, y)": (TypeError, "call it outside"),
    "np.add.accumulate(x)": (TypeError, "call it outside"),
    "np.add.outer(x, y)": (TypeError, "call it outside"),
    "np.asarray(x)": (TypeError, "cannot become a NumPy array"),
    "np.where(x > 0)": (TypeError, "unknown size"),
    "x[x > 0]": (IndexError, "np.where for truth values"),
    "x[[0, 1]]": (IndexError, "np.where for truth values"),
    "x[np.array([0, 1])]": (IndexError, "np.where for truth values"),
    "x[0, 0, 0]": (IndexError, "too many indices"),
    "x[5]": (IndexError, "out of bounds"),
    "x[..., ...]": (IndexError, "single ellipsis"),
    "x[1.5]": (IndexError, ""),
    "x.__setitem__(0, 1)": (ValueError, "assignment to a part of an array is not fused"),
    "x.__setitem__((slice(1), 2), 1)": (
        ValueError,
        "assignment to a part of an array is not fused",
    ),
    "x.astype('f4', 'K')": (TypeError, ""),
    "x.astype('f4', order='K')": (TypeError, ""),
    "x.astype('f4', casting='safe')": (TypeError, ""),
    "x.astype('f4', subok=True)": (TypeError, ""),
    "x.astype('U4')": (TypeError, ""),
    "x + 'text'": (TypeError, ""),
    "x + None": (TypeError, ""),
    "x + y[:, :3]": (ValueError, "could not be broadcast"),
    "x.sum(2)": (np.exceptions.AxisError, "sum: axis 2 is out of bounds"),
    "x.sum().mean(0)": (np.exceptions.AxisError, "out of bounds"),
    "x.sum().max(1)": (np.exceptions.AxisError, "out of bounds"),
    "x == None": (TypeError, "compared with None"),
    "x != 'text'": (TypeError, "compared with 'text'"),
    "x.T.reshape(-1, copy=False)": (ValueError, "Unable to avoid creating a copy"),
    "x.reshape(-5, 7)": (ValueError, "cannot reshape"),
    "x.sum((0, 0))": (ValueError, "duplicate value in 'axis'"),
    "x.argmax((0, 1))": (TypeError, ""),
    "np.add(x)": (TypeError, ""),
    "np.add(x, y, x, out=x)": (TypeError, ""),
    "np.sqrt(x, y, x)": (TypeError, ""),
    "np.add(x, y, where=x > 0)": (TypeError, "np.where"),
    "np.add(x, y, out=np.zeros((5, 7)))": (TypeError, "passed to the function"),
    "np.sum(x, where=x > 0)": (TypeError, "np.where"),
    "np.sum(x, initial=3)": (TypeError, ""),
    "np.exp(x, order='F')": (TypeError, ""),
    "np.zeros_like(x, shape=(2, 2))": (TypeError, "zeros_like: shape= is not fused"),
    "np.full_like(x, 3, shape=2)": (TypeError, "full_like: shape= is not fused"),
    "np.full_like(x[0], y)": (ValueError, "does not fit (7,)"),
    "np.add(x, y, dtype='i4')": (TypeError, "Cannot cast"),
    "np.less(x, y, dtype='f8')": (TypeError, "No loop"),
    "np.copyto(x.astype('i4'), 2.5)": (
        TypeError,
        "float64 cannot be written into an array of int32",
    ),
    "np.copyto(x > 0, 1)": (TypeError, "int64 cannot be written into an array of bool"),
    "np.copyto(x, y, casting='no', where=y)": (TypeError, "where= must be an array of bool"),
    "np.copyto(x, y.astype('f8'), casting='safe')": (TypeError, "by casting='safe'"),
    "np.add(x, y, out=x, where=y)": (TypeError, "where= must be an array of bool, not of float32"),
    "np.ptp(x > 0)": (TypeError, "boolean subtract"),
    "np.var(x, dtype='i4')": (TypeError, "dtype= of integers is not fused"),
    "np.var(x, dtype='c8')": (TypeError, "dtype= of or for complex numbers is not fused"),
    "np.std(x * 1j, dtype='f4')": (TypeError, "dtype= of or for complex numbers is not fused"),
    "np.around(x > 0, 1)": (TypeError, "decimals= of bool is not fused"),
    "np.nanmean(x, dtype='i4')": (TypeError, "dtype= of integers is not fused"),
    "np.var(x, ddof=1, correction=1)": (ValueError, "ddof and correction"),
    "x.reshape(3, 3)": (ValueError, "cannot reshape"),
    "x.reshape(7, 5, order='F')": (TypeError, "order='F'"),
    "x.transpose(0)": (ValueError, "axes"),
    "x & y": (TypeError, ""),
    "~x": (TypeError, ""),
    "x.nonsense": (AttributeError, "nonsense"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(place: ArrayDevice, text: str, launches: list[str]) -> None:
    kind, message = REFUSED[text]
    made = fused(eval(f"lambda x, y, s: ({text})", {"np": np, "math": math}))
    x, y = place.array(X), place.array(Y)
    for _ in range(2):
        with pytest.raises(kind) as caught:
            made(x, y, 1)
        assert message in str(caught.value)
    assert launches == []


# What a refusal says to write is fused, and the same.
INSTEAD = {
    "np.allclose(x, y)": "np.isclose(x, y).all()",
    "np.array_equal(x, y)": "(x == y).all()",
    "np.average(x, weights=y)": "(x * y).sum() / y.sum()",
    "np.fix(x)": "np.trunc(x)",
    "np.fliplr(x)": "x[:, ::-1]",
    "np.flipud(x)": "x[::-1]",
    "np.isneginf(x)": "x == -np.inf",
    "np.isposinf(x)": "x == np.inf",
    "np.outer(x[0], y[0])": "x[0][:, None] * y[0]",
    "np.polyval((3, 2, 1), x)": "(3 * x + 2) * x + 1",
    "np.trapezoid(x[0])": "(x[0, 1:] + x[0, :-1]).sum() / 2",
    "np.matrix_transpose(x)": "np.swapaxes(x, -1, -2)",
    "np.column_stack([x, y])": "np.concatenate([x, y], axis=1)",
    "np.dstack([x, y])": "np.stack([x, y], axis=-1)",
    "np.inner(x[0], y[0])": "(x[0] * y[0]).sum(-1)",
}


@pytest.mark.parametrize("text", INSTEAD)
def test_advice_of_refusals(place: ArrayDevice, text: str) -> None:
    x, y = np.arange(1.0, 13).reshape(3, 4), np.arange(13.0, 1, -1).reshape(3, 4)
    arguments = place.array(x), place.array(y)
    with pytest.raises(TypeError, match="is not fused; write "):
        fused(eval(f"lambda x, y: {text}", {"np": np}))(*arguments)
    found = fused(eval(f"lambda x, y: {INSTEAD[text]}", {"np": np}))(*arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of np.fix, by NumPy 2.5
        wanted = eval(text, {"np": np, "x": x, "y": y})
    np.testing.assert_allclose(place.numpy(found), wanted)


def test_advice_is_about_what_is_not_fused() -> None:
    assert not refusals._INSTEAD.keys() & functions.FUNCTIONS.keys()


def test_messages_show_the_line(place: ArrayDevice) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        return 1 if y > 0 else 2  # here

    with pytest.raises(FusionError, match=r"test_fuse.py:\d+, in f\n.*# here"):
        fused(f)(place.array(X))


@pytest.mark.parametrize(
    "text", ["x[x > 0]", "x[s]", "x @ x", "x.sort()", "x.sum(s)", "x.sum(a=1)"]
)
def test_messages_of_refusals_show_the_line(place: ArrayDevice, text: str) -> None:
    made = fused(eval(f"lambda x, s: ({text})", {"np": np}))
    with pytest.raises(FusionError, match=r"\n  <string>:1, in <lambda>"):
        made(place.array(X), 1)


def test_what_proxies_lack_is_absent() -> None:
    seen: list[bool] = []
    fused(lambda x: seen.extend((hasattr(x, "sort"), hasattr(x, "nonsense"))) or x + 1)(X)  # type: ignore[func-returns-value]
    assert seen == [False, False]


def test_read_only_arguments_are_named() -> None:
    x, y = X.copy(), X.copy()
    y.flags.writeable = False
    made = fused(_statements("x += 1", "y *= 2", "return x - y"))
    with pytest.raises(TypeError, match="f: argument y is written to, but the array is read-only"):
        made(x, y)
    np.testing.assert_array_equal(y, X)


def test_nothing_is_written_by_calls_that_are_refused() -> None:
    """Arrays of two shapes are written to by two kernels; the second may not be the first to say."""

    def function(x: Any, y: Any, s: Any) -> None:
        x += 1
        y += s

    made = fused(function)
    x, y = np.zeros(3, "f4"), np.zeros(4, "f4")
    read_only, buffer = y.copy(), np.zeros(17, "u1")
    read_only.flags.writeable = False
    refused: list[tuple[Any, Any, type[Exception], str]] = [
        (read_only, 1, TypeError, "argument y is written to, but the array is read-only"),
        (buffer[1:].view("f4"), 1, TypeError, "argument y is not aligned"),
        (np.broadcast_to(y[:1], 4), 1, TypeError, "read-only"),
        (as_strided(y, (4,), (0,)), 1, ValueError, "argument y is written to, but several of its"),
        (y, 2**63, TypeError, "s is beyond int64"),
    ]
    for number in range(2):
        for other, s, kind, message in refused:
            with pytest.raises(kind, match=message):
                made(x, other, s)
            with pytest.raises(kind, match=message):
                made(x[None], other, s)
        np.testing.assert_array_equal(x, number)
        np.testing.assert_array_equal(y, number)
        made(x, y, 1)


@pytest.mark.parametrize("dtype", ["?", "i1", "f4"])
@pytest.mark.parametrize(
    "texts",
    [
        ("n + n", "~n", "-n", "+n", "n ** 2", "n * 3", "n - n", "n << 2", "n / 2", "n // n"),
        ("n & n", "n | True", "n ^ 3", "n == n", "abs(n)", "round(n)", "divmod(n, n)[0]"),
        ("(s > 0) + (s > 2)", "(s > 0) - (s < 0)", "-(s > 0)", "~(s > 0)", "(s > 0) & n"),
    ],
)
def test_operators_of_pythons_bools(
    device: ArrayDevice, texts: tuple[str, ...], dtype: str
) -> None:
    x = np.arange(4).astype(dtype)
    results = ", ".join(f"x + ({text})" for text in texts)
    check(eval(f"lambda x, n, s: ({results})"), (x, True, 5), device)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (np.array([3, 5], "u1"), "np.isclose(x, 5, rtol=0.5)"),
        (np.array([True, False]), "np.isclose(x, True)"),
        (np.array([1, 2.5], "f4"), "np.isclose(x, 1)"),
        (np.array([1, 2.5j], "c8"), "np.isclose(x, 2.5j)"),
    ],
)
def test_numbers_that_integers_are_close_to(device: ArrayDevice, x: Any, text: str) -> None:
    check(eval(f"lambda x: {text}", {"np": np}), (x,), device)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_arrays_with_operators_of_their_own() -> None:
    made = fused(lambda x, y: x * y)
    x = np.matrix([[1, 2], [3, 4]])
    for _ in range(2):
        with pytest.raises(FusionError, match=r"y is a matrix, .* pass np\.asarray\(y\)"):
            made(np.asarray(x), x)
    np.testing.assert_array_equal(made(np.asarray(x), np.asarray(x)), [[1, 4], [9, 16]])


@pytest.mark.parametrize("text", ["shape", "dtype"])
def test_attributes_that_are_not_assigned_to(place: ArrayDevice, text: str) -> None:
    function = _statements(f"x.{text} = x.{text}", "return x * 2")
    with pytest.raises(AttributeError, match=f"{text} is not assigned to"):
        fused(function)(place.array(X), 0)


def test_arrays_that_no_kernel_takes_are_named() -> None:
    masked = np.ma.masked_array(X)
    refused = pytest.raises(kspec.UnsupportedDTypeError, match="f: argument y: masked arrays")
    for body in (("return x + y",), ("x += y", "return x")):
        made = fused(_statements(*body))
        with refused:
            made(X.copy(), masked)
        made(X.copy(), X)
        with refused:  # of types and shapes that are known by now
            made(X.copy(), masked)
        with refused:
            made.explain(X, masked)


@pytest.mark.parametrize("body", [("return x + y",), ("x += y", "return x")])
def test_tensors_that_require_grad_are_named(body: tuple[str, ...]) -> None:
    torch = pytest.importorskip("torch")
    made, one = fused(_statements(*body)), torch.ones(3)
    for _ in range(3):
        with pytest.raises(
            kspec.ArgumentTypeError, match="f: argument y: the tensor requires grad"
        ):
            made(one.clone(), torch.ones(3, requires_grad=True))
        made(one.clone(), one)


def test_kernels_inside(place: ArrayDevice) -> None:
    elementwise = kspec.ElementwiseKernel("T x", "T y", "y = x + 1", "add_one")
    indexed = kspec.ElementwiseKernel("T x", "T y", "y = x + i", "add_index")
    reduction = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum_of")
    np.testing.assert_array_equal(
        place.numpy(fused(lambda x: elementwise(x) * 2)(place.array(X))), (X + 1) * 2
    )
    with pytest.raises(TypeError, match=r"add_index is not fused, (.*\n)*.*test_fuse.py"):
        fused(lambda x: indexed(x))(place.array(X))
    with pytest.raises(TypeError, match="sum_of"):
        fused(lambda x: reduction(x))(place.array(X))


def test_concrete_arrays_of_closures(device: ArrayDevice) -> None:
    constant = device.array(V)
    for function in (lambda x: x + constant, lambda x: constant + x, lambda x: np.add(constant, x)):
        found = fused(function)(device.array(X))
        np.testing.assert_array_equal(device.numpy(found), X + V)


def test_leaving_a_proxy_behind(device: ArrayDevice) -> None:
    kept: list[Any] = []
    fused(lambda x: kept.append(x) or x)(device.array(X))  # type: ignore[func-returns-value]
    with pytest.raises(TypeError, match="another fused function"):
        fused(lambda x: x + kept[0])(device.array(X))


# Special functions


def test_functions_of_scipy(place: ArrayDevice) -> None:
    special = pytest.importorskip("scipy.special")
    pairs = [(P, P), (D * D, D)]
    # Since 1.17 SciPy prefers double precision, for bools and Python's numbers too; CuPy does not.
    single = special.erf.types[0] == "f->f"
    pairs += [(T, T)] if single else []
    for args in pairs:
        two = 2.0 if single else args[0].dtype.type(2)
        check(
            lambda x, y, z=two: (special.erf(x), special.xlogy(x, z), special.expit(y)), args, place
        )


def test_gelu(place: ArrayDevice) -> None:
    special = pytest.importorskip("scipy.special")

    def gelu(x: Any, bias: Any) -> Any:
        t = x + bias
        return 0.5 * t * (1 + special.erf(t * np.sqrt(0.5)))

    check(gelu, (D, V.astype("f8")), place)


class FromCuPy:
    """Stands for one of CuPy's ufuncs, of which proxies only ask the name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any) -> Any:
        return args[0].__cupy_override_elementwise_kernel__(self, *args)


def test_functions_of_cupyx(place: ArrayDevice) -> None:
    x = np.array([0.0, 0.5, 1, 2, 3], "f4")
    erf, rsqrt = FromCuPy("cupyx_scipy_special_erf"), FromCuPy("cupy_rsqrt")
    got = fused(lambda x: (erf(x), rsqrt(x + 1), FromCuPy("cupy_sqrt")(x)))(place.array(x))
    wanted = np.array([0, 0.5204999, 0.8427008, 0.9953223, 0.9999779], "f4")
    agree(got, (wanted, 1 / np.sqrt(x + 1), np.sqrt(x)), place)
    for kind, result in (("f2", "f4"), ("i2", "f4"), ("i4", "f8"), ("?", "f4"), ("f8", "f8")):
        found = fused(erf.__call__)(place.array(x.astype(kind)))
        assert place.numpy(found).dtype == result
    with pytest.raises(TypeError, match="is not fused"):
        fused(lambda x: FromCuPy("cupyx_scipy_special_zeta")(x))(place.array(x))
    with pytest.raises(TypeError, match="erf"):
        fused(lambda x: erf(x * 1j))(place.array(x))


# Other libraries


@pytest.mark.gpu
def test_cupy_functions_inside() -> None:
    cupy = pytest.importorskip("cupy")

    def f(x: Any, y: Any) -> Any:
        t = cupy.where(x > 0, cupy.sqrt(cupy.abs(x)), y)
        return t - cupy.sum(t, axis=1, keepdims=True), cupy.maximum(x, y), cupy.amax(t)

    t = np.where(X > 0, np.sqrt(np.abs(X)), Y)
    got = fuse(f)(cupy.asarray(X), cupy.asarray(Y))
    for one, other in zip(
        got, (t - t.sum(1, keepdims=True), np.maximum(X, Y), t.max()), strict=True
    ):
        np.testing.assert_allclose(cupy.asnumpy(one), other, rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
def test_cupy_functions_that_are_refused() -> None:
    cupy = pytest.importorskip("cupy")
    x = cupy.asarray(X)
    for function in (cupy.cumsum, lambda x: cupy.matmul(x, x.T), lambda x: x + cupy.zeros(7)):
        with pytest.raises(TypeError):
            fuse(_closed(function))(x)


def _closed(function: Function) -> Function:
    return lambda x: function(x)


TORCH = {
    "chain": "(x - y) * (x - y)",
    "softmax": "np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)",
    "turned": "x[::-1, 1:] + y[:, :-1]",
    "transposed": "x.T.sum(0), x.T * 2",
    "broadcast": "np.broadcast_to(x[0], (5, 7)) + y",
    "shapes": "(x * 2).reshape(-1), x.mean()",
}


@pytest.mark.parametrize("name", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("text", TORCH.values(), ids=TORCH)
def test_torch(name: str, text: str) -> None:
    torch = importlib.import_module("torch") if _has("torch") else pytest.skip("no torch")
    x, y = (torch.from_numpy(one.copy()).to(name) for one in (X, Y))
    got, wanted = fused(of(text))(x, y), of(text)(X, Y)
    pairs = zip(got, wanted, strict=True) if isinstance(wanted, tuple) else ((got, wanted),)
    for one, other in pairs:
        assert isinstance(one, torch.Tensor)
        assert one.device.type == name
        np.testing.assert_allclose(one.cpu().numpy(), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_torch_in_place(name: str) -> None:
    torch = importlib.import_module("torch") if _has("torch") else pytest.skip("no torch")
    x, y = (torch.from_numpy(one.copy()).to(name) for one in (X, Y))
    fused(_statements("x += y", "y[...] = x[::-1]"))(x, y)
    np.testing.assert_allclose(x.cpu().numpy(), X + Y, rtol=1e-6)
    np.testing.assert_allclose(y.cpu().numpy(), (X + Y)[::-1], rtol=1e-6)


def _has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def test_bfloat16(device: ArrayDevice) -> None:
    if device.library == "cupy":
        pytest.skip("CuPy has no bfloat16")
    kind = kspec.runtime.memory.numpy_dtype("bfloat16")
    x = X.astype(kind)
    got = device.numpy(fused(of("x * 2 + 1", 1))(device.array(x, kind)))
    assert got.dtype == kind
    np.testing.assert_allclose(got.astype("f4"), X * 2 + 1, rtol=2e-2, atol=2e-2)
    for decimals in (1, -1):
        rounded = kspec.fuse(device="host", round_each=True)(of(f"np.round(x * 50, {decimals})", 1))
        got = device.numpy(rounded(device.array(x, kind)))
        assert got.dtype == kind
        np.testing.assert_array_equal(got, np.round(x * 50, decimals))
    x[0, :3] = np.inf, -np.inf, np.nan
    got = device.numpy(fused(lambda x: np.nan_to_num(x))(device.array(x, kind)))
    assert got.dtype == kind
    most = float(ml_dtypes.finfo(kind).max)
    np.testing.assert_array_equal(got[0, :3].astype("f8"), [most, -most, 0])
    np.testing.assert_array_equal(got[1:], x[1:])


# What kernels come out


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("(x - y) * (x - y) + 1", 1),
        ("x + 1, x * 2", 1),
        ("(x * y).sum()", 1),
        ("np.sqrt((x * y).sum(1)) * 2", 1),
        ("x.mean(), x.var()", 1),
        ("x.sum(0), y.max(0)", 1),
        ("(x - x.sum()) * 2", 2),
        ("x.sum(0), x.sum(1)", 2),
        ("(x * 2).reshape(-1)", 1),
        ("x.sum(1)[::2]", 1),
        ("x.mean().reshape(1, 1)", 1),
        ("x.mean(1, keepdims=True).squeeze(1)", 1),
        ("x.mean(1, keepdims=True)[:, 0] + x.max(1)[None, :, None][0, ..., -1]", 1),
        ("x.sum(1).reshape(-1, 1) / 3", 1),
    ],
)
def test_how_many_kernels(text: str, count: int) -> None:
    lines = fused(of(text)).explain(X, Y).splitlines()
    assert sum(line.endswith((f"{count} kernel", f"{count} kernels")) for line in lines) == 1


def test_functions_of_numbers_are_not_computed_for_each_element(device: ArrayDevice) -> None:
    def adam(p: Any, m: Any, v: Any, t: Any, r0: Any, b: Any = 0.9, lr: Any = 0.1) -> None:
        m *= b
        v *= b * b
        p -= lr * (m / (1 - b**t)) / (np.sqrt(v / (1 - (b * b) ** t)) + np.exp(-r0 * lr))

    (spec,) = fused(adam).to_spec(X, Y, P, 3, 2)
    assert isinstance(spec, ElementwiseSpec)
    assert spec.loop_prep.count("pow(") == 2
    assert spec.loop_prep.count("exp(") == 1
    assert "pow(" not in spec.operation and "exp(" not in spec.operation
    made = fused(adam)
    for t in (1, 4, np.float32(2.5)):
        wanted, given = [X.copy(), Y.copy(), P.copy()], [device.array(one) for one in (X, Y, P)]
        adam(*wanted, t, 2)
        made(*given, t, 2)
        agree(tuple(given), tuple(wanted), device)
    check(lambda x, s: (x + np.sqrt(s), x.sum() * np.log(s), np.exp(x) ** s), (X, 2.0), device)
    check(lambda x, s: np.hypot(s, 2.0) * np.ones_like(x) + np.floor(s // 3) % 2, (I1, 7), device)
    (spec,) = fused(of("x * (1 - y) / -y")).to_spec(X, 2.0)
    assert isinstance(spec, ElementwiseSpec)
    assert not spec.loop_prep


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (("x += y", "return x"), 1),
        (("x -= y", "return x, x * 2, y"), 1),
        (("t = x.copy()", "x += 1", "y *= t", "return t - y"), 1),
        (("x += 1", "return x.astype('f8')"), 1),
        (("x /= x.sum(0)", "return x"), 2),
        # These would need copies of what is overwritten, or are of another shape.
        (("t = x[::-1] * 2", "x += y", "return t"), 2),
        (("t = x[0] * 2", "x += y", "return t"), 2),
        (("t = x * 2", "x.T[...] = y.T", "return t.T"), 2),
    ],
)
def test_how_many_kernels_write_in_place(lines: tuple[str, ...], count: int) -> None:
    text = fused(_statements(*lines)).explain(X, Y)
    assert text.splitlines()[0] == ("1 kernel" if count == 1 else f"{count} kernels")
    assert " x, in place (float32 [5, 7], 140 bytes)\n" in f"{text}\n"


@pytest.mark.parametrize(
    "lines",
    [
        ("t = x[::-1] * 2", "x += y", "return t"),
        ("t = x.copy()", "x += 1", "y *= t", "return t - y, t"),
        ("x += 1", "return x.astype('f8')"),
        ("t = x * y", "x[...] = y[::-1]", "y += 1", "return t"),
        ("t = x + y[0]", "y += x", "return t"),
        ("t = x - x.mean(1, keepdims=True)", "x += y", "return t, t * x"),
    ],
)
def test_results_beside_arrays_that_are_written_to(
    device: ArrayDevice, lines: tuple[str, ...]
) -> None:
    check(_statements(*lines), (X, Y), device)


def test_the_first_array_decides_what_comes_back_beside_it() -> None:
    function = _statements("t = y * 2 + x", "x += 1", "return t")
    for first, kind in (kspec.asarray, kspec.DeviceArray), (np.asarray, np.ndarray):
        x, y = kspec.asarray(X, device="host"), first(Y)
        got = fused(function)(x, y)
        assert isinstance(got, kind)
        np.testing.assert_array_equal(kspec.asnumpy(got), Y * 2 + X)
        np.testing.assert_array_equal(kspec.asnumpy(x), X + 1)


def test_one_kernel_for_rows() -> None:
    text = fused(of("x - x.max(axis=1, keepdims=True)")).explain(X, Y)
    begin = "1 kernel on GPUs:\n   fused, rows of 7 elements kept in registers\n"
    assert text.startswith(begin)
    total = "np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True))"
    for other in (f"(x.max(1, keepdims=True) + {total})[:, 0]", "x / x.sum(1).reshape(-1, 1)"):
        assert fused(of(other)).explain(X, Y).startswith(begin)
    assert "elsewhere 2 kernels\n1. fused_0: reduction over axes (1,)" in text
    assert max(map(len, text.splitlines())) <= 80


def test_arguments_behind_any_number_of_others(device: ArrayDevice) -> None:
    def function(a: Any, *others: Any, scale: Any) -> Any:
        return a + sum(others) * scale

    made = fused(function)
    for count in 0, 1, 3:
        given = [X + k for k in range(count)]
        arrays = [device.array(one) for one in given]
        got = made(device.array(X), *arrays, scale=device.array(Y))
        agree(got, X + sum(given) * Y, device)
    lines = made.explain(X, X, Y, scale=Y).splitlines()
    names = [line.replace("reads", "").split()[0] for line in lines[2:6]]
    assert names == ["a", "x1", "x2", "scale"]
    with pytest.raises(FusionError, match="x1 must be an array, a number or None, not a str"):
        made(X, "s", scale=Y)
