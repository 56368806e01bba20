"""Gradients: those of kernels with `backward` are JAX's own of the same formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.errors import ArgumentTypeError

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402
from kspec_kernels import activations, math, norms, statistics  # noqa: E402

import kspec.jax  # noqa: E402

X = np.random.default_rng(0).normal(size=(5, 7))
Y = np.random.default_rng(1).normal(size=7)

# Kernel, how it is called, and the same in JAX.
FORMULAS: dict[str, tuple[Any, Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "squared_diff_generic": (
        math.squared_diff_generic,
        lambda run, x, y: run(x, y),
        lambda x, y: (x - y) ** 2,
        (X, Y),
    ),
    "gelu_bias": (
        activations.gelu_bias,
        lambda run, x, bias: run(x, bias),
        lambda x, bias: jax.nn.gelu(x + bias, approximate=False),
        (X, Y),
    ),
    "clipped_relu": (
        activations.clipped_relu,
        lambda run, x, cap: run(x, cap),
        lambda x, cap: jnp.minimum(jnp.maximum(x, 0), cap),
        (X, np.float64(0.7)),
    ),
    "add_reverse": (
        math.add_reverse,
        lambda run, x, y: run(x, y),
        lambda x, y: x + y.ravel()[::-1].reshape(x.shape),
        (X, X.reshape(7, 5) * 2),
    ),
    "l2norm": (
        norms.l2norm,
        lambda run, x: run(x, axis=1),
        lambda x: jnp.linalg.norm(x, axis=1),
        (X,),
    ),
    "l2norm of everything": (norms.l2norm, lambda run, x: run(x), jnp.linalg.norm, (X,)),
    "l2_norm_sq": (
        norms.l2_norm_sq,
        lambda run, x: run(x, axis=-2, keepdims=True),
        lambda x: (x * x).sum(axis=0, keepdims=True),
        (X,),
    ),
    "rms_scale": (
        norms.rms_scale,
        lambda run, x: run(x, 1e-3, axis=1),
        lambda x: jax.lax.rsqrt((x * x).mean(axis=1) + 1e-3),
        (X,),
    ),
    "logsumexp": (
        norms.logsumexp,
        lambda run, x: run(x, axis=0),
        lambda x: jax.nn.logsumexp(x, axis=0),
        (X,),
    ),
    "mean_var": (
        statistics.mean_var,
        lambda run, x: run(x, 1, axis=1),
        lambda x: (x.mean(axis=1), x.var(axis=1, ddof=1)),
        (X,),
    ),
}


def loss(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a sum of what a function returns, in which every element counts differently."""

    def weighted(*args: Any) -> Any:
        total = jnp.zeros(())
        for number, one in enumerate(jax.tree.leaves(function(*args))):
            weights = jnp.arange(1.0, one.size + 1).reshape(one.shape) + number
            total = total + (weights * one).sum()
        return total

    return weighted


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("name", FORMULAS)
def test_gradients_are_those_of_jax(name: str, place: str) -> None:
    generated, call, formula, args = FORMULAS[name]
    run = kspec.jax.function(generated)
    numbers = tuple(range(len(args)))
    given = tuple(map(jnp.asarray, args))
    found = jax.jit(jax.grad(loss(lambda *some: call(run, *some)), numbers))(*given)
    wanted = jax.grad(loss(formula), numbers)(*given)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("name", FORMULAS)
def test_gradients_of_batches(name: str, place: str) -> None:
    generated, call, formula, args = FORMULAS[name]
    run = kspec.jax.function(generated)
    first, *rest = map(jnp.asarray, args)
    batch = jnp.stack([first, 2 * first, first - 1])
    axes = (0, *(None for _ in rest))
    found = jax.vmap(jax.grad(loss(lambda *some: call(run, *some))), axes)(batch, *rest)
    wanted = jax.vmap(jax.grad(loss(formula)), axes)(batch, *rest)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_gradients_are_derivatives(place: str) -> None:
    cube = kspec.ElementwiseKernel(
        "T x", "T y", "y = x * x * x", "jax_cube", backward={"x": "3 * x * x * grad_y"}
    )
    check_grads(kspec.jax.function(cube), (jnp.linspace(0.1, 1, 5),), 1, modes=["rev"], rtol=1e-2)


@pytest.mark.parametrize("callback", [False, True])
def test_gradients_that_are_added_up(callback: bool, place: str) -> None:
    scatter = kspec.ElementwiseKernel(
        "T grad_y, int32 index", "raw T grad_x", "atomicAdd(&grad_x[index], grad_y)", "jax_scatter"
    )
    gather = kspec.ElementwiseKernel(
        "raw T x, int32 index", "T y", "y = x[index]", "jax_gather", backward=scatter
    )
    run = kspec.jax.function(gather, callback=callback)
    x, index = jnp.arange(100.0), jnp.array([3, 5, 3])
    gradient = jax.grad(lambda x: run(x, index).sum())
    wanted = jnp.zeros(100).at[index].add(1)
    for _ in range(3):
        jnp.full(100, 7.0).block_until_ready()  # whose memory is used again
        np.testing.assert_array_equal(jax.jit(gradient)(x), wanted)
        np.testing.assert_array_equal(jax.vmap(gradient)(jnp.stack([x, x])), [wanted, wanted])


def test_a_number_that_was_traced(place: str) -> None:
    run = kspec.jax.function(math.squared_diff)
    x = jnp.arange(4, dtype=jnp.float32)
    found = jax.grad(lambda factor: run(x, factor * 1.0).sum())(2.0)
    assert found == pytest.approx(float((2 * (2 - x)).sum()))


def test_an_output_that_nothing_depends_on(place: str) -> None:
    run = kspec.jax.function(statistics.mean_var)
    x = jnp.arange(4, dtype=jnp.float32)
    np.testing.assert_allclose(jax.grad(lambda x: run(x, 0)[0])(x), np.full(4, 0.25))


def test_complex_numbers(place: str) -> None:
    gradients = kspec.ElementwiseKernel(
        "T x, T y, T grad_z", "T grad_x, T grad_y",
        "grad_x = grad_z * conj(y); grad_y = grad_z * conj(x)", "jax_product_gradients",
    )  # fmt: skip
    product = kspec.ElementwiseKernel(
        "T x, T y", "T z", "z = x * y", "jax_product", backward=gradients
    )
    run = kspec.jax.function(product)
    x, y = jnp.array([1 + 2j, 3 - 1j]), jnp.array([2 - 1j, 1j])
    for number in (0, 1):
        found, wanted = (
            jax.grad(lambda *some, f=f: jnp.abs(f(*some)).sum(), number)(x, y)
            for f in (run, lambda x, y: x * y)
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_expressions_are_no_gradients_of_complex_numbers(place: str) -> None:
    square = kspec.ElementwiseKernel(
        "T x, S w", "T y", "y = x * x * w", "jax_square", backward={"x": "T(2) * x * w * grad_y"}
    )
    run, z = kspec.jax.function(square), jnp.array([1 + 1j])
    gradient = jax.grad(lambda z: jnp.abs(run(z, 2.0)).sum())
    holomorphic = jax.grad(lambda z: run(z, 2.0)[0], holomorphic=True)
    for refused in (gradient, holomorphic, jax.jit(gradient), jax.vmap(gradient)):
        with pytest.raises(ArgumentTypeError, match="jax_square: x is complex and requires grad"):
            refused(z)
    np.testing.assert_allclose(run(z, 2.0), [4j])
    x = jnp.array([3.0])
    np.testing.assert_allclose(jax.grad(lambda x: run(x, 2.0).sum())(x), [12])
    fixed = jax.grad(lambda x: (x * jnp.abs(run(jax.lax.stop_gradient(z), 2.0))).sum())(x)
    np.testing.assert_allclose(fixed, [4], rtol=1e-6)


def test_kernels_without_gradients(place: str) -> None:
    half = kspec.ElementwiseKernel("T x", "T y", "y = x / 2", "jax_half")
    run, x = kspec.jax.function(half), jnp.ones(3)
    for differentiate in (jax.grad(lambda x: run(x).sum()), lambda x: jax.jvp(run, (x,), (x,))):
        with pytest.raises(ArgumentTypeError, match="jax_half cannot be differentiated"):
            differentiate(x)
    np.testing.assert_array_equal(
        jax.grad(lambda x: (x * run(jax.lax.stop_gradient(x))).sum())(x), [0.5] * 3
    )


def test_results_that_are_no_floats_have_no_gradient(place: str) -> None:
    x = jnp.array([1.0, 3.0, 2.0])
    run = kspec.jax.function(statistics.argmax)
    np.testing.assert_array_equal(jax.grad(lambda x: x[run(x)])(x), [0, 1, 0])


def test_second_derivatives(place: str) -> None:
    slope = kspec.ElementwiseKernel(
        "T x, T grad_y", "T grad_x", "grad_x = 3 * x * x * grad_y", "jax_slope",
        backward={"x": "6 * x * grad_y * grad_grad_x", "grad_y": "3 * x * x * grad_grad_x"},
    )  # fmt: skip
    cube = kspec.ElementwiseKernel("T x", "T y", "y = x * x * x", "jax_cubic", backward=slope)
    run = kspec.jax.function(cube)
    assert jax.grad(jax.grad(run))(2.0) == pytest.approx(12)
    assert jax.grad(jax.grad(lambda x: run(run(x))))(1.5) == pytest.approx(72 * 1.5**7)
    norm = kspec.jax.function(norms.l2norm)
    with pytest.raises(ArgumentTypeError, match="l2norm_backward cannot be differentiated"):
        jax.jacrev(jax.grad(norm))(jnp.array([3.0, 4.0]))


def test_inputs_without_gradients(place: str) -> None:
    weigh = kspec.ElementwiseKernel(
        "T x, T w", "T y", "y = x * w", "jax_weigh", backward={"x": "grad_y * w"}
    )
    run, x = kspec.jax.function(weigh), jnp.ones(3)
    np.testing.assert_array_equal(jax.grad(lambda x: run(x, 2 * jnp.ones(3)).sum())(x), [2] * 3)
    with pytest.raises(ArgumentTypeError, match="backward has no gradient of w"):
        jax.grad(lambda w: run(x, w).sum())(x)


def test_training_converges_as_with_jax(place: str) -> None:
    """A small network with a kernel as its activation, and one with JAX's own."""
    random = np.random.default_rng(0)
    x = jnp.asarray(random.normal(size=(64, 4)), jnp.float32)
    y = jnp.sin(x.sum(axis=1, keepdims=True))
    weights = [
        jnp.asarray(random.normal(size=s) / 4, jnp.float32) for s in ((4, 32), (32,), (32, 1))
    ]
    gelu = kspec.jax.function(activations.gelu_bias)

    def train(activation: Callable[..., Any]) -> tuple[float, float]:
        def error(parameters: list[Any]) -> Any:
            first, bias, second = parameters
            return ((activation(x @ first, bias) @ second - y) ** 2).mean()

        @jax.jit
        def step(parameters: list[Any]) -> tuple[Any, list[Any]]:
            value, gradients = jax.value_and_grad(error)(parameters)
            return value, [p - 0.1 * g for p, g in zip(parameters, gradients, strict=True)]

        values, parameters = [], weights
        for _ in range(100):
            value, parameters = step(parameters)
            values.append(float(value))
        return values[0], values[-1]

    found = train(gelu)
    wanted = train(lambda x, bias: jax.nn.gelu(x + bias, approximate=False))
    np.testing.assert_allclose(found, wanted, rtol=1e-3)
    assert found[1] < 0.5 * found[0]


def test_gradients_by_callbacks(place: str) -> None:
    run = kspec.jax.function(norms.l2norm, callback=True)
    x = jnp.array([3.0, 4.0])
    np.testing.assert_allclose(jax.jit(jax.grad(run))(x), [0.6, 0.8], rtol=1e-6)
