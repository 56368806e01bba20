"""Windows on shards: halos between devices, and the bits of one call on the whole array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec import sharded
from tests.runtime.exporters import Exporter
from tests.test_sharded import PLACES, Shards, present
from tests.windows.kernels import BLUR, POWER, SKEWED, TWO
from tests.windows.reference import ALL, integers


@pytest.fixture(params=PLACES, ids=repr)
def shards(request: pytest.FixtureRequest) -> Shards:
    return present(request.param)


def whole(shards: Shards, pieces: Any, along: int = 0) -> Any:
    return np.concatenate([shards.numpy(one) for one in pieces], axis=along)


@pytest.mark.parametrize("boundary", ALL)
@pytest.mark.parametrize("along", [0, 1, 2, -1])
def test_equals_the_whole(shards: Shards, along: int, boundary: str) -> None:
    u = np.random.default_rng(0).random((4, 23, 31))
    got = sharded.apply(SKEWED, shards.scatter(u, along), along=along, boundary=boundary)
    assert [shards.ordinal(one) for one in got] == list(shards.ordinals)
    # On the same device: GPUs contract multiplications and additions, the host device does not.
    expected = SKEWED(shards.array(u, shards.ordinals[0]), boundary=boundary)
    assert whole(shards, got, along).tobytes() == shards.numpy(expected).tobytes()


@pytest.mark.parametrize("boundary", ["nearest", "wrap"])
def test_windows_of_different_reach(shards: Shards, boundary: str) -> None:
    u, c, h = integers(21, 30), integers(30, seed=3), integers(21, 1, seed=4)
    expected = TWO(u, c, h, boundary=boundary)
    copies = [shards.array(c, where) for where in shards.ordinals]
    got = sharded.apply(TWO, shards.scatter(u), copies, shards.scatter(h), boundary=boundary)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(whole(shards, one), other)
    pieces = shards.scatter(u, 1), shards.scatter(c)
    got = sharded.apply(TWO, *pieces, 2.0, along=-1, boundary=boundary)
    expected = TWO(u, c, 2.0, boundary=boundary)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(whole(shards, one, 1), other)


def test_strided_shards(shards: Shards) -> None:
    u = integers(40, 31)
    for view in (lambda x: x.T, lambda x: x[::2], lambda x: x[:, 1:-4]):
        for along in (0, 1):
            wide = shards.scatter(u, along if view(u).shape != (31, 40) else 1 - along)
            got = sharded.apply(SKEWED, [view(one) for one in wide], along=along)
            expected = SKEWED(np.concatenate([view(shards.numpy(one)) for one in wide], along))
            np.testing.assert_array_equal(whole(shards, got, along), expected)


def test_sizes(shards: Shards) -> None:
    u, w = integers(40), integers(5, seed=1)
    weights = [shards.array(w, where) for where in shards.ordinals]
    for size in (1, 2):
        got = sharded.apply(BLUR, shards.scatter(u), weights, R=size, boundary="nearest")
        np.testing.assert_array_equal(whole(shards, got), BLUR(u, w, R=size, boundary="nearest"))
    for sizes in ({}, {"N": 2}):
        got = sharded.apply(POWER, shards.scatter(u), **sizes)
        np.testing.assert_array_equal(whole(shards, got), u ** sizes.get("N", 3))


def test_raw_arrays_have_other_axes(shards: Shards) -> None:
    """The divided axis is one of the windowed array, whose axes are fewer."""
    kernel = kspec.ElementwiseKernel(
        "T u, raw T w",
        "T v",
        "v = w[0] * u(-1) + w[1] * u + w[2] * u(1)",
        "sharded_raw",
        windows={"u": {"reach": [1], "boundary": "nearest"}},
    )
    u, w = integers(20), integers(1, 3, seed=1)
    got = sharded.apply(kernel, shards.scatter(u), [shards.array(w, k) for k in shards.ordinals])
    np.testing.assert_array_equal(whole(shards, got), kernel(u, w))


def test_samples(shards: Shards) -> None:
    kernel = kspec.ElementwiseKernel(
        "T u, T d, raw T x",
        "T v",
        "v = u.sample(d, -d) + 10 * x.sample(100 * d)",
        "sharded_samples",
        windows={"u": {"reach": [2, 2], "boundary": ["mirror", "wrap"]}},
        samples={"u": {"order": 1}, "x": {"order": 1, "boundary": ["mirror", "wrap"]}},
    )
    u, x = integers(20, 31), integers(40, seed=1)
    d = np.random.default_rng(2).integers(-8, 9, u.shape) / 4
    copies = [shards.array(x, where) for where in shards.ordinals]
    for boundary in ("mirror", "wrap"):
        got = sharded.apply(kernel, shards.scatter(u), shards.scatter(d), copies, boundary=boundary)
        np.testing.assert_array_equal(whole(shards, got), kernel(u, d, x, boundary=boundary))


def test_again(shards: Shards) -> None:
    """Steps of a simulation: borrowed elements are not overwritten before they are read."""
    u = integers(64, 300)
    pieces, expected = shards.scatter(u), u
    for _ in range(5):
        pieces = sharded.apply(SKEWED, pieces, boundary="wrap")
        expected = SKEWED(expected, boundary="wrap")
    np.testing.assert_array_equal(whole(shards, pieces), expected)


def test_one_shard_may_be_thinner_than_the_reach() -> None:
    u = integers(1, 9)
    (got,) = sharded.apply(SKEWED, [u], boundary="mirror")
    np.testing.assert_array_equal(got, SKEWED(u, boundary="mirror"))


def test_shards_of_other_libraries() -> None:
    u = integers(12, 9)
    got = sharded.apply(SKEWED, [Exporter(u[:5].copy()), Exporter(u[5:].copy())])
    np.testing.assert_array_equal(np.concatenate(list(map(kspec.asnumpy, got))), SKEWED(u))
    jax = pytest.importorskip("jax")
    v = u.astype("float32")
    got = sharded.apply(SKEWED, [jax.numpy.asarray(v[:5]), jax.numpy.asarray(v[5:])])
    assert all(isinstance(one, jax.Array) for one in got)
    np.testing.assert_array_equal(np.concatenate(got), SKEWED(v))


U = [integers(5, 9), integers(5, 9)]


@pytest.mark.parametrize(
    ("args", "keywords", "message"),
    [
        (
            (SKEWED, [U[0], U[1][:1], U[0]]),
            {},
            "skewed: u: shard 1 along axis 0 has 1 element, .* need 2; .*fewer devices",
        ),
        ((SKEWED, [U[0], U[1][:, :2]]), {"along": 1}, "shard 1 along axis 1 has 2 elements, .* 3"),
        ((SKEWED, [U[0], U[1][:, :7]]), {}, r"u: shard 1 has shape \(5, 7\), and shard 0 \(5, 9\)"),
        ((SKEWED, [U[0], U[1].astype("f4")]), {}, "Type is mismatched. .*argument u is float64"),
        ((SKEWED, [U[0][0], U[1][0]]), {}, "argument u has 1 dimension, and its window 2"),
        ((SKEWED, U), {"boundary": "open"}, "boundary 'open' is not declared for u"),
        ((SKEWED, U), {"R": 1}, "unexpected keyword argument 'R'"),
        ((BLUR, U, U), {}, "size R is missing"),
        ((POWER, U), {"boundary": "wrap"}, "the kernel has no windows"),
        ((TWO, U, 1.0, 1.0), {}, "argument c must be an array, not float"),
        ((SKEWED, U), {"axis": 0}, "is elementwise: axis and keepdims are for reductions"),
    ],
)
def test_refused(args: Any, keywords: Any, message: str) -> None:
    with pytest.raises((kspec.ArgumentTypeError, kspec.ShapeError), match=message):
        sharded.apply(*args, **keywords)


def test_axes_that_are_not_there() -> None:
    with pytest.raises(np.exceptions.AxisError):
        sharded.apply(SKEWED, U, along=2)


def test_reductions_have_no_boundary() -> None:
    total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sharded_windowless")
    with pytest.raises(kspec.ArgumentTypeError, match="boundary is given, but the kernel has no"):
        sharded.apply(total, U, boundary="wrap")
