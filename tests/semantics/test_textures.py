"""Textures and surfaces: every format, address mode, filter and read mode against NumPy.

Filtered values agree with exact interpolation to 1/256 of the difference of neighbours for each
axis: the hardware keeps 8 bits of the fraction.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from kspec import texture as tx
from kspec.errors import HostFault, NotSupportedError
from tests.devices import HOST, ArrayDevice
from tests.profiles import examples

TEXTURES_SOURCE = r"""
template <class T> __global__ void fetch(cudaTextureObject_t t, const int* x, T* out) {
  out[threadIdx.x] = tex1Dfetch<T>(t, x[threadIdx.x]);
}
template <class T> __global__ void one(cudaTextureObject_t t, const float* x, T* out) {
  int i = threadIdx.x;
  T value;
  tex1D(&value, t, x[i]);
  out[i] = value;
}
template <class T> __global__ void two(cudaTextureObject_t t, const float2* x, T* out) {
  int i = threadIdx.x;
  out[i] = tex2D<T>(t, x[i].x, x[i].y);
}
template <class T> __global__ void three(cudaTextureObject_t t, const float3* x, T* out) {
  int i = threadIdx.x;
  out[i] = tex3D<T>(t, x[i].x, x[i].y, x[i].z);
}
"""
SURFACES_SOURCE = r"""
template <class T> __global__ void add1(cudaSurfaceObject_t s, int width) {
  int x = threadIdx.x;
  if (x < width) surf1Dwrite((T)(surf1Dread<T>(s, x * sizeof(T)) + 1), s, x * sizeof(T));
}
template <class T> __global__ void add2(cudaSurfaceObject_t s, int width, int height) {
  int x = threadIdx.x, y = threadIdx.y;
  if (x >= width || y >= height) return;
  T value;
  surf2Dread(&value, s, x * sizeof(T), y);
  surf2Dwrite((T)(value + 10 * y), s, x * sizeof(T), y);
}
template <class T> __global__ void add3(cudaSurfaceObject_t s, int width, int height) {
  int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
  if (x >= width || y >= height) return;
  surf3Dwrite((T)(surf3Dread<T>(s, x * sizeof(T), y, z) + z), s, x * sizeof(T), y, z);
}
extern "C" __global__ void swap(cudaSurfaceObject_t s) {
  float4 v = surf2Dread<float4>(s, threadIdx.x * sizeof(float4), 0);
  surf2Dwrite(make_float4(v.w, v.z, v.y, v.x), s, threadIdx.x * sizeof(float4), 0);
}
extern "C" __global__ void bounds(cudaSurfaceObject_t s, float* out) {
  out[0] = surf2Dread<float>(s, -4, 0, cudaBoundaryModeZero);
  out[1] = surf2Dread<float>(s, -4, 1, cudaBoundaryModeClamp);
  out[2] = surf2Dread<float>(s, 400, 99, cudaBoundaryModeClamp);
  surf2Dwrite(5.0f, s, 4000, 0, cudaBoundaryModeZero);
}
"""
KINDS = {"i": 0, "u": 1, "f": 2}
VECTORS = {"i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint"}
SCALARS = {
    "i1": "signed char", "u1": "unsigned char", "i2": "short", "u2": "unsigned short",
    "i4": "int", "u4": "unsigned int", "f2": "float", "f4": "float",
}  # fmt: skip
FORMATS = list(SCALARS)


def channel_of(dtype: npt.DTypeLike, count: int = 1) -> tx.ChannelFormatDescriptor:
    kind = np.dtype(dtype)
    bits = [8 * kind.itemsize] * count + [0] * (4 - count)
    return tx.ChannelFormatDescriptor(*bits, KINDS[kind.kind])


def texture_of(
    place: ArrayDevice, values: npt.NDArray[Any], channels: int = 1, **options: Any
) -> tx.TextureObject:
    """Return a texture over an array holding `values`."""
    *outer, row = values.shape
    sizes = (row // channels, *outer[::-1])
    array = tx.CUDAarray(channel_of(values.dtype, channels), *sizes, device=place.place)
    array.copy_from(values)
    resource = tx.ResourceDescriptor(tx.cudaResourceTypeArray, cuArr=array)
    return tx.TextureObject(resource, tx.TextureDescriptor(**options))


def read(
    place: ArrayDevice, kernel: str, ctype: str, texture: Any, points: Any, like: Any
) -> npt.NDArray[Any]:
    """Launch a fetching kernel on `points`; `like` is an array for its output."""
    name = f"{kernel}<{ctype}>"
    module = kspec.RawModule(code=TEXTURES_SOURCE, name_expressions=(name,))
    out = place.array(np.zeros_like(like))
    module.get_function(name)((1,), (len(points),), (texture, place.array(points), out))
    return place.numpy(out)


def resolved(index: npt.NDArray[Any], count: int, mode: int) -> npt.NDArray[np.int64]:
    """Return which element an index means; -1: the border."""
    index = index.astype(np.int64)
    if mode == tx.cudaAddressModeWrap:
        return index % count
    if mode == tx.cudaAddressModeMirror:
        index = index % (2 * count)
        return np.where(index < count, index, 2 * count - 1 - index)
    if mode == tx.cudaAddressModeBorder:
        return np.where((index >= 0) & (index < count), index, -1)
    return np.clip(index, 0, count - 1)


def sampled(values: Any, points: Any, mode: int, linear: bool, border: float = 0.0) -> Any:
    """Return exact texture values; `points` in elements, x first; one row per point."""
    corners = [(0.0, np.ones(len(points)), [])]
    for axis in range(values.ndim):
        x = points[:, axis].astype(np.float64) - 0.5 * linear
        base, count = np.floor(x), values.shape[values.ndim - 1 - axis]
        steps = [(0, 1 - (x - base)), (1, x - base)] if linear else [(0, 1.0)]
        corners = [
            (0.0, weight * share, [resolved(base + step, count, mode), *where])
            for _, weight, where in corners
            for step, share in steps
        ]
    total = np.zeros(len(points))
    for _, weight, where in corners:
        inside = np.all([index >= 0 for index in where], axis=0)
        total += weight * np.where(inside, values[tuple(where)], border)
    return total


def numbers(dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    rng = np.random.default_rng(1)
    if np.dtype(dtype).kind == "f":
        return rng.integers(-999, 999, shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", FORMATS)
def test_elements_of_linear_memory(dtype: str, place: ArrayDevice) -> None:
    values = numbers(dtype, (20,))
    memory = place.array(values)
    resource = tx.ResourceDescriptor(
        tx.cudaResourceTypeLinear, arr=memory, chDesc=channel_of(dtype), sizeInBytes=values.nbytes
    )
    texture = tx.TextureObject(resource, tx.TextureDescriptor())
    index = np.array([0, 19, 7, 20, -1, 1000], np.int32)
    like = np.zeros(6, "f4" if dtype == "f2" else dtype)
    out = read(place, "fetch", SCALARS[dtype], texture, index, like)
    np.testing.assert_array_equal(out, [*values[index[:3]], 0, 0, 0])


@pytest.mark.parametrize("dtype", FORMATS)
def test_elements_of_arrays(dtype: str, place: ArrayDevice) -> None:
    values = numbers(dtype, (5, 7))
    texture = texture_of(place, values, addressModes=[tx.cudaAddressModeClamp] * 2)
    y, x = np.indices(values.shape)
    points = np.stack([x + 0.5, y + 0.25], -1).reshape(-1, 2).astype(np.float32)
    like = values.astype("f4") if dtype == "f2" else values
    out = read(place, "two", SCALARS[dtype], texture, points, like)
    np.testing.assert_array_equal(out, values)


@pytest.mark.parametrize("channels", [2, 4])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "f4"])
def test_several_channels(dtype: str, channels: int, place: ArrayDevice) -> None:
    values = numbers(dtype, (3, 6 * channels))
    texture = texture_of(place, values, channels, addressModes=[tx.cudaAddressModeClamp] * 2)
    y, x = np.indices((3, 6))
    points = (np.stack([x, y], -1).reshape(-1, 2) + 0.5).astype(np.float32)
    ctype = f"{VECTORS.get(dtype, 'float')}{channels}"
    out = read(place, "two", ctype, texture, points, values)
    np.testing.assert_array_equal(out, values)


@pytest.mark.parametrize(
    ("dtype", "scale"), [("i1", 127), ("u1", 255), ("i2", 32767), ("u2", 65535)]
)
def test_integers_as_normalized_floats(dtype: str, scale: int, place: ArrayDevice) -> None:
    values = numbers(dtype, (16,))
    values[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    options = {"addressModes": [tx.cudaAddressModeClamp], "readMode": 1}
    texture = texture_of(place, values, **options)
    points = (np.arange(16) + 0.5).astype(np.float32)
    out = read(place, "one", "float", texture, points, points)
    exact = np.maximum(values.astype(np.float64) / scale, -1)
    np.testing.assert_allclose(out, exact, rtol=2e-7, atol=1e-7)


MODES = [
    (tx.cudaAddressModeWrap, True),
    (tx.cudaAddressModeClamp, True),
    (tx.cudaAddressModeMirror, True),
    (tx.cudaAddressModeBorder, True),
    (tx.cudaAddressModeClamp, False),
    (tx.cudaAddressModeBorder, False),
]


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize(("mode", "normalized"), MODES)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_coordinates(
    axes: int, mode: int, normalized: bool, linear: bool, place: ArrayDevice
) -> None:
    shape = (4, 5, 8)[3 - axes :] if axes < 3 else (4, 5, 8)
    values = np.random.default_rng(2).uniform(-1, 1, shape).astype(np.float32)
    options = {
        "addressModes": [mode] * axes,
        "filterMode": int(linear),
        "normalizedCoords": normalized,
        "borderColors": [0.25],
    }
    texture = texture_of(place, values, **options)
    # Up to two periods outside; multiples of 1/16 off the edges, where rounding would decide.
    extents = np.array(shape[::-1])
    cells = np.random.default_rng(3).integers(-32 * extents, 48 * extents, (500, axes))
    points = (cells + 0.5) / 16
    given = (points / extents if normalized else points).astype(np.float32)
    kernel = ("one", "two", "three")[axes - 1]
    given = given[:, 0].copy() if axes == 1 else given
    out = read(place, kernel, "float", texture, given, np.zeros(500, np.float32))
    exact = sampled(values, points, mode, linear, 0.25)
    if linear:
        assert np.abs(out - exact).max() <= axes * 2 / 256
        assert np.abs(out - exact).mean() <= axes * 2 / 1024
    else:
        np.testing.assert_allclose(out, exact, rtol=1e-6)


@settings(max_examples=examples(40))
@given(st.data())
def test_any_texture_reads_as_numpy_says(data: st.DataObject) -> None:
    """On the host device, of all sizes down to one element; the model is `sampled`."""
    axes = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=axes, max_size=axes)))
    normalized, linear = data.draw(st.booleans()), data.draw(st.booleans())
    modes = [mode for mode, always in MODES if normalized or not always]
    mode = data.draw(st.sampled_from(modes))
    values = np.random.default_rng(len(shape)).uniform(-1, 1, shape).astype(np.float32)
    border = data.draw(st.sampled_from([0.0, -1.0, 0.5]))
    texture = texture_of(
        HOST,
        values,
        addressModes=[mode] * axes,
        filterMode=int(linear),
        normalizedCoords=normalized,
        borderColors=[border],
    )
    cell = st.integers(-64, 192)
    cells = data.draw(st.lists(st.tuples(*[cell] * axes), min_size=1, max_size=20))
    points = (np.array(cells) + 0.5) / 16
    given_points = (points / np.array(shape[::-1]) if normalized else points).astype(np.float32)
    if axes == 1:
        given_points = given_points[:, 0].copy()
    kernel = ("one", "two", "three")[axes - 1]
    out = read(HOST, kernel, "float", texture, given_points, np.zeros(len(points), np.float32))
    exact = sampled(values, points, mode, linear, border)
    np.testing.assert_allclose(out, exact, atol=axes * 2 / 256 if linear else 1e-6)


def test_filtered_integers(place: ArrayDevice) -> None:
    values = np.array([[0, 255, 0], [255, 0, 255]], np.uint8)
    texture = texture_of(
        place, values, addressModes=[1, 1], filterMode=1, readMode=1, normalizedCoords=False
    )
    points = np.array([[1, 1], [1, 0.5], [0.75, 0.5]], np.float32)
    out = read(place, "two", "float", texture, points, points[:, 0])
    np.testing.assert_allclose(out, [0.5, 0.5, 0.25], atol=2 / 256)


def test_colours_become_linear(place: ArrayDevice) -> None:
    values = np.tile(np.arange(0, 256, 17, dtype=np.uint8)[:, None], 4).reshape(1, -1)
    texture = texture_of(place, values, 4, addressModes=[1, 1], readMode=1, sRGB=True)
    points = np.stack([np.arange(16) + 0.5, np.full(16, 0.5)], -1).astype(np.float32)
    out = read(place, "two", "float4", texture, points, np.zeros((16, 4), np.float32))
    given = values.reshape(16, 4) / 255
    expected = np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)
    expected[:, 3] = given[:, 3]  # opacity
    np.testing.assert_allclose(out, expected, atol=0.004)


def test_anisotropy_changes_nothing_without_mipmaps(place: ArrayDevice) -> None:
    values = numbers("f4", (4, 4))
    texture = texture_of(place, values, addressModes=[1, 1], maxAnisotropy=4)
    points = np.array([[0.5, 0.5], [3.5, 2.5]], np.float32)
    out = read(place, "two", "float", texture, points, points[:, 0])
    np.testing.assert_array_equal(out, [values[0, 0], values[2, 3]])


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4"])
def test_colours_of_the_border(dtype: str, place: ArrayDevice) -> None:
    border, channels = [3.0, 5.0, 0.25, 1.0], 4
    texture = texture_of(
        place,
        numbers(dtype, (4, 4 * channels)),
        channels,
        addressModes=[tx.cudaAddressModeBorder] * 2,
        borderColors=border if dtype == "f4" else [0.0] * 4,
        readMode=int(dtype != "f4"),
    )
    points = np.array([[-1, 1], [1, 4.5], [9, 9]], np.float32)
    out = read(place, "two", "float4", texture, points, np.zeros((3, 4), np.float32))
    np.testing.assert_array_equal(out, [border if dtype == "f4" else [0] * 4] * 3)


def test_rows_of_memory(place: ArrayDevice) -> None:
    values = np.random.default_rng(0).random((4, 32), dtype=np.float32)  # a pitch of 128 bytes
    memory = place.array(np.concatenate([values.ravel(), np.zeros(64, np.float32)]))
    resource = tx.ResourceDescriptor(
        tx.cudaResourceTypePitch2D, arr=memory, chDesc=channel_of("f4"), width=20, height=4,
        pitchInBytes=128,
    )  # fmt: skip
    texture = tx.TextureObject(resource, tx.TextureDescriptor([1, 1]))
    del memory, resource
    gc.collect()
    points = np.array([[0.5, 0.5], [19.5, 3.5], [25, 2.5], [3.5, -4]], np.float32)
    out = read(place, "two", "float", texture, points, points[:, 0])
    np.testing.assert_array_equal(out, [values[0, 0], values[3, 19], values[2, 19], values[0, 3]])


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "f4"])
def test_surfaces(dtype: str, place: ArrayDevice) -> None:
    for axes, shape in ((1, (9,)), (2, (5, 9)), (3, (4, 5, 9))):
        values = np.arange(np.prod(shape)).reshape(shape).astype(dtype) % 50
        array = tx.CUDAarray(
            channel_of(dtype), *shape[::-1], flags=tx.cudaArraySurfaceLoadStore, device=place.place
        )
        array.copy_from(place.array(values))
        surface = tx.SurfaceObject(tx.ResourceDescriptor(tx.cudaResourceTypeArray, cuArr=array))
        name = f"add{axes}<{SCALARS[dtype]}>"
        module = kspec.RawModule(code=SURFACES_SOURCE, name_expressions=(name,))
        grid, block = (4,) if axes == 3 else (1,), (16, 8) if axes > 1 else (16,)
        # The surface says where to run.
        module.get_function(name)(grid, block, (surface, *shape[::-1][:2]))
        out = np.zeros_like(values)
        array.copy_to(out)
        steps = {1: 1, 2: 10 * np.arange(5)[:, None], 3: np.arange(4)[:, None, None]}[axes]
        np.testing.assert_array_equal(out, values + np.asarray(steps).astype(dtype))


def test_surfaces_of_vectors_and_boundaries(place: ArrayDevice) -> None:
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    flags = tx.cudaArraySurfaceLoadStore
    array = tx.CUDAarray(channel_of("f4"), 4, 2, flags=flags, device=place.place)
    array.copy_from(values)
    surface = tx.SurfaceObject(tx.ResourceDescriptor(0, cuArr=array))
    out = place.zeros(3, "float32")
    kspec.RawKernel(SURFACES_SOURCE, "bounds")((1,), (1,), (surface, out))
    assert place.numpy(out).tolist() == [0, 4, 7]
    unchanged = place.array(np.zeros_like(values))
    array.copy_to(unchanged)
    np.testing.assert_array_equal(place.numpy(unchanged), values)


class TestDescriptors:
    def test_they_say_what_they_were_given(self) -> None:
        channel = tx.ChannelFormatDescriptor(8, 8, 0, 0, tx.cudaChannelFormatKindUnsigned)
        assert channel.get_channel_format() == {"x": 8, "y": 8, "z": 0, "w": 0, "f": 1}
        array = tx.CUDAarray(channel, 5, 4, device="host")
        assert (array.width, array.height, array.depth, array.ndim) == (5, 4, 0, 2)
        assert array.shape == (4, 10) and array.desc is channel
        described = tx.ResourceDescriptor(0, cuArr=array).get_resource_desc()
        assert described["restype"] == 0 and described["cuArr"] is array
        texture = tx.TextureDescriptor([1, 1], 0, 1, borderColors=[1, 2])
        assert texture.get_texture_desc()["borderColors"] == [1, 2]

    def test_lists_may_be_any_sequence(self) -> None:
        for modes in ((1, 2), [1, 2], np.array([1, 2])):
            assert tx.TextureDescriptor(modes).padded() == ([1, 2, 0], [0.0] * 4)

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"addressModes": [1] * 4}, ValueError, "addressModes: at most 3, not 4"),
            ({"borderColors": [1] * 5}, ValueError, "borderColors: at most 4, not 5"),
            ({"addressModes": 1}, TypeError, "addressModes must be a sequence, not int"),
            ({"addressModes": [4]}, ValueError, "an address mode must be one of 0 to 3, not 4"),
            ({"filterMode": 2}, ValueError, "filterMode must be one of 0 to 1"),
            ({"readMode": -1}, ValueError, "readMode must be one of 0 to 1"),
            ({"readMode": "linear"}, ValueError, "readMode must be"),
        ],
    )
    def test_impossible_modes(self, options: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            tx.TextureDescriptor(**options)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"restype": 7}, "unknown resource type 7"),
            ({"restype": 2, "sizeInBytes": 2}, "an element has 4 bytes"),
            ({"restype": 3, "width": 4, "height": 2, "pitchInBytes": 8}, "fit together"),
            ({"restype": 3, "width": 4, "pitchInBytes": 16}, "must be given"),
            ({"restype": 3, "width": 4, "height": 3, "pitchInBytes": 32}, "80 bytes are read"),
        ],
    )
    def test_impossible_memory(self, options: Any, message: str, place: ArrayDevice) -> None:
        with pytest.raises(ValueError, match=message):
            tx.ResourceDescriptor(arr=place.zeros(16, "f4"), chDesc=channel_of("f4"), **options)
        strided = place.zeros(32, "f4")[::2]
        with pytest.raises(ValueError, match="not C-contiguous"):
            tx.ResourceDescriptor(2, arr=strided, chDesc=channel_of("f4"), sizeInBytes=16)

    def test_each_takes_its_own(self) -> None:
        array = tx.CUDAarray(channel_of("f4"), 4, flags=2, device="host")
        resource: Any = tx.ResourceDescriptor(0, cuArr=array)
        texture: Any = tx.TextureDescriptor()
        wrong: Any = array
        for make, expected in (
            (lambda: tx.TextureObject(wrong, texture), "ResourceDescriptor"),
            (lambda: tx.TextureObject(texture, resource), "ResourceDescriptor"),
            (lambda: tx.TextureObject(resource, wrong), "TextureDescriptor"),
            (lambda: tx.SurfaceObject(wrong), "ResourceDescriptor"),
        ):
            with pytest.raises(TypeError, match=f"expected a {expected}, not a "):
                make()
        with pytest.raises(TypeError, match="cuArr must be a CUDAarray, not ndarray"):
            tx.ResourceDescriptor(0, cuArr=np.zeros(4))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="chDesc must be a ChannelFormatDescriptor, not str"):
            tx.ResourceDescriptor(2, arr=np.zeros(4), chDesc="f4")  # type: ignore[arg-type]

    @pytest.mark.parametrize("sizes", [(0,), (3, 0, 2), (-1,)])
    def test_impossible_extents(self, sizes: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match=r"width|height"):
            tx.CUDAarray(channel_of("f4"), *sizes, device="host")

    @pytest.mark.parametrize(
        "bits",
        [(8, 0, 0, 0, 2), (8, 16, 0, 0, 0), (8, 8, 8, 0, 0), (0, 0, 0, 0, 0), (64, 0, 0, 0, 1)],
    )
    def test_impossible_channels(self, bits: Any) -> None:
        with pytest.raises(ValueError, match="1, 2 or 4 of equal size"):
            tx.CUDAarray(tx.ChannelFormatDescriptor(*bits), 4, device="host")

    def test_copies_are_checked(self, place: ArrayDevice) -> None:
        array = tx.CUDAarray(channel_of("f4"), 4, 3, device=place.place)
        with pytest.raises(ValueError, match=r"shape \(3, 4\), not \(4, 3\)"):
            array.copy_from(np.zeros((4, 3), np.float32))
        with pytest.raises(ValueError, match="dtype float32, not int32"):
            array.copy_from(np.zeros((3, 4), np.int32))
        with pytest.raises(ValueError, match="C-contiguous"):
            array.copy_to(np.zeros((4, 3), np.float32).T)
        with pytest.raises(TypeError, match="expected an array, not list"):
            array.copy_from([1])

    def test_what_does_not_go_together(self, place: ArrayDevice) -> None:
        with pytest.raises(NotSupportedError, match="mipmapped"):
            tx.ResourceDescriptor(tx.cudaResourceTypeMipmappedArray)
        with pytest.raises(ValueError, match="needs cuArr"):
            tx.ResourceDescriptor(tx.cudaResourceTypeArray)
        with pytest.raises(ValueError, match="needs arr"):
            tx.ResourceDescriptor(tx.cudaResourceTypeLinear, sizeInBytes=4)
        memory = place.zeros(4, "float32")
        with pytest.raises(ValueError, match="20 bytes are read"):
            tx.ResourceDescriptor(2, arr=memory, chDesc=channel_of("f4"), sizeInBytes=20)
        with pytest.raises(ValueError, match="32 bits cannot be read as normalized"):
            texture_of(place, np.zeros(4, np.int32), readMode=1)
        with pytest.raises(ValueError, match="not filtered linearly"):
            texture_of(place, np.zeros(4, np.uint8), filterMode=1)
        for dtype, read_mode in (("f4", 1), ("u1", 0), ("i1", 1), ("u2", 1)):
            with pytest.raises(ValueError, match="sRGB is for unsigned integers of 8 bits"):
                texture_of(place, np.zeros(4, dtype), readMode=read_mode, sRGB=True)
        linear = tx.ResourceDescriptor(2, arr=memory, chDesc=channel_of("f4"), sizeInBytes=16)
        with pytest.raises(ValueError, match="needs a resource of type array"):
            tx.SurfaceObject(linear)
        array = tx.CUDAarray(channel_of("f4"), 4, device=place.place)
        with pytest.raises(ValueError, match="cudaArraySurfaceLoadStore"):
            tx.SurfaceObject(tx.ResourceDescriptor(0, cuArr=array))


def test_devices_are_not_mixed() -> None:
    texture = texture_of(HOST, np.zeros(4, np.float32))
    assert texture.device == kspec.Device("host")
    with pytest.raises(
        TypeError, match="different devices: argument 0 on cuda:7, argument 1 on host"
    ):
        texture.device = kspec.Device("cuda", 7)
        read(HOST, "one", "float", texture, np.zeros(1, np.float32), np.zeros(1, np.float32))


class TestFaults:
    """What a GPU answers with nonsense."""

    def fault(self, kernel: str, ctype: str, texture: Any, points: Any) -> HostFault:
        with pytest.raises(HostFault) as caught:
            read(HOST, kernel, ctype, texture, points, points)
        return caught.value

    def test_wrong_type(self) -> None:
        texture = texture_of(HOST, np.zeros(4, np.float32))
        fault = self.fault("one", "int", texture, np.zeros(1, np.float32))
        assert fault.kind == "texture" and "an integer is fetched" in str(fault)
        assert "at kernel.cu:8" in str(fault)

    def test_wrong_dimensions(self) -> None:
        texture = texture_of(HOST, np.zeros((4, 4), np.float32))
        fault = self.fault("one", "float", texture, np.zeros(1, np.float32))
        assert "another number of dimensions" in str(fault)
        fault = self.fault("fetch", "float", texture, np.zeros(1, np.int32))
        assert "linear memory only" in str(fault)

    def test_no_texture(self) -> None:
        memory = kspec.zeros(64, "float32", device="host")
        fault = self.fault("one", "float", memory.ptr, np.zeros(1, np.float32))
        assert "not a texture or surface object" in str(fault)

    def test_outside_of_a_surface(self) -> None:
        source = 'extern "C" __global__ void k(cudaSurfaceObject_t s, float* x) {\n'
        source += "  x[0] = surf1Dread<float>(s, blockDim.x * 4 + 1 - blockDim.x % 2);\n}"
        array = tx.CUDAarray(channel_of("f4"), 4, flags=2, device="host")
        surface = tx.SurfaceObject(tx.ResourceDescriptor(0, cuArr=array))
        for threads, kind in ((5, "illegal-address"), (2, "misaligned-address")):
            with pytest.raises(HostFault, match=r"kernel\.cu:2") as caught:
                kspec.RawKernel(source, "k")((1,), (threads,), (surface, np.zeros(1, np.float32)))
            assert caught.value.kind == kind

    @pytest.mark.parametrize("mode", ["memory", "race", "undefined"])
    def test_checked_kernels_read_textures(self, mode: str) -> None:
        texture = texture_of(HOST, np.arange(4, dtype=np.float32), addressModes=[1])
        x, out = np.array([0.5, 3.5], np.float32), np.zeros(2, np.float32)
        module = kspec.RawModule(code=TEXTURES_SOURCE, name_expressions=("one<float>",))
        module.get_function("one<float>")((1,), (2,), (texture, x, out), sanitize=mode)
        assert out.tolist() == [0, 3]


# Instantiated by test_sources.py.
_VECTOR_NAMES = [f"{name}{count}" for name in (*VECTORS.values(), "float") for count in (2, 4)]
TEXTURES_NAMES = (
    *(f"{kernel}<{ctype}>" for kernel in ("fetch", "two") for ctype in SCALARS.values()),
    *(f"two<{ctype}>" for ctype in _VECTOR_NAMES),
    "one<float>",
    "three<float>",
)
SURFACES_NAMES = tuple(
    f"add{axes}<{SCALARS[dtype]}>" for axes in (1, 2, 3) for dtype in ("i1", "u2", "i4", "f4")
)
