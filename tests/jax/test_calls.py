"""Calls from JAX: types, shapes, numbers, batches, errors, threads, and the way by callbacks."""

from __future__ import annotations

import functools
import importlib
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.exceptions import AxisError

import kspec
from kspec.errors import (
    ArgumentTypeError,
    ShapeError,
    UnboundPlaceholderError,
    UnsupportedDTypeError,
)
from tests.projects import ROOT, run_python

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from kspec_kernels import math, norms, raw, statistics  # noqa: E402

import kspec.jax  # noqa: E402

scale = kspec.ElementwiseKernel("T x, T factor", "T y", "y = x * factor", "jax_scale")
index = kspec.ElementwiseKernel("T x", "T y", "y = x + i", "jax_index")
both = kspec.ElementwiseKernel("T x, S y", "T a, S b", "a = x + 1; b = y * 2", "jax_both")
share = kspec.ElementwiseKernel(
    "T x", "T y", "y = x * x / n", "jax_share", backward={"x": "2 * x * grad_y / n"}
)
total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "jax_total")
largest = kspec.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", None, "jax_largest")
mean = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a / _in_ind.size()", "0", "jax_mean")
COUNTS = kspec.ElementwiseKernel(
    "raw T x", "T y, raw T twice", "y = x[i]; twice[2 * i] = twice[2 * i + 1] = y", "jax_raw"
)


def test_programs_run_the_kernel(place: str) -> None:
    x = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)
    l2norm = kspec.jax.function(norms.l2norm)

    @jax.jit
    def program(x: Any) -> Any:
        scaled = x / l2norm(x, axis=1, keepdims=True)
        return l2norm(scaled, axis=-1) + 1

    np.testing.assert_allclose(program(x), [2, 2, 2], rtol=1e-6)
    assert program(x).devices() == x.devices()
    assert "kspec_kernels.norms.l2norm" in program.lower(x).as_text()


def test_axes_and_keepdims(place: str) -> None:
    x = np.random.default_rng(0).integers(0, 100, (2, 3, 4)).astype(np.float32)
    run = kspec.jax.function(total)
    for axis in (None, 0, -1, (0, 2), [1], ()):
        for keepdims in (False, True):
            wanted = x.sum(axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)
            np.testing.assert_array_equal(run(x, axis=axis, keepdims=keepdims), wanted)


def test_numbers_take_the_type_of_arrays(place: str) -> None:
    run = kspec.jax.function(scale)
    x = jnp.arange(3, dtype=jnp.float16)
    assert run(x, 2).dtype == run(2.5, x).dtype == jnp.float16
    # What is computed of numbers is one, also while it is traced.
    assert jax.jit(lambda x, factor: run(x, factor * 2))(x, 2.5).dtype == jnp.float16
    assert run(2, 2.5).dtype == jnp.float32
    with pytest.raises(ArgumentTypeError, match="argument factor is a float32 number"):
        run(jnp.arange(3), 2.5)


def test_bools_of_python_are_numbers(place: str) -> None:
    run = kspec.jax.function(scale)
    for dtype in (jnp.int32, jnp.float16, jnp.bool_):
        x = jnp.arange(3).astype(dtype)
        for y in (run(x, True), run(True, x), jax.jit(lambda x: run(x, True))(x)):
            assert y.dtype == dtype
            np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(run(x, False), jnp.zeros(3, dtype))
    assert run(True, True).dtype == jnp.bool_
    assert run(True, 2).dtype == jnp.int32
    slope = jax.grad(lambda x: kspec.jax.function(math.squared_diff)(x, True))
    np.testing.assert_array_equal(slope(3.0), 4)
    with pytest.raises(ArgumentTypeError, match="T is int32 by x, but factor has dtype bool"):
        run(jnp.arange(3), jnp.array(True))


def test_several_outputs(place: str) -> None:
    run = jax.jit(kspec.jax.function(both))
    a, b = run(jnp.ones(3), jnp.arange(3))
    np.testing.assert_array_equal(a, [2, 2, 2])
    np.testing.assert_array_equal(b, [0, 2, 4])
    assert (a.dtype, b.dtype) == (jnp.float32, jnp.int32)


def test_raw_arrays(place: str) -> None:
    run = kspec.jax.function(COUNTS)
    x = jnp.arange(6, dtype=jnp.float32)
    y, twice = jax.jit(lambda x: run(x, size=3, raw_shapes=[(2, 3)]))(x)
    np.testing.assert_array_equal(y, [0, 1, 2])
    np.testing.assert_array_equal(twice, [[0, 0, 1], [1, 2, 2]])
    y, twice = jax.vmap(lambda x: run(x, size=3, raw_shapes=[6]))(x.reshape(2, 3))
    np.testing.assert_array_equal(y, x.reshape(2, 3))
    np.testing.assert_array_equal(twice, np.repeat(np.arange(6).reshape(2, 3), 2, axis=1))


def test_empty_arrays(place: str) -> None:
    x = jnp.zeros((0, 4), jnp.float32)
    assert kspec.jax.function(scale)(x, 2).shape == (0, 4)
    np.testing.assert_array_equal(kspec.jax.function(total)(x, axis=0), np.zeros(4))
    assert kspec.jax.function(largest)(x, axis=1).shape == (0,)
    with pytest.raises(ShapeError, match="no identity"):
        kspec.jax.function(largest)(x, axis=0)


def test_batches_broadcast(place: str) -> None:
    run = kspec.jax.function(scale)
    x, y = np.random.default_rng(0).random((2, 3, 4), np.float32), np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(jax.vmap(run, (0, None))(x, y), x * y)
    np.testing.assert_array_equal(jax.vmap(run, (2, 0), 2)(x, y), x * y)
    table = jax.vmap(jax.vmap(run, (None, 0)), (0, None))
    np.testing.assert_array_equal(table(x[0], y), x[0][:, None] * y[:, None])


@pytest.mark.parametrize("kernel", [index, share, mean])
def test_kernels_that_count_are_run_for_each_of_a_batch(kernel: Any, place: str) -> None:
    run = kspec.jax.function(kernel)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    wanted = np.stack([np.asarray(kernel(row)) for row in x])
    np.testing.assert_array_equal(jax.jit(jax.vmap(run))(x), wanted)


def test_gradients_that_count_are_computed_for_each_of_a_batch(place: str) -> None:
    run = kspec.jax.function(share)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = jax.vmap(jax.grad(lambda row: run(row).sum()))(x)
    np.testing.assert_array_equal(found, x / 2)


def test_batches_of_reductions(place: str) -> None:
    run = kspec.jax.function(total)
    x = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    np.testing.assert_array_equal(jax.vmap(lambda x: run(x, axis=0))(x), x.sum(axis=1))
    np.testing.assert_array_equal(jax.vmap(jax.vmap(run, 1), 3)(x), x.sum(axis=(0, 2)).T)
    kept = jax.vmap(lambda x: run(x, axis=(0, 2), keepdims=True), 1)(x)
    np.testing.assert_array_equal(kept, x.sum(axis=(0, 3), keepdims=True).transpose(1, 0, 2, 3))


def test_a_batch_is_one_launch(place: str) -> None:
    text = str(jax.make_jaxpr(jax.vmap(kspec.jax.function(total)))(jnp.ones((7, 3))))
    assert text.count("ffi_call[") == 1 and "scan" not in text


def test_functions_of_a_module() -> None:
    found = kspec.jax.functions(norms)
    assert {"l2norm", "logsumexp"} <= set(vars(found))
    np.testing.assert_allclose(found.l2norm(jnp.array([3.0, 4.0])), 5)
    with pytest.raises(ArgumentTypeError, match="has no elementwise or reduction kernels"):
        kspec.jax.functions(ModuleType("empty"))


def test_what_is_no_kernel() -> None:
    with pytest.raises(ArgumentTypeError, match="expected an elementwise or reduction kernel"):
        kspec.jax.function(raw.fx3)
    with pytest.raises(ArgumentTypeError, match="expected an elementwise or reduction kernel"):
        kspec.jax.function(np.add)


def test_kernels_that_write_to_their_inputs() -> None:
    kernel = kspec.ElementwiseKernel("_non_const T x", "", "x += 1", "jax_in_place")
    with pytest.raises(ArgumentTypeError, match="x is written to"):
        kspec.jax.function(kernel)(jnp.ones(3))


def test_wrong_arguments() -> None:
    x = jnp.ones(3)
    l2norm, squared = kspec.jax.function(norms.l2norm), kspec.jax.function(math.squared_diff)
    wrong: list[tuple[type[Exception], str, Any]] = [
        (ArgumentTypeError, "takes 2 positional arguments", lambda: squared(x)),
        (ArgumentTypeError, "outputs are returned", lambda: squared(x, x, x)),
        (ArgumentTypeError, "x is declared float32", lambda: squared(x.astype("int32"), x)),
        (ArgumentTypeError, "argument x must be an array", lambda: l2norm([1.0, 2.0])),
        (ArgumentTypeError, "no option 'out'", lambda: l2norm(x, out=x)),
        (ShapeError, "could not be broadcast", lambda: squared(x, jnp.ones(4))),
        (ShapeError, "Specified 'size' can be used only if", lambda: squared(x, x, size=3)),
        (AxisError, "axis 1 is out of bounds", lambda: l2norm(x, axis=1)),
        (UnsupportedDTypeError, "byte order", lambda: l2norm(np.ones(3, ">f4"))),
        (UnsupportedDTypeError, "masked", lambda: l2norm(np.ma.ones(3))),
        (UnsupportedDTypeError, "has dtype key<fry>", lambda: l2norm(jax.random.key(0))),
        (UnsupportedDTypeError, "has dtype int4", lambda: l2norm(jnp.ones(3, "int4"))),
    ]
    for kind, message, call in wrong:
        with pytest.raises(kind, match=message):
            call()


def test_wrong_options() -> None:
    """They are refused as in plain calls, before JAX looks at them."""
    x = jnp.ones((2, 3))
    l2norm, counts = kspec.jax.function(norms.l2norm), kspec.jax.function(COUNTS)
    convert = kspec.jax.function(math.squared_diff_super_generic)
    no_axis = "axis must be an integer or a tuple of integers, not "
    wrong: list[tuple[type[Exception], str, Any]] = [
        (ArgumentTypeError, no_axis + r"\{1\}", lambda: l2norm(x, axis={1})),
        (ArgumentTypeError, no_axis + r"Array\(\[0, 1\]", lambda: l2norm(x, axis=jnp.arange(2))),
        (ArgumentTypeError, no_axis + "True", lambda: l2norm(x, axis=(True,))),
        (ArgumentTypeError, no_axis, lambda: jax.jit(lambda k: l2norm(x, axis=k))(1)),
        (ShapeError, "size must not be negative, got -3", lambda: counts(x, size=-3)),
        (ArgumentTypeError, "size must be an integer, not float", lambda: counts(x, size=3.0)),
        (ArgumentTypeError, "size must be an integer, not list", lambda: counts(x, size=[3])),
        (ShapeError, "raw_shapes must not be", lambda: counts(x, size=3, raw_shapes=[(2, -3)])),
        (ArgumentTypeError, "raw_shapes must be a", lambda: counts(x, size=3, raw_shapes=3)),
        (UnsupportedDTypeError, "nonsense", lambda: convert(x, x, dtype="nonsense")),
    ]
    for kind, message, call in wrong:
        with pytest.raises(kind, match=message):
            call()


def test_options_that_are_integers() -> None:
    x = jnp.array([[3.0, 4.0], [6.0, 8.0]])
    l2norm = kspec.jax.function(norms.l2norm)
    for axis in (jnp.array(1), np.int64(-1), [1], range(1, 2)):
        np.testing.assert_allclose(l2norm(x, axis=axis), [5, 10])
    assert l2norm(x, keepdims=[1]).shape == (1, 1)
    y, _ = kspec.jax.function(COUNTS)(x, size=jnp.array(2), raw_shapes=(4,))
    np.testing.assert_array_equal(y, [3, 4])


def test_types_that_no_input_decides() -> None:
    run = kspec.jax.function(math.squared_diff_super_generic)
    x = jnp.arange(3.0)
    with pytest.raises(UnboundPlaceholderError, match="pass dtype="):
        run(x, x)
    assert run(x, 2 * x, dtype=jnp.float16).dtype == jnp.float16
    with pytest.raises(ArgumentTypeError, match="dtype= is for outputs"):
        kspec.jax.function(math.squared_diff)(x, x, dtype="float32")


def test_numbers_that_a_kernel_needs_when_it_is_launched(place: str) -> None:
    run = kspec.jax.function(norms.rms_scale)
    x = jnp.full((2, 4), 2.0)
    np.testing.assert_allclose(jax.jit(lambda x: run(x, 0, axis=1))(x), [0.5, 0.5])
    np.testing.assert_allclose(jax.jit(run, static_argnums=1)(x, 1e-6), 0.5, rtol=1e-6)
    np.testing.assert_allclose(run(x, np.float32(12)), 0.25)
    for call in (lambda: jax.jit(run)(x, 1e-6), lambda: run(x, jnp.float32(0))):
        with pytest.raises(ArgumentTypeError, match="argument eps must be a number"):
            call()


def test_numbers_that_are_equal_and_not_the_same() -> None:
    divide = kspec.ReductionKernel(
        "T x, T s", "T y", "x", "a + b", "y = T(1) / s", "0", "jax_divide"
    )
    run, x = kspec.jax.function(divide), jnp.ones(3)
    assert [float(run(x, s)) for s in (0.0, -0.0, 0, 1, True)] == [np.inf, -np.inf, np.inf, 1, 1]
    assert np.isnan(run(x, float("nan")))


def test_64_bits_where_jax_has_none() -> None:
    assert not jax.config.jax_enable_x64
    with pytest.raises(ArgumentTypeError, match="JAX makes float32 of float64 unless"):
        kspec.jax.function(norms.l2_norm_sq)(np.ones(3))
    found = kspec.jax.function(statistics.argmax)(jnp.array([1.0, 3.0, 2.0]))
    assert (found.dtype, int(found)) == (jnp.int32, 1)
    by_callback = kspec.jax.function(statistics.argmax, callback=True)
    assert by_callback(jnp.array([1.0, 3.0])).dtype == jnp.int32


def test_errors_of_running_programs(place: str) -> None:
    """Axes that batches add are counted when the program runs."""
    run: Any = kspec.jax.function(scale)
    batched = run
    for _ in range(64):
        batched = jax.vmap(batched)
    with pytest.raises(Exception, match="dimensions; kernels take"):
        jax.block_until_ready(jax.jit(batched)(jnp.ones((1,) * 65), jnp.ones((1,) * 65)))


def test_host_faults_are_errors() -> None:
    kernel = kspec.ElementwiseKernel("raw T x", "T y", "y = x[i + 1000000]", "jax_fault")
    kernel.checks = kspec.Checks(sanitize=("memory",))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"HostFault: jax_fault.*illegal-address"):
        jax.block_until_ready(kspec.jax.function(kernel)(jnp.ones(3), size=3))


@pytest.mark.threads
def test_several_threads(place: str) -> None:
    add = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "jax_add")
    run = jax.jit(lambda x, y: kspec.jax.function(add)(x, y) + kspec.jax.function(total)(x))
    start = threading.Barrier(8)

    def work(number: int) -> bool:
        start.wait()
        x = jnp.full(1000 + number, number, jnp.float32)
        results = [run(x, x * k) for k in range(20)]
        size = 1000 + number
        return all(
            np.array_equal(one, np.full(size, number * (1 + k + size), np.float32))
            for k, one in enumerate(results)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_loops_and_conditions(place: str) -> None:
    run = kspec.jax.function(scale)
    x = jnp.ones(4)
    doubled = jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda _, y: run(y, 2), x))
    np.testing.assert_array_equal(doubled(x), np.full(4, 1024))
    chosen = jax.jit(lambda x: jax.lax.cond(x.sum() > 3, lambda y: run(y, 5), lambda y: y, x))
    np.testing.assert_array_equal(chosen(x), np.full(4, 5))


def test_callbacks(place: str) -> None:
    run = kspec.jax.function(both, callback=True)
    x, y = np.ones((3, 4), np.float32), np.arange(4, dtype=np.int32)
    a, b = jax.jit(jax.vmap(run, (0, None)))(x, y)
    np.testing.assert_array_equal(a, x + 1)
    np.testing.assert_array_equal(b, np.broadcast_to(2 * y, (3, 4)))
    reduced = jax.vmap(lambda x: kspec.jax.function(total, callback=True)(x, axis=0))(x)
    np.testing.assert_array_equal(reduced, [4, 4, 4])


@pytest.mark.parametrize("callback", [False, True])
def test_sizes(callback: bool) -> None:
    """The number of elements may be all that says what the loop is."""
    x, batch = jnp.arange(4.0), jnp.arange(8.0).reshape(2, 4)
    take = kspec.ElementwiseKernel("raw T x", "T y", "y = x[i]", "jax_take")
    twice = kspec.ElementwiseKernel("raw T x", "raw T y", "y[i] = 2 * x[i]", "jax_twice")
    fill = kspec.ElementwiseKernel("T x", "T y", "y = x", "jax_fill")
    taken, doubled, filled = (
        functools.partial(kspec.jax.function(one, callback=callback), size=3)
        for one in (take, twice, fill)
    )
    np.testing.assert_array_equal(taken(x), [0, 1, 2])
    np.testing.assert_array_equal(jax.jit(jax.vmap(taken))(batch), batch[:, :3])
    np.testing.assert_array_equal(doubled(x), [0, 2, 4])
    np.testing.assert_array_equal(filled(2.0), [2, 2, 2])
    np.testing.assert_array_equal(jax.vmap(filled)(x[:2]), [[0, 0, 0], [1, 1, 1]])
    several = kspec.jax.function(COUNTS, callback=callback)
    _, pairs = several(x, size=3, raw_shapes=[(2, 3)])
    np.testing.assert_array_equal(pairs, [[0, 0, 1], [1, 2, 2]])


# On the CPU, with or without a GPU.
CACHED = """
import os
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, numpy as np, pathlib
import kspec.jax
from kspec_kernels import norms
folder = pathlib.Path({folder!r})
jax.config.update("jax_compilation_cache_dir", str(folder))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
twice = kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "twice")
twice, l2norm = kspec.jax.function(twice), kspec.jax.function(norms.l2norm)
print(jax.jit(lambda x: twice(l2norm(x)))(np.array([3, 4], "f4")), end=" ")
print(len([*folder.glob("*-cache")]))
"""
PENDING = """
import os
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, jax.numpy as jnp
import kspec.jax
from kspec_kernels import math, norms
squared_diff, l2norm = kspec.jax.function(math.squared_diff), kspec.jax.function(norms.l2norm)
program = jax.jit(lambda x: l2norm(squared_diff(x, 2 * x), axis=1))
x = jnp.ones((1000, 1000))
program(x).block_until_ready()
for _ in range(30):
    program(x)
print("end")
"""
SHARDED = """
import os
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import kspec.jax
from kspec_kernels import norms
mesh, parts = Mesh(np.array(jax.devices()), ("parts",)), PartitionSpec("parts")
x = jax.device_put(jnp.arange(32.0).reshape(8, 4), NamedSharding(mesh, parts))
l2norm = kspec.jax.function(norms.l2norm)
program = jax.jit(
    jax.shard_map(lambda x: l2norm(x, axis=1), mesh=mesh, in_specs=parts, out_specs=parts)
)
y = program(x)
print(np.allclose(y, jnp.linalg.norm(x, axis=1)), *y.sharding.spec)
print("all-gather" not in program.lower(x).compile().as_text())
"""
# What JAX checks in `shard_map`, which has to know over which axes values differ.
DIFFERING = """
import os
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec
import kspec.jax
from kspec_kernels import activations, norms, statistics
mesh, parts, whole = Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d"), PartitionSpec()
split = lambda run, takes=parts, gives=parts: jax.shard_map(
    run, mesh=mesh, in_specs=takes, out_specs=gives
)
steps = kspec.ElementwiseKernel(
    "T x", "T a, T b", "a = 3 * x; b = floor(x)", "jax_steps", backward={"x": "3 * grad_a"}
)
x, bias = jnp.arange(1.0, 9.0).reshape(4, 2), jnp.array([0.5, -0.25])
gelu = lambda x, bias: jax.nn.gelu(x + bias, approximate=False)

def same(name, found, wanted):
    assert np.shape(found) == np.shape(wanted), name
    np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=name)

for callback in (False, True):
    l2norm, gelu_bias, argmax, two = (
        kspec.jax.function(one, callback=callback)
        for one in (norms.l2norm, activations.gelu_bias, statistics.argmax, steps)
    )
    same("type", split(lambda x: l2norm(x)[None])(x), np.linalg.norm(x.reshape(2, 4), axis=1))
    for make in (lambda f: f, jax.jit):
        total = lambda x: split(lambda x: l2norm(x, axis=1))(x).sum()
        same("split", make(jax.grad(total))(x), x / np.linalg.norm(x, axis=1)[:, None])
        total = lambda bias: split(gelu_bias, (parts, whole))(x, bias).sum()
        wanted = jax.grad(lambda bias: gelu(x, bias).sum())(bias)
        same("whole", make(jax.grad(total))(bias), wanted)
        inside = lambda x, bias: jax.grad(lambda bias: gelu_bias(x, bias).sum())(bias)
        same("inside", make(split(inside, (parts, whole), whole))(x, bias), wanted)
        total = lambda x: split(lambda x: x.ravel()[argmax(x)][None])(x).sum()
        same("index", make(jax.grad(total))(x), [[0, 0], [0, 1], [0, 0], [0, 1]])
        for output, slope in enumerate((3, 0)):
            total = lambda x: split(lambda x: two(x)[output])(x).sum()
            same("unused", make(jax.grad(total))(x), np.full_like(x, slope))
    same("vmap", split(jax.vmap(jax.grad(l2norm)))(x), x / np.linalg.norm(x, axis=1)[:, None])
    rows = lambda x: jax.lax.scan(lambda sum, row: (gelu_bias(sum, row), None), x[0], x)[0]
    wanted = np.concatenate([gelu(gelu(x[k], x[k]), x[k + 1]) for k in (0, 2)])
    same("scan", split(rows)(x), wanted)
    same("sum", split(lambda x: jax.lax.psum(l2norm(x) ** 2, "d"), parts, whole)(x), (x**2).sum())
    try:
        split(l2norm, parts, whole)(x)
    except ValueError as error:
        assert "varying" in str(error) or "replicat" in str(error), error
    else:
        raise AssertionError("a norm of one part passed for that of the whole")
print("end")
"""
EXPORT = """
import os, pathlib
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, jax.numpy as jnp
from jax import export
import kspec.jax
from kspec_kernels import norms
l2norm = kspec.jax.function(norms.l2norm)
program = jax.jit(lambda x: l2norm(x, axis=1))
allowed = kspec.jax.export_checks()
exported = export.export(program, disabled_checks=allowed)
made = exported(jax.ShapeDtypeStruct((2, 2), jnp.float32))
pathlib.Path({path!r}).write_bytes(made.serialize())
"""
RESTORE = """
import os, pathlib
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, numpy as np
from jax import export
import kspec.jax
from kspec_kernels import norms
kspec.jax.function(norms.logsumexp)
program = export.deserialize(bytearray(pathlib.Path({path!r}).read_bytes()))
x = np.array([[3, 4], [6, 8]], "f4")
try:
    print(program.call(x))
except Exception as error:
    assert "does not know the kernel 'kspec_kernels.norms.l2norm'" in str(error), error
kspec.jax.function(norms.l2norm)
print(program.call(x))
"""


@pytest.mark.slow
def test_exported_programs(tmp_path: Any) -> None:
    """Programs hold names only, and other processes know the kernels by them."""
    flatbuffers = pytest.importorskip("flatbuffers")
    paths = ROOT, ROOT / "generated", Path(flatbuffers.__file__).parents[1]
    path = str(tmp_path / "program")
    run_python(EXPORT.format(path=path), *paths)
    assert run_python(RESTORE.format(path=path), *paths).strip() == "[ 5. 10.]"


def test_symbolic_shapes() -> None:
    export = importlib.import_module("jax.export")
    l2norm = kspec.jax.function(norms.l2norm)
    allowed = kspec.jax.export_checks()
    program = jax.jit(lambda x: l2norm(x, axis=-1, keepdims=True) * x)
    made = export.export(program, disabled_checks=allowed)(
        jax.ShapeDtypeStruct(export.symbolic_shape("rows, 2"), jnp.float32)
    )
    for rows in (1, 3):
        found = made.call(jnp.full((rows, 2), 2.0))
        np.testing.assert_allclose(found, np.full((rows, 2), 2 * 8**0.5), rtol=1e-6)


def test_sharded_arrays() -> None:
    """In `shard_map` every device runs the kernel on its part."""
    found = run_python(SHARDED, ROOT, ROOT / "generated")
    assert found.split() == ["True", "parts", "True"]


def test_values_that_differ_between_devices() -> None:
    assert run_python(DIFFERING, ROOT, ROOT / "generated").strip() == "end"


def test_processes_end_while_programs_run() -> None:
    assert run_python(PENDING, ROOT, ROOT / "generated").strip() == "end"


@pytest.mark.slow
def test_programs_in_the_cache_of_jax(tmp_path: Any) -> None:
    """A program that another process has compiled finds the kernel again."""
    code = CACHED.format(folder=str(tmp_path))
    first, again = (run_python(code, ROOT, ROOT / "generated") for _ in range(2))
    assert first == again
    assert first.startswith("10.0 ")


def test_arrays_go_through_dlpack_beside_programs() -> None:
    """JAX changes a function of Python's that `ctypes` shares."""
    x = jnp.arange(3.0)
    jax.ffi.pycapsule(0x1000)
    np.testing.assert_array_equal(
        np.from_dlpack(kspec.asarray(np.arange(3), device="host")), [0, 1, 2]
    )
    assert float(total(x)) == 3


def test_functions_are_pickled() -> None:
    again = pickle.loads(pickle.dumps(kspec.jax.function(norms.l2norm)))
    assert float(again(np.array([3.0, 4.0], "f4"))) == 5
