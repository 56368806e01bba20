"""Texture objects as inputs of elementwise kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec import texture
from kspec.compiler import compile_source
from kspec.pipeline import LazySource
from kspec.stages import Specialization, Target, strided
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
        with pytest.raises(TypeError, match=r"Type is mismatched.*x is no texture; give"):
            shared(tex, scalar, x)
        made = kspec.ElementwiseKernel("U tex, T x", "U y", "y = x", "made")
        with pytest.raises(TypeError, match=r"Type is mismatched.*y is no texture; give"):
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
    image = compile_source(LazySource(FETCH.spec)(wanted), Target("sm_90"))
    assert list(image.symbols) == ["fetch<float, cudaTextureObject_t, kspec::Strided<8>>"]
