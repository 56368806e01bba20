"""`CUDAarray`: what it is copied from and to, in which order, and how long it lives."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from kspec import texture as tx
from kspec.errors import DeviceMismatchError, DriverError, NotSupportedError
from kspec.model.stages import CudaSource, Target
from kspec.runtime import driver
from kspec.runtime.driver.device import Device
from kspec.runtime.memory import ArrayView
from kspec.runtime.texture import array as array_module
from kspec.runtime.texture import driver_texture
from kspec.runtime.texture.array import _rows_of
from tests.compiling import compiled
from tests.devices import ArrayDevice
from tests.profiles import examples
from tests.semantics.test_textures import FORMATS, channel_of, numbers

SHAPES = [(7,), (3, 7), (2, 3, 7)]


def array_for(values: npt.NDArray[Any], channels: int = 1, **options: Any) -> tx.CUDAarray:
    *outer, row = values.shape
    sizes = (row // channels, *outer[::-1])
    return tx.CUDAarray(channel_of(values.dtype, channels), *sizes, **options)


def contents(array: tx.CUDAarray, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    out = np.zeros(array.shape, dtype)
    array.copy_to(out)
    return out


class TestCopies:
    @pytest.mark.parametrize("channels", [1, 2, 4])
    @pytest.mark.parametrize("dtype", FORMATS)
    @pytest.mark.parametrize("shape", SHAPES, ids=len)
    def test_there_and_back(
        self, shape: tuple[int, ...], dtype: str, channels: int, device: ArrayDevice
    ) -> None:
        values = numbers(dtype, (*shape[:-1], shape[-1] * channels))
        array = array_for(values, channels, device=device.place)
        assert array.shape == values.shape
        array.copy_from(device.array(values))
        out = device.zeros(values.shape, dtype)
        array.copy_to(out)
        np.testing.assert_array_equal(device.numpy(out), values)
        np.testing.assert_array_equal(contents(array, dtype), values)

    def test_new_arrays_of_the_host_are_zero(self) -> None:
        assert not contents(tx.CUDAarray(channel_of("u1"), 4, 3, device="host"), "u1").any()

    def test_numpy_sources_have_any_layout(self, place: ArrayDevice) -> None:
        base = numbers("f4", (6, 8))
        for view in (base.T, base[::-1, ::2], np.broadcast_to(base[:1], base.shape)):
            array = array_for(view, device=place.place)
            array.copy_from(view)
            np.testing.assert_array_equal(contents(array, "f4"), view)

    def test_crops(self, device: ArrayDevice) -> None:
        """Rows that are in one piece, with gaps between them."""
        base = numbers("f4", (5, 6, 16))
        for index in (np.s_[1:4, 2:5, 3:9], np.s_[2, 1:3, :4], np.s_[::2, ::3, 1:], np.s_[:, 2:3]):
            array = array_for(base[index], device=device.place)
            array.copy_from(device.array(base)[index])
            np.testing.assert_array_equal(contents(array, "f4"), base[index])
            out = device.zeros(base.shape, "f4")
            array.copy_to(out[index])
            expected = np.zeros_like(base)
            expected[index] = base[index]
            np.testing.assert_array_equal(device.numpy(out), expected)

    def test_other_layouts_are_refused(self, device: ArrayDevice) -> None:
        array = tx.CUDAarray(channel_of("f4"), 6, 6, device=device.place)
        transposed = device.zeros((6, 6), "f4").T
        with pytest.raises(ValueError, match="not in one piece: pass a C-contiguous one"):
            array.copy_to(transposed)
        if device.library != "numpy":
            with pytest.raises(ValueError, match="pass a C-contiguous one"):
                array.copy_from(transposed)

    def test_read_only_arrays_are_not_written(self, place: ArrayDevice) -> None:
        array = tx.CUDAarray(channel_of("f4"), 4, device=place.place)
        out = np.ones(4, "f4")
        out.flags.writeable = False
        array.copy_from(out)
        with pytest.raises(TypeError, match="it is read-only"):
            array.copy_to(out)

    @pytest.mark.parametrize("dtype", ["f8", "i8", "u8", "c8", "?", ">f4", "i4", "u4", "f2"])
    def test_other_dtypes(self, dtype: str, place: ArrayDevice) -> None:
        array = tx.CUDAarray(channel_of("f4"), 4, device=place.place)
        for method in (array.copy_from, array.copy_to):
            with pytest.raises(ValueError, match="dtype"):
                method(np.zeros(4, dtype))

    @pytest.mark.parametrize("shape", [(), (12,), (4, 3), (3, 4, 1), (1, 3, 4), (3, 3)])
    def test_other_shapes(self, shape: tuple[int, ...], device: ArrayDevice) -> None:
        array = tx.CUDAarray(channel_of("f4"), 4, 3, device=device.place)
        for method in (array.copy_from, array.copy_to):
            with pytest.raises(ValueError, match=r"must have shape \(3, 4\), not \("):
                method(device.zeros(shape, "f4"))

    def test_what_is_no_array(self, place: ArrayDevice) -> None:
        array = tx.CUDAarray(channel_of("f4"), 4, device=place.place)
        for value in ([1.0] * 4, 1.0, None, array):
            with pytest.raises(TypeError, match="expected an array, not"):
                array.copy_from(value)
        masked = np.ma.masked_array(np.zeros(4, "f4"), [0, 1, 0, 0])
        with pytest.raises(TypeError, match="masked arrays"):
            array.copy_from(masked)

    def test_torch_tensors(self, place: ArrayDevice) -> None:
        torch = pytest.importorskip("torch")
        values = numbers("f4", (3, 4))
        array = tx.CUDAarray(channel_of("f4"), 4, 3, device=place.place)
        where = "cpu" if place.is_host else place.place
        array.copy_from(torch.tensor(values, device=where))
        out = torch.zeros((3, 4), device=where)
        array.copy_to(out)
        np.testing.assert_array_equal(out.cpu().numpy(), values)

    def test_a_stream_must_be_one(self, place: ArrayDevice) -> None:
        array = tx.CUDAarray(channel_of("f4"), 4, device=place.place)
        with pytest.raises(TypeError, match="stream must be"):
            array.copy_from(np.zeros(4, "f4"), stream="0")
        array.copy_from(np.ones(4, "f4"), 0)
        assert contents(array, "f4").tolist() == [1] * 4

    def test_arrays_of_another_device(self, monkeypatch: pytest.MonkeyPatch) -> None:
        array = tx.CUDAarray(channel_of("f4"), 4, device="host")
        view = ArrayView(256, (4,), (4,), "float32", Device("cuda", 1))
        library = SimpleNamespace(view=lambda value: view)
        monkeypatch.setattr(array_module, "library_of", lambda value: library)
        with pytest.raises(DeviceMismatchError, match="lives on cuda:1, not on host"):
            array.copy_from(view)


sizes = st.integers(1, 4)


@settings(max_examples=examples(200))
@given(st.tuples(sizes, sizes, sizes), st.integers(1, 3), st.data())
def test_rows_are_found_where_numpy_finds_them(
    base: tuple[int, int, int], ndim: int, data: st.DataObject
) -> None:
    memory = np.arange(np.prod(base), dtype="f4").reshape(base)
    index = tuple(
        data.draw(st.sampled_from([slice(None), slice(1, None), slice(None, None, 2), 0, None]))
        for _ in base
    )
    view = memory[index]
    if view.ndim == 3 and data.draw(st.booleans()):
        view = view.transpose(data.draw(st.permutations(range(3))))
    if not view.size or not 1 <= view.ndim <= 3:
        return
    row = 4 * view.shape[-1]
    found = _rows_of(
        ArrayView(view.ctypes.data, view.shape, view.strides, "float32", Device("host")), row
    )
    if view.flags.c_contiguous:
        assert found is not None
    if found is None:
        return
    depth, height, width = (1, 1, *view.shape)[-3:]
    start = (found.address - memory.ctypes.data) // 4
    z, y, x = np.indices((depth, height, width))
    read = memory.ravel()[start + x + found.pitch // 4 * (y + found.count * z)]
    np.testing.assert_array_equal(read.reshape(view.shape), view)


class TestFlags:
    @pytest.mark.parametrize(
        ("sizes", "flags", "message"),
        [
            ((4,), 0x10, "unknown flags 0x10"),
            ((4, 4), tx.cudaArrayLayered, "needs a depth"),
            ((4, 4, 5), tx.cudaArrayCubemap, "a depth of 6"),
            ((4, 5, 6), tx.cudaArrayCubemap, "square faces"),
            ((4, 4, 8), tx.cudaArrayCubemap | tx.cudaArrayLayered, "a multiple of 6"),
            ((4, 4, 4), tx.cudaArrayTextureGather, "a width and a height"),
        ],
    )
    def test_what_does_not_go_with_the_extents(
        self, sizes: tuple[int, ...], flags: int, message: str, place: ArrayDevice
    ) -> None:
        with pytest.raises(ValueError, match=message):
            tx.CUDAarray(channel_of("f4"), *sizes, flags=flags, device=place.place)

    @pytest.mark.parametrize("flags", [tx.cudaArrayLayered, tx.cudaArrayCubemap])
    def test_layers_and_cubes_are_for_gpus(self, flags: int) -> None:
        with pytest.raises(NotSupportedError, match="no layered arrays and no cubes"):
            tx.CUDAarray(channel_of("f4"), 4, 4, 6, flags=flags, device="host")

    def test_the_descriptor_is_one(self) -> None:
        with pytest.raises(TypeError, match="must be a ChannelFormatDescriptor, not str"):
            tx.CUDAarray("float32", 4, device="host")  # type: ignore[arg-type]

    def test_the_default_device(self) -> None:
        array = tx.CUDAarray(channel_of("f4"), 4)
        assert array.device == kspec.devices()[min(1, len(kspec.devices()) - 1)]


GPU_ONLY = r"""
extern "C" __global__ void layers(cudaTextureObject_t t, float* out) {
  int x = threadIdx.x, layer = blockIdx.x;
  out[layer * blockDim.x + x] = tex2DLayered<float>(t, (x + 0.5f) / blockDim.x, 0.75f, layer);
}
extern "C" __global__ void faces(cudaTextureObject_t t, float* out) {
  const float axes[6][3] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
  const float* at = axes[threadIdx.x];
  out[threadIdx.x] = texCubemap<float>(t, at[0], at[1], at[2]);
}
extern "C" __global__ void gather(cudaTextureObject_t t, float4* out) {
  *out = tex2Dgather<float4>(t, 1.0f, 1.0f, 0);
}
extern "C" __global__ void mark(cudaSurfaceObject_t s) {
  surf2DLayeredwrite((float)(10 * blockIdx.x), s, threadIdx.x * sizeof(float), 0, blockIdx.x);
}
"""


def test_gpu_only_functions_compile() -> None:
    image = compiled(CudaSource("gpu_only.cu", GPU_ONLY), Target("sm_90"))
    assert image.code


def gpu(place: ArrayDevice) -> str:
    if place.is_host:
        pytest.skip("needs a CUDA device")
    return place.place


def texture_over(array: tx.CUDAarray, **options: Any) -> tx.TextureObject:
    options.setdefault("addressModes", [tx.cudaAddressModeClamp] * 2)
    resource = tx.ResourceDescriptor(tx.cudaResourceTypeArray, cuArr=array)
    return tx.TextureObject(resource, tx.TextureDescriptor(**options))


@pytest.mark.gpu
class TestOnlyOnGpus:
    def test_layers(self, place: ArrayDevice) -> None:
        values = numbers("f4", (3, 2, 4))
        flags = tx.cudaArrayLayered | tx.cudaArraySurfaceLoadStore
        array = array_for(values, flags=flags, device=gpu(place))
        array.copy_from(values)
        out = place.zeros((3, 4), "f4")
        kernel = kspec.RawKernel(GPU_ONLY, "layers")
        kernel((3,), (4,), (texture_over(array, normalizedCoords=True), out))
        np.testing.assert_array_equal(place.numpy(out), values[:, 1])
        surface = tx.SurfaceObject(tx.ResourceDescriptor(0, cuArr=array))
        kspec.RawKernel(GPU_ONLY, "mark")((3,), (4,), (surface,))
        values[:, 0] = 10 * np.arange(3)[:, None]
        np.testing.assert_array_equal(contents(array, "f4"), values)

    def test_cubes(self, place: ArrayDevice) -> None:
        values = np.repeat(np.arange(6, dtype="f4"), 16).reshape(6, 4, 4)
        array = array_for(values, flags=tx.cudaArrayCubemap, device=gpu(place))
        array.copy_from(values)
        out = place.zeros(6, "f4")
        texture = texture_over(array, normalizedCoords=True)
        kspec.RawKernel(GPU_ONLY, "faces")((1,), (6,), (texture, out))
        assert place.numpy(out).tolist() == [0, 1, 2, 3, 4, 5]

    def test_gathering(self, place: ArrayDevice) -> None:
        values = np.arange(16, dtype="f4").reshape(4, 4)
        array = array_for(values, flags=tx.cudaArrayTextureGather, device=gpu(place))
        array.copy_from(values)
        out = place.zeros(4, "f4")
        kspec.RawKernel(GPU_ONLY, "gather")((1,), (1,), (texture_over(array), out))
        assert sorted(place.numpy(out).tolist()) == [0, 1, 4, 5]

    def test_copies_are_queued_on_a_stream(self, place: ArrayDevice) -> None:
        cupy = pytest.importorskip("cupy")
        array = tx.CUDAarray(channel_of("f4"), 1024, 1024, device=gpu(place))
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            source = cupy.arange(1024 * 1024, dtype="f4").reshape(1024, 1024)
            array.copy_from(source)  # on the library's current stream
            out = cupy.zeros_like(source)
        array.copy_to(out, stream)
        stream.synchronize()
        assert (out == source).all()
        with stream:
            source += 1
        array.copy_from(source, stream=stream)
        array.copy_to(out, stream=stream)
        stream.synchronize()
        assert (out == source).all()

    def test_copies_can_be_captured(self, place: ArrayDevice) -> None:
        cupy = pytest.importorskip("cupy")
        array = tx.CUDAarray(channel_of("f4"), 8, device=gpu(place))
        x, y = cupy.arange(8, dtype="f4"), cupy.zeros(8, "f4")
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            array.copy_from(x, stream)
            array.copy_to(y, stream)
            graph = stream.end_capture()
        x += 5
        cupy.cuda.Device().synchronize()
        graph.launch(stream)
        stream.synchronize()
        assert (y == x).all()

    def test_a_dropped_texture_waits_for_its_kernel(self, place: ArrayDevice) -> None:
        code = r"""extern "C" __global__ void slow(cudaTextureObject_t t, float* out) {
          long long start = clock64();
          while (clock64() - start < 100000000) {}
          out[threadIdx.x] = tex2D<float>(t, threadIdx.x + 0.5f, 0.5f);
        }"""
        values, out = numbers("f4", (2, 32)), place.zeros(32, "f4")
        array = array_for(values, device=gpu(place))
        array.copy_from(values)
        kspec.RawKernel(code, "slow")((1,), (32,), (texture_over(array), out))
        del array
        gc.collect()
        others = [array_for(values, device=place.place) for _ in range(4)]
        for other in others:
            other.copy_from(np.zeros_like(values))
        np.testing.assert_array_equal(place.numpy(out), values[0])

    def test_sizes_no_gpu_has(self, place: ArrayDevice) -> None:
        with pytest.raises(DriverError, match="CUDA_ERROR_INVALID_VALUE"):
            tx.CUDAarray(channel_of("f4"), 1 << 24, 4, device=gpu(place))

    def test_misplaced_memory(self, place: ArrayDevice) -> None:
        memory = kspec.zeros(1 << 12, "f4", gpu(place))
        resource = tx.ResourceDescriptor(
            tx.cudaResourceTypePitch2D, arr=memory, chDesc=channel_of("f4"), width=5, height=4,
            pitchInBytes=20,
        )  # fmt: skip
        with pytest.raises(DriverError, match="a pitch that is a multiple of"):
            tx.TextureObject(resource, tx.TextureDescriptor())

    def test_several_gpus(self, place: ArrayDevice) -> None:
        gpu(place)
        if len(kspec.devices()) < 3:
            pytest.skip("needs two CUDA devices")
        values = numbers("f4", (2, 4))
        code = """extern "C" __global__ void first(cudaTextureObject_t t, float* out) {
          out[threadIdx.x] = tex2D<float>(t, threadIdx.x + 0.5f, 0.5f);
        }"""
        kernel = kspec.RawKernel(code, "first")
        for device in ("cuda:1", "cuda:0"):
            array = array_for(values, device=device)
            array.copy_from(kspec.asarray(values, device=device))
            out = kspec.zeros(4, "f4", device)
            kernel((1,), (4,), (texture_over(array), out))
            np.testing.assert_array_equal(kspec.asnumpy(out), values[0])
            other = kspec.zeros(values.shape, "f4", "cuda:1" if device == "cuda:0" else "cuda:0")
            with pytest.raises(DeviceMismatchError, match="the array lives on"):
                array.copy_from(other)
            with pytest.raises(TypeError, match="different devices"):
                kernel((1,), (4,), (texture_over(array), other))
        cupy = pytest.importorskip("cupy")
        with cupy.cuda.Device(1):
            stream = cupy.cuda.Stream()
        with pytest.raises(DeviceMismatchError, match="stream belongs to another device"):
            array.copy_from(values, stream)


class TestLifetime:
    def test_textures_keep_what_they_read(self, place: ArrayDevice) -> None:
        array = tx.CUDAarray(channel_of("f4"), 4, device=place.place)
        alive = weakref.ref(array)
        texture = texture_over(array)
        surface = tx.SurfaceObject(
            tx.ResourceDescriptor(
                0, cuArr=tx.CUDAarray(channel_of("f4"), 4, flags=2, device=place.place)
            )
        )
        del array
        gc.collect()
        assert alive() is not None and texture.ResDesc.cuArr is alive()
        assert surface.ResDesc.cuArr is not None
        del texture
        gc.collect()
        assert alive() is None

    def test_bound_calls_keep_their_texture(self, place: ArrayDevice) -> None:
        values = numbers("f4", (2, 4))
        array = array_for(values, device=place.place)
        array.copy_from(values)
        kernel = kspec.ElementwiseKernel(
            "U tex", "float32 y", "y = tex2D<float>(tex, i + 0.5f, 1.5f)", "bound_texture"
        )
        y = place.zeros(4, "f4")
        call = kernel.bind(texture_over(array), y)
        del array
        gc.collect()
        call()
        np.testing.assert_array_equal(place.numpy(y), values[1])

    def test_memory_is_kept(self, place: ArrayDevice) -> None:
        values = numbers("f4", (64,))
        resource = tx.ResourceDescriptor(
            tx.cudaResourceTypeLinear,
            arr=place.array(values),
            chDesc=channel_of("f4"),
            sizeInBytes=256,
        )
        texture = tx.TextureObject(resource, tx.TextureDescriptor())
        del resource
        gc.collect()
        trash = [place.zeros(64, "f4") for _ in range(8)]
        kernel = kspec.ElementwiseKernel(
            "U tex", "float32 y", "y = tex1Dfetch<float>(tex, i)", "linear_texture"
        )
        y = place.zeros(64, "f4")
        kernel(texture, y)
        np.testing.assert_array_equal(place.numpy(y), values)
        del trash

    @pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
    def test_handles_are_not_copied(self, duplicate: Any, place: ArrayDevice) -> None:
        array = tx.CUDAarray(channel_of("f4"), 4, 4, flags=2, device=place.place)
        resource = tx.ResourceDescriptor(0, cuArr=array)
        memory = tx.ResourceDescriptor(
            2, arr=place.zeros(4, "f4"), chDesc=channel_of("f4"), sizeInBytes=16
        )
        for one in (array, resource, memory, texture_over(array), tx.SurfaceObject(resource)):
            with pytest.raises(TypeError, match=f"a {type(one).__name__} refers to memory"):
                duplicate(one)

    def test_descriptions_are(self) -> None:
        texture = tx.TextureDescriptor([1, 1], 1, borderColors=(1,))
        for again in (copy.deepcopy(texture), pickle.loads(pickle.dumps(texture))):
            assert again.get_texture_desc() == texture.get_texture_desc()
        channel = pickle.loads(pickle.dumps(channel_of("u2", 2)))
        assert channel.get_channel_format() == {"x": 16, "y": 16, "z": 0, "w": 0, "f": 1}


class TestDriver:
    """Calls that need no GPU to be looked at."""

    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        calls: list[Any] = []

        def note(name: str, code: int = 0, *result: Any) -> Any:
            def call(*given: Any) -> Any:
                calls.append((name, *given))
                return (SimpleNamespace(value=code, name="CUDA_ERROR_INVALID_VALUE"), *result)

            return call

        class Attributes:
            def __getattr__(self, name: str) -> str:
                return name

        kinds = {f"CU_RESOURCE_TYPE_{name}": name for name in ("ARRAY", "LINEAR", "PITCH2D")}
        bindings = SimpleNamespace(
            CUresourcetype=SimpleNamespace(**kinds),
            CUdevice_attribute=Attributes(),
            CUaddress_mode=int,
            CUfilter_mode=int,
            CUDA_TEXTURE_DESC=SimpleNamespace,
            CUarray_format=Attributes(),
            CUDA_ARRAY3D_DESCRIPTOR=SimpleNamespace,
            cuArray3DCreate=note("allocate", 0, 3),
            cuMemAlloc=note("some memory", 0, 9),
            cuMemFree=note("wait"),
            cuTexObjectDestroy=note("destroy"),
            cuTexObjectCreate=note("create", 1),
            cuGetErrorString=lambda error: (0, b"invalid argument"),
            cuDeviceGet=note("device", 0, 0),
            cuDeviceGetAttribute=note("attribute", 0, 32),
            CUstreamCaptureMode=SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2),
            cuThreadExchangeStreamCaptureMode=note("mode", 0, 0),
            cuDevicePrimaryCtxRetain=note("retain", 0, 5),
            cuCtxGetCurrent=note("current", 0, 5),
        )
        monkeypatch.setattr(driver, "_bindings", lambda: bindings)
        monkeypatch.setattr(driver, "_primary_context", lambda ordinal: 5)
        return calls

    def test_arrays_are_made_whatever_is_captured(self, calls: list[Any]) -> None:
        assert driver_texture.create_array(0, channel_of("f4", 1).channels(), 4, 3, 0, 0) == 3
        names = [call[0] for call in calls]
        assert names.index("mode") < names.index("allocate") < len(names) - 1
        assert calls[-1] == ("mode", 0)

    def test_textures_go_when_kernels_have_run(self, calls: list[Any]) -> None:
        driver_texture.destroy_texture(0, 77)
        assert [call for call in calls if call[0] in ("wait", "destroy")] == [
            ("wait", 9),  # as cuCtxSynchronize does, which captures forbid
            ("destroy", 77),
        ]

    @pytest.mark.parametrize(
        ("kind", "message"),
        [
            ("ARRAY", "invalid argument$"),
            ("LINEAR", "a multiple of 32, with at most 32 elements$"),
            ("PITCH2D", "at most 32 x 32 elements, and a pitch that is a multiple of 32 and at"),
        ],
    )
    def test_refused_memory(self, kind: str, message: str, calls: list[Any]) -> None:
        with pytest.raises(DriverError, match=message):
            driver_texture.create_texture(
                0, SimpleNamespace(resType=kind), [0] * 3, 0, [0.0] * 4, 0,
                as_integer=True, normalized=False, srgb=False,
            )  # fmt: skip
