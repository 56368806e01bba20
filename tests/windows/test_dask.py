"""Windows on Dask arrays: halos between blocks, and the bits of one call on the whole array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec

da = pytest.importorskip("dask.array")

import dask  # noqa: E402

import kspec.dask  # noqa: E402
from tests.windows.kernels import BLUR, POWER, SKEWED, TWO  # noqa: E402
from tests.windows.reference import ALL, integers  # noqa: E402


@pytest.fixture(autouse=True)
def scheduler() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("boundary", ALL)
@pytest.mark.parametrize(
    "chunks",
    [
        ((11,), (13,)),
        ((4, 4, 3), (13,)),
        ((11,), (3, 4, 6)),
        ((3, 3, 5), (4, 3, 3, 3)),
        ((9, 2), (6, 7)),
    ],
)
def test_equals_the_whole(chunks: Any, boundary: str) -> None:
    u = integers(11, 13)
    v = kspec.dask.apply(SKEWED, da.from_array(u, chunks=chunks), boundary=boundary)
    expected = SKEWED(u, boundary=boundary)
    assert (v.shape, v.dtype) == (expected.shape, expected.dtype)
    for row, extents in zip(v.chunks, expected.shape, strict=True):
        assert sum(row) == extents
    np.testing.assert_array_equal(v.compute(), expected)
    part = v[1:4, 2:-1]  # known chunks are the true ones
    np.testing.assert_array_equal(part.compute(), expected[1:4, 2:-1])


@pytest.mark.parametrize("boundary", ALL)
def test_the_same_bits(boundary: str) -> None:
    u = np.random.default_rng(0).random((2, 30, 50)).astype("float32")
    x = da.from_array(u, chunks=(1, 7, 11))
    v = kspec.dask.apply(SKEWED, x, boundary=boundary).compute()
    assert v.tobytes() == SKEWED(u, boundary=boundary).tobytes()


@pytest.mark.parametrize("boundary", ["nearest", "wrap", "mirror"])
def test_windows_of_different_reach(boundary: str) -> None:
    """The array with one windowed axis is one row for all blocks, and others broadcast."""
    u, c, h = integers(3, 9, 21), integers(21, seed=3), integers(3, 1, 1, seed=4)
    x = da.from_array(u, chunks=(2, 4, 9))
    got = kspec.dask.apply(
        TWO, x, da.from_array(c, chunks=7), da.from_array(h, chunks=2), boundary=boundary
    )
    expected = TWO(u, c, h, boundary=boundary)
    for one, other in zip(dask.compute(*got), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_valid_windows_of_different_reach() -> None:
    """Elements are matched by their results, not by their positions in the arrays."""
    u, c, h = integers(9, 21), integers(21, seed=3), integers(7, 17, seed=4)
    got = kspec.dask.apply(
        TWO,
        da.from_array(u, chunks=(4, 5)),
        c,
        da.from_array(h, chunks=(3, 17)),
        boundary="valid",
    )
    expected = TWO(u, c, h, boundary="valid")
    assert got[0].shape == expected[0].shape == (7, 17)
    for one, other in zip(dask.compute(*got), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_arrays_that_only_one_block_needs() -> None:
    u = integers(3, 9, 21)
    v = kspec.dask.apply(SKEWED, da.from_array(u, chunks=(1, 9, 21)), boundary="wrap")
    np.testing.assert_array_equal(v.compute(), SKEWED(u, boundary="wrap"))


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (0, 5), (1, 40)])
def test_whole_axes_thinner_than_the_reach(shape: tuple[int, ...]) -> None:
    """One block along an axis has no neighbours, so the boundary repeats it as often as needed."""
    u = integers(*shape)
    x = da.from_array(u, chunks=(-1, 10))
    for boundary in ALL[:-1]:
        v = kspec.dask.apply(SKEWED, x, boundary=boundary).compute()
        np.testing.assert_array_equal(v, SKEWED(u, boundary=boundary))


def test_valid_with_nothing_left() -> None:
    u = integers(3, 9)
    v = kspec.dask.apply(SKEWED, da.from_array(u, chunks=(-1, 4)), boundary="valid")
    assert v.compute().shape == v.shape == (0, 5)
    # The first block has no result of its own: its elements are neighbours of the others'.
    u = integers(20, 9)
    v = kspec.dask.apply(SKEWED, da.from_array(u, chunks=((2, 6, 12), -1)), boundary="valid")
    np.testing.assert_array_equal(v.compute(), SKEWED(u, boundary="valid"))


def test_sizes() -> None:
    u, w = integers(40), integers(5, seed=1)
    x = da.from_array(u, chunks=7)
    for size, boundary in ((1, "nearest"), (2, "mirror")):
        v = kspec.dask.apply(BLUR, x, w, R=size, boundary=boundary)
        np.testing.assert_array_equal(v.compute(), BLUR(u, w, R=size, boundary=boundary))
    names = {kspec.dask.apply(BLUR, x, w, R=size).name for size in (1, 2, 1)}
    assert len(names) == 2
    for sizes in ({}, {"N": 2}):
        y = kspec.dask.apply(POWER, x, **sizes)
        np.testing.assert_array_equal(y.compute(), u ** sizes.get("N", 3))


def test_after_other_work_and_twice() -> None:
    u = integers(40, 30)
    x = da.from_array(u, chunks=(7, 11))
    v = kspec.dask.apply(SKEWED, kspec.dask.apply(SKEWED, x * 2)[::2, 3:])
    again = kspec.dask.apply(SKEWED, kspec.dask.apply(SKEWED, x * 2)[::2, 3:])
    assert v.name == again.name
    np.testing.assert_array_equal(v.compute(), SKEWED(SKEWED(u * 2)[::2, 3:]))


def test_strided_blocks() -> None:
    u = integers(30, 40)
    x = da.from_array(u, chunks=(8, 9)).T[::-1, ::2]
    v = kspec.dask.apply(SKEWED, x, boundary="reflect")
    np.testing.assert_array_equal(v.compute(), SKEWED(u.T[::-1, ::2], boundary="reflect"))


def test_blocks_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    u = integers(20, 30)
    x = da.from_array(u, chunks=(8, 11)).map_blocks(torch.from_numpy, meta=np.empty((0, 0)))
    v = kspec.dask.apply(SKEWED, x, boundary="wrap")
    block = v.blocks[1, 1].compute()
    assert isinstance(block, torch.Tensor)
    np.testing.assert_array_equal(block.numpy(), SKEWED(u, boundary="wrap")[8:16, 11:22])


def test_blocks_may_begin_anywhere() -> None:
    u = integers(20, 30)

    def moved(block: Any) -> Any:
        memory = np.zeros(block.nbytes + 1, "uint8")
        memory[1:] = np.frombuffer(block.tobytes(), "uint8")
        return memory[1:].view(block.dtype).reshape(block.shape)

    x = da.from_array(u, chunks=(8, 30)).map_blocks(moved, meta=np.empty((0, 0)))
    np.testing.assert_array_equal(kspec.dask.apply(SKEWED, x).compute(), SKEWED(u))
    x = x.rechunk((20, 30)).map_blocks(moved, meta=np.empty((0, 0)))
    np.testing.assert_array_equal(kspec.dask.apply(SKEWED, x).compute(), SKEWED(u))


def test_unknown_sizes_of_batch_axes() -> None:
    u = integers(6, 12, 20)
    x = da.from_array(u, chunks=(2, 12, 7))
    some = x[da.from_array(u[:, 0, 0], chunks=2) > 0]
    v = kspec.dask.apply(SKEWED, some)
    np.testing.assert_array_equal(v.compute(), SKEWED(u[u[:, 0, 0] > 0]))


def test_only_halos_are_taken() -> None:
    """Other workers send slices, not their blocks."""
    x = da.ones((40, 40), chunks=(10, 10)).map_blocks(lambda block: block)
    v = kspec.dask.apply(SKEWED, x)
    tasks = dict(v.__dask_graph__())
    uses = [one for one in tasks.values() if x.name in str(one)]
    assert uses
    name = next(key[0] for key in tasks if "halos" in str(key[0]))
    assert {key[3:] for key in tasks if key[0] == name and len(key) > 3} >= {(-1, 0), (1, 1)}


@pytest.mark.parametrize(
    ("chunks", "boundary", "message"),
    [
        (((1, 10), (13,)), "nearest", "block 0 along axis 0 has 1 element, .* need 2; .*thicker"),
        (((5, 1, 5), (13,)), "constant", r"block 1 along axis 0 has 1 element, .* need 2"),
        (((11,), (11, 2)), "reflect", r"block 1 along axis 1 has 2 elements, .*u\.rechunk\(\{1: "),
        (((10, 1), (13,)), "wrap", "block 1 along axis 0 has 1 element, .* need 2"),
        (((9, 2), (12, 1)), "mirror", "block 1 along axis 1 has 1 element, .* need 3"),
    ],
)
def test_thin_blocks(chunks: Any, boundary: str, message: str) -> None:
    x = da.from_array(integers(11, 13), chunks=chunks)
    with pytest.raises(kspec.ShapeError, match=f"skewed: u: {message}"):
        kspec.dask.apply(SKEWED, x, boundary=boundary)


def test_thin_blocks_that_lend_nothing() -> None:
    u = integers(11, 13)
    for chunks in ((10, 1), (5, 5, 1)):  # the last one lends one element, and needs two
        v = kspec.dask.apply(SKEWED, da.from_array(u, chunks=(chunks, 13)))
        np.testing.assert_array_equal(v.compute(), SKEWED(u))


def test_refused() -> None:
    x = da.from_array(integers(11, 13), chunks=(5, 5))
    some = x[x[:, 0] > 0]
    flat = da.ones(12, chunks=4)
    for kernel, args, keywords, error, message in (
        (SKEWED, (x,), {"boundary": "open"}, TypeError, "boundary 'open' is not declared for u"),
        (SKEWED, (x,), {"R": 1}, TypeError, "unexpected keyword argument 'R'"),
        (BLUR, (flat, np.ones(3)), {}, TypeError, "blur: size R is missing"),
        (BLUR, (flat, np.ones(3)), {"R": 5}, ValueError, "block 0 along axis 0 .* need 5"),
        (POWER, (x,), {"boundary": "wrap"}, TypeError, "the kernel has no windows"),
        (
            SKEWED,
            (some,),
            {},
            ValueError,
            r"u has chunks of unknown sizes along axis 0, .*compute_",
        ),
        (SKEWED, (flat,), {}, ValueError, "argument u has 1 dimension, and its window 2"),
        (
            SKEWED,
            (x[:2],),
            {"boundary": "valid"},
            ValueError,
            "leaves nothing for boundary 'valid'",
        ),
        (TWO, (x, 1.0, 1.0), {}, TypeError, "argument c must be an array, not float"),
        (TWO, (x, flat, 1.0), {}, ValueError, r"two: .*broadcast"),
    ):
        with pytest.raises(error, match=message) as caught:
            kspec.dask.apply(kernel, *args, **keywords)
        assert isinstance(caught.value, kspec.KspecError)
    total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "dask_windowless")
    for keywords, message in (
        ({"boundary": "wrap"}, "dask_windowless: boundary is given, but the kernel has no windows"),
        ({"R": 1}, "unexpected keyword argument 'R'"),
    ):
        with pytest.raises(kspec.ArgumentTypeError, match=message):
            kspec.dask.apply(total, x, **keywords)


def test_blocks_of_another_type_than_said() -> None:
    x = da.from_array(integers(11, 13), chunks=(5, 13))
    mixed = x.map_blocks(
        lambda block, block_info: block.astype(
            "f4" if block_info[0]["chunk-location"][0] else "f8"
        ),
        dtype="f8",
        meta=np.empty((0, 0)),
    )
    with pytest.raises(kspec.ArgumentTypeError, match=r"skewed: argument u is float.* beside it"):
        kspec.dask.apply(SKEWED, mixed).compute()


def test_samples_within_windows() -> None:
    kernel = kspec.ElementwiseKernel(
        "T u, T d, raw T x",
        "T v",
        "v = u.sample(d, -d) + 10 * x.sample(100 * d)",
        "dask_samples",
        windows={"u": {"reach": [2, 2], "boundary": [*ALL[:-1]], "value": 3}},
        samples={"u": {"order": 1}, "x": {"order": 1, "boundary": ["constant", *ALL[:4]]}},
    )
    u, x = integers(12, 21), integers(40, seed=1)
    d = np.random.default_rng(2).integers(-8, 9, u.shape) / 4
    blocks = da.from_array(u, chunks=(5, 6)), da.from_array(d, chunks=(5, 6))
    for boundary in ALL[:-1]:
        v = kspec.dask.apply(kernel, *blocks, x, boundary=boundary)
        np.testing.assert_array_equal(v.compute(), kernel(u, d, x, boundary=boundary))


def test_raw_samples() -> None:
    kernel = kspec.ElementwiseKernel(
        "raw T x, T a",
        "T z",
        "z = x.sample(a)",
        "dask_raw_samples",
        samples={"x": {"order": 3, "boundary": ["wrap", "nearest"]}},
    )
    x, a = integers(9), np.linspace(-20, 20, 30)
    for boundary in ("wrap", "nearest", None):
        z = kspec.dask.apply(kernel, x, da.from_array(a, chunks=7), boundary=boundary)
        np.testing.assert_array_equal(z.compute(), kernel(x, a, boundary=boundary))


def test_samples() -> None:
    """Samples within a window see the boundary at the edges of the whole array; raw ones anywhere."""
    windowed = kspec.ElementwiseKernel(
        "T u, T p",
        "T v",
        "v = u.sample(p)",
        "dask_sampled",
        windows={"u": {"reach": [2], "boundary": ["nearest", "wrap"]}},
        samples={"u": {"order": 1}},
    )
    raw = kspec.ElementwiseKernel(
        "raw T u, T p",
        "T v",
        "v = u.sample(p)",
        "dask_sampled_raw",
        samples={"u": {"order": 1, "boundary": ["nearest", "wrap"]}},
    )
    u, p = integers(12), np.linspace(-1, 1, 12)
    x, y = da.from_array(u, chunks=4), da.from_array(p, chunks=5)
    for boundary in ("nearest", "wrap"):
        got = kspec.dask.apply(windowed, x, y, boundary=boundary).compute()
        assert got.tobytes() == windowed(u, p, boundary=boundary).tobytes()
        got = kspec.dask.apply(raw, u, y, boundary=boundary).compute()
        assert got.tobytes() == raw(u, p, boundary=boundary).tobytes()


@pytest.mark.gpu
class TestCuPy:
    """Blocks on a GPU: halos are taken, joined and computed there."""

    @pytest.mark.parametrize("boundary", ALL)
    def test_blocks(self, boundary: str) -> None:
        cupy = pytest.importorskip("cupy")
        u = cupy.asarray(integers(2, 11, 13))
        x = da.from_array(u, chunks=(1, (4, 4, 3), (3, 4, 6)), asarray=False)
        v = kspec.dask.apply(SKEWED, x, boundary=boundary)
        assert isinstance(v._meta, cupy.ndarray)
        got, expected = v.compute(), SKEWED(u, boundary=boundary)
        assert isinstance(got, cupy.ndarray)
        np.testing.assert_array_equal(got.get(), expected.get())
        np.testing.assert_array_equal(got.get(), SKEWED(u.get(), boundary=boundary))

    def test_sizes_and_raw_weights(self) -> None:
        cupy = pytest.importorskip("cupy")
        u, w = cupy.asarray(integers(3, 40)), cupy.asarray(integers(5, seed=1))
        x = da.from_array(u, chunks=(2, 9), asarray=False)
        got = kspec.dask.apply(BLUR, x, w, R=2, boundary="nearest").compute()
        np.testing.assert_array_equal(got.get(), BLUR(u, w, R=2, boundary="nearest").get())

    def test_two_windowed_inputs(self) -> None:
        cupy = pytest.importorskip("cupy")
        u, c = cupy.asarray(integers(9, 21)), cupy.asarray(integers(21, seed=3))
        x, h = da.from_array(u, chunks=(4, 9), asarray=False), cupy.asarray([0.5])
        for boundary in ("wrap", "valid"):
            got = dask.compute(*kspec.dask.apply(TWO, x, c, h, boundary=boundary))
            for one, other in zip(got, TWO(u, c, h, boundary=boundary), strict=True):
                np.testing.assert_array_equal(one.get(), other.get())
