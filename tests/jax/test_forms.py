"""Scans, segments, keys and windows in JAX programs: values, batches, gradients, bad input."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.errors import ArgumentTypeError, NotSupportedError, ShapeError
from tests.forms.kernels import NO_IDENTITY, TWO
from tests.forms.reference import scanned_sum, sums, sums_by_key
from tests.forms.sums import (
    BOUNDARIES,
    BOUNDS,
    CSR_PRODUCT,
    LONG_WINDOWS,
    MEAN_SQUARE,
    NORM,
    READS_SUM,
    SQUARES,
    WINDOWS,
    WITHOUT,
)
from tests.forms.test_by_key import INDICES, keys_of
from tests.forms.test_window import rolling

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402
from kspec_kernels import math, statistics  # noqa: E402

import kspec.jax  # noqa: E402

total, mean, squares, mean_square, product = map(
    kspec.jax.function,
    (statistics.total, statistics.mean, SQUARES, MEAN_SQUARE, CSR_PRODUCT),
)
WAYS = list(itertools.product([False, True], repeat=2))
wide = pytest.mark.usefixtures("wide")


def values(*shape: int, seed: int = 0) -> Any:
    """Return whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(1, 9, shape).astype("float64")


def same(found: Any, wanted: Any) -> None:
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(found, wanted)


@wide
def test_scans(place: str) -> None:
    x, w = values(3, 5), values(5, seed=1)
    for (exclusive, reverse), axis in itertools.product(WAYS, (0, -1)):
        keywords: Any = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
        call = lambda x, k=keywords: total.scan(x, **k)  # noqa: E731
        assert jax.eval_shape(call, x).shape == x.shape
        for one in (call, jax.jit(call)):
            same(one(jnp.asarray(x)), scanned_sum(x, **keywords))
        same(squares.scan(x, w, **keywords), scanned_sum(x * x * w, **keywords))
    same(squares.scan(x, 2), scanned_sum(x * x * 2))
    found = kspec.jax.function(TWO).scan(x.astype("int32"))
    assert [str(one.dtype) for one in found] == ["int32", "int64"]
    same(found[1], 2 * scanned_sum(x) + 1)


@wide
def test_segments(place: str) -> None:
    x = values(6, 2)
    for dtype in ("int64", "int32", "uint8"):
        indptr = jnp.asarray(BOUNDS.astype(dtype))
        assert jax.eval_shape(total.segments, x, indptr).shape == (3, 2)
        for call in (total.segments, jax.jit(total.segments)):
            same(call(x, indptr), sums(x, BOUNDS))
    column = np.array([0, 2, 1, 0], "int32")
    vector, value = values(3, seed=1), x[:4, 0]
    same(product.segments(value, column, vector, indptr), sums(value * vector[column], BOUNDS))


@wide
def test_by_key(place: str) -> None:
    x, w = values(9, 2), values(2, seed=1)
    for dtype, deterministic in itertools.product(INDICES, [True, False]):
        keys, keywords = keys_of(9, 4).astype(dtype), {"n": 4, "deterministic": deterministic}
        wanted = sums_by_key(x, keys, 4)
        call = lambda x, keys, k=keywords: total.by_key(x, keys, **k)  # noqa: E731
        assert jax.eval_shape(call, x, keys).shape == (4, 2)
        for one in (call, jax.jit(call)):
            same(one(x, jnp.asarray(keys)), wanted)
    same(jax.jit(total.by_key, static_argnums=2)(x, keys, 4), wanted)
    same(jax.jit(total.by_key, static_argnames="n")(x, keys, n=np.int32(4)), wanted)
    same(squares.by_key(x, w, keys, 4), sums_by_key(x * x * w, keys, 4))
    found = kspec.jax.function(TWO).by_key(x.astype("int32"), keys, 4)
    assert [str(one.dtype) for one in found] == ["int32", "int64"]
    same(found[1], 2 * wanted + 1)
    for shape, n in itertools.product([(0,), (0, 3), (5,), (5, 0)], [0, 1, 30]):
        x, keys = values(*shape), keys_of(shape[0], n)
        same(total.by_key(x, keys, n), sums_by_key(x, keys, n))
    column = np.array([0, 2, 1, 0], "int32")
    vector, value, keys = values(3, seed=1), values(4), keys_of(4, 3)
    same(
        product.by_key(value, column, vector, keys, 3), sums_by_key(value * vector[column], keys, 3)
    )


@wide
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_windows(place: str, boundary: str) -> None:
    x = values(6, 7)
    for size, axis, step in WINDOWS:
        keywords = {"axis": axis, "boundary": boundary, "step": step}
        sizes, axes, steps = (
            one if isinstance(one, tuple) else (one,) for one in (size, axis, step)
        )
        wanted = rolling(x, sizes, axes, boundary, steps)
        call = lambda x, s=size, k=keywords: total.window(x, s, **k)  # noqa: E731
        assert jax.eval_shape(call, x).shape == wanted.shape
        same(jax.jit(call)(x), wanted)
    same(total.window(x, size=2, boundary=boundary), total.window(x, 2, boundary=boundary))


@wide
def test_batches(place: str) -> None:
    """Scans and windows of a batch are one launch; segments and keys run for each member."""
    x, p, k = values(3, 4, 5), jnp.asarray(BOUNDS), jnp.asarray(keys_of(4, 3))
    same(jax.vmap(lambda x: total.scan(x, axis=0))(x), scanned_sum(x, axis=1))
    found = jax.vmap(lambda x: total.scan(x, axis=0), in_axes=1, out_axes=1)(x)
    same(found, scanned_sum(x, axis=0))
    found = jax.vmap(lambda x: total.window(x, (3, 2), axis=(1, 0), step=(2, 1)))(x)
    same(found, rolling(x, (3, 2), (2, 1), "valid", (2, 1)))
    weights = values(3, 5, seed=1)
    same(jax.vmap(squares.scan)(x, weights), scanned_sum(x * x * weights[:, None]))
    wanted = np.stack([sums(one, BOUNDS) for one in x])
    same(jax.vmap(total.segments, (0, None))(x, p), wanted)
    same(jax.vmap(total.segments, (0, 0))(x, jnp.stack([p] * 3)), wanted)
    gradient = jax.grad(lambda x: (mean.segments(x, p[1:]) ** 2).sum())
    same(jax.vmap(gradient)(x), np.stack([gradient(one) for one in x]))
    by_key = lambda x, k: total.by_key(x, k, 3)  # noqa: E731
    wanted = np.stack([sums_by_key(one, np.asarray(k), 3) for one in x])
    same(jax.vmap(by_key, (0, None))(x, k), wanted)
    several = jnp.stack([k, k[::-1], k + 1])
    found = [sums_by_key(one, np.asarray(keys), 3) for one, keys in zip(x, several, strict=True)]
    same(jax.vmap(by_key)(x, several), np.stack(found))
    same(jax.vmap(by_key, (None, 0))(x[0], several)[0], wanted[0])
    slope = jax.grad(lambda x, k: (mean.by_key(x, k, 6)[jnp.array([2, 3])] ** 2).sum())
    found = [slope(one, keys) for one, keys in zip(x, several, strict=True)]
    same(jax.vmap(slope)(x, several), np.stack(found))


def checked(call: Callable[..., Any], *args: Any) -> None:
    check_grads(jax.jit(call), tuple(map(jnp.asarray, args)), 1, modes=["rev"])


@wide
def test_gradients_of_scans(place: str) -> None:
    x, w = values(4, 5), values(5, seed=1)
    for exclusive, reverse in WAYS:
        options: Any = {"axis": 0, "exclusive": exclusive, "reverse": reverse}
        checked(lambda x, o=options: total.scan(x, **o), x)
        checked(lambda x, w, o=options: squares.scan(x, w, **o), x, w)
        # The mean of nothing is NaN.
        some = slice(1, None) if exclusive and not reverse else slice(0, -1 if exclusive else None)
        checked(lambda x, o=options, s=some: mean_square.scan(x, **o)[s], x)
    checked(lambda x: squares.scan(x, 0.5), x)


@wide
def test_gradients_of_segments(place: str) -> None:
    x, w = values(4, 5), values(5, seed=1)
    for bounds in (BOUNDS, [2]):  # the last one: no segment
        indptr = jnp.asarray(np.array(bounds, "int32"))
        checked(lambda x, p=indptr: total.segments(x, p), x)
        checked(lambda x, w, p=indptr: squares.segments(x, w, p), x, w)
    indptr = jnp.array([0, 1, 4])
    checked(lambda x: mean_square.segments(x, indptr), x)
    # Those that a kernel adds up: of a sparse matrix, and of the vector that it is multiplied by.
    column = jnp.array([0, 2, 1, 0], "int32")
    checked(lambda a, x: product.segments(a, column, x, indptr), values(4), values(3, seed=1))


@wide
def test_gradients_by_key(place: str) -> None:
    x, w = values(4, 5), values(5, seed=1)
    for dtype, n in itertools.product(("int64", "uint8"), (0, 3, 9)):
        keys = jnp.asarray(keys_of(4, 3, seed=2).astype(dtype))
        for deterministic in (True, False):
            options: Any = {"n": n, "deterministic": deterministic}
            checked(lambda x, w, k=keys, o=options: squares.by_key(x, w, k, **o), x, w)
    checked(lambda x: squares.by_key(x, 0.5, keys, 3), x)
    for known in ([1, 0, 1, 1], [1, -1, 0, 2]):  # the mean of nothing is NaN
        keys = jnp.array(known, "int32")
        checked(lambda x, k=keys: mean_square.by_key(x, k, 2), x)
    # Those that a kernel adds up.
    column = jnp.array([0, 2, 1, 0], "int32")
    checked(lambda a, x: product.by_key(a, column, x, keys, 2), values(4), values(3, seed=1))


@wide
def test_gradients_of_parameters_with_the_names_of_arguments(place: str) -> None:
    hidden = kspec.jax.function(
        kspec.ReductionKernel(
            "T n, T keys, T indptr",
            "T y",
            "n * keys * indptr",
            "a + b",
            "y = a",
            "0",
            "form_hidden",
            backward={"n": "grad_y * keys * indptr", "keys": "grad_y * n * indptr"},
        )
    )
    x, w, v = values(4, 5), values(5, seed=1), jnp.ones(5)
    checked(lambda x, w: hidden.by_key(x, w, v, jnp.array([1, 0, 1, 7]), 2), x, w)
    checked(lambda x, w: hidden.segments(x, w, v, jnp.array([0, 1, 4])), x, w)


@wide
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_gradients_of_windows(place: str, boundary: str) -> None:
    x, w = values(4, 5), values(5, seed=1)
    cases = (WINDOWS[0], WINDOWS[-1], *(LONG_WINDOWS if boundary != "valid" else ()))
    for size, axis, step in cases:
        options: Any = {"size": size, "axis": axis, "boundary": boundary, "step": step}
        checked(lambda x, o=options: total.window(x, **o), x)
    checked(lambda x: mean_square.window(x, **options), x)
    if boundary == "valid":
        checked(lambda x, w: squares.window(x, w, 2, axis=0), x, w)


def test_gradients_of_narrow_numbers(place: str) -> None:
    """Counts and sums that have no room in them are computed in single precision."""
    x, indptr = jnp.ones(5000, "float16"), jnp.array([0, 5000])
    for call, wanted in (
        (lambda x: mean.segments(x, indptr), 1 / 5000),
        (lambda x: mean.by_key(x, jnp.zeros(5000, "int16"), 1), 1 / 5000),
        (lambda x: mean.window(x, 3000, boundary="wrap"), 1.0),
    ):
        found = jax.grad(lambda x, call=call: call(x).sum())(x)
        assert found.dtype == "float16"
        np.testing.assert_allclose(found.astype("float32"), wanted, rtol=2e-2)


@wide
def test_gradients_of_nothing(place: str) -> None:
    x, indptr = jnp.zeros((0, 3)), jnp.array([0, 0])
    for call in (
        lambda x: total.scan(x, axis=0, exclusive=True),
        lambda x: mean.scan(x, axis=0, exclusive=True),
        lambda x: total.segments(x, indptr),
        lambda x: total.by_key(x, indptr[:0], 2),
        lambda x: mean.by_key(x, indptr[:0], 2),
        lambda x: total.window(x, 3, axis=0, boundary="shrink"),
    ):
        assert jax.grad(lambda x, call=call: call(x).sum())(x).shape == x.shape


@wide
def test_second_derivatives(place: str) -> None:
    slope = kspec.ElementwiseKernel(
        "T x, T grad_y", "T grad_x", "grad_x = 3 * x * x * grad_y", "form_cubes_slope",
        backward={"x": "6 * x * grad_y * grad_grad_x", "grad_y": "3 * x * x * grad_grad_x"},
    )  # fmt: skip
    cubes = kspec.jax.function(
        kspec.ReductionKernel(
            "T x", "T y", "x * x * x", "a + b", "y = a", "0", "form_cubes", backward=slope
        )
    )
    x, indptr = jnp.asarray(values(3)) / 4, jnp.array([0, 1, 3])

    def twice(call: Callable[[Any], Any]) -> Any:
        slope = jax.grad(lambda x: (call(x) ** 2).sum())
        return jax.grad(lambda x: (slope(x) ** 2).sum())(x)

    wanted = twice(lambda x: jnp.array([x[0] ** 3, x[1] ** 3 + x[2] ** 3]))
    for call in (
        lambda x: cubes.segments(x, indptr),
        lambda x: cubes.by_key(x, jnp.array([1, 0, 0]), 3),
    ):
        np.testing.assert_allclose(twice(call), wanted, rtol=1e-10)


@wide
def test_callbacks() -> None:
    run = kspec.jax.function(statistics.total, callback=True)
    x, p = values(3, 4, 5), jnp.asarray(BOUNDS)
    same(jax.jit(jax.vmap(lambda x: run.scan(x, axis=0)))(x), scanned_sum(x, axis=1))
    found = jax.vmap(lambda x: run.segments(x, p))(x)
    same(found, np.stack([sums(one, BOUNDS) for one in x]))
    keys = keys_of(4, 3)
    found = jax.vmap(lambda x: run.by_key(x, keys, 3, deterministic=False))(x)
    same(found, np.stack([sums_by_key(one, keys, 3) for one in x]))
    same(jax.grad(lambda x: run.window(x, 2).sum())(jnp.ones(4)), [1, 2, 2, 1])


def test_a_form_is_a_function() -> None:
    assert total.scan is total.scan and total.scan.__name__ == "total_scan"
    assert repr(total.scan) == "<kspec.jax function kspec_kernels.statistics.total.scan>"
    again = pickle.loads(pickle.dumps(total.scan))
    same(again(jnp.ones(3)), [1, 2, 3])
    squared = kspec.jax.function(math.squared_diff)
    for one in (squared, total.scan):
        assert not hasattr(one, "window")
    with pytest.raises(AttributeError, match=r"squared_diff> has no scan: it is not a reduction"):
        squared.scan(1)
    text = jax.jit(total.window, static_argnames="size").lower(jnp.ones(4), size=2).as_text()
    assert "form" in text and "window" in text


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, p: total.scan(x, axis=2), ValueError, "axis 2 is out of bounds"),
        (lambda x, p: total.scan(x, axis=(0, 1)), ArgumentTypeError, "axis must be an integer, n"),
        (lambda x, p: total.scan(x, keepdims=True), ArgumentTypeError, "no option 'keepdims'"),
        *(
            (
                lambda x, p, name=name: total.scan(x, **{name: 1}),
                ArgumentTypeError,
                f"total: {name} must be True or False, not 1",
            )
            for name in ("exclusive", "reverse")
        ),
        (
            lambda x, p: total.scan(x, x),
            ArgumentTypeError,
            r"total\.scan\(\) takes 1 positional arguments \(T x\) in JAX, not 2",
        ),
        (
            lambda x, p: kspec.jax.function(NO_IDENTITY).scan(x, exclusive=True),
            ShapeError,
            "begins with the identity",
        ),
        (
            lambda x, p: total.segments(x),
            ArgumentTypeError,
            r"total\.segments\(\) takes 2 positional arguments \(T x, indptr\) in JAX, not 1",
        ),
        (lambda x, p: total.segments(x, x[0]), ArgumentTypeError, "must hold integers, not float3"),
        (lambda x, p: total.segments(x, 2), ShapeError, "indptr must have one axis"),
        (lambda x, p: total.segments(x, p[:0]), ShapeError, "indptr must have one axis"),
        (
            lambda x, p: total.segments(x, [0, 2]),
            ArgumentTypeError,
            "argument indptr must be an array of JAX's or NumPy's",
        ),
        (
            lambda x, p: total.by_key(x, p),
            ArgumentTypeError,
            r"total\.by_key\(\) takes 3 positional arguments \(T x, keys, n\) in JAX, not 2",
        ),
        (
            lambda x, p: total.by_key(x, p, 2, True),
            ArgumentTypeError,
            r"total\.by_key\(\) takes 3 positional arguments \(T x, keys, n\) in JAX, not 4",
        ),
        (
            lambda x, p: total.by_key(x, n=2),
            ArgumentTypeError,
            r"total\.by_key\(\) takes 2 positional arguments \(T x, keys\) in JAX, not 1",
        ),
        (
            lambda x, p: total.by_key(x, p, 2, axis=0),
            ArgumentTypeError,
            "no option 'axis' in JAX, but n, deterministic, dtype",
        ),
        (
            lambda x, p: total.by_key(x, x[:, 0], 2),
            ArgumentTypeError,
            "keys must hold integers, not float32",
        ),
        (
            lambda x, p: total.by_key(x, p, 2),
            ShapeError,
            r"keys must have one axis, .* each of the 4 rows of the first axis, not shape \(2,\)",
        ),
        (lambda x, p: total.by_key(x, 2, 2), ShapeError, "keys must have one axis"),
        (
            lambda x, p: total.by_key(x, [0, 1, 0, 1], 2),
            ArgumentTypeError,
            "argument keys must be an array of JAX's or NumPy's",
        ),
        (lambda x, p: total.by_key(x[0, 0], p, 2), ShapeError, "keys are of the first axis"),
        (lambda x, p: total.by_key(p, p, -1), ShapeError, "n must be 0 or more, not -1"),
        *(
            (
                lambda x, p, n=n: total.by_key(p, p, n),
                ArgumentTypeError,
                f"total: n must be an integer when the program is traced, not {type(n).__name__}",
            )
            for n in (2.0, "2", (2,), None, True)
        ),
        (
            lambda x, p: jax.jit(total.by_key)(p, p, 2),
            ArgumentTypeError,
            "n must be an integer when the program is traced, .*static_argnames",
        ),
        (
            lambda x, p: total.by_key(p, p, 2, deterministic=1),
            ArgumentTypeError,
            "total: deterministic must be True or False, not 1",
        ),
        (
            lambda x, p: kspec.jax.function(NO_IDENTITY).by_key(p, p, 2),
            ShapeError,
            "an output without elements is the identity, which the kernel does not have",
        ),
        (
            lambda x, p: total.window(x),
            ArgumentTypeError,
            r"total\.window\(\) takes 2 positional arguments \(T x, size\) in JAX, not 1",
        ),
        (lambda x, p: total.window(x, 9), ShapeError, "a window of 9 does not fit axis 1"),
        (lambda x, p: total.window(x, 1.5), ArgumentTypeError, "size must be an integer .*float"),
        (
            lambda x, p: jax.jit(lambda x, size: total.window(x, size))(x, 2),
            ArgumentTypeError,
            "size must be an integer .* when the program is traced, .*static_argnames",
        ),
        (lambda x, p: total.window(x, 2, boundary="open"), ArgumentTypeError, "boundary is 'open'"),
        (
            lambda x, p: jax.grad(lambda x: kspec.jax.function(WITHOUT).scan(x).sum())(x),
            ArgumentTypeError,
            "form_without cannot be differentiated: its spec has no backward; add one",
        ),
        (
            lambda x, p: jax.grad(lambda x: kspec.jax.function(NORM).window(x, 2).sum())(x),
            ArgumentTypeError,
            "form_norm cannot be differentiated: gradients of its window are derived only where "
            "outputs are sums or means .*; use jax.lax.stop_gradient",
        ),
        (
            lambda x, p: jax.grad(lambda x: kspec.jax.function(NORM).by_key(x, p, 2).sum())(x[:2]),
            ArgumentTypeError,
            "form_norm cannot be differentiated: gradients of its by_key are derived only where",
        ),
        (
            lambda x, p: jax.grad(lambda x: kspec.jax.function(READS_SUM).segments(x, p).sum())(x),
            ArgumentTypeError,
            "its backward reads the output y, which is another one in its segments",
        ),
    ],
)
def test_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(jnp.ones((4, 6)), jnp.array([0, 2]))


def test_kernels_without_other_forms() -> None:
    whole = kspec.ReductionKernel(
        "T x", "T y", "x * _raw_x.size()", "a + b", "y = a", "0", "jax_whole"
    )
    with pytest.raises(NotSupportedError, match="jax_whole has no scan: its expressions read _raw"):
        kspec.jax.function(whole).scan(jnp.ones(3))


@wide
def test_exported_programs(place: str) -> None:
    skipped = kspec.jax.export_checks()
    count = jax.export.symbolic_shape("n")[0]
    struct = jax.ShapeDtypeStruct((count, 3), "float64")
    program = jax.export.export(jax.jit(lambda x: total.scan(x, axis=0)), disabled_checks=skipped)
    x, keys = values(5, 3), keys_of(5, 4)
    same(program(struct).call(x), scanned_sum(x, axis=0))
    slope = jax.jit(jax.grad(lambda x, keys: (total.by_key(x, keys, 4) ** 2).sum()))
    program = jax.export.export(slope, disabled_checks=skipped)
    found = program(struct, jax.ShapeDtypeStruct((count,), "int64")).call(x, keys)
    same(found, slope(x, keys))
