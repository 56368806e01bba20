"""Texture objects as inputs of elementwise kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec import texture
from kspec.model.stages import Specialization, Target, strided
from kspec.pipeline import LazySource
from tests.compiling import compiled
from tests.devices import ArrayDevice

IMAGE = np.arange(12, dtype="f4").reshape(3, 4)
FETCH = kspec.ElementwiseKernel(
    "T x, U tex", "T y", "y = x + tex2D<float>(tex, (float)(i % 4), (float)(i / 4))", "fetch"
)


def make_texture(place: ArrayDevice, image: Any = IMAGE) -> texture.TextureObject:
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, texture.cudaChannelFormatKindFloat)
    array = texture.CUDAarray(channel, image.shape[1], image.shape[0], device=place.place)
    array.copy_from(image)
    resource = texture.ResourceDescriptor(texture.cudaResourceTypeArray, cuArr=array)
    modes = (texture.cudaAddressModeClamp,) * 2
    return texture.TextureObject(resource, texture.TextureDescriptor(modes))


def make_surface(place: ArrayDevice) -> texture.SurfaceObject:
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, texture.cudaChannelFormatKindFloat)
    flags = texture.cudaArraySurfaceLoadStore
    array = texture.CUDAarray(channel, 4, 3, flags=flags, device=place.place)
    return texture.SurfaceObject(
        texture.ResourceDescriptor(texture.cudaResourceTypeArray, cuArr=array)
    )


def test_a_texture_is_read_at_the_loop_index(place: ArrayDevice) -> None:
    x = place.array(100 * np.ones(12, "f4"))
    y = FETCH(x, make_texture(place))
    np.testing.assert_array_equal(place.numpy(y), 100 + IMAGE.ravel())


def test_repeated_calls_look_at_their_own_texture(
    place: ArrayDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = kspec.ElementwiseKernel(
        "T x, U tex", "T y", "y = x + tex2D<float>(tex, (float)(i % 4), 0.f)", "fetch_often"
    )
    textures = [make_texture(place, IMAGE + 10 * k) for k in range(3)]
    x = place.array(np.zeros(4, "f4"))
    for _ in range(4):
        kernel(x, textures[0])
    full: list[Any] = []
    prepare = kspec.ElementwiseKernel.prepare
    monkeypatch.setattr(
        kspec.ElementwiseKernel,
        "prepare",
        lambda self, *given: full.append(given) or prepare(self, *given),
    )
    for k in (0, 2, 1, 2):
        y = kernel(x, textures[k])
        np.testing.assert_array_equal(place.numpy(y), IMAGE[0] + 10 * k)
    assert full == []


def test_textures_take_no_part_in_broadcasting(place: ArrayDevice) -> None:
    x = place.array(np.ones((3, 1), "f4"))
    out = place.empty((3, 4), "f4")
    FETCH(x, make_texture(place), out)
    np.testing.assert_array_equal(place.numpy(out), 1 + IMAGE)
    view = place.array(np.ones((4, 3), "f4")).T
    np.testing.assert_array_equal(place.numpy(FETCH(view, make_texture(place))), 1 + IMAGE)
    with pytest.raises(ValueError, match=r"Loop size is undecided\."):
        kspec.ElementwiseKernel("U tex", "float32 y", "y = 0", "texture_only")(make_texture(place))


def test_with_size_and_raw_arrays(place: ArrayDevice) -> None:
    kernel = kspec.ElementwiseKernel(
        "U tex", "raw float32 y", "y[i] = tex2D<float>(tex, (float)i, 0.0f)", "by_size"
    )
    y = kernel(make_texture(place), place.zeros(4, "f4"), size=4)
    np.testing.assert_array_equal(place.numpy(y), IMAGE[0])
    if place.is_host:  # the output lives where the texture does
        np.testing.assert_array_equal(kernel(make_texture(place), size=3), IMAGE[0, :3])


def test_two_textures_may_share_a_placeholder(place: ArrayDevice) -> None:
    kernel = kspec.ElementwiseKernel(
        "U a, U b",
        "float32 y",
        "y = tex2D<float>(a, (float)i, 0.0f) - tex2D<float>(b, (float)i, 1.0f)",
        "two_textures",
    )
    y = kernel(make_texture(place), make_texture(place, 2 * IMAGE), place.empty(4, "f4"))
    np.testing.assert_array_equal(place.numpy(y), IMAGE[0] - 2 * IMAGE[1])


class TestRefused:
    @pytest.mark.parametrize("scalar", [3, np.float32(3)])
    def test_the_placeholder_of_a_texture_is_for_textures_only(
        self, scalar: Any, place: ArrayDevice
    ) -> None:
        tex, x = make_texture(place), place.zeros(3, "f4")
        shared = kspec.ElementwiseKernel("U tex, U x", "float32 y", "y = 0", "shared")
        with pytest.raises(TypeError, match=r"Type is mismatched.*U is cudaTextureObject_t by tex"):
            shared(tex, x)
        with pytest.raises(TypeError, match=r"Type is mismatched.*U is float32 by tex, but x is"):
            shared(x, tex)
        with pytest.raises(TypeError, match=r"Type is mismatched.*x is not a texture; give"):
            shared(tex, scalar, x)
        made = kspec.ElementwiseKernel("U tex, T x", "U y", "y = x", "made")
        with pytest.raises(TypeError, match=r"Type is mismatched.*y is not a texture; give"):
            made(tex, x)
        fixed = kspec.ElementwiseKernel("uint64 tex, T x", "T y", "y = x", "fixed")
        with pytest.raises(TypeError, match=r"declared uint64, but it is a cudaTextureObject_t"):
            fixed(tex, x)

    def test_where_an_array_is_due(self, place: ArrayDevice) -> None:
        tex, x = make_texture(place), place.zeros(12, "f4")
        with pytest.raises(TypeError, match="argument y must be an array, not a TextureObject"):
            FETCH(x, tex, tex)
        for keyword in ("raw", "_non_const"):
            kernel = kspec.ElementwiseKernel(f"T x, {keyword} U tex", "T y", "y = x", "keyword")
            with pytest.raises(TypeError, match="argument tex must be an array"):
                kernel(x, tex)

    def test_surfaces(self, place: ArrayDevice) -> None:
        with pytest.raises(TypeError, match="argument tex is a surface; only raw kernels"):
            FETCH(place.zeros(12, "f4"), make_surface(place))

    def test_reductions(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x, U tex", "T y", "x", "a + b", "y = a", "0", "reduce_tex"
        )
        for handle, what in ((make_texture(place), "texture"), (make_surface(place), "surface")):
            with pytest.raises(TypeError, match=f"reduce_tex: argument tex is a {what}"):
                kernel(place.zeros(3), handle)

    @pytest.mark.gpu
    def test_devices_do_not_mix(self, place: ArrayDevice) -> None:
        if place.is_host:
            pytest.skip("needs a CUDA device")
        with pytest.raises(TypeError, match="different devices: x on host, tex on cuda:0"):
            FETCH(np.zeros(12, "f4"), make_texture(place))


def test_precompiled_for_textures() -> None:
    wanted = Specialization("fetch", (("T", "float32"), ("U", "cudaTextureObject_t")), strided(1))
    image = compiled(LazySource(FETCH.spec)(wanted), Target("sm_90"))
    assert list(image.symbols) == ["fetch<float, cudaTextureObject_t, kspec::Strided<8>>"]


class TestWhatCuPysUsersWrite:
    """Shapes of code that is found around CuPy."""

    def test_an_output_is_fetched_through_a_pointer(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "raw T x, U tex",
            "T out",
            "float u = (float)(i % 4); float v = (float)(i / 4);"
            "tex2D(&out, tex, u, v); out += x[i];",
            "through_a_pointer",
        )
        x = place.array(np.ones(12, "f4"))
        out = kernel(x, make_texture(place), place.empty(12, "f4"))
        np.testing.assert_array_equal(place.numpy(out), 1 + IMAGE.ravel())

    def test_a_volume_is_turned(self, place: ArrayDevice) -> None:
        """Coordinates from a matrix, a preamble for host and device, extents as numbers."""
        volume = np.random.default_rng(4).random((3, 4, 5), dtype="f4")
        channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, texture.cudaChannelFormatKindFloat)
        array = texture.CUDAarray(channel, 5, 4, 3, device=place.place)
        array.copy_from(volume)
        tex = texture.TextureObject(
            texture.ResourceDescriptor(texture.cudaResourceTypeArray, cuArr=array),
            texture.TextureDescriptor(
                (texture.cudaAddressModeBorder,) * 3,
                texture.cudaFilterModePoint,
                texture.cudaReadModeElementType,
                borderColors=(-1.0,),
            ),
        )
        kernel = kspec.ElementwiseKernel(
            "U tex, raw float32 m, uint64 width, uint64 height",
            "T out",
            """
            float4 voxel = make_float4((float)(i / (width * height)),
                (float)((i % (width * height)) / width), (float)(i % width), 1.0f);
            float x = dot(voxel, make_float4(m[8], m[9], m[10], m[11])) + .5f;
            float y = dot(voxel, make_float4(m[4], m[5], m[6], m[7])) + .5f;
            float z = dot(voxel, make_float4(m[0], m[1], m[2], m[3])) + .5f;
            out = tex3D<float>(tex, x, y, z);
            """,
            "turn_volume",
            preamble="""
            inline __host__ __device__ float dot(float4 a, float4 b) {
              return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
            }
            """,
        )
        shift = np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, -1, 4], [0, 0, 0, 1]], "f4")
        out = kernel(tex, place.array(shift), 5, 4, place.empty((3, 4, 5), "f4"))
        expected = np.full_like(volume, -1)
        expected[:2] = volume[1:, :, ::-1]
        np.testing.assert_array_equal(place.numpy(out), expected)

    def test_every_call_may_have_another_texture(self, place: ArrayDevice) -> None:
        x = place.zeros(12, "f4")
        for number in range(6):
            y = FETCH(x, make_texture(place, IMAGE * number))
            np.testing.assert_array_equal(place.numpy(y), number * IMAGE.ravel())

    @pytest.mark.parametrize("kind", ["Array", "Linear", "Pitch2D"])
    def test_numbers_of_the_cuda_runtime(self, kind: str, place: ArrayDevice) -> None:
        """Positional arguments, plain numbers and a raw kernel without C linkage."""
        image = np.arange(64, dtype="f4").reshape(2, 32)
        channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, 2)
        if kind == "Array":
            array = texture.CUDAarray(channel, 32, 2, 0, 0, device=place.place)
            array.copy_from(place.array(image))
            resource = texture.ResourceDescriptor(0, array)
        elif kind == "Linear":
            resource = texture.ResourceDescriptor(2, None, place.array(image), channel, 256)
        else:
            resource = texture.ResourceDescriptor(
                3, None, place.array(image), channel, 0, 32, 2, 128
            )
        tex = texture.TextureObject(resource, texture.TextureDescriptor((1, 1), 0, 0))
        read = "tex1Dfetch<T>(t, i)" if kind == "Linear" else "tex2D<T>(t, i % 32, i / 32)"
        code = f"""template <class T> __global__ void fetch(T* out, cudaTextureObject_t t, int n) {{
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) out[i] = {read};
        }}"""
        kernel = kspec.RawModule(code=code, name_expressions=["fetch<float>"]).get_function(
            "fetch<float>"
        )
        out = place.zeros(64, "f4")
        for _ in range(3):
            kernel((4,), (16,), (out, tex, 64))
        np.testing.assert_array_equal(place.numpy(out), image.ravel())


class TestRawKernels:
    CODE = r"""
    extern "C" __global__ void copy(cudaTextureObject_t from, cudaSurfaceObject_t to, float by) {
      int x = threadIdx.x, y = threadIdx.y;
      surf2Dwrite(by * tex2D<float>(from, x, y), to, x * sizeof(float), y);
    }
    """
    PARAMS = "cudaTextureObject_t from, cudaSurfaceObject_t to, float by"

    @pytest.mark.parametrize("params", [None, PARAMS])
    def test_from_a_texture_to_a_surface(self, params: str | None, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(self.CODE, "copy", params=params)
        tex, surface = make_texture(place), make_surface(place)
        kernel((1,), (4, 3), (tex, surface, 2 if params else np.float32(2)))
        out = np.zeros_like(IMAGE)
        surface.ResDesc.cuArr.copy_to(out)
        np.testing.assert_array_equal(out, 2 * IMAGE)

    def test_declared_handles_are_checked(self, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(self.CODE, "copy", params=self.PARAMS)
        tex, surface = make_texture(place), make_surface(place)
        with pytest.raises(
            TypeError, match=r"argument from is .* must be a TextureObject, not Sur"
        ):
            kernel((1,), (4, 3), (surface, surface, 1.0))
        with pytest.raises(TypeError, match=r"argument to is .* must be a SurfaceObject, not int"):
            kernel((1,), (4, 3), (tex, surface.ptr, 1.0))
        pointer = kspec.RawKernel(self.CODE, "copy", params="float* from, float* to, float by")
        with pytest.raises(TypeError, match="must be an array, not TextureObject"):
            pointer((1,), (4, 3), (tex, surface, 1.0))

    def test_an_array_of_textures_is_no_argument(self, place: ArrayDevice) -> None:
        tex, surface = make_texture(place), make_surface(place)
        kernel = kspec.RawKernel(self.CODE, "copy")
        with pytest.raises(TypeError, match="which kernels read through a TextureObject"):
            kernel((1,), (4, 3), (tex.ResDesc.cuArr, surface, np.float32(1)))
        with pytest.raises(TypeError, match="cannot pass a ResourceDescriptor"):
            kernel((1,), (4, 3), (tex.ResDesc, surface, np.float32(1)))
