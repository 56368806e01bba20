"""Arrays that a fused function reads without being called with them."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from kspec import fuse
from kspec.errors import FusionError
from tests.devices import ArrayDevice
from tests.fusion.programs import values
from tests.profiles import examples

TABLE: Any = None
fused = fuse(device="host")


def by_table(x: Any) -> Any:
    return x * TABLE


def same(found: Any, wanted: Any, device: ArrayDevice) -> None:
    assert device.numpy(found).dtype == wanted.dtype
    np.testing.assert_array_equal(device.numpy(found), wanted)


def test_globals_and_closures(device: ArrayDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of functions that are called; each is read anew in each call."""
    table, weights, x = np.arange(4.0), np.float32([2, 3, 5, 7]), np.float32([1, 2, 3, 4])
    here = device.array(weights)

    def weighted(x: Any) -> Any:
        return here * by_table(x) + here.sum()

    found = fused(weighted)
    for number in range(3):
        table = table + number
        monkeypatch.setitem(globals(), "TABLE", device.array(table))
        same(found(device.array(x)), weights * (x * table) + weights.sum(), device)
    here = device.array(np.float64([1, 2, 3, 4]))  # of another type
    same(found(device.array(x)), x * table * x + 10.0, device)
    here = device.array(np.ones((3, 1)))
    same(found(device.array(x)), x * table * np.ones((3, 1)) + 3.0, device)
    assert "here (float64 [3, 1], 24 bytes)" in found.explain(device.array(x))
    assert "here" in [param.name for param in found.to_spec(device.array(x))[-1].inputs]
    assert found.cache_info().entries


def test_views_and_results_of_them(device: ArrayDevice) -> None:
    w = np.arange(12.0).reshape(3, 4)
    here, x = device.array(w), np.float64([1, 2, 3])
    same(fused(lambda x: x * here[:, 1])(device.array(x)), x * w[:, 1], device)
    same(fused(lambda x: here[:, 1] * x)(device.array(x)), w[:, 1] * x, device)
    if device.library == "kspec":  # whose arrays have no operators of their own
        return
    same(fused(lambda x: x - here.T[1:].mean(0))(device.array(x)), x - w.T[1:].mean(0), device)
    same(fused(lambda x, y=2: (here * y).sum(1) + x)(device.array(x)), (w * 2).sum(1) + x, device)


def test_they_change_in_place(device: ArrayDevice) -> None:
    """The next call reads new elements of an array; the function may write to it, too."""
    here, memory = device.array(np.zeros(3)), np.zeros(3)

    def total(x: Any) -> Any:
        here[...] = here + x
        return here * 2

    found = fused(total)
    for number in (1.0, 2.0):
        memory += number
        same(found(device.array(np.full(3, number))), memory * 2, device)
        same(here, memory, device)


def test_an_argument_that_shares_their_memory(device: ArrayDevice) -> None:
    base = np.arange(6.0)
    memory = device.array(base)
    here = memory[1:]

    def add(y: Any) -> None:
        y += here

    fused(add)(memory[:-1])
    base[:-1] += base[1:].copy()
    same(memory, base, device)


def test_inside_of_other_fused_functions(device: ArrayDevice) -> None:
    w, x = np.float32([1, 2]), np.float32([3, 4])
    here = device.array(w)
    inner = fused(lambda x: x * here)
    outer = fused(lambda x: inner(x) + inner(x + 1) + here)
    for _ in range(2):
        same(outer(device.array(x)), x * w + (x + 1) * w + w, device)
        same(inner(device.array(x)), x * w, device)
    partial = fused(functools.partial(lambda scale, x: x * here * scale, 2))
    same(partial(device.array(x)), x * w * 2, device)


def test_parameters_of_all_kinds_and_their_names(device: ArrayDevice) -> None:
    w = np.float32([1, 2])
    here = device.array(w)

    def f(x: Any, *more: Any, scale: Any = 2, **nothing: Any) -> Any:
        return sum(more, x) * scale + here

    def g(x: Any) -> Any:  # a parameter has the name of a variable of the function it calls
        def inner() -> Any:
            return here

        return scaled(x, inner)

    def scaled(here: Any, other: Any) -> Any:
        return here * other()

    x = device.array(w)
    same(fused(f)(x, x, x, scale=3), w * 9 + w, device)
    same(fused(f)(x), w * 2 + w, device)
    same(fused(g)(x), w * w, device)


def test_numbers_of_them_are_still_numbers(device: ArrayDevice) -> None:
    coefficients = np.float32([1, 2, 3])

    def f(x: Any) -> Any:
        found = x * 0
        for one in coefficients:
            found = found * x + float(one) + len(coefficients)
        return found

    x = np.float32([1, 2])
    same(fused(f)(device.array(x)), f(x), device)


def test_refused(device: ArrayDevice) -> None:
    x, kept = device.array(np.ones(3)), {"w": device.array(np.ones(3))}
    message = "is fused only if a variable around the function holds it; assign it to one"
    with pytest.raises(FusionError, match=message) as caught:
        fused(lambda x: x * kept["w"])(x)
    assert "kept" in str(caught.value) and type(caught.value) is FusionError
    here = device.array(np.ones(3))
    with pytest.raises(FusionError, match="a truth value"):
        fused(lambda x: x * here if x[0] * here[0] > 0 else x)(x)


@pytest.mark.gpu
def test_on_the_host_next_to_a_gpu() -> None:
    cupy = importlib.import_module("cupy")
    here = np.ones(3)
    with pytest.raises(FusionError, match="here is on the host next to arrays on a GPU"):
        fuse(lambda x: x * here)(cupy.ones(3))
    here = cupy.arange(3)
    assert fuse(lambda x: x * here)(cupy.ones(3)).tolist() == [0, 1, 2]
    assert (fuse(lambda s: here * s)(2)).tolist() == [0, 2, 4]


SHAPES = st.sampled_from([(3,), (1, 3), (2, 1), (2, 3), (), (4, 2, 3)])
DTYPES = st.sampled_from(["float32", "int8", "float64", "bool", "complex64", "uint32"])


@given(SHAPES, DTYPES, SHAPES, DTYPES, st.integers(0, 99))
@settings(max_examples=examples(50))
def test_like_arguments(
    shape: tuple[int, ...], dtype: str, other: tuple[int, ...], kind: str, seed: int
) -> None:
    """The results are those of the same arrays as arguments, which are NumPy's."""
    x, here = values(dtype, shape, seed), values(kind, other, seed + 1)
    found = fused(lambda x: (x * here + here, here[..., None] * x.sum()))(x)
    wanted = (lambda x: (x * here + here, here[..., None] * x.sum()))(x)
    for one, two in zip(found, wanted, strict=True):
        assert one.dtype == two.dtype and one.shape == two.shape
        np.testing.assert_allclose(one, two, rtol=1e-5)


def test_kspecs_own_arrays() -> None:
    here = kspec.asarray(np.arange(3.0), device="host")
    found = fused(lambda x: here[::-1] * x)(kspec.asarray(np.ones(3), device="host"))
    assert kspec.asnumpy(found).tolist() == [2, 1, 0]
