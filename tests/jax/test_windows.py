"""Kernels with windows and sizes in JAX programs: options, shapes, batches, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec.errors import ArgumentTypeError, ShapeError

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import kspec.jax  # noqa: E402
from tests.windows.kernels import BLUR, LAPLACIAN, POWER, SLOPE  # noqa: E402

laplacian, blur, power, slope = map(kspec.jax.function, (LAPLACIAN, BLUR, POWER, SLOPE))


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random(shape, dtype="float32")


@pytest.mark.parametrize("boundary", [None, "wrap", "valid"])
def test_calls_and_programs(place: str, boundary: str | None) -> None:
    u = values(3, 9, 14)
    shape = (7, 12) if boundary == "valid" else (9, 14)
    for h in (np.float32(0.5), values(3, 1, 1, seed=1) + 1, values(*shape, seed=2) + 1):
        expected = LAPLACIAN(u, h, boundary=boundary)
        call = lambda u, h=h: laplacian(u, h, boundary=boundary)  # noqa: E731
        kind = jax.eval_shape(call, u)
        assert (kind.shape, kind.dtype) == (expected.shape, expected.dtype)
        for found in (call(u), jax.jit(call)(u)):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_sizes(place: str) -> None:
    u, w, x = values(4, 20), values(7), values(5)
    for size in (1, 2, np.int64(3)):  # the last one is compiled now
        for boundary in ("mirror", "valid"):
            expected = BLUR(u, w, R=size, boundary=boundary)
            found = jax.jit(blur, static_argnames=("R", "boundary"))(
                u, w, R=size, boundary=boundary
            )
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(power(x), x**3, rtol=1e-6)
    np.testing.assert_allclose(power(x, N=2), x**2, rtol=1e-6)


@pytest.mark.parametrize("boundary", ["nearest", "valid"])
def test_batches(place: str, boundary: str) -> None:
    """Batch axes go in front of the windowed ones, whatever they are mapped over."""
    u, h = values(5, 9, 14), values(5, seed=1) + 1
    call = lambda u, h: laplacian(u, h, boundary=boundary)  # noqa: E731
    expected = LAPLACIAN(u, h[:, None, None], boundary=boundary)
    np.testing.assert_allclose(jax.vmap(call)(u, h), expected, rtol=1e-5, atol=1e-5)
    found = jax.vmap(call, in_axes=(2, None), out_axes=2)(u.transpose(1, 2, 0), 0.5)
    expected = LAPLACIAN(u, np.float32(0.5), boundary=boundary).transpose(1, 2, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    table = jax.vmap(jax.vmap(call, (None, 0)), (0, None))(u, h)
    expected = LAPLACIAN(u[:, None], h[:, None, None], boundary=boundary)
    np.testing.assert_allclose(table, expected, rtol=1e-5, atol=1e-5)
    weights = values(5, 3, seed=2)  # raw ones run once for each member
    found = jax.vmap(lambda u, w: blur(u, w, R=1))(u[:, 0], weights)
    expected = np.stack([BLUR(one, w, R=1) for one, w in zip(u[:, 0], weights, strict=True)])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("boundary", [None, "reflect", "wrap", "valid"])
def test_gradients(place: str, boundary: str | None) -> None:
    h = np.random.default_rng(1).random((3, 1)) + 1
    for shape in ((1, 9), (3, 9)):  # the batch axis broadcasts
        u = np.random.default_rng(0).random(shape)
        for size in (1, 2):

            def loss(u: Any, size: int = size) -> Any:
                return (slope(u, h, R=size, boundary=boundary) ** 2).sum()

            found = jax.jit(jax.grad(loss))(jnp.asarray(u))
            expected = np.empty_like(u)
            for place_ in np.ndindex(u.shape):  # the loss is of second degree: exact
                step = np.zeros_like(u)
                step[place_] = 0.5
                expected[place_] = loss(u + step) - loss(u - step)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_callbacks() -> None:
    by_callback = kspec.jax.function(LAPLACIAN, callback=True)
    u = values(5, 9, 14)
    found = jax.jit(jax.vmap(lambda u: by_callback(u, 0.5, boundary="valid")))(u)
    expected = LAPLACIAN(u, np.float32(0.5), boundary="valid")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_programs_are_made_for_their_options() -> None:
    text = jax.jit(lambda u, w: blur(u, w, R=2, boundary="valid")).lower(values(9), values(5))
    assert "\\22R\\22: 2, \\22boundary\\22: \\22valid\\22" in text.as_text().replace('"', "\\22")
    assert "boundary" not in jax.jit(laplacian).lower(values(4, 5), 1.0).as_text()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda u: laplacian(u, 1.0, boundary="open"), ArgumentTypeError, "'open' is not declared"),
        (lambda u: laplacian(u, 1.0, boundary=2), ArgumentTypeError, "must be a string, not int"),
        (
            lambda u: laplacian(u, 1.0, R=2),
            ArgumentTypeError,
            r"laplacian\(\) has no option 'R'",
        ),
        (lambda u: laplacian(u[0], 1.0), ShapeError, "u has 1 dimension, and its window 2"),
        (lambda u: laplacian(u[:1], 1.0, boundary="valid"), ShapeError, "leaves nothing for bound"),
        (lambda u: laplacian(2.0, u), ShapeError, "u has 0 dimensions, and its window 2"),
        (lambda u: blur(u, u[0]), ArgumentTypeError, "size R is missing; pass R="),
        (lambda u: blur(u, u[0], R=1.5), ArgumentTypeError, "size R must be an integer .* float"),
        (lambda u: blur(u, u[0], R=-1), ShapeError, "size R must be in"),
        (
            lambda u: jax.jit(lambda u, k: blur(u, u[0], R=k))(u, 2),
            ArgumentTypeError,
            "size R must be an integer when the program is traced, .*static_argnames",
        ),
        (lambda u: power(u, boundary="wrap"), ArgumentTypeError, "has no option 'boundary' in JAX"),
        (
            lambda u: jax.grad(lambda u: laplacian(u, 1.0).sum())(u),
            ArgumentTypeError,
            "laplacian cannot be differentiated: its spec has no backward",
        ),
    ],
)
def test_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(jnp.ones((4, 6)))


def test_sizes_with_names_of_options() -> None:
    kernel = kspec.ElementwiseKernel(
        "T x", "T y", "y = x * dtype", "jax_named", sizes={"dtype": [2]}
    )
    with pytest.raises(ArgumentTypeError, match="size dtype has the name of a keyword argument in"):
        kspec.jax.function(kernel)
