"""Kernels with core dimensions in JAX programs: shapes, batches, gradients, shards."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.errors import ArgumentTypeError, ShapeError

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import kspec.jax  # noqa: E402
from tests.core import programs  # noqa: E402
from tests.core.programs import matrices, values  # noqa: E402
from tests.projects import ROOT, run_python  # noqa: E402

solve, distance, gauss, powers, product, matvec = map(
    kspec.jax.function,
    (
        programs.SOLVE,
        programs.DISTANCE,
        programs.GAUSS,
        programs.POWERS,
        programs.PRODUCT,
        programs.MATVEC,
    ),
)


SHARDED = """
import os
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec
import kspec.jax
from tests.core import programs
jax.config.update("jax_enable_x64", True)
mesh = Mesh(np.array(jax.devices()), ("items",))
parts, whole = PartitionSpec("items"), PartitionSpec()
solve = kspec.jax.function(programs.SOLVE)
call = jax.jit(jax.shard_map(solve, mesh=mesh, in_specs=(parts, whole), out_specs=parts))
A, b = programs.matrices(6, 2, 2), programs.values(2, seed=1)
print(np.allclose(call(A, b), programs.solve(A, b)))
def gradients(call):
    return jax.grad(lambda A, b: (call(A, b) ** 2).sum(), (0, 1))(A, b)
expected = gradients(lambda A, b: jnp.linalg.solve(A, b[None, :, None])[..., 0])
print(*map(np.allclose, gradients(call), expected))
"""


def reference(A: Any, b: Any) -> Any:
    return jnp.linalg.solve(A, b[..., None])[..., 0]


@pytest.mark.parametrize(
    ("A", "b"),
    [
        ((6, 3, 3), (6, 3)),
        ((5, 1, 2, 2), (4, 2)),
        ((1, 1), (3, 1)),
        ((3, 3), (3,)),
        ((0, 3, 3), (3,)),
    ],
)
def test_calls_and_programs(place: str, A: Any, b: Any) -> None:
    given = matrices(*A, dtype="float32"), values(*b, seed=1, dtype="float32")
    expected = programs.solve(*given)
    kind = jax.eval_shape(solve, *given)
    assert (kind.shape, kind.dtype) == (expected.shape, expected.dtype)
    for found in (solve(*given), jax.jit(solve)(*given)):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_sizes_and_several_outputs(place: str) -> None:
    x, v = values(4, 1, dtype="float32"), values(3, 3, seed=1, dtype="float32")
    for sizes in ({}, {"n": 4}):
        found = jax.jit(powers, static_argnames="n")(x, v, **sizes)
        for one, expected in zip(found, programs.powers(x, v, **sizes), strict=True):
            assert one.shape == expected.shape
            np.testing.assert_allclose(one, expected, rtol=1e-5)
    p, _ = powers(0.5, v)  # a number of no type
    np.testing.assert_allclose(p, programs.powers(np.float32(0.5), v)[0], rtol=1e-5)
    c = product(v, v[0, :2])
    assert c.shape == jax.eval_shape(product, v, v[0, :2]).shape == (3, 4)


def test_batches(place: str) -> None:
    """One launch, whatever is mapped over: the axes of a batch are in front of all others."""
    A, x = values(5, 2, 3, 4, dtype="float32"), values(5, 4, seed=1, dtype="float32")
    np.testing.assert_allclose(
        jax.vmap(matvec)(A, x), programs.matvec(A, x[:, None]), rtol=1e-5, atol=1e-6
    )
    y = values(3, seed=2, dtype="float32")  # the last axis of A is the batch
    found = jax.vmap(matvec, in_axes=(3, None), out_axes=1)(A, y)
    expected = programs.matvec(np.moveaxis(A, 3, 0), y)
    np.testing.assert_allclose(found, np.moveaxis(expected, 0, 1), rtol=1e-5, atol=1e-6)
    table = jax.vmap(jax.vmap(matvec, (None, 0)), (0, None))(A[:, 0], x)
    expected = programs.matvec(A[:, None, 0], x)
    np.testing.assert_allclose(table, expected, rtol=1e-5, atol=1e-6)
    p, s = jax.vmap(lambda v: powers(0.5, v, n=3))(values(4, 2, 3, dtype="float32"))
    assert (p.shape, s.shape) == ((4, 2, 3, 3), (4, 2))


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(
    ("A", "b"),
    [
        ((3, 2, 2), (3, 2)),
        ((3, 1, 2, 2), (2, 2)),
        ((2, 2), (3, 2)),  # each loop axis that broadcasts is summed, core axes are not
        ((1, 2, 2), (3, 2)),
        ((3, 1, 1), (1, 1)),
        ((2, 2), (2,)),
    ],
)
def test_gradients(place: str, A: Any, b: Any) -> None:
    given = matrices(*A), values(*b, seed=1)

    def loss(call: Any, *arrays: Any) -> Any:
        return (call(*arrays) ** 2).sum()

    found = jax.jit(jax.grad(lambda *one: loss(solve, *one), (0, 1)))(*given)
    expected = jax.grad(lambda *one: loss(reference, *one), (0, 1))(*given)
    for one, other, array in zip(found, expected, given, strict=True):
        assert one.shape == array.shape
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("wide")
def test_gradients_of_batches(place: str) -> None:
    A, b = matrices(5, 2, 2), values(3, 2, seed=1)

    def gradient(call: Any) -> Any:
        one = jax.grad(lambda A, b: (call(A, b) ** 2).sum(), (0, 1))
        return jax.vmap(one, (0, None))(A, b)

    for one, other in zip(gradient(solve), gradient(reference), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("d", [1, 3])
def test_gradients_of_inputs_without_core_dimensions(place: str, d: int) -> None:
    given = values(4, 1, d), values(3, d, seed=1), values(3, seed=2)

    def loss(call: Any) -> Any:
        return lambda *one: (call(*one) ** 2).sum()

    found = jax.grad(loss(distance), (0, 1, 2))(*given)
    expected = jax.grad(loss(programs.distance), (0, 1, 2))(*map(jnp.asarray, given))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    number = jax.grad(lambda b: distance(*given[:2], b).sum())(2.0)
    np.testing.assert_allclose(number, programs.distance(*given[:2], 1.0).sum())


@pytest.mark.usefixtures("wide")
def test_gradients_of_sizes_and_extents_that_are_expressions(place: str) -> None:
    x, v = values(4, 1), values(1, 3, seed=1)

    def table(x: Any, v: Any) -> Any:
        return (x[..., None, None] ** jnp.arange(1.0, 5.0)[:, None]) * v[..., None, :]

    found = jax.grad(lambda x, v: (powers(x, v, n=4)[0] ** 2).sum(), (0, 1))(x, v)
    expected = jax.grad(lambda x, v: (table(x, v) ** 2).sum(), (0, 1))(x, v)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    a, b = values(3), values(4, seed=1)
    found = jax.grad(lambda a, b: (product(a, b) ** 2).sum(), (0, 1))(a, b)
    expected = jax.grad(lambda a, b: (jnp.convolve(a, b) ** 2).sum(), (0, 1))(a, b)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_reductions(place: str, axis: Any) -> None:
    given = values(3, 1, 2), values(1, 4, 2, seed=1), values(4, seed=2)

    def table(x: Any, y: Any, b: Any) -> Any:
        return (jnp.exp(-((x - y) ** 2).sum(-1)) * b).sum(axis)

    call = functools.partial(gauss, axis=axis)
    np.testing.assert_allclose(jax.jit(call)(*given), programs.gauss(*given, axis), rtol=1e-9)
    batch = jax.vmap(call, (0, None, None))(np.stack([given[0], 2 * given[0]]), *given[1:])
    np.testing.assert_allclose(batch[1], programs.gauss(2 * given[0], *given[1:], axis), rtol=1e-9)
    found = jax.grad(lambda *one: (call(*one) ** 2).sum(), (0, 1, 2))(*given)
    expected = jax.grad(lambda *one: (table(*one) ** 2).sum(), (0, 1, 2))(*given)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_callbacks() -> None:
    by_callback = kspec.jax.function(programs.MATVEC, callback=True)
    A, x = values(5, 3, 4, dtype="float32"), values(5, 4, seed=1, dtype="float32")
    for found in (
        by_callback(A, x),
        jax.jit(jax.vmap(by_callback))(A, x),
        jax.vmap(by_callback, (0, None))(A, x)[np.arange(5), np.arange(5)],
    ):
        np.testing.assert_allclose(found, programs.matvec(A, x), rtol=1e-5, atol=1e-6)


def test_shards() -> None:
    """Each device has whole items, and gradients of arrays that all have are summed."""
    assert run_python(SHARDED, ROOT, ROOT / "generated").split() == ["True"] * 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda A, x: matvec(A, x[:, :3]), ShapeError, "x has a mismatch in its core dimension 0"),
        (lambda A, x: matvec(A[:4], x), ShapeError, "could not be broadcast together"),
        (lambda A, x: matvec(A[0, 0], x), ShapeError, "A does not have enough dimensions"),
        (lambda A, x: matvec(A, 1.0), ShapeError, "x does not have enough dimensions"),
        (lambda A, x: matvec(A, x, n=3), ArgumentTypeError, "has no option 'n'"),
        (
            lambda A, x: jax.grad(lambda A: matvec(A, x).sum())(A),
            ArgumentTypeError,
            "core_apply cannot be differentiated: its spec has no backward",
        ),
    ],
)
def test_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(jnp.ones((6, 3, 4)), jnp.ones((6, 4)))


def test_core_dimensions_may_have_names_of_options() -> None:
    """Arguments decide them, so calls have no such keyword."""
    kernel = kspec.ElementwiseKernel(
        "T x[dtype]", "T y", "y = 0; for (int k = 0; k < dtype; ++k) y += x(k)", "jax_core_named"
    )
    np.testing.assert_allclose(kspec.jax.function(kernel)(jnp.ones((2, 3))), [3, 3])
