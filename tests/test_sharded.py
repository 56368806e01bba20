"""Kernels over arrays that are divided among devices: of the host here, of two GPUs where they are."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import sharded
from kspec.runtime import driver
from kspec.runtime.driver import module as driver_module
from tests.runtime.exporters import Exporter

ADD = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "sharded_add")
L2NORM = kspec.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "sharded_l2norm")
MOMENTS = kspec.ReductionKernel(
    "T x, float64 scale",
    "T mean, int64 count",
    "Pair<T>{x, 1}",
    "Pair<T>{a.sum + b.sum, a.count + b.count}",
    "mean = scale * a.sum / a.count; count = a.count",
    "Pair<T>{0, 0}",
    "sharded_moments",
    reduce_type="Pair<T>",
    preamble="template <class T> struct Pair { T sum; long long count; };",
)
SIZES = kspec.ReductionKernel(
    "T x, T s",
    "int64 elements, int64 outputs, T y",
    "x",
    "a + b",
    "elements = _in_ind.size(); outputs = _out_ind.size(); y = a + s",
    "0",
    "sharded_sizes",
    reduce_type="T",
)
LEFT_OVER = kspec.ReductionKernel(
    "T x", "T y", "x", "a + b", "y = _in_ind.size() - a", "0", "sharded_left_over"
)
AXES = [None, 0, 1, -1, (0, 1), (0, 2), (1, 2), ()]


def gpus() -> int:
    return len(kspec.devices()) - 1


class Shards:
    """Shards of one library, on devices or on the host."""

    def __init__(self, name: str, ordinals: tuple[int | None, ...]) -> None:
        self.name = name
        self.ordinals = ordinals

    def __repr__(self) -> str:
        return f"{self.name}-{self.ordinals}"

    def scatter(self, values: np.ndarray, along: int = 0) -> list[Any]:
        pieces = np.array_split(values, len(self.ordinals), axis=along)
        return [
            self.array(piece, where) for piece, where in zip(pieces, self.ordinals, strict=True)
        ]

    def array(self, values: np.ndarray, ordinal: int | None) -> Any:
        if self.name == "numpy":
            return values
        if self.name == "kspec":
            return kspec.asarray(values, device="host" if ordinal is None else f"cuda:{ordinal}")
        module = importlib.import_module(self.name)
        if self.name == "cupy":
            with module.cuda.Device(ordinal):
                return module.asarray(values)
        values = np.ascontiguousarray(values)
        return module.from_numpy(values).to("cpu" if ordinal is None else f"cuda:{ordinal}")

    def numpy(self, array: Any) -> np.ndarray:
        if self.name == "cupy":
            with array.device:
                return importlib.import_module("cupy").asnumpy(array)
        return array.cpu().numpy() if self.name == "torch" else kspec.asnumpy(array)

    def ordinal(self, array: Any) -> int | None:
        """Return where an array is; None: on the host."""
        if self.name == "numpy":
            return None
        if self.name == "cupy":
            return int(array.device.id)
        if self.name == "torch":
            return array.device.index
        return None if array.device.is_host else array.device.ordinal


def present(shards: Shards) -> Shards:
    """Return shards whose library and devices are here; skip the test otherwise."""
    pytest.importorskip(shards.name)
    if 1 in shards.ordinals and gpus() < 2:
        pytest.skip("needs two GPUs")
    return shards


HOSTS = [
    Shards("numpy", (None, None, None)),
    Shards("kspec", (None, None)),
    Shards("torch", (None, None)),
]
PAIRS = [Shards(name, (0, 1)) for name in ("kspec", "cupy", "torch")]
PLACES = [*HOSTS, *(pytest.param(one, marks=pytest.mark.gpu) for one in PAIRS)]


@pytest.fixture(params=PLACES, ids=repr)
def shards(request: pytest.FixtureRequest) -> Shards:
    return present(request.param)


class TestApply:
    def test_elementwise(self, shards: Shards) -> None:
        x, y = np.random.default_rng(0).random((2, 101, 7))
        z = sharded.apply(ADD, shards.scatter(x), shards.scatter(y))
        assert [shards.ordinal(one) for one in z] == list(shards.ordinals)
        np.testing.assert_array_equal(np.concatenate([shards.numpy(one) for one in z]), x + y)

    def test_elementwise_with_scalars_and_copies(self, shards: Shards) -> None:
        x, row = np.random.default_rng(1).random((101, 7)), np.arange(7.0)
        copies = [shards.array(row, where) for where in shards.ordinals]
        z = sharded.apply(ADD, shards.scatter(x), copies)
        np.testing.assert_array_equal(np.concatenate([shards.numpy(one) for one in z]), x + row)
        z = sharded.apply(ADD, shards.scatter(x), 2.0)
        np.testing.assert_array_equal(np.concatenate([shards.numpy(one) for one in z]), x + 2)

    @pytest.mark.parametrize("keepdims", [False, True])
    @pytest.mark.parametrize("axis", AXES)
    @pytest.mark.parametrize("along", [0, 1, -1])
    def test_reductions(self, shards: Shards, along: int, axis: Any, keepdims: bool) -> None:
        x = np.random.default_rng(2).random((24, 30, 9))
        axes = tuple(range(3)) if axis is None else tuple(np.atleast_1d(axis).astype(int) % 3)
        got = sharded.apply(
            L2NORM, shards.scatter(x, along), along=along, axis=axis, keepdims=keepdims
        )
        expected = np.sqrt((x * x).sum(axes, keepdims=keepdims))
        if along % 3 in axes:
            assert shards.ordinal(got) == shards.ordinals[0]
            result = shards.numpy(got)
        else:
            assert [shards.ordinal(one) for one in got] == list(shards.ordinals)
            place = along % 3
            place -= 0 if keepdims else sum(one < place for one in axes)
            result = np.concatenate([shards.numpy(one) for one in got], axis=place)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-12)

    @pytest.mark.parametrize("axis", [None, 0, 1])
    def test_several_outputs(self, shards: Shards, axis: Any) -> None:
        x = np.random.default_rng(3).random((60, 50))
        mean, count = sharded.apply(MOMENTS, shards.scatter(x), 2.0, axis=axis)
        if axis == 1:
            mean, count = (
                np.concatenate([shards.numpy(one) for one in ones]) for ones in (mean, count)
            )
        else:
            mean, count = shards.numpy(mean), shards.numpy(count)
        np.testing.assert_allclose(mean, 2 * x.mean(axis), rtol=1e-12)
        assert (count == x.size // mean.size).all()

    @pytest.mark.parametrize("keepdims", [False, True])
    @pytest.mark.parametrize("axis", AXES)
    @pytest.mark.parametrize("along", [0, 1, -1])
    def test_post_maps_see_the_sizes_of_the_whole(
        self, shards: Shards, along: int, axis: Any, keepdims: bool
    ) -> None:
        x = np.arange(24.0).reshape(4, 2, 3)
        expected = SIZES(x, 0.5, axis=axis, keepdims=keepdims)
        got = sharded.apply(
            SIZES, shards.scatter(x, along), 0.5, along=along, axis=axis, keepdims=keepdims
        )
        axes = range(3) if axis is None else [one % 3 for one in np.atleast_1d(axis)]
        place = along % 3
        for one, other in zip(got, expected, strict=True):
            if place in axes:
                result = shards.numpy(one)
            else:
                behind = place if keepdims else place - sum(axis < place for axis in axes)
                result = np.concatenate(list(map(shards.numpy, one)), axis=behind)
            assert result.dtype == other.dtype
            np.testing.assert_array_equal(result, other)

    def test_large_and_again(self, shards: Shards) -> None:
        """Memory of one call is not overwritten by the next ones."""
        x = np.random.default_rng(4).random((2000, 1000)).astype("float32")
        pieces = shards.scatter(x)
        results = [sharded.apply(L2NORM, pieces, axis=0) for _ in range(5)]
        for one in results:
            np.testing.assert_allclose(shards.numpy(one), np.linalg.norm(x, axis=0), rtol=1e-5)

    def test_empty_shards(self, shards: Shards) -> None:
        x = np.ones((1, 4))
        got = sharded.apply(L2NORM, shards.scatter(x), axis=0)
        np.testing.assert_array_equal(shards.numpy(got), [1, 1, 1, 1])


def test_results_within_shards_are_of_their_library() -> None:
    jax = pytest.importorskip("jax")
    pieces = [jax.numpy.ones((2, 3)), jax.numpy.ones((1, 3))]
    for kernel in L2NORM, LEFT_OVER:
        got = sharded.apply(kernel, pieces, axis=1)
        assert all(isinstance(one, jax.Array) for one in got)
    assert [one.tolist() for one in got] == [[6, 6], [6]]


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_arrays_that_only_export_themselves(axis: int | None) -> None:
    x = np.random.default_rng(7).random((6, 5))
    got = sharded.apply(L2NORM, [Exporter(x[:2].copy()), Exporter(x[2:].copy())], axis=axis)
    found = np.concatenate(list(map(kspec.asnumpy, got))) if axis == 1 else kspec.asnumpy(got)
    np.testing.assert_allclose(found, np.sqrt((x * x).sum(axis)), rtol=1e-12)


class TestScatter:
    def test_places(self) -> None:
        pieces = sharded.scatter(np.arange(5), ["host", "host"])
        assert [kspec.asnumpy(one).tolist() for one in pieces] == [[0, 1, 2], [3, 4]]

    def test_default_places(self) -> None:
        pieces = sharded.scatter(np.ones((2, 6)), along=1)
        assert len(pieces) == max(1, gpus())
        assert sum(one.shape[1] for one in pieces) == 6

    def test_refused(self) -> None:
        for places, message in (([], "places is empty"), ("host", r"pass \['host'\]")):
            with pytest.raises(kspec.ArgumentTypeError, match=message):
                sharded.scatter(np.ones(3), places)
        with pytest.raises(np.exceptions.AxisError):
            sharded.scatter(np.ones(3), ["host"], along=1)
        with pytest.raises(kspec.UnsupportedDTypeError, match="masked"):
            sharded.scatter(np.ma.masked_greater(np.arange(3), 1), ["host"])


X = [np.ones(3), np.ones(3)]


@pytest.mark.parametrize(
    ("args", "keywords", "message"),
    [
        ((ADD, X, X[:1]), {}, "lists must have the same number of shards: x has 2, y has 1"),
        ((ADD, [], []), {}, "same number of shards: x has 0"),
        ((ADD, X, X[0]), {}, "sharded_add: y is one array, which lives on one device"),
        ((ADD, X, [1.0, 2.0]), {}, "y is a list with a float; lists have shards"),
        ((L2NORM, [[1.0], [2.0]]), {"axis": 0}, "x is a list with a list"),
        ((ADD, 1.0, 2.0), {}, "no argument is a list of shards"),
        ((ADD, X), {}, "takes 2 inputs"),
        ((ADD, X, X), {"axis": 0}, "sharded_add is elementwise: axis and keepdims are for"),
        ((np.add, X, X), {}, "expected an elementwise or reduction kernel"),
    ],
)
def test_refused(args: Any, keywords: Any, message: str) -> None:
    with pytest.raises((kspec.ArgumentTypeError, kspec.ShapeError), match=message):
        sharded.apply(*args, **keywords)


@pytest.mark.parametrize(
    ("inputs", "outputs", "operation", "reason"),
    [
        ("T x", "T z", "z = x + i", "where an element is"),
        ("T x", "T z", "z = x / n", "reads n, the number of elements"),
        ("T x", "raw T z", "z[0] = x", "its output z is raw"),
        ("_non_const T x", "", "x = 1", "it writes to x"),
    ],
)
def test_kernels_that_need_the_whole(
    inputs: str, outputs: str, operation: str, reason: str
) -> None:
    kernel = kspec.ElementwiseKernel(inputs, outputs, operation, "sharded_whole")
    with pytest.raises(
        kspec.NotSupportedError, match=f"sharded_whole cannot be applied shard by shard: .*{reason}"
    ):
        sharded.apply(kernel, X)


def test_errors_say_which_shard() -> None:
    with pytest.raises(kspec.ArgumentTypeError, match="Type is mismatched") as caught:
        sharded.apply(ADD, [np.ones(3), np.ones(3)], [np.ones(3), np.ones(3, "f4")])
    assert caught.value.__notes__ == ["in shard 1"]


def test_calls_with_a_list_name_this() -> None:
    with pytest.raises(kspec.ArgumentTypeError, match=r"kspec\.sharded\.apply\(sharded_add, "):
        ADD(X, X)


@pytest.mark.gpu
class TestTwoDevices:
    @pytest.fixture(autouse=True)
    def two(self) -> None:
        if gpus() < 2:
            pytest.skip("needs two GPUs")

    def test_each_device_loads_the_module_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loaded: list[int] = []
        real = driver_module.load
        monkeypatch.setattr(
            driver_module,
            "load",
            lambda ordinal, code: (loaded.append(ordinal), real(ordinal, code))[1],
        )
        kernel = kspec.ElementwiseKernel("T x", "T y", "y = x + 1", "sharded_loaded_once")
        x = sharded.scatter(np.arange(10.0), ["cuda:0", "cuda:1"])
        for _ in range(3):
            z = sharded.apply(kernel, x)
        assert loaded == [0, 1]
        assert [one.device.ordinal for one in z] == [0, 1]

    def test_streams_of_cupy(self) -> None:
        """Parts are copied when they are ready, on streams that do not wait for each other."""
        cupy = pytest.importorskip("cupy")
        streams, x = [], []
        values = np.random.default_rng(5).random((2, 4000, 1000)).astype("float32")
        for ordinal in (0, 1):
            with cupy.cuda.Device(ordinal):
                streams.append(cupy.cuda.Stream(non_blocking=True))
                x.append(cupy.asarray(values[ordinal]))
                cupy.cuda.Device().synchronize()
        with cupy.cuda.Device(1):
            streams[1].use()
        with cupy.cuda.Device(0), streams[0]:
            results = [sharded.apply(L2NORM, x, axis=0) for _ in range(20)]
            streams[0].synchronize()
            got = [one.get() for one in results]
        with cupy.cuda.Device(1):
            cupy.cuda.Stream.null.use()
        expected = np.linalg.norm(values.reshape(8000, 1000), axis=0)
        for one in got:
            np.testing.assert_allclose(one, expected, rtol=1e-5)

    def test_the_current_device_stays(self) -> None:
        before = driver.current_ordinal()
        x = sharded.scatter(np.ones((6, 4)), ["cuda:1", "cuda:0"])
        got = sharded.apply(L2NORM, x, axis=0)
        assert str(got.device) == "cuda:1"
        assert driver.current_ordinal() == before
