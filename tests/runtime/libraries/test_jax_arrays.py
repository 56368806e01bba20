"""JAX's arrays in plain calls, on the CPU: immutable, asynchronous, with types of its own."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import kspec

jax: Any = pytest.importorskip("jax")
jnp: Any = jax.numpy

DOUBLE = kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "double_jax")
SPLIT = kspec.ElementwiseKernel("float32 x", "int32 a, float32 b", "a = x; b = x - a", "split_jax")
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total_jax")


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32", "complex64"]
)
def test_dtypes(dtype: str) -> None:
    x = jnp.asarray([0, 1, 1]).astype(dtype)
    same = kspec.ElementwiseKernel("T x", "T y", "y = x", "same_jax")(x)
    assert isinstance(same, jax.Array) and same.dtype == x.dtype and (same == x).all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (4, 5)])
def test_shapes(shape: tuple[int, ...]) -> None:
    y = DOUBLE(jnp.ones(shape))
    assert isinstance(y, jax.Array) and y.shape == shape and (y == 2).all()


def test_several_results() -> None:
    a, b = SPLIT(jnp.asarray([1.5, -2.25]))
    assert isinstance(a, jax.Array) and a.tolist() == [1, -2]
    assert isinstance(b, jax.Array) and b.tolist() == [0.5, -0.25]


def test_results_are_used_by_jax() -> None:
    y = DOUBLE(jnp.arange(5.0))
    gc.collect()
    assert jax.jit(lambda x: x + 1)(y).tolist() == [1, 3, 5, 7, 9]
    assert float(TOTAL(y) + 1) == 21


def test_what_is_still_computed_is_waited_for() -> None:
    a = jnp.ones((600, 600))
    for _ in range(5):
        assert (np.asarray(DOUBLE(a @ a @ a)) == 2 * 600**2).all()


def test_views_of_numpy_are_not_written_to() -> None:
    x = jnp.ones(4)
    with pytest.raises(kspec.ArgumentTypeError, match="JAX's arrays are immutable"):
        kspec.ElementwiseKernel("_non_const T x", "", "x += 1", "increment_jax")(x)
    assert x.tolist() == [1] * 4


def test_64_bits_are_those_of_jax() -> None:
    wide = kspec.ElementwiseKernel("float32 x", "float64 y", "y = x", "wide_jax")
    before = jax.config.jax_enable_x64
    try:
        for enabled, dtype in ((True, "float64"), (False, "float32")):
            jax.config.update("jax_enable_x64", enabled)
            assert wide(jnp.ones(3, "float32")).dtype == dtype
    finally:
        jax.config.update("jax_enable_x64", before)


def test_bound_calls_return_arrays_that_can_be_written_to() -> None:
    """They write to the same memory each time, which no `jax.Array` may show."""
    step = DOUBLE.bind(jnp.ones(3))
    assert isinstance(step(), kspec.DeviceArray)
    assert kspec.asnumpy(step()).tolist() == [2, 2, 2]


def test_fused_functions() -> None:
    @kspec.fuse(device="host")
    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    x = jnp.asarray(np.random.default_rng(0).random((64, 512), dtype="float32"))
    for _ in range(3):
        y = softmax(x)
        assert isinstance(y, jax.Array)
        np.testing.assert_allclose(y, jax.nn.softmax(x), rtol=1e-5)


def test_raw_kernels_read_them() -> None:
    kernel = kspec.RawKernel(
        'extern "C" __global__ void twice(const float* x, float* y) '
        "{ y[threadIdx.x] = 2 * x[threadIdx.x]; }",
        "twice",
        params=["const float* x", "float* y"],
    )
    out = np.zeros(4, "float32")
    kernel((1,), (4,), (jnp.arange(4.0), out))
    assert out.tolist() == [0, 2, 4, 6]


def test_sharded_arrays() -> None:
    devices = jax.devices()
    if len(devices) == 1:
        pytest.skip("one device: XLA_FLAGS=--xla_force_host_platform_device_count=2 makes two")
    mesh = jax.sharding.Mesh(np.array(devices[:2]), ("x",))
    spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    x = jax.device_put(np.arange(8.0, dtype="float32"), spec)
    with pytest.raises(kspec.ArgumentTypeError, match=r"argument x: the array is sharded over"):
        DOUBLE(x)
    assert kspec.asnumpy(x).tolist() == list(range(8))
    shards = [DOUBLE(one.data) for one in x.addressable_shards]
    assert [float(one[0]) for one in shards] == [0, 8]


def test_fused_functions_broadcast() -> None:
    x = np.arange(8, dtype="f4").reshape(4, 2)
    found = kspec.fuse(device="host")(lambda x: np.broadcast_to(x.sum(0), (4, 2)))(jnp.asarray(x))
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(found, np.broadcast_to(x.sum(0), (4, 2)))
