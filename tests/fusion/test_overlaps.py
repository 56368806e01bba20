"""Arguments that share memory: each statement sees what those in front of it have written.

NumPy is the reference: the same function runs on arrays that share memory in the same way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kspec
from kspec import fuse
from kspec.errors import ArgumentTypeError, FusionError, OverlapError
from tests.devices import CUPY, HOST, OWN_CUDA, ArrayDevice, ready
from tests.profiles import examples

BASE = np.arange(64).reshape(8, 8) * 7 % 23
Looks = tuple[Callable[[Any], Any], ...]


def function_of(*lines: str) -> Callable[..., Any]:
    """Return a function of arrays a, b, c."""
    space: dict[str, Any] = {"np": np}
    exec("def f(a, b, c=None):\n" + "".join(f"    {line}\n" for line in lines), space)
    made: Callable[..., Any] = space["f"]
    return made


@functools.cache
def fused_of(*lines: str) -> Any:
    """Return it fused."""
    return fuse(device="host")(function_of(*lines))


def check(lines: tuple[str, ...], looks: Looks, device: ArrayDevice, base: Any = BASE) -> None:
    """Compare results and memory with those of the function as it is."""
    memory, given = base.copy(), device.array(base)
    wanted = function_of(*lines)(*(look(memory) for look in looks))
    found = fused_of(*lines)(*(look(given) for look in looks))
    np.testing.assert_array_equal(device.numpy(given), memory)
    assert (found is None) == (wanted is None)
    for one, other in zip(found or (), wanted or (), strict=True):
        assert device.numpy(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(device.numpy(one), other)


PAIRS: dict[str, Looks] = {
    "equal": (lambda y: y, lambda y: y),
    "transposed": (lambda y: y, lambda y: y.T),
    "shifted": (lambda y: y[1:], lambda y: y[:-1]),
    "shifted back": (lambda y: y[:-1], lambda y: y[1:]),
    "reversed": (lambda y: y[::-1], lambda y: y),
    "columns reversed": (lambda y: y, lambda y: y[:, ::-1]),
    "a corner": (lambda y: y[:5, :5], lambda y: y[3:, 3:]),
    "a row": (lambda y: y, lambda y: y[2]),
    "a column": (lambda y: y, lambda y: y[:, 3:4]),
    "every other": (lambda y: y[::2], lambda y: y[1:5]),
    "between each other": (lambda y: y[::2], lambda y: y[1::2]),
}
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "twice": ("a += b", "a += b"),
    "with a number between": ("a += b", "a *= 2", "a -= b"),
    "a temporary": ("t = a * b", "a += b", "return t, t + a, b * 1"),
    "a reduction": ("s = b.sum()", "a += s", "s = b.sum()", "a -= s", "return s, b.max()"),
    "rows": ("t = b.sum(0)", "a += 1", "u = b.sum(0)", "return t, u, a - b"),
    "a view": ("t = b[::-1]", "a += t", "return t * 1, a.T"),
    "an element": ("t = b[..., 0]", "u = b.copy()", "a += 3", "return t * 1, u"),
    "out": ("np.add(a, b, out=a)", "np.multiply(a, b, out=a)"),
    "copied": ("np.copyto(a, b)", "a += b", "np.copyto(a, b, where=b > 9)"),
    "a condition": ("a[...] = np.where(b > 9, a, b)", "return a + b, b - 1"),
    "through a view": ("a[::-1] += b", "a[::-1] -= 2 * b"),
    "filled": ("a[...] = 5", "a += b"),
    "returned": ("a += 1", "return a, b, a.T"),
}
BOTH: dict[str, tuple[str, ...]] = {
    "both": ("a += b", "b += a", "a -= b", "return a * b, b + 1"),
    "exchanged": ("t = a.copy()", "a[...] = b", "b[...] = t"),
    "sums between": ("a += b.sum()", "b -= a.max()", "return a + b, a.sum(), b.sum()"),
    "a third": ("c += a", "b += c", "a -= c", "return a - b, c * 2"),
}


@pytest.mark.parametrize("looks", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("lines", FUNCTIONS.values(), ids=FUNCTIONS)
def test_written_next_to_read(device: ArrayDevice, lines: tuple[str, ...], looks: Looks) -> None:
    check(lines, looks, device)


@pytest.mark.parametrize(
    "looks", [looks for name, looks in PAIRS.items() if name not in ("a row", "a column", "every other")]
)  # fmt: skip
@pytest.mark.parametrize("lines", BOTH.values(), ids=BOTH)
def test_both_written(device: ArrayDevice, lines: tuple[str, ...], looks: Looks) -> None:
    third = looks[0]
    check(lines, (*looks, lambda y: third(y)[::-1]), device)


def test_written_through_other_types() -> None:
    """The halves of numbers are seen as what they have become."""
    lines = "a += b", "a *= 3", "b += 5", "return a + b, b * 2"
    check(lines, (lambda y: y, lambda y: y.view("i4")[:, ::2]), HOST)
    check(lines, (lambda y: y, lambda y: y.view("u4")[:, 1::2]), HOST)


def test_one_without_axes(device: ArrayDevice) -> None:
    """An array of no axes is an array: it is written to, and changes with another."""
    looks = lambda y: y[2, 3, ...], lambda y: y[2], lambda y: y[:, 3]
    check(("a += 5", "b += a", "c *= a", "return a * 1, a + b, c.sum()"), looks, device)


def test_arrays_that_share_nothing_are_written_last(device: ArrayDevice) -> None:
    """A third array is written from what two that overlap were in the end, and in between."""
    lines = "t = a * 2", "c += b", "a += b", "c *= b", "a += b", "c -= t", "return c * 1, t"
    check(lines, (lambda y: y[:4, :4], lambda y: y[:4, :4].T, lambda y: y[4:, 4:]), device)


def test_other_overlaps_of_the_same_shapes(device: ArrayDevice) -> None:
    """What was traced for arguments apart, or sharing memory, is not for others."""
    made = fused_of("a += b", "a += b")
    for name in ("transposed", "equal", "columns reversed", "transposed"):
        check(("a += b", "a += b"), PAIRS[name], device)
    first, second = device.array(BASE), device.array(BASE)
    made(first, second)
    np.testing.assert_array_equal(device.numpy(first), BASE * 3)
    np.testing.assert_array_equal(device.numpy(second), BASE)


def test_nothing_is_written_by_calls_that_are_refused(place: ArrayDevice) -> None:
    array = place.array(BASE)
    with pytest.raises(FusionError, match="c is beyond int64"):
        fused_of("a += b", "b += a", "a += c")(array, array.T, 2**63)
    np.testing.assert_array_equal(place.numpy(array), BASE)


def test_read_only_and_broadcast_arrays_are_not_written_to() -> None:
    made, array = fused_of("a += b", "b += a"), BASE.copy()
    other = array.T
    other.flags.writeable = False
    with pytest.raises(ArgumentTypeError, match="f: argument b is written to, but the array is"):
        made(array, other)
    wide = np.lib.stride_tricks.as_strided(array, (8, 8), (0, 8))
    with pytest.raises(OverlapError, match="f: argument b is written to, but several of its"):
        made(array, wide)
    np.testing.assert_array_equal(array, BASE)
    check(("a += b", "a += b"), (lambda y: y, lambda y: np.broadcast_to(y[0], (8, 8))), HOST)


@pytest.mark.parametrize("second", ["b", "a", "a.T"])
def test_outputs_of_one_ufunc_that_share_memory(place: ArrayDevice, second: str) -> None:
    """In which order NumPy writes them depends on where they lie in memory."""
    array = place.array(BASE.astype("f8"))
    with pytest.raises(
        FusionError, match="modf: two arrays of out= share memory; pass separate arrays"
    ):
        fused_of(f"np.modf(a * 1.5, out=(a, {second}))")(array, array.T)
    np.testing.assert_array_equal(place.numpy(array), BASE)


def test_explained_and_as_specs() -> None:
    made, array = fused_of("a += b", "a += b", "return a * b"), BASE.copy()
    text = made.explain(array, array.T)
    assert text.splitlines() == [
        "3 kernels",
        "1. f_0: elementwise",
        "   reads  a (int64 [8, 8], 512 bytes)",
        "          a copy of b (int64 [8, 8], 512 bytes)",
        "   writes a, in place (int64 [8, 8], 512 bytes)",
        "   one write at a time: a shares memory with b",
        "2. f_1: elementwise",
        "   reads  a (int64 [8, 8], 512 bytes)",
        "          a copy of b (int64 [8, 8], 512 bytes)",
        "   writes a, in place (int64 [8, 8], 512 bytes)",
        "   one write at a time: a shares memory with b",
        "3. f_2: elementwise",
        "   reads  a (int64 [8, 8], 512 bytes)",
        "          b (int64 [8, 8], 512 bytes)",
        "   writes multiply(x5, x6) (int64 [8, 8], 512 bytes)",
    ]
    assert [spec.name for spec in made.to_spec(array, array.T)] == ["f_0", "f_1", "f_2"]
    assert [spec.name for spec in made.to_spec(array, array.T.copy())] == ["f"]


# Random functions of arrays of one shape, with what they read broadcast.

_STATEMENTS = (
    "{x} += {y}", "{x} -= {y}", "{x} *= 3", "{x}[...] = {y}", "np.copyto({x}, {y})",
    "np.add({y}, {z}, out={x})", "np.subtract({y}, {z}, out={x}, where={z} > {y})",
    "{x}.T[...] += {y}.T", "{x}[::-1] -= {y}", "{x} += {y}[::-1, ::-1]", "{x}[...] = 4",
    "{x} += {y}.sum(0)", "{x} -= {y}.max()", "t = {y} + {z}", "t = {y}[:, ::-1]", "t = {y}.copy()",
    "{x} += t", "s = {y}.sum()", "{x} += s", "s = {y}[0, 0]", "t = t + {y}", "t = {x}",
)  # fmt: skip
_RETURNED = ("None", "(t, s)", "(a + b,)", "(a, b.T, c[::-1])", "(a - c, s * 1, t)")
_TURNS: tuple[Callable[[Any], Any], ...] = (
    lambda y: y,
    lambda y: y.T,
    lambda y: y[::-1],
    lambda y: y[:, ::-1],
    lambda y: y.T[::-1],
)


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, ...]:
    """Return statements of arrays a, b, c, all of one shape."""
    names = st.sampled_from("abc")
    lines = ["t = a * 1", "s = b.max()"]
    for _ in range(draw(st.integers(1, 5))):
        text = draw(st.sampled_from(_STATEMENTS))
        lines.append(text.format(x=draw(names), y=draw(names), z=draw(names)))
    return (*lines, f"return {draw(st.sampled_from(_RETURNED))}")


@st.composite
def places(draw: st.DrawFn) -> Callable[[Any], Any]:
    """Return a square of 4 by 4 elements somewhere in 6 by 6."""
    row, column = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    turn = draw(st.sampled_from(_TURNS))
    return lambda y: turn(y[row : row + 4, column : column + 4])


drawn = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
several_places = st.lists(st.tuples(*[places()] * 3), min_size=1, max_size=6)


def _agrees(lines: tuple[str, ...], several: list[Looks], device: ArrayDevice) -> None:
    base = BASE[:6, :6].copy()
    for looks in several:
        check(lines, looks, device, base)
    check(lines, (several[0][0],) * 3, device, base)


@pytest.mark.slow
@given(programs(), several_places)
@settings(drawn, max_examples=examples(25))
def test_random_functions_on_the_host(lines: tuple[str, ...], several: list[Looks]) -> None:
    _agrees(lines, several, HOST)


@pytest.mark.gpu
@pytest.mark.parametrize("device", [CUPY, OWN_CUDA], ids=str)
@given(programs(), several_places)
@settings(drawn, max_examples=examples(150))
def test_random_functions_on_a_gpu(
    device: ArrayDevice, lines: tuple[str, ...], several: list[Looks]
) -> None:
    _agrees(lines, several, ready(device))


def test_kspecs_own_arrays_share_memory_too() -> None:
    array = kspec.asarray(BASE, device="host")
    fused_of("a += b", "b += a")(array[1:], array[:-1])
    memory = BASE.copy()
    function_of("a += b", "b += a")(memory[1:], memory[:-1])
    np.testing.assert_array_equal(kspec.asnumpy(array), memory)
